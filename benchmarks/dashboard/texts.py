"""What the agents of the benchmark see and say, some of it written to break whoever shows it."""

from __future__ import annotations

import random

__all__ = ["HOSTILE", "HOSTILE_TITLE", "TOOLS", "Pool", "long_output"]

TOOLS = ("search", "browser.click", "python", "bash", "read_file")
HOSTILE_TITLE = '<img src=x onerror="document.title=\'broken\'"> \u202egnp.exe\u202c 🙃 & "quoted"'
HOSTILE = (
    "<script>document.title = 'broken'; alert(1)</script>",
    "<img src=x onerror=\"document.title='broken'\"><svg onload=alert(1)><iframe src=javascript:alert(1)>",
    "</pre></textarea></script>--><h1>outside</h1><style>*{display:none}</style>",
    "[a link](javascript:alert(1)) ![picture](https://example.invalid/x.png) <a href='javascript:alert(1)'>here</a>",
    "right to left: \u202edesrever\u202c, isolated \u2066\u05d0\u05d1\u2069, zero width: a\u200bb\u200cc\u200dd\ufeffe",
    "control: bell \x07 escape \x1b[31mred\x1b[0m backspace \x08\x08 form feed \x0c vertical \x0b delete \x7f",
    "one long word: " + "Donaudampfschifffahrtsgesellschaft" * 300,
    "emoji: 👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪, stacked: Z̸̡̢͖a̵͓͐l̴̰͛g̶̱͌o̷͎͂, astral: 𝒳𐍈, unassigned: \U000e0fff\uffff",
    "{{constructor.constructor('alert(1)')()}} ${7*7} %s %n '; drop table rollouts; --",
    "\n" * 40 + "\t\t\tafter forty empty lines" + " " * 2000 + "and two thousand spaces",
)

_VOCABULARY = """
    the a an of to in on and then with from desk drawer cabinet lamp mug shelf door kitchen open closed is are you see
    nothing page button price result returned error value function test passes line file search query click answer
"""
_WORDS = _VOCABULARY.split()


class Pool:
    """Texts made once and used often: making each anew would take longer than storing it."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self.observations = [_prose(chance, chance.randint(20, 160)) for _ in range(400)]
        self.thoughts = [f"I should {_prose(chance, chance.randint(8, 60))}." for _ in range(400)]
        self.actions = [f"{chance.choice(TOOLS)}({_prose(chance, 3)!r})" for _ in range(400)]
        self.outputs = [_prose(chance, chance.randint(5, 120)) for _ in range(400)]


def long_output(size_bytes: int, seed: int) -> str:
    """Return a log of exactly so many bytes, line after line."""
    chance = random.Random(seed)
    lines = [_prose(chance, 12) for _ in range(500)]
    parts = []
    size = 0
    while size < size_bytes:
        parts.append(f"{len(parts):>7} {lines[chance.randrange(500)]}\n")
        size += len(parts[-1])
    return "".join(parts)[:size_bytes]


def _prose(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(_WORDS, k=words))
