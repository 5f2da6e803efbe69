"""Words as tokens: the policy chooses whole commands, and that fixes how likely each of their words was."""

from __future__ import annotations

import math
import re

from openmanus_rl.demo.blueprint import CONTAINERS, DIRECTIONS, KEYS, ROOMS
from openmanus_rl.demo.policy import Decision
from openmanus_rl.demo.tasks import COLOURS, NOUNS

__all__ = ["END", "UNKNOWN", "VOCABULARY", "completion_tokens", "encode"]

_PATTERN = re.compile(r"\w+|[^\w\s]")
# Every word of the sentences that house.py speaks and of the commands it takes.
_SENTENCES = """
a an and are around carry closed does exits failed find fit floor go hangs in inspect is it lies locked look map no none
not nothing on open out route search_map signal something take takes the there to unlock wall with you
. , :
"""
_WORDS = {
    word for text in (_SENTENCES, *KEYS, *ROOMS, *CONTAINERS, *DIRECTIONS, *COLOURS, *NOUNS) for word in text.split()
}

UNKNOWN, END = 0, 1
VOCABULARY = ("<unknown>", "<end>", *sorted(_WORDS))
_IDS = {word: index for index, word in enumerate(VOCABULARY)}


def encode(text: str) -> list[int]:
    """Return the tokens of a text, a word or a mark each, upper and lower case alike."""
    return [_IDS.get(word, UNKNOWN) for word in _PATTERN.findall(text.lower())]


def completion_tokens(decision: Decision) -> tuple[list[int], list[float]]:
    """Return the chosen command's tokens and the log probability of each, given those before it.

    A word is as likely as all commands that go on with it, among those that began alike; the sum over the words is the
    log probability of the command.
    """
    candidates = [
        ([*encode(command), END], probability)
        for command, probability in zip(decision.commands, decision.probabilities, strict=True)
    ]
    tokens = candidates[decision.chosen][0]
    logprobs = []
    reached = 1.0
    for position, token in enumerate(tokens):
        candidates = [(other, p) for other, p in candidates if len(other) > position and other[position] == token]
        going_on = sum(probability for _, probability in candidates)
        # Rounding may bring the share a hair above one.
        logprobs.append(min(math.log(going_on / reached), 0.0))
        reached = going_on
    return tokens, logprobs
