# Written by scripts/generate_types from the migrations. Do not edit.
# ruff: noqa
# fmt: off
"""The codes that our own SQL raises and refuses with; each ends as its HTTP status does."""

from typing import Literal

__all__ = ["ERROR_CODES", "ErrorCode"]

ErrorCode = Literal["OM400", "OM403", "OM404", "OM409", "OM413"]

ERROR_CODES: tuple[ErrorCode, ...] = ("OM400", "OM403", "OM404", "OM409", "OM413")
