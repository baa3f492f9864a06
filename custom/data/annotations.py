"""Several annotations of one case, and who made them."""

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...transforms.errors import DataError, shown
from ...transforms.folded_names import composed

# In place of a label that a rule has to make of several annotations: neither a file nor a class.
UNDECIDED = -1
MAX_ANNOTATIONS = 64
_LONGEST_NAME = 100
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,39}")
_KEYS = {"file", "annotator"}


@dataclass(frozen=True)
class Annotation:
    """One of several annotations of a case; it stays at the site.

    Attributes:
        file: the mask's file; for classification the index of the class.
        annotator: the name of who made it.
    """

    file: Path | int
    annotator: str


def read_annotations(value: Any, read_file: Callable[[Any], Path | int], named: str) -> tuple[Annotation, ...]:
    """Return what the key `labels` of a datalist's item says.

    Args:
        value: of the key, ``[{"file": …, "annotator": …}, …]``.
        read_file: checks a value of ``file``.
        named: datalist and item, for messages.

    Raises:
        DataError: if it has another form, a name cannot be used, or two annotations have one annotator or one file.
    """
    expected = f"expected a list of 1 to {MAX_ANNOTATIONS} times the keys 'file' and 'annotator'"
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_ANNOTATIONS:
        raise DataError(f"{named} has 'labels' = {shown(value)}; {expected}.")
    result = []
    for item in value:
        if not isinstance(item, dict) or set(item) != _KEYS:
            raise DataError(f"{named} has 'labels' with {shown(item)}; {expected}.")
        result.append(Annotation(read_file(item["file"]), annotator_name(item["annotator"], named)))
    return checked_annotations(result, named)


def annotator_name(value: Any, named: str) -> str:
    """Return the name of an annotator of several; one whose accents are written in two ways is one name.

    Raises:
        DataError: if it is no text or number, or is empty, too long or not printable.
    """
    text = composed(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not text.strip() or text != text.strip() or not text.isprintable() or len(text) > _LONGEST_NAME:
        raise DataError(
            f"{named} has 'annotator' = {shown(value)}; expected a name of 1 to {_LONGEST_NAME} printable characters."
        )
    return text


def checked_annotations(annotations: Sequence[Annotation], named: str) -> tuple[Annotation, ...]:
    """Return annotations of one case whose annotators and files differ.

    Raises:
        DataError: if two have one annotator or one file, if masks and classes are mixed, or if there are too many.
    """
    if (twice := _repeated(annotation.annotator for annotation in annotations)) is not None:
        raise DataError(f"{named} and two annotations by {shown(twice)}; expected one for each annotator.")
    files = [annotation.file for annotation in annotations if isinstance(annotation.file, Path)]
    if (twice := _repeated(files)) is not None:
        raise DataError(f"{named} and {twice} for two annotators; expected a file of its own for each.")
    if len(files) not in (0, len(annotations)):
        raise DataError(f"{named} and annotations that are masks and some that are classes; expected one kind.")
    if len(annotations) > MAX_ANNOTATIONS:
        raise DataError(f"{named} and {len(annotations)} annotations; expected at most {MAX_ANNOTATIONS}.")
    return tuple(annotations)


def annotator_folder(annotator: str) -> str:
    """Return a name for a folder of an annotator's files: the name itself where it is plain, else a digest.

    >>> annotator_folder("reader-1")
    'reader-1'
    """
    if _PLAIN_NAME.fullmatch(annotator):
        return annotator
    return f"annotator-{hashlib.sha256(annotator.encode(errors='surrogateescape')).hexdigest()[:12]}"


def _repeated(values: Iterable[Any]) -> Any:
    """The first value that is there twice, None without one."""
    known = set()
    for value in values:
        if value in known:
            return value
        known.add(value)
    return None
