"""Which given labels a review has decided by now, perhaps after a method had corrected them."""

import filecmp
import os
from collections.abc import Collection, Sequence
from pathlib import Path

from ..data.datalist import REFERENCE, TRAINING, Case, read_datalist
from ..data.description import DESCRIPTION_FILE, read_site_description
from .model import Corrections, CorrectionState


def reviewed_labels(data_folder: Path) -> frozenset[str]:
    """Return the names of the training cases whose label in use a review has decided, as corrections name them.

    A datalist says so by the label before the review, or by its list of reviewed cases, also with a copy of the mask.

    Args:
        data_folder: the folder of the site's data; none is reviewed where it has no datalist.

    Raises:
        DataError: if the description or the datalist cannot be read.
    """
    if not (data_folder / DESCRIPTION_FILE).is_file():
        return frozenset()
    file = data_folder / read_site_description(data_folder).datalist
    if not file.is_file():
        return frozenset()
    datalist = read_datalist(file)
    reviewed: dict[Path, list[Case]] = {}
    for case in datalist.section(REFERENCE):
        reviewed.setdefault(case.image, []).append(case)
    return frozenset(
        os.path.relpath(case.label if isinstance(case.label, Path) else case.image, data_folder)
        for case in datalist.section(TRAINING)
        if case.is_reviewed or _has_copy(case, reviewed.get(case.image, ()))
    )


def _has_copy(case: Case, reviewed: Sequence[Case]) -> bool:
    """Whether a reviewed case of the image has the same mask in another file."""
    own = case.label
    others = [one.label for one in reviewed if isinstance(one.label, Path)]
    if not isinstance(own, Path) or not own.is_file():
        return False
    return any(other.is_file() and filecmp.cmp(own, other, shallow=False) for other in others)


def with_reviews(corrections: Corrections, reviewed: Collection[str]) -> Corrections:
    """Return corrections as they count: those of reviewed labels do not, unless somebody has restored them since.

    Args:
        corrections: as they are recorded.
        reviewed: names of the cases whose given label a review has decided by now.
    """
    open_to_it = (one for one in corrections.cases if one.is_active and one.review is None)
    settled = {one.name for one in open_to_it if one.name in reviewed and not one.overrides_review}
    return corrections.with_states(settled, CorrectionState.REVERTED) if settled else corrections
