"""How right a method was about the annotations of a research run, whose complete annotations are known."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from ...custom.data.corrections import CorrectedLabel
from ...custom.data.datalist import TRAINING, Case, read_datalist
from ...custom.data.description import SegmentationDescription, read_site_description
from ...custom.data.manifest import read_manifest
from ...custom.data.masks import read_classes
from ...transforms.errors import DataError
from .corrections import SiteCorrections, find_corrections


def completeness_errors(estimates: Mapping[str, Mapping[str, Any]], federation: Path) -> dict[str, Any] | None:
    """Compare estimated with true completeness, lesions annotated over all lesions of a site.

    Args:
        estimates: what a summary says of each site, with its ``estimate``.
        federation: the run's data, whose manifests tell the truth.

    Returns:
        ``sites`` with ``estimate`` and ``true`` of each, ``mean_absolute_error``, and ``rank_correlation`` (Kendall's
        τ_b, None where it is not defined); None where no manifest tells of missing lesions.
    """
    sites = {}
    for site, estimated in estimates.items():
        manifest = read_manifest(federation / site)
        if manifest is not None and manifest.missing_lesions is not None and manifest.missing_lesions.num_lesions:
            missing = manifest.missing_lesions
            sites[site] = {"estimate": estimated["estimate"], "true": missing.num_kept / missing.num_lesions}
    if not sites:
        return None
    found, true = np.array([(site["estimate"], site["true"]) for site in sites.values()]).T
    differ = len(set(found)) > 1 and len(set(true)) > 1
    return {
        "sites": sites,
        "mean_absolute_error": float(np.abs(found - true).mean()),
        "rank_correlation": float(stats.kendalltau(found, true).statistic) if differ else None,
    }


def correction_scores(run: Path, federation: Path, sites: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Compare the voxels that sites added with those that were missing, over their training cases.

    Args:
        run: the run's output folder.
        federation: its data, with clean labels.
        sites: names of the sites.

    Returns:
        For every site whose clean labels are known: ``added`` and ``missing`` voxels, ``right`` ones (both),
        ``precision`` and ``recall`` of the added ones (None where there are none to divide by), and ``removed``, voxels
        of given annotations that the corrected ones lack.
    """
    try:
        found = {one.corrections.site: one for one in find_corrections(run)}
    except DataError:
        found = {}
    scores = {site: _site_scores(federation / site, found.get(site)) for site in sites}
    return {site: score for site, score in scores.items() if score is not None}


def _site_scores(folder: Path, corrections: SiteCorrections | None) -> dict[str, Any] | None:
    description = read_site_description(folder)
    if not isinstance(description, SegmentationDescription):
        return None
    used: dict[str, CorrectedLabel] = {}
    if corrections is not None:
        used = {label.label: label for label in corrections.corrections.used}
    added = missing = right = removed = 0
    known = False
    for case in read_datalist(folder / description.datalist).section(TRAINING):
        if not isinstance(case.label, Path) or not isinstance(case.clean_label, Path):
            continue
        known = True
        given, clean = (read_classes(file, description).classes != 0 for file in (case.label, case.clean_label))
        now = given
        if corrections is not None and (label := used.get(_relative(case, folder))) is not None:
            now = read_classes(corrections.folder / label.file, description).classes != 0
        added += int(np.count_nonzero(now & ~given))
        missing += int(np.count_nonzero(clean & ~given))
        right += int(np.count_nonzero(now & ~given & clean))
        removed += int(np.count_nonzero(given & ~now))
    if not known:
        return None
    counts = {"added": added, "missing": missing, "right": right, "removed": removed}
    return counts | _precision_and_recall(counts)


def pooled_correction(sites: Mapping[str, Mapping[str, Any]]) -> dict[str, float | None]:
    """Return precision and recall of the added voxels of all sites together, from :func:`correction_scores`."""
    keys = ("added", "missing", "right")
    return _precision_and_recall({key: sum(site[key] for site in sites.values()) for key in keys})


def _precision_and_recall(counts: Mapping[str, int]) -> dict[str, float | None]:
    return {
        "precision": counts["right"] / counts["added"] if counts["added"] else None,
        "recall": counts["right"] / counts["missing"] if counts["missing"] else None,
    }


def _relative(case: Case, folder: Path) -> str:
    return os.path.relpath(str(case.label), folder)
