"""What a model said, taken apart into what it thought and what it did."""

from __future__ import annotations

__all__ = ["split_action", "split_thought"]


def split_thought(text: str) -> tuple[str | None, str]:
    """Return what stands in a think block at the start, and the rest; without one, None and the text as it is."""
    before, end, rest = text.partition("</think>")
    # Chat templates of reasoning models open the block themselves, so that only its end is in the answer.
    thought = before.strip().removeprefix("<think>")
    if not end or "<think>" in thought:
        return None, text
    return thought.strip() or None, rest.strip()


def split_action(text: str) -> tuple[str | None, str]:
    """Return what comes before the last action block, and what stands in it; without one, as `split_thought`."""
    end = text.rfind("</action>")
    start = text.rfind("<action>", 0, max(end, 0))
    if start < 0:
        return split_thought(text)
    before = text[:start].strip()
    thought, rest = split_thought(before)
    # Where there is more than one think block, such as a memory or a reflection beside it, it stays as it was written.
    return (thought if thought and not rest else before) or None, text[start + len("<action>") : end].strip()
