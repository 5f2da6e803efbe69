"""Media content: images, videos, audio, files. Names are derived from the content, so that each is stored once.

`as_blob` converts the values of training code; a `Lifter` replaces media in chats with references, and `inline` reverts
that. Nothing here raises into training: content that cannot be stored becomes an `Unkept` with the reason.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from openmanus_rl.media.memo import Memo
from openmanus_rl.media.pictures import CannotKeep, digest_of, is_array, is_picture, png_of
from openmanus_rl.media.sniffing import (
    HEAD_BYTES,
    UNKNOWN_TYPE,
    extension_of,
    picture_size,
    plain_type,
    sniff,
    type_of_name,
)
from openmanus_rl.transport.transfer import FileSource, fingerprint

__all__ = ["MEDIA_BUCKET", "Blob", "Lifter", "Unkept", "as_blob", "inline"]

MEDIA_BUCKET = "media"

_REFERENCE = re.compile(rf"storage://{MEDIA_BUCKET}/([^/\s]+/[0-9a-f]{{64}}(?:\.[a-z0-9]{{1,16}})?)")
# The header of a data URL, up to the comma, is not longer than this.
_DATA_URL_HEAD_CHARACTERS = 256
_LARGEST_DEPTH = 50
_BINARY_TYPES = ("image/", "audio/", "video/", "application/pdf")
_LONGEST_REASON_CHARACTERS = 300


@dataclass(frozen=True)
class Blob:
    """Content with its metadata; the bytes are in memory, in a file, or created on demand."""

    sha256: str
    size_bytes: int
    content_type: str
    extension: str
    source: bytes | FileSource | Callable[[], bytes]
    width: int | None = None
    height: int | None = None

    @property
    def name(self) -> str:
        """Return the unique name of the content."""
        return f"{self.sha256}{self.extension}"

    def path(self, folder: str) -> str:
        """Return the path of the content in the bucket; the folder is the id of its run, if it has one."""
        return f"{folder}/{self.name}"

    def reference(self, folder: str) -> str:
        """Return the reference to the content in a chat."""
        return f"storage://{MEDIA_BUCKET}/{self.path(folder)}"

    def fields(self) -> dict[str, Any]:
        """Return the columns of the table `media` for the content."""
        size = {"width": self.width, "height": self.height} if self.width is not None else {}
        return {"content_type": self.content_type, "size_bytes": self.size_bytes, "checksum": self.sha256, **size}


@dataclass(frozen=True)
class Unkept:
    """Content that cannot be stored, and the reason."""

    reason: str


def as_blob(data: Any, *, content_type: str | None = None) -> Blob | Unkept:
    """Return bytes, a path, an image, an array, a tensor or a data URL as content. Never raises.

    The content type is detected from the bytes; otherwise it is the given one, or that of the file name.
    """
    try:
        return _as_blob(data, content_type)
    except CannotKeep as error:
        return Unkept(str(error))
    except Exception as error:  # noqa: BLE001 - nothing that somebody's own class raises may stop training
        reason = f"{type(data).__name__} can't be kept: {type(error).__name__}: {error}"
        return Unkept(reason[:_LONGEST_REASON_CHARACTERS])


def _as_blob(data: Any, content_type: str | None) -> Blob:
    if isinstance(data, (bytes, bytearray, memoryview)):
        return _from_bytes(bytes(data), content_type)
    if isinstance(data, io.BytesIO):
        return _from_bytes(data.getvalue(), content_type)
    if isinstance(data, str) and data.startswith("data:"):
        blob = _from_data_url(data)
        if blob is None:
            raise CannotKeep("it starts like a data URL, but contains no base64")
        return blob
    if isinstance(data, (str, os.PathLike)):
        return _from_file(Path(data), content_type)
    if is_picture(data) or is_array(data):
        return _from_bytes(png_of(data), None)
    raise CannotKeep(f"{type(data).__name__} is not bytes, a path, an image or an array")


def _from_bytes(content: bytes, declared_type: str | None, *, suffix: str = "") -> Blob:
    if not content:
        raise CannotKeep("there is nothing in it: 0 bytes")
    content_type = sniff(content[:HEAD_BYTES]) or plain_type(declared_type) or UNKNOWN_TYPE
    width, height = picture_size(content_type, content[:HEAD_BYTES])
    return Blob(
        sha256=hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
        content_type=content_type,
        extension=extension_of(content_type, suffix=suffix),
        source=content,
        width=width,
        height=height,
    )


def _from_file(path: Path, declared_type: str | None) -> Blob:
    # Not a folder or a pipe, which would block.
    if not path.is_file():
        raise CannotKeep(f"{path}: {'not a file' if path.exists() else 'no such file'}"[:_LONGEST_REASON_CHARACTERS])
    source = fingerprint(path)
    with path.open("rb") as file:
        about = _from_bytes(file.read(HEAD_BYTES), declared_type or type_of_name(path.name), suffix=path.suffix)
    return replace(about, sha256=source.sha256, size_bytes=source.size_bytes, source=source)


def _from_data_url(url: str) -> Blob | None:
    head, comma, _ = url[:_DATA_URL_HEAD_CHARACTERS].partition(",")
    if not comma or not head.endswith(";base64"):
        return None
    return _from_base64(url, len(head) + 1, head.removeprefix("data:"))


def _from_base64(text: str, start: int, declared_type: str | None) -> Blob | None:
    """Return the decoded base64; None if it is invalid or empty."""

    def decode() -> bytes:
        encoded = text[start:] if start else text
        try:
            return base64.b64decode(encoded, validate=True)
        except ValueError:
            # It may contain line breaks.
            return base64.b64decode("".join(encoded.split()), validate=True)

    try:
        # Decoded again when needed, so that the memo holds only the text, which is in memory anyway.
        return replace(_from_bytes(decode(), declared_type), source=decode)
    except (binascii.Error, ValueError):
        return None


class Lifter:
    """Replaces media in chat messages with references; fast for messages that were seen before."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._memo: Memo[Blob] = Memo()

    def lift(self, message: Any) -> tuple[Any, list[Blob | Unkept]]:
        """Return a message with references instead of media, and the content that they refer to.

        A message without media is returned unchanged. Content that cannot be stored is replaced by the reason.
        """
        if isinstance(message, Mapping) and isinstance(message.get("content"), str):
            return message, []
        found: list[Blob | Unkept] = []
        return self._lifted(message, found, 0), found

    def _lifted(self, value: Any, found: list[Blob | Unkept], depth: int) -> Any:
        if value is None or isinstance(value, (bool, int, float)) or depth > _LARGEST_DEPTH:
            return value
        if isinstance(value, str):
            return self._put(value, self._of_text(value), found) if value.startswith("data:") else value
        if isinstance(value, Mapping):
            return self._lifted_mapping(value, found, depth)
        if isinstance(value, (list, tuple)):
            items = [self._lifted(item, found, depth + 1) for item in value]
            return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
        if isinstance(value, bytes):
            return self._put(value, self._of_bytes(value), found)
        if isinstance(value, (bytearray, memoryview, io.BytesIO)):
            return self._put(value, as_blob(value), found)
        if is_picture(value) or _is_pixels(value):
            return self._put(value, self._of_pixels(value), found)
        return value

    def _lifted_mapping(self, value: Mapping[Any, Any], found: list[Blob | Unkept], depth: int) -> Any:
        held = _base64_in(value)
        changed = {}
        for name, item in value.items():
            if name == "data" and held is not None:
                new = self._put(item, self._of_base64(held, _declared_type(value)), found)
            else:
                new = self._lifted(item, found, depth + 1)
            if new is not item:
                changed[name] = new
        return {**value, **changed} if changed else value

    def _put(self, value: Any, content: Blob | Unkept | None, found: list[Blob | Unkept]) -> Any:
        if content is None:
            return value
        found.append(content)
        return content.reference(self._folder) if isinstance(content, Blob) else f"(not kept: {content.reason})"

    def _of_text(self, url: str) -> Blob | None:
        return self._memo.of(url, "url") or self._noted(url, "url", _from_data_url(url))

    def _of_base64(self, text: str, declared_type: str | None) -> Blob | None:
        return self._memo.of(text, "base64") or self._noted(text, "base64", _from_base64(text, 0, declared_type))

    def _of_bytes(self, content: bytes) -> Blob | Unkept:
        known = self._memo.of(content, "bytes")
        if known is not None:
            return known
        blob = as_blob(content)
        if isinstance(blob, Blob):
            self._memo.note(content, "bytes", blob)
        return blob

    def _of_pixels(self, value: Any) -> Blob | Unkept:
        """Encode an image, unless the same pixels were encoded before; the object may have changed since."""
        digest = digest_of(value)
        known = self._memo.of_digest(digest) if digest is not None else None
        if known is not None:
            return known
        blob = as_blob(value)
        if digest is not None and isinstance(blob, Blob):
            self._memo.note_digest(digest, blob, size_bytes=blob.size_bytes)
        return blob

    def _noted(self, value: str | bytes, way: str, blob: Blob | None) -> Blob | None:
        if blob is not None:
            self._memo.note(value, way, blob)
        return blob


def inline(messages: Any, fetch: Callable[[str], bytes]) -> Any:
    """Return messages with media instead of references, as data URLs, or as base64 where it was.

    `fetch` is called once for each path in the bucket `media`.
    """
    fetched: dict[str, bytes] = {}

    def content_of(path: str) -> bytes:
        if path not in fetched:
            fetched[path] = fetch(path)
        return fetched[path]

    return _inlined(messages, content_of, bare=False)


def _inlined(value: Any, content_of: Callable[[str], bytes], *, bare: bool) -> Any:
    if isinstance(value, str):
        match = _REFERENCE.fullmatch(value)
        if match is None:
            return value
        content = content_of(match[1])
        encoded = base64.b64encode(content).decode("ascii")
        content_type = sniff(content[:HEAD_BYTES]) or type_of_name(match[1]) or UNKNOWN_TYPE
        return encoded if bare else f"data:{content_type};base64,{encoded}"
    if isinstance(value, Mapping):
        held = _base64_in(value) is not None
        return {name: _inlined(item, content_of, bare=held and name == "data") for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_inlined(item, content_of, bare=False) for item in value]
    return value


def _base64_in(value: Mapping[Any, Any]) -> str | None:
    """Return the base64 text under "data", in the formats of model providers for images and audio."""
    data = value.get("data")
    if not isinstance(data, str) or data.startswith("data:"):
        return None
    if value.get("type") in ("base64", "image", "audio"):
        return data
    # Without a type, only what cannot be text: "data" may also hold the plain text of a file.
    return data if "type" not in value and (_declared_type(value) or "").startswith(_BINARY_TYPES) else None


def _declared_type(value: Mapping[Any, Any]) -> str | None:
    for name in ("media_type", "mime_type", "mimeType"):
        if isinstance(found := value.get(name), str):
            return found
    # OpenAI's input_audio has a format, "wav" or "mp3".
    return type_of_name(f"x.{found}") if isinstance(found := value.get("format"), str) else None


def _is_pixels(value: Any) -> bool:
    """Return whether an array in a chat is an image; other arrays are left as numbers."""
    return is_array(value) and len(value.shape) in (2, 3) and str(value.dtype).endswith("uint8")
