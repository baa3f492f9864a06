"""Which given labels no method may replace: those that the data manager or a review has decided."""

from itertools import compress

from ...annotation_bias.given_annotations import GivenAnnotations
from ...corrections.targets import case_files
from ...data.description import ClassificationDescription
from ...data.site_data import SiteData
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
    restored = set() if stored is None else {case.name for case in stored.corrections.cases if case.is_active}
    return site.corrections.reverted | (_settled(site, data) - restored)


def _settled(site: SiteView, data: SiteData) -> frozenset[str]:
    """The cases whose label a review has decided."""
    folder = site.locate().folder
    if isinstance(data.description, ClassificationDescription):
        return frozenset(case.image_name(folder) for case in data.cases if case.is_reviewed)
    reviewed = reviewed_cases(site)
    if reviewed is None:
        return frozenset()
    settled = GivenAnnotations.of(data.cases, reviewed.cases).settled
    return frozenset(case_files(case, folder)[0] for case in compress(data.cases, settled))
