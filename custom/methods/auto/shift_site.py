"""A site of `auto` measures a shift of all its masks, where it is asked to correct one, and moves them back."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from ...annotation_bias.given_annotations import GivenAnnotations
from ...annotation_bias.profile.mask_shift import ShiftStatus, WholeShift, shift_of_all_masks
from ...annotation_bias.profile.scales import ProfileCase
from ...annotation_bias.profile.site_shift import estimate_site_shift
from ...corrections.kinds import MaskShift, Purpose, Sample
from ...corrections.targets import case_files
from ...data.datalist import REFERENCE
from ...data.site_data import LoadedCase, SiteData
from ...interface.views import SiteView
from .scored_cases import reviewed_cases


def measured_shift(cases: Sequence[ProfileCase], num_classes: int, *, seed: int) -> MaskShift | None:
    """Return the shift of all masks that the images of a site show, None where it is not to be corrected.

    It stays at the site.

    Args:
        cases: of the site, as it has annotated them.
        num_classes: number of foreground classes.
        seed: decides the draws of patients.
    """
    found = _estimated(cases, num_classes, seed)
    return MaskShift(shift=found.vector) if found.status is ShiftStatus.CORRECTABLE else None


def _estimated(cases: Sequence[ProfileCase], num_classes: int, seed: int) -> WholeShift:
    if not cases:
        return WholeShift(ShiftStatus.UNKNOWN)
    return shift_of_all_masks([estimate_site_shift(cases, label, seed=seed) for label in range(1, num_classes + 1)])


def with_masks_moved_back(site: SiteView, shift: MaskShift) -> SiteView:
    """Return a site whose cases have its own masks moved back; reviewers' masks stay, and so do reverted cases.

    A mask that the site had given before a review moves, too: it says how the site annotates.

    Args:
        site: the site in this task.
        shift: of all masks, which it has corrected.
    """

    def load(section: str) -> SiteData:
        data = site.load(section)
        return replace(data, cases=moved_back(data.cases, shift, _as_given(data, section, site)))

    return replace(site, load=load)


def moved_back(cases: Sequence[LoadedCase], shift: MaskShift, as_given: Sequence[bool]) -> tuple[LoadedCase, ...]:
    """Return cases with all masks moved back but annotations in use that stay; the given ones are not changed.

    Args:
        cases: of the site.
        shift: of all masks.
        as_given: for each case whether its annotation in use stays.
    """
    return tuple(
        replace(
            case,
            label=case.label if stays else _moved(case.label, shift, case),
            given_label=None if case.given_label is None else _moved(case.given_label, shift, case),
        )
        for case, stays in zip(cases, as_given, strict=True)
    )


def _as_given(data: SiteData, section: str, site: SiteView) -> Sequence[bool]:
    """Which cases of a section keep their annotation in use: the reverted ones, and what a review has settled."""
    if section == REFERENCE:
        return [True] * len(data.cases)
    stored, folder, reviewed = site.corrections.latest(), site.locate().folder, reviewed_cases(site)
    settled = GivenAnnotations.of(data.cases, () if reviewed is None else reviewed.cases).settled
    states = {} if stored is None else {case.name: case.is_reverted for case in stored.corrections.cases}
    names = [case_files(case, folder)[0] for case in data.cases]
    return [states.get(name, is_settled) for name, is_settled in zip(names, settled, strict=True)]


def _moved(masks: torch.Tensor, shift: MaskShift, case: LoadedCase) -> torch.Tensor:
    samples = [Sample(classes, case.spacing) for classes in masks.numpy()]
    return torch.from_numpy(np.stack([shift.apply(sample, Purpose.TRAINING)[0] for sample in samples]))
