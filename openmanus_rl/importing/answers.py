"""Splits a model's answer into its thought and its action."""

from __future__ import annotations

__all__ = ["split_action", "split_thought"]


def split_thought(text: str) -> tuple[str | None, str]:
    """Return the content of a think block at the start, and the rest; without one, None and the whole text."""
    before, end, rest = text.partition("</think>")
    # Chat templates of reasoning models open the block themselves, so that only its end is in the answer.
    thought = before.strip().removeprefix("<think>")
    if not end or "<think>" in thought:
        return None, text
    return thought.strip() or None, rest.strip()


def split_action(text: str) -> tuple[str | None, str]:
    """Return the text before the last action block, and its content; without one, as `split_thought`."""
    end = text.rfind("</action>")
    start = text.rfind("<action>", 0, max(end, 0))
    if start < 0:
        return split_thought(text)
    before = text[:start].strip()
    thought, rest = split_thought(before)
    # With further blocks, such as a memory or a reflection, the text is kept as it was written.
    return (thought if thought and not rest else before) or None, text[start + len("<action>") : end].strip()
