"""How right a method was about the annotations of a research run, whose complete annotations are known."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy import stats

from ...custom.corrections.model import CaseCorrection
from ...custom.corrections.store import StoredCorrections
from ...custom.data.datalist import TRAINING, Case, read_datalist
from ...custom.data.description import SegmentationDescription, read_site_description
from ...custom.data.manifest import read_manifest
from ...custom.data.masks import read_classes, turned_to
from ...custom.records.round_records import Record
from ...transforms.errors import DataError
from .corrections import find_corrections


class SiteCompleteness(Record):
    """Estimated and true completeness of a site."""

    estimate: float
    true: float


class CompletenessErrors(Record):
    """How right estimates of completeness were.

    Attributes:
        sites: by site.
        mean_absolute_error: over the sites.
        rank_correlation: Kendall's τ_b, None where it is not defined.
    """

    sites: dict[str, SiteCompleteness]
    mean_absolute_error: float
    rank_correlation: float | None


class PrecisionAndRecall(Record):
    """How right something was that was found; None where there is nothing to divide by."""

    precision: float | None
    recall: float | None


class CorrectionScores(PrecisionAndRecall):
    """Voxels that a site added, compared with those that were missing.

    Attributes:
        added: voxels that the corrected annotations have and the given ones lack.
        missing: voxels that the given annotations lack.
        right: both.
        removed: voxels of given annotations that the corrected ones lack.
    """

    added: int
    missing: int
    right: int
    removed: int


def completeness_errors(estimates: Mapping[str, float], federation: Path) -> CompletenessErrors | None:
    """Compare estimated with true completeness, lesions annotated over all lesions of a site.

    Args:
        estimates: by site.
        federation: the run's data, whose manifests tell the truth.

    Returns:
        None where no manifest tells of missing lesions.
    """
    sites = {}
    for site, estimate in estimates.items():
        manifest = read_manifest(federation / site)
        if manifest is not None and manifest.missing_lesions is not None and manifest.missing_lesions.num_lesions:
            missing = manifest.missing_lesions
            sites[site] = SiteCompleteness(estimate=estimate, true=missing.num_kept / missing.num_lesions)
    if not sites:
        return None
    result, true = np.array([(site.estimate, site.true) for site in sites.values()]).T
    differ = len(set(result)) > 1 and len(set(true)) > 1
    return CompletenessErrors(
        sites=sites,
        mean_absolute_error=float(np.abs(result - true).mean()),
        rank_correlation=float(stats.kendalltau(result, true).statistic) if differ else None,
    )


def correction_scores(run: Path, federation: Path, sites: Sequence[str]) -> dict[str, CorrectionScores]:
    """Compare the voxels that sites added with those that were missing, over their training cases.

    Args:
        run: the run's output folder.
        federation: its data, with clean labels.
        sites: names of the sites.

    Returns:
        Of every site whose clean labels are known.
    """
    try:
        result = {item.corrections.site: item for item in find_corrections(run)}
    except DataError:
        result = {}
    scores = {site: _site_scores(federation / site, result.get(site)) for site in sites}
    return {site: score for site, score in scores.items() if score is not None}


def _site_scores(folder: Path, corrections: StoredCorrections | None) -> CorrectionScores | None:
    description = read_site_description(folder)
    if not isinstance(description, SegmentationDescription):
        return None
    used: dict[str, CaseCorrection] = {}
    if corrections is not None:
        used = {case.label: case for case in corrections.corrections.used_masks}
    added = missing = right = removed = 0
    known = False
    for case in read_datalist(folder / description.datalist).section(TRAINING):
        if not isinstance(case.label, Path) or not isinstance(case.clean_label, Path):
            continue
        known = True
        mask = read_classes(case.label, description)
        given = mask.foreground
        clean = turned_to(read_classes(case.clean_label, description), mask.affine).foreground
        now = given
        corrected = used.get(_relative(case, folder))
        if corrections is not None and corrected is not None and corrected.mask is not None:
            now = read_classes(corrections.folder / corrected.mask.counting_file, description).foreground
        added += int(np.count_nonzero(now & ~given))
        missing += int(np.count_nonzero(clean & ~given))
        right += int(np.count_nonzero(now & ~given & clean))
        removed += int(np.count_nonzero(given & ~now))
    if not known:
        return None
    shares = _precision_and_recall(added, missing, right)
    return CorrectionScores(
        added=added,
        missing=missing,
        right=right,
        removed=removed,
        precision=shares.precision,
        recall=shares.recall,
    )


def pooled_correction(sites: Mapping[str, CorrectionScores]) -> PrecisionAndRecall:
    """Return precision and recall of the added voxels of all sites together, from :func:`correction_scores`."""
    return _precision_and_recall(
        sum(site.added for site in sites.values()),
        sum(site.missing for site in sites.values()),
        sum(site.right for site in sites.values()),
    )


def _precision_and_recall(added: int, missing: int, right: int) -> PrecisionAndRecall:
    return PrecisionAndRecall(precision=right / added if added else None, recall=right / missing if missing else None)


def _relative(case: Case, folder: Path) -> str:
    return os.path.relpath(str(case.label), folder)
