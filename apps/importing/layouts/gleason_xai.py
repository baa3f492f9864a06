"""GleasonXAI: tissue cores of prostates, on which several pathologists drew polygons."""

import math
from collections import defaultdict
from pathlib import Path
from typing import Any

from ....custom.data.annotations import MAX_ANNOTATIONS, UNDECIDED, annotator_name
from ....transforms.errors import DataError, shown
from ....transforms.natural_order import natural_order
from ....transforms.strict_files import parse_json, read_json
from ..polygons import PolygonMask
from ..source import LeftOut, SourceAnnotation, SourceCase, SourceDataset
from .listing import Listing, checked, list_files, second_of
from .tables import read_table

_TABLE, _HIERARCHY = "final_filtered_explanations_df.csv", "label_remapping.json"
EXPECTED = f"{_TABLE}, {_HIERARCHY} and the pictures that the table names, such as TMA/original/PR633a_A1.jpg"

# Patterns of Gleason in the order in which they cover each other.
_GRADES = ("3", "4", "5")
CLASSES = tuple(f"Gleason pattern {grade}" for grade in _GRADES)
_IMAGE, _ANNOTATOR, _EXPLANATION, _CORNERS = "TMA_identifier", "annotator", "explanations", "coords"
# Folders with the same pictures, preferred first.
_SCALES = ("original", "micronscalibrated")
_MOST_CORNERS = 100_000

_Polygon = tuple[int, tuple[tuple[float, float], ...]]


def read(folder: Path, *, seed: int) -> SourceDataset:
    """Find the pictures with the polygons of every pathologist, as patterns 3, 4 and 5.

    Where polygons of a pathologist cover each other the higher pattern counts. The slide of cores, the part of a name
    before the first underscore, is the source.

    Raises:
        DataError: if the folder does not have the layout.
    """
    del seed  # Nothing here is random.
    listing = list_files(folder)
    files = {file.name.lower(): file for file in reversed(listing.files)}
    if _TABLE not in files or _HIERARCHY not in files:
        return checked(SourceDataset("gleason-xai", "segmentation", False, (), CLASSES), listing, EXPECTED)
    table = files[_TABLE]
    drawn, skipped = _polygons(table, _classes_of(files[_HIERARCHY]))
    pictures, second = _pictures(listing)
    named = {left.name for left in skipped}.union(drawn)
    skipped += [LeftOut(listing.shown(file), "no mask") for name, file in pictures.items() if name not in named]
    skipped += second
    cases = []
    for name in sorted(drawn, key=natural_order):
        if name not in pictures:
            skipped.append(LeftOut(name, "no image"))
            continue
        annotations = tuple(
            SourceAnnotation(PolygonMask(table, tuple(sorted(polygons, key=lambda polygon: polygon[0]))), annotator)
            for annotator, polygons in sorted(drawn[name].items(), key=lambda item: natural_order(item[0]))
        )
        if len(annotations) > MAX_ANNOTATIONS:
            skipped.append(LeftOut(name, f"more than {MAX_ANNOTATIONS} annotators"))
            continue
        source = name.partition("_")[0].lower() if "_" in name else None
        cases.append(SourceCase(pictures[name], UNDECIDED, source=source, annotations=annotations))
    labels = {number: number for number in range(len(CLASSES) + 1)}
    dataset = SourceDataset(
        "gleason-xai", "segmentation", False, tuple(cases), CLASSES, labels, 3, skipped=tuple(skipped)
    )
    return checked(dataset, listing, EXPECTED)


def _pictures(listing: Listing) -> tuple[dict[str, Path], list[LeftOut]]:
    """The picture of each name, and second ones; of several scales the original, whose pixels are finest."""
    result: dict[str, Path] = {}
    second = []
    for file in sorted(listing.pictures(), key=_scale):
        if "mask" in listing.shown(file).lower():
            continue
        first = result.setdefault(file.stem, file)
        if first != file and _scale(first) == _scale(file):
            second.append(second_of(listing, file, first))
    return result, second


def _scale(file: Path) -> int:
    name = file.parent.name.lower()
    return _SCALES.index(name) if name in _SCALES else len(_SCALES)


def _classes_of(file: Path) -> dict[str, int]:
    """The class of each explanation, from the tree of patterns, groups and explanations."""
    expected = "'hierarchy' with the patterns 3, 4 and 5, their groups and explanations"
    content = read_json(file, f"a tree: {expected}")
    tree = content.get("hierarchy") if isinstance(content, dict) else None
    if not isinstance(tree, dict) or set(tree) != set(_GRADES):
        raise DataError(f"{file}: found another content; expected {expected}.")
    result: dict[str, int] = {}
    for number, grade in enumerate(_GRADES, 1):
        for text in _texts(tree[grade]):
            if result.setdefault(text, number) != number:
                raise DataError(f"{file}: found {shown(text)} of two patterns; expected it of one.")
    return result


def _texts(tree: Any) -> list[str]:
    """All names in a tree of keys and lists."""
    if isinstance(tree, dict):
        return [text for key, branch in tree.items() for text in (str(key), *_texts(branch))]
    return [text for leaf in tree if isinstance(leaf, str) for text in (leaf,)] if isinstance(tree, list) else []


def _polygons(table: Path, classes: dict[str, int]) -> tuple[dict[str, dict[str, list[_Polygon]]], list[LeftOut]]:
    """Picture → annotator → polygons in the table's order; and the rows that cannot be used."""
    drawn: defaultdict[str, defaultdict[str, list[_Polygon]]] = defaultdict(lambda: defaultdict(list))
    skipped = []
    for place, row in read_table(table, (_IMAGE, _ANNOTATOR, _EXPLANATION, _CORNERS)):
        name, corners = row[_IMAGE], _corners(row[_CORNERS])
        if row[_EXPLANATION] not in classes:
            reason = "its explanation has no pattern"
        elif corners is None:
            reason = "a row without a polygon of at least three corners in the picture"
        else:
            annotator = annotator_name(row[_ANNOTATOR], f"{table}: {place}")
            drawn[name][annotator].append((classes[row[_EXPLANATION]], corners))
            continue
        skipped.append(LeftOut(name, reason, f"{table.name}, {place} ({name}): {reason}"))
    return {name: dict(of_image) for name, of_image in drawn.items()}, skipped


def _corners(text: str) -> tuple[tuple[float, float], ...] | None:
    """Corners of a polygon as fractions of width and height, None if they are not."""
    try:
        points = parse_json(text, "corners")
    except DataError:
        return None
    if not isinstance(points, list) or not 3 <= len(points) <= _MOST_CORNERS:
        return None
    corners = [tuple(point) if isinstance(point, list) and len(point) == 2 else () for point in points]
    if not all(corner and all(_is_fraction(value) for value in corner) for corner in corners):
        return None
    return tuple((float(corner[0]), float(corner[1])) for corner in corners)


def _is_fraction(value: Any) -> bool:
    """Whether a coordinate is one; a polygon drawn by hand may lead a little out of the picture."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and -1 < value < 2
