"""Detect the type, extension and image size of content from its first bytes."""

from __future__ import annotations

import mimetypes
import re
import struct

__all__ = ["HEAD_BYTES", "UNKNOWN_TYPE", "extension_of", "picture_size", "plain_type", "sniff", "type_of_name"]

HEAD_BYTES = 64 * 1024
"""The number of bytes that is enough to detect the type."""

UNKNOWN_TYPE = "application/octet-stream"

_EXTENSIONS = {
    "application/pdf": ".pdf",
    "audio/mp4": ".m4a",
    "audio/mpeg": ".mp3",
    "audio/ogg": ".ogg",
    "audio/wav": ".wav",
    "image/avif": ".avif",
    "image/gif": ".gif",
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/webp": ".webp",
    "video/mp4": ".mp4",
    "video/quicktime": ".mov",
    "video/webm": ".webm",
    "video/x-matroska": ".mkv",
}
_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"\xff\xf2", "audio/mpeg"),
)
_RIFF = {b"WAVE": "audio/wav", b"WEBP": "image/webp"}
_BRANDS = {b"qt  ": "video/quicktime", b"M4A ": "audio/mp4", b"avif": "image/avif"}
_PLAIN_TYPE = re.compile(r"[a-z0-9][a-z0-9.+_-]{0,99}/[a-z0-9][a-z0-9.+_-]{0,99}", re.ASCII)
_PLAIN_EXTENSION = re.compile(r"\.[a-z0-9]{1,16}")
# The JPEG markers that contain the image size: start of frame, for each coding.
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def sniff(head: bytes) -> str | None:
    """Return the content type detected from the first bytes; None if it is unknown."""
    for beginning, content_type in _BEGINNINGS:
        if head.startswith(beginning):
            return content_type
    if head[:4] == b"RIFF":
        return _RIFF.get(head[8:12])
    if head[4:8] == b"ftyp":
        return _BRANDS.get(head[8:12], "video/mp4")
    if head[:4] == b"\x1a\x45\xdf\xa3":
        return "video/webm" if b"webm" in head[:64] else "video/x-matroska"
    return None


def plain_type(declared: object) -> str | None:
    """Return a declared content type without its parameters; None if it is invalid."""
    found = declared.partition(";")[0].strip().lower() if isinstance(declared, str) else ""
    return found if _PLAIN_TYPE.fullmatch(found) else None


def type_of_name(name: str) -> str | None:
    """Return the content type of a file name; None if it is unknown."""
    return mimetypes.guess_type(name, strict=False)[0]


def extension_of(content_type: str, *, suffix: str = "") -> str:
    """Return the extension of a content type, with its dot; for unknown types that of the file name, if it is plain."""
    known = _EXTENSIONS.get(content_type)
    if known is not None:
        return known
    if _PLAIN_EXTENSION.fullmatch(suffix.lower()):
        return suffix.lower()
    return (mimetypes.guess_extension(content_type) or "") if content_type != UNKNOWN_TYPE else ""


def picture_size(content_type: str, head: bytes) -> tuple[int | None, int | None]:
    """Return the width and height of an image; None if the first bytes do not contain them."""
    try:
        width, height = _read_size(content_type, head)
    except (struct.error, IndexError):
        return None, None
    return (width, height) if width > 0 and height > 0 else (None, None)


def _read_size(content_type: str, head: bytes) -> tuple[int, int]:
    if content_type == "image/png":
        return _pair(">II", head, 16)
    if content_type == "image/gif":
        return _pair("<HH", head, 6)
    if content_type == "image/jpeg":
        return _jpeg_size(head)
    if content_type == "image/webp":
        return _webp_size(head)
    return 0, 0


def _pair(form: str, head: bytes, place: int) -> tuple[int, int]:
    first, second = struct.unpack_from(form, head, place)
    return int(first), int(second)


def _jpeg_size(head: bytes) -> tuple[int, int]:
    place = 2
    while place < len(head):
        marker = head[place + 1]
        if marker in _JPEG_FRAMES:
            height, width = _pair(">HH", head, place + 5)
            return width, height
        place += 2 + int(struct.unpack_from(">H", head, place + 2)[0])
    return 0, 0


def _webp_size(head: bytes) -> tuple[int, int]:
    coding = head[12:16]
    if coding == b"VP8X":
        return 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")
    if coding == b"VP8 ":
        width, height = _pair("<HH", head, 26)
        return width & 0x3FFF, height & 0x3FFF
    if coding == b"VP8L":
        bits = int(struct.unpack_from("<I", head, 21)[0])
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return 0, 0
