"""What a person has to know of an import: files left out, and what was decided about those that came along."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...transforms.natural_order import natural_order
from .checked import CheckedCase

_SHOWN_NAMES = 4


@dataclass(frozen=True)
class ImportReport:
    """What did not come along, and what was decided.

    Attributes:
        skipped: files left out on finding the data set, one text each.
        excluded: why a case could not be used, one text each.
        labels: value in the mask files → class, as given or as found; empty for classification.
        notes: a sentence for everything else that was found or decided.
    """

    skipped: tuple[str, ...]
    excluded: tuple[str, ...]
    labels: dict[int, int]
    notes: tuple[str, ...] = ()


def identical_images(checked: Sequence[CheckedCase]) -> str | None:
    """Say which images have the same pixels, None if no two have."""
    groups: dict[str, list[CheckedCase]] = defaultdict(list)
    for case in checked:
        if case.digest is not None:
            groups[case.digest].append(case)
    alike = [group for group in groups.values() if len(group) > 1]
    if not alike:
        return None
    shown = "; ".join(_twins(group) for group in alike[:_SHOWN_NAMES])
    return (
        f"Pixel-identical images: {len(alike)} {'group' if len(alike) == 1 else 'groups'} of "
        f"{sum(map(len, alike))} cases, which are not parted between training, validation and test: "
        f"{shown}{'; …' if len(alike) > _SHOWN_NAMES else ''}."
    )


def _twins(group: Sequence[CheckedCase]) -> str:
    names = sorted((case.name for case in group), key=natural_order)
    classes = {case.label for case in group if isinstance(case.label, int)}
    more = " = …" if len(names) > _SHOWN_NAMES else ""
    return " = ".join(names[:_SHOWN_NAMES]) + more + (" (of different classes)" if len(classes) > 1 else "")


def several_masks(checked: Sequence[CheckedCase]) -> str | None:
    """Say how many images have several mask files, None if none has."""
    united = [case for case in checked if isinstance(case.source.label, tuple) and len(case.source.label) > 1]
    if not united:
        return None
    files = sum(len(case.source.label) for case in united if isinstance(case.source.label, tuple))
    return (
        f"Several masks: {files} files of {len(united)} images became one mask each, {united[0].name} for one. "
        "They are taken for objects of one image; if they are several readers' masks, choose one with --label-include."
    )


def trusted_voxels(checked: Sequence[CheckedCase]) -> str | None:
    """Say how far masks lay off their images whose affines were not believed, None if none did."""
    moved = [case for case in checked if case.offset > 0]
    if not moved:
        return None
    worst = max(moved, key=lambda case: case.offset)
    return (
        f"Trusted voxels: {len(moved)} masks lay up to {worst.offset:.3g} mm off their images (most "
        f"{worst.label_file.name}) and got their images' affines."
    )


def turned_masks(checked: Sequence[CheckedCase]) -> str | None:
    """Say how many masks were stored in another orientation than their images, None if none was."""
    turned = [case for case in checked if case.is_turned]
    if not turned:
        return None
    return (
        f"Turned masks: in {len(turned)} of {len(checked)} cases ({turned[0].label_file.name} for one) masks are "
        "stored in another orientation than their images, at the same place; they were turned, every label as it was."
    )


def header_remarks(checked: Sequence[CheckedCase]) -> str | None:
    """Say which headers contradict themselves or are not in millimetres, and what of them counts; None if none is."""
    cases = [case for case in checked if case.remarks]
    if not cases:
        return None
    shown = " ".join(case.remarks[0] for case in cases[:_SHOWN_NAMES])
    more = f" … and {len(cases) - _SHOWN_NAMES} more." if len(cases) > _SHOWN_NAMES else ""
    return f"Headers: in {len(cases)} of {len(checked)} cases, {shown}{more}"


def absent_from_test(names: Mapping[int, str], in_test: set[int], in_sites: set[int]) -> str | None:
    """Say which classes that sites have no case of the test set shows, None if all are there."""
    absent = [name for label, name in names.items() if label in in_sites and label not in in_test]
    if not absent:
        return None
    return f"Test set: no case shows {', '.join(absent)}, so that no score will say anything about it."
