"""Exported lines hold every character, and no terminal obeys one of them."""

from __future__ import annotations

import io
import json

from openmanus_rl.export.writers import JsonLinesWriter


def test_a_line_on_a_terminal_holds_no_control_character() -> None:
    text = "".join(map(chr, (*range(1, 0x100), *range(0x2000, 0x2100)))) + "ball 🔴"
    stream = io.BytesIO()
    with JsonLinesWriter(stream, {}) as writer:
        writer.write({"observation": text})
    line = stream.getvalue().decode()
    assert json.loads(line) == {"observation": text}
    assert len(line.splitlines()) == 1
    told = [char for char in line.removesuffix("\n") if not 0x20 <= ord(char) < 0x7F]
    assert not any(ord(char) < 0xA0 or 0x202A <= ord(char) <= 0x202E or 0x2066 <= ord(char) <= 0x2069 for char in told)
    assert "🔴" in told
