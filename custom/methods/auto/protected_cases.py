"""Which given labels no method may replace: those that the data manager or a review has decided."""

from collections.abc import Sequence
from itertools import compress

from ...annotation_bias.given_annotations import GivenAnnotations
from ...corrections.targets import case_files
from ...data.datalist import REFERENCE
from ...data.description import ClassificationDescription
from ...data.site_data import LoadedCase, SiteData, count_cases
from ...interface.views import SiteView
from .scored_cases import reviewed_cases


def protected_cases(site: SiteView, data: SiteData) -> frozenset[str]:
    """Return the names of the cases whose given label counts, whatever a method finds, as corrections name them.

    The data manager has reverted a correction of them, or a review has changed or kept their label and nobody has
    restored a correction since.

    Args:
        site: the site in this task.
        data: its training cases with their given labels.
    """
    stored = site.corrections.latest()
    cases = () if stored is None else stored.corrections.cases
    restored = {case.name for case in cases if case.is_active and case.overrides_review}
    return site.corrections.reverted | (_settled(site, data) - restored)


def _settled(site: SiteView, data: SiteData) -> frozenset[str]:
    """The cases whose label a review has decided."""
    reviewed = None if isinstance(data.description, ClassificationDescription) else reviewed_cases(site)
    return _names(site, data, () if reviewed is None else reviewed.cases)


def reviewed_names(site: SiteView, data: SiteData) -> frozenset[str]:
    """Return the names of the cases whose label a review has kept or changed, as corrections name them.

    A datalist says so by the label before the review, or by its list of reviewed cases.

    Args:
        site: the site in this task.
        data: its training cases with their given labels.

    Raises:
        DataError: if it has a list of reviewed cases that cannot be used: nothing of it may be replaced.
    """
    reviewed = site.load(REFERENCE).cases if count_cases(site.locate().folder, REFERENCE) else ()
    return _names(site, data, reviewed)


def _names(site: SiteView, data: SiteData, reviewed: Sequence[LoadedCase]) -> frozenset[str]:
    """The cases that say it themselves, and those with the label of a reviewed case."""
    is_settled = GivenAnnotations.of(data.cases, reviewed).settled
    decided = (own or case.is_reviewed for own, case in zip(is_settled, data.cases, strict=True))
    folder = site.locate().folder
    return frozenset(case_files(case, folder)[0] for case in compress(data.cases, decided))
