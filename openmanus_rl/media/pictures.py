"""Encode arrays, tensors and Pillow images as PNG."""

from __future__ import annotations

import hashlib
import io
from typing import Any

__all__ = ["CannotKeep", "digest_of", "is_array", "is_picture", "png_of"]

# Training waits for it: slightly larger files, but several times as fast as Pillow's default.
_COMPRESS_LEVEL = 1
_PNG_MODES = ("1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA")
_CHANNELS = (1, 3, 4)


class CannotKeep(ValueError):
    """A value cannot be stored as content; the message is the reason."""


def is_picture(data: Any) -> bool:
    """Return whether a value is a Pillow image, without importing Pillow."""
    return any(cls.__module__.partition(".")[0] == "PIL" for cls in type(data).__mro__)


def is_array(data: Any) -> bool:
    """Return whether a value is an array or a tensor."""
    return hasattr(data, "__array__") and hasattr(data, "shape")


def digest_of(data: Any) -> bytes | None:
    """Return a digest of an image, which is much faster than encoding it; None if that fails."""
    try:
        if is_picture(data):
            about, pixels = f"{data.mode} {data.size} {data.getpalette()}", data.tobytes()
        else:
            array = _contiguous(_as_numpy(data))
            about, pixels = f"{array.dtype} {array.shape}", array.data
        digest = hashlib.sha256(about.encode())
        digest.update(pixels)
    except Exception:  # noqa: BLE001 - nothing that somebody's own class raises may stop training
        return None
    return digest.digest()


def png_of(data: Any) -> bytes:
    """Return an image, array or tensor as PNG; other or empty values raise `CannotKeep`."""
    image = data if is_picture(data) else _image_of(_pixels(data))
    if image.width < 1 or image.height < 1:
        raise CannotKeep(f"an image of {image.width} x {image.height} pixels is empty")
    if image.mode not in _PNG_MODES:
        image = image.convert("RGB")
    file = io.BytesIO()
    image.save(file, format="PNG", compress_level=_COMPRESS_LEVEL)
    return file.getvalue()


def _image_of(pixels: Any) -> Any:
    try:
        # Imported here because it is optional and slow to import.
        from PIL import Image
    except ImportError as error:
        raise CannotKeep(
            "encoding an array as an image requires Pillow; run: pip install 'openmanus-rl[media]'"
        ) from error
    return Image.fromarray(pixels)


def _pixels(data: Any) -> Any:
    """Return an array or tensor as H x W, H x W x 3 or H x W x 4 of uint8."""
    array = _arranged(_as_numpy(data))
    if 0 in array.shape:
        raise CannotKeep(f"an array of shape {array.shape} has no pixels")
    if array.dtype.name == "uint8":
        return _contiguous(array)
    if array.dtype.kind == "b":
        return _contiguous(array.astype("uint8") * 255)
    if array.dtype.kind not in "fiu":
        raise CannotKeep(f"an array of {array.dtype} is not an image; give uint8, or floats from 0 to 1")
    largest = 1 if array.dtype.kind == "f" else 255
    # Written this way because comparisons with NaN are false.
    if not (array.min() >= 0 and array.max() <= largest):
        raise CannotKeep(f"pixels of {array.dtype} must be from 0 to {largest}; give uint8")
    return _contiguous((array * 255).round().astype("uint8") if largest == 1 else array.astype("uint8"))


def _as_numpy(data: Any) -> Any:
    import numpy

    if any(cls.__module__.partition(".")[0] == "torch" for cls in type(data).__mro__):
        data = data.detach().cpu()
        # numpy has no bfloat16; float32 represents it exactly.
        data = data.float() if data.is_floating_point() else data
    return numpy.asarray(data)


def _arranged(array: Any) -> Any:
    """Return the array of an image with the channels last, if they can be determined."""
    shape = array.shape
    if len(shape) == 3 and shape[2] not in _CHANNELS and shape[0] in _CHANNELS:
        array = array.transpose(1, 2, 0)
    if len(array.shape) == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if len(array.shape) == 2 or (len(array.shape) == 3 and array.shape[2] in _CHANNELS):
        return array
    raise CannotKeep(f"an array of shape {shape} is not an image; give H x W, or H x W x 1, 3 or 4")


def _contiguous(array: Any) -> Any:
    import numpy

    return numpy.ascontiguousarray(array)
