"""Several masks of one image: parts of one annotation, or the annotations of several readers, which are not united."""

import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from ...transforms.array_types import Booleans, Labels
from ...transforms.errors import DataError
from ...transforms.folded_names import folded
from ..wording.shell_words import shell_word

# Fraction of the smaller of two masks that the other covers, from which they are no two objects.
_LARGEST_OVERLAP = 0.5
# A mask of more values is grey, and its noise no foreground.
_MOST_VALUES = 8
_READER = re.compile(
    r"(?<![a-z])(reader|rater|annotator|observer|expert|radiologist|grader|pathologist)s?[ _-]?\w", re.I
)
_SHOWN_FILES = 4


class SeveralReadersError(DataError):
    """An image has masks of several readers, of which a person has to choose one."""


def check_one_reader(files: Sequence[Path], masks: Sequence[Labels]) -> None:
    """Check that the masks of one image are parts of one annotation.

    They are not if one covers half of another, if two have the same name, or if their names speak of readers.

    Args:
        files: of the masks.
        masks: their values, all of one shape, 0 for background.

    Raises:
        SeveralReadersError: if they are not; it names the options.
    """
    if len(files) < 2:
        return
    shown = ", ".join(f"{file.parent.name}/{file.name}" for file in files[:_SHOWN_FILES])
    shown += ", …" if len(files) > _SHOWN_FILES else ""
    overlap = max(_overlap(first, second) for first, second in combinations(map(_foreground, masks), 2))
    if overlap > _LARGEST_OVERLAP:
        why = f"one covers {overlap:.0%} of another"
    elif len({folded(file.name) for file in files}) < len(files):
        why = "folders have masks of one name"
    elif all(_READER.search(f"{file.parent.name}/{file.name}") for file in files):
        why = "their names speak of readers"
    else:
        return
    raise SeveralReadersError(
        f"Import: found {len(files)} masks of one image, {shown}; {why}, so they are taken for several readers' masks. "
        f"Keep all with --annotators {_kept(files)}, or choose one reader, for example {_choice(files)}; or, if they "
        "are parts of one annotation, --unite-masks."
    )


def _foreground(values: Labels) -> Booleans:
    of_mask = np.unique(values)
    threshold = int(of_mask.max()) // 2 if len(of_mask) > _MOST_VALUES else 0
    foreground: Booleans = values > threshold
    return foreground


def _overlap(first: Booleans, second: Booleans) -> float:
    """The fraction of the smaller mask that the other covers, 0 where one is empty."""
    smaller = min(int(first.sum()), int(second.sum()))
    return int((first & second).sum()) / smaller if smaller else 0.0


def _kept(files: Sequence[Path]) -> str:
    """How annotators are told apart whose masks these are: by folders where these alone differ, else by names."""
    return "by-folder" if len({folded(file.name) for file in files}) < len(files) else "by-suffix"


def _choice(files: Sequence[Path]) -> str:
    """The option with which the first of several masks is taken."""
    first = files[0]
    if len({file.name for file in files}) == 1:
        return f"--labels {shell_word(first.parent)}"
    same = next(
        index for index, letters in enumerate(zip(*(file.name for file in files), strict=False)) if len({*letters}) > 1
    )
    cut = max(first.name.rfind(mark, 0, same) for mark in "_- .")
    return f"--label-include {shell_word(f'*{first.name[cut:]}' if cut > 0 else first.name)}"
