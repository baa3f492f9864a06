"""Masks of pictures as their publishers draw them: in grey values, or in colours by a table."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from ...custom.data.whole_files import private_file, private_folder
from ...transforms.array_types import Labels
from ...transforms.errors import DataError
from ...transforms.loading.image_files import ColouredMaskError, read_colours, read_mask

_SHOWN_COLOURS = 6
_BLACK = 0


def read_values(file: Path, colours: Mapping[int, int] | None, *, rounds: bool = False) -> Labels:
    """Read a mask ``(H, W)``: its grey values, or the classes of its colours.

    Args:
        file: the mask.
        colours: colour → class; black is background where it is not among them. None for grey values.
        rounds: see :func:`fedannot.transforms.loading.image_files.label_values`.

    Raises:
        DataError: if it cannot be read, is in colours where none are known, or has an unknown one; it names the colours
            with their fraction of the pixels.
    """
    if colours is None:
        try:
            return read_mask(file, rounds=rounds)
        except ColouredMaskError as error:
            result = read_colours(file)
            others = [int(colour) for colour in np.unique(result) if colour != _BLACK]
            example = ",".join(f"{shown_colour(colour)}:{index}" for index, colour in enumerate(others[:2], 1))
            names = ' --classes "lesion,cyst"' if len(others) > 1 else ""
            raise DataError(
                f"{file}: found a mask in the colours {_shares(result, others)} besides black; expected one grey value "
                f'per pixel. Say which class each is: --label-map "{example}"{names}.'
            ) from error
    result, known = read_colours(file), {_BLACK: 0} | dict(colours)
    unknown = [int(colour) for colour in np.unique(result) if int(colour) not in known]
    if unknown:
        raise DataError(
            f"{file}: found the colours {_shares(result, unknown)}; expected only "
            f"{', '.join(map(shown_colour, known))}. Add them to --label-map, for example "
            f'"{shown_colour(unknown[0])}:0" for background; a lossy mask has to be exported again, as PNG.'
        )
    order = np.unique(result)
    classes = np.array([known[int(colour)] for colour in order], dtype=np.int64)
    return classes[np.searchsorted(order, result)]


def write_mask(file: Path, values: Labels) -> Path:
    """Write the values of a mask ``(H, W)`` as PNG, of 8 bits where they fit, and return the file."""
    private_folder(file.parent)
    Image.fromarray(values.astype(np.uint8 if values.max() <= 255 else np.uint16)).save(private_file(file))
    return file


def shown_colour(colour: int) -> str:
    """Write a colour as ``#rrggbb``."""
    return f"#{colour:06x}"


def _shares(found: Labels, colours: list[int]) -> str:
    shown = [f"{shown_colour(colour)} ({np.mean(found == colour):.2%} of the pixels)" for colour in colours]
    more = f", … ({len(shown)} colours)" if len(shown) > _SHOWN_COLOURS else ""
    return ", ".join(shown[:_SHOWN_COLOURS]) + more
