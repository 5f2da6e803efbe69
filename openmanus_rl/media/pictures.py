"""From arrays, tensors and Pillow's images to PNG."""

from __future__ import annotations

import hashlib
import io
from typing import Any

__all__ = ["CannotKeep", "digest_of", "is_array", "is_picture", "png_of"]

# Training waits for it: a little larger, and several times as fast as Pillow's default.
_COMPRESS_LEVEL = 1
_PNG_MODES = ("1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA")
_CHANNELS = (1, 3, 4)


class CannotKeep(ValueError):
    """Something given is no content that could be kept; the message says why."""


def is_picture(data: Any) -> bool:
    """Say whether this is an image of Pillow's, without importing it."""
    return any(cls.__module__.partition(".")[0] == "PIL" for cls in type(data).__mro__)


def is_array(data: Any) -> bool:
    """Say whether this is an array or a tensor."""
    return hasattr(data, "__array__") and hasattr(data, "shape")


def digest_of(data: Any) -> bytes | None:
    """Return what tells a picture from any other, for much less than encoding it takes; None if that fails."""
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
    """Return an image, array or tensor as PNG; what is none of them, or empty, is a `CannotKeep`."""
    image = data if is_picture(data) else _image_of(_pixels(data))
    if image.width < 1 or image.height < 1:
        raise CannotKeep(f"an image of {image.width} x {image.height} pixels shows nothing")
    if image.mode not in _PNG_MODES:
        image = image.convert("RGB")
    file = io.BytesIO()
    image.save(file, format="PNG", compress_level=_COMPRESS_LEVEL)
    return file.getvalue()


def _image_of(pixels: Any) -> Any:
    try:
        # Imported here: it is an extra, and slow to import.
        from PIL import Image
    except ImportError as error:
        raise CannotKeep("an array becomes a picture by Pillow: pip install 'openmanus-rl[media]'") from error
    return Image.fromarray(pixels)


def _pixels(data: Any) -> Any:
    """Return an array or tensor as H x W, H x W x 3 or H x W x 4 of uint8."""
    array = _arranged(_as_numpy(data))
    if 0 in array.shape:
        raise CannotKeep(f"an array of shape {array.shape} holds no pixels")
    if array.dtype.name == "uint8":
        return _contiguous(array)
    if array.dtype.kind == "b":
        return _contiguous(array.astype("uint8") * 255)
    if array.dtype.kind not in "fiu":
        raise CannotKeep(f"an array of {array.dtype} is no picture: pixels are uint8, or floats from 0 to 1")
    largest = 1 if array.dtype.kind == "f" else 255
    # Not `< 0 or > largest`: a NaN is neither.
    if not (array.min() >= 0 and array.max() <= largest):
        raise CannotKeep(f"pixels of {array.dtype} are from 0 to {largest}, and these are not; give uint8")
    return _contiguous((array * 255).round().astype("uint8") if largest == 1 else array.astype("uint8"))


def _as_numpy(data: Any) -> Any:
    import numpy

    if any(cls.__module__.partition(".")[0] == "torch" for cls in type(data).__mro__):
        data = data.detach().cpu()
        # numpy has no bfloat16, and halves are no more exact than this.
        data = data.float() if data.is_floating_point() else data
    return numpy.asarray(data)


def _arranged(array: Any) -> Any:
    """Return an image's array with its channels last, where one can tell which they are."""
    shape = array.shape
    if len(shape) == 3 and shape[2] not in _CHANNELS and shape[0] in _CHANNELS:
        array = array.transpose(1, 2, 0)
    if len(array.shape) == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if len(array.shape) == 2 or (len(array.shape) == 3 and array.shape[2] in _CHANNELS):
        return array
    raise CannotKeep(f"an array of shape {shape} is no picture: give H x W, or H x W x 1, 3 or 4")


def _contiguous(array: Any) -> Any:
    import numpy

    return numpy.ascontiguousarray(array)
