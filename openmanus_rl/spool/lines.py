"""Serializes records of any content to lines of a spool; never raises."""

from __future__ import annotations

import time
from typing import Any

import orjson

from openmanus_rl.records.plain import OPTIONS, clean, dump_bytes, dump_text, encode_other, says_all

__all__ = ["dump_bytes", "dump_line", "dump_text"]


def dump_line(kind: str, record: Any) -> bytes:
    """Return a record as a line of a spool.

    Values that JSON or Postgres cannot hold are replaced visibly, as documented at `records.plain.dump_bytes`. In
    metrics, an integer beyond 64 bits becomes the nearest float.
    """
    entry = (kind, time.time(), record)
    try:
        try:
            # Most records need no options, and orjson is a third faster without.
            line = orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE)
        except TypeError:
            line = orjson.dumps(entry, default=encode_other, option=OPTIONS | orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        pass
    else:
        if says_all(line, record):
            return line
    return orjson.dumps((*entry[:2], clean(record, 0, exact=kind != "metrics")), option=orjson.OPT_APPEND_NEWLINE)
