"""Pillow's pictures as a viewer shows them: turned upright, with their palette, in full depth; else refused.

A bundle carries a copy of this file, so it needs nothing but NumPy and Pillow, and there is one reader of pictures for
import, check, run and bundle.
"""

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from PIL import Image, ImageOps

# Pillow's names of pictures with more than eight bits, which it would cut off at 255.
HIGH_DEPTH_MODES = ("I", "F", "I;16", "I;16L", "I;16B")
# 0.75 GiB as float32 with three channels, and several images are decoded at a time. Pillow warns of larger ones.
MAX_PIXELS = 2**26
# Beyond it the squares that a z-score adds up could leave the range of float32; no scanner gives it.
MAX_INTENSITY = 1e12

Result = TypeVar("Result")

# What Pillow raises on damaged files.
_UNREADABLE = (OSError, SyntaxError, ValueError, TypeError, OverflowError, Image.DecompressionBombError)
# EPS and others would start a program or read further files.
_FORMATS = ("PNG", "JPEG", "BMP", "TIFF")
_MODE_OF_CHANNELS = {1: "L", 3: "RGB"}
# No compression gives more, not even of a blank fax; Pillow makes black pixels of what a damaged file lacks.
_MAX_PIXELS_PER_BYTE = 2**16
# The orientation of EXIF with which nothing is turned.
UPRIGHT = 1

_ORIENTATION, _BITS, _PHOTOMETRIC, _SAMPLE_FORMAT = 274, 258, 262, 339
_UNSIGNED, _SIGNED = 1, 2
_WHITE_IS_ZERO = 0
# Modes with an alpha channel, by what Pillow can convert them to; a palette may have one, too.
_WITH_ALPHA = {"LA": "LA", "La": "LA", "RGBA": "RGBA", "RGBa": "RGBA", "PA": "RGBA"}
_OPAQUE = 255
# What Pillow raises on a damaged EXIF block, which viewers pass over.
_UNREADABLE_EXIF = (OSError, SyntaxError, ValueError, TypeError, KeyError, IndexError, struct.error)
# A picture has colours if in this fraction of its pixels the channels differ by more than lossy compression makes them.
_COLOURED_FRACTION = 0.01
_COLOURED_SPREAD = 16


class PictureError(ValueError):
    """A picture cannot be read in a single way; says what was found, what was expected and what to do."""


class ColouredPictureError(PictureError):
    """A mask has colours where one grey value per pixel is expected."""


def read_intensities(file: Path | str, channels: int) -> Any:
    """Read an image's intensities as :func:`displayed` shows them, float32 ``(C, H, W)``.

    Raises:
        PictureError: with the file's name, if it cannot be read or is refused.
    """
    return from_open_picture(file, lambda picture: intensities(picture, channels))


def intensities(picture: Image.Image, channels: int) -> Any:
    """Return the intensities of an opened picture as :func:`displayed` shows them, float32 ``(C, H, W)``.

    Raises:
        PictureError: as :func:`displayed`.
    """
    values = np.asarray(displayed(picture, channels))
    values = values if values.ndim == 3 else np.repeat(values[..., None], channels, axis=-1)
    # Bytes are moved before they become four times as many.
    return np.ascontiguousarray(np.moveaxis(values, -1, 0)).astype(np.float32, copy=False)


def from_open_picture(file: Path | str, convert: Callable[[Image.Image], Result]) -> Result:
    """Open a picture and convert it while it is open.

    Raises:
        PictureError: with the file's name, if it cannot be read or the conversion refuses it.
    """
    try:
        with Image.open(file, formats=_FORMATS) as picture:
            return convert(picture)
    except PictureError as error:
        raise type(error)(f"{file}: {error}") from error
    except _UNREADABLE as error:
        reason = str(error).replace(f"{str(file)!r}", "the file")
        raise PictureError(
            f"{file}: cannot be read as an image ({reason}); expected PNG, JPEG, BMP or TIFF."
        ) from error


def displayed(picture: Image.Image, channels: int) -> Image.Image:
    """Return an opened picture as a viewer shows it, grey or RGB; more than eight bits stay as they are.

    The orientation of EXIF is applied, and WhiteIsZero turned into brightness. An alpha channel that says nothing is
    left out.

    Args:
        picture: as ``Image.open`` returns it.
        channels: 1 for grey, 3 for RGB; a picture of more than eight bits is grey all the same.

    Returns:
        A picture of the mode L or RGB, or of :data:`HIGH_DEPTH_MODES`.

    Raises:
        PictureError: if it has several pages, transparent pixels, more than eight bits in several channels, or
            intensities that are not finite; or claims more pixels than its file can hold.
    """
    upright = _upright(picture)
    if upright.mode in HIGH_DEPTH_MODES:
        return _checked_intensities(_bright(upright))
    alpha = _alpha(upright)
    if alpha is not None:
        raise PictureError(
            f"found transparent pixels, {np.mean(alpha < _OPAQUE):.2%} of all, which each viewer shows otherwise; "
            "expected an opaque picture. Save it without transparency."
        )
    return _with_plain_alpha(upright).convert(_MODE_OF_CHANNELS[channels])


def mask_values(picture: Image.Image) -> Any:
    """Return the label values ``(H, W)`` of an opened mask: its grey values, or the indices of its palette.

    Indices count where the palette agrees with them: black is 0 and only 0, and greys rise with them. In any other grey
    palette the grey values count, as a viewer shows them.

    Raises:
        ColouredPictureError: if pixels have colours, or a palette of colours whose indices do not say what is
            background.
        PictureError: as for :func:`displayed`; and if the alpha channel carries what is annotated.
    """
    upright = _upright(picture)
    if upright.mode in HIGH_DEPTH_MODES:
        return np.asarray(_bright(upright))
    _check_mask_alpha(upright)
    if upright.mode == "P":
        return _palette_values(upright)
    if upright.mode in ("1", "L", "LA", "La"):
        values = np.asarray(_with_plain_alpha(upright))
        return values if values.ndim == 2 else values[..., 0]
    rgb = np.asarray(_with_plain_alpha(upright).convert("RGB"))
    if (rgb != rgb[..., :1]).any():
        raise _coloured()
    return rgb[..., 0]


def mask_colours(picture: Image.Image) -> Any:
    """Return the colours ``(H, W, 3)`` of an opened mask, uint8.

    Raises:
        PictureError: as for :func:`mask_values`.
    """
    upright = _upright(picture)
    if upright.mode not in HIGH_DEPTH_MODES:
        _check_mask_alpha(upright)
    return np.asarray(_with_plain_alpha(upright).convert("RGB"))


def has_colours(picture: Image.Image) -> bool:
    """Return whether an opened picture shows colours, beyond a marker and what compression leaves of a grey one."""
    upright = _upright(picture)
    if upright.mode in (*HIGH_DEPTH_MODES, "1", "L", "LA", "La"):
        return False
    rgb = np.asarray(_with_plain_alpha(upright).convert("RGB"))
    spread = rgb.max(axis=-1) - rgb.min(axis=-1)
    return bool(np.count_nonzero(spread > _COLOURED_SPREAD) > _COLOURED_FRACTION * spread.size)


def orientation(picture: Image.Image) -> int:
    """Return the orientation that EXIF gives an opened picture: 1 for upright, up to 8."""
    try:
        tag = picture.getexif().get(_ORIENTATION, UPRIGHT)
    except _UNREADABLE_EXIF:
        return UPRIGHT
    return tag if isinstance(tag, int) and 1 <= tag <= 8 else UPRIGHT


def _upright(picture: Image.Image) -> Image.Image:
    """Check what a picture claims before any pixel is read, and turn it as EXIF says."""
    _check_extents(picture)
    _check_depth(picture)
    if orientation(picture) == UPRIGHT:
        return picture
    # Pillow turns a TIFF when it reads the pixels; earlier versions leave the tag there. Where it maps a file with a
    # name into memory it takes rows for columns.
    picture.filename = ""  # type: ignore[attr-defined]
    picture.load()
    return picture if picture.format == "TIFF" else ImageOps.exif_transpose(picture)


def _check_extents(picture: Image.Image) -> None:
    pixels, held = picture.width * picture.height, _file_size(picture)
    claim = f"its header claims {picture.height} × {picture.width} pixels (rows × columns)"
    if held is not None and pixels > _MAX_PIXELS_PER_BYTE * held:
        raise PictureError(f"{claim} in {held} bytes; expected a complete file. Copy or export it again.")
    if pixels > MAX_PIXELS:
        raise PictureError(
            f"{claim}; expected at most {MAX_PIXELS} in all, 8192 × 8192. Make the image and its mask smaller, or cut "
            "them into parts."
        )
    # A second picture in a JPEG is a preview or a depth map.
    pictures = getattr(picture, "n_frames", 1) if picture.format != "MPO" else 1
    if pictures > 1:
        raise PictureError(f"found {pictures} pictures in the file; expected one. Save each by itself.")


def _file_size(picture: Image.Image) -> int | None:
    file = getattr(picture, "filename", "")
    return os.path.getsize(file) if file else None  # noqa: PTH202


def _check_depth(picture: Image.Image) -> None:
    """Refuse several channels of more than eight bits, of which Pillow keeps the upper eight; and eight with a sign."""
    if picture.mode in HIGH_DEPTH_MODES:
        return
    tags = getattr(picture, "tag_v2", {})
    if _SIGNED in tags.get(_SAMPLE_FORMAT, ()):
        raise PictureError("found values of 8 bits with a sign; expected ones without, or 16 bits. Save it so.")
    bits = max(tags.get(_BITS, (8,)), default=8)
    tiles = getattr(picture, "tile", None) or ()
    arguments = tiles[0][3] if tiles else ""
    raw_mode = arguments[0] if isinstance(arguments, tuple) and arguments else arguments
    if bits > 8 or (isinstance(raw_mode, str) and ";16" in raw_mode):
        raise PictureError(
            "found 16 bits in each of several channels, of which 8 would be lost; expected 8 bits for colours, or one "
            "grey channel of 16. Save it so."
        )


def _bright(picture: Image.Image) -> Image.Image:
    """Turn WhiteIsZero of more than eight bits into brightness; Pillow does so only up to eight."""
    tags = getattr(picture, "tag_v2", {})
    if tags.get(_PHOTOMETRIC) != _WHITE_IS_ZERO:
        return picture
    if not picture.mode.startswith("I;16"):
        raise PictureError(
            "found a TIFF in which 0 is white (WhiteIsZero) with values of 32 bits, whose black is unknown; expected "
            "one in which 0 is black. Save it so."
        )
    return Image.fromarray(np.uint16(2**16 - 1) - np.asarray(picture).astype(np.uint16))


def _checked_intensities(picture: Image.Image) -> Image.Image:
    values = np.asarray(picture)
    if picture.mode == "I" and getattr(picture, "tag_v2", {}).get(_SAMPLE_FORMAT, (_UNSIGNED,)) == (_UNSIGNED,):
        # Pillow reads 32 bits without a sign as if they had one.
        return picture if values.min() >= 0 else Image.fromarray(values.view(np.uint32).astype(np.float32))
    if values.dtype.kind != "f":
        return picture
    unusable = int(np.count_nonzero(~(np.abs(values.astype(np.float64)) <= MAX_INTENSITY)))
    if unusable:
        raise PictureError(unusable_intensities(unusable))
    return picture


def unusable_intensities(count: int) -> str:
    """Say how many intensities cannot be computed with."""
    return (
        f"found {count} intensities that are not finite or beyond ±{MAX_INTENSITY:.0e}; expected smaller numbers. "
        "Export the file again."
    )


def _alpha(picture: Image.Image) -> Any:
    """The opacity ``(H, W)`` of every pixel, 255 for opaque; None where it is the same everywhere and says nothing."""
    if picture.mode not in _WITH_ALPHA and "transparency" not in picture.info:
        return None
    plain = _with_plain_alpha(picture) if picture.mode in _WITH_ALPHA else picture.convert("RGBA")
    alpha = np.asarray(plain)[..., -1]
    return None if (alpha == alpha.flat[0]).all() else alpha


def _with_plain_alpha(picture: Image.Image) -> Image.Image:
    """The picture in a mode that converts to grey and RGB, colours not multiplied by their opacity."""
    mode = _WITH_ALPHA.get(picture.mode, picture.mode)
    return picture if mode == picture.mode else picture.convert(mode)


def _check_mask_alpha(picture: Image.Image) -> None:
    """Refuse a mask that says something else without its alpha channel than a viewer shows on black."""
    alpha = _alpha(picture)
    if alpha is None:
        return
    black = (np.asarray(_with_plain_alpha(picture).convert("RGB")) == 0).all(axis=-1)
    if black.all() or not black[alpha < _OPAQUE].all():
        raise PictureError(
            f"found a mask with an alpha channel that carries what is annotated (transparent in "
            f"{np.mean(alpha < _OPAQUE):.2%} of the pixels); expected an opaque picture whose values are the labels. "
            "Save it on black, without transparency."
        )


def _palette_values(picture: Image.Image) -> Any:
    """Indices of a palette, or its grey values where the indices contradict what a viewer shows."""
    indices = np.asarray(picture)
    used = np.flatnonzero(np.bincount(indices.ravel()))
    table = np.zeros((256, 3), dtype=np.uint8)
    colours = np.array(picture.getpalette("RGB") or (), dtype=np.uint8).reshape(-1, 3)
    table[: len(colours)] = colours
    black = (table[used] == 0).all(axis=-1)
    agrees = bool(((used == 0) == black).all())
    if (table[used] != table[used][:, :1]).any():
        if not agrees:
            raise _coloured()
        return indices
    greys = table[:, 0]
    return indices if agrees and (np.diff(greys[used].astype(np.int64)) > 0).all() else greys[indices]


def _coloured() -> ColouredPictureError:
    return ColouredPictureError("found a mask in colours; expected one grey value per pixel, its label.")
