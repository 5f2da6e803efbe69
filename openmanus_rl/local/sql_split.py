"""Split a migration into its statements, as Postgres parses them."""

from __future__ import annotations

import re
from collections.abc import Iterator

# In order of precedence. Anything that may contain a semicolon is one token.
_TOKEN = re.compile(
    r"""
    (?P<line_comment>--[^\n]*)
  | (?P<block_comment>/\*)
  | (?P<dollar>\$(?:[A-Za-z_\x80-\uffff][A-Za-z0-9_\x80-\uffff]*)?\$)
  | (?P<escape_string>[eE]'(?:[^'\\]|\\.|'')*')
  | (?P<string>'(?:[^']|'')*')
  | (?P<identifier>"(?:[^"]|"")*")
  | (?P<word>[A-Za-z_\x80-\uffff][A-Za-z0-9_$\x80-\uffff]*)
  | (?P<end>;)
  | (?P<open>\()
  | (?P<close>\))
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)


def split_statements(sql: str) -> list[str]:
    """Return the statements without semicolons; a comment belongs to the statement after it."""
    statements: list[str] = []
    start = 0
    for end in _statement_ends(sql):
        _append(statements, sql[start:end])
        start = end + 1
    _append(statements, sql[start:])
    return statements


def _append(statements: list[str], text: str) -> None:
    text = text.strip()
    if _has_content(text):
        statements.append(text)


def _has_content(text: str) -> bool:
    """Return whether a text contains anything but comments."""
    position = 0
    while position < len(text):
        kind, end = _token(text, position)
        if kind not in ("line_comment", "block_comment") and not text[position].isspace():
            return True
        position = end
    return False


def _statement_ends(sql: str) -> Iterator[int]:
    position = parentheses = blocks = 0
    previous_word = ""
    while position < len(sql):
        kind, end = _token(sql, position)
        if kind == "open":
            parentheses += 1  # `create rule … do (a; b)` contains semicolons.
        elif kind == "close":
            parentheses = max(0, parentheses - 1)
        elif kind == "word":
            word = sql[position:end].lower()
            # An SQL-standard function body: `begin atomic … ; … end`, which may contain `case … end`.
            if (word == "atomic" and previous_word == "begin") or (word == "case" and blocks):
                blocks += 1
            elif word == "end" and blocks:
                blocks -= 1
            previous_word = word
        elif kind == "end" and not parentheses and not blocks:
            yield position
        position = end


def _token(sql: str, position: int) -> tuple[str, int]:
    match = _TOKEN.match(sql, position)
    assert match is not None, "the last alternative matches any character"
    kind = match.lastgroup or "other"
    if kind == "block_comment":
        return kind, _block_comment_end(sql, match.end())
    if kind == "dollar":
        closing = sql.find(match.group(), match.end())
        return kind, len(sql) if closing < 0 else closing + len(match.group())
    return kind, match.end()


def _block_comment_end(sql: str, position: int) -> int:
    depth = 1  # Postgres nests them.
    while depth and position < len(sql):
        if sql.startswith("/*", position):
            depth, position = depth + 1, position + 2
        elif sql.startswith("*/", position):
            depth, position = depth - 1, position + 2
        else:
            position += 1
    return position
