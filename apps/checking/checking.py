"""The check of a folder: read every site, run every check, collect what was found."""

import secrets
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from ...custom.data.description import DESCRIPTION_FILE
from ...custom.data.federation import FEDERATION_FILE, TEST_FOLDER, FederationDescription
from ...custom.data.watch import Watch
from ...custom.data.yaml_file import read_values, validated
from ...transforms.errors import DataError
from .annotation_checks import (
    check_absent_classes,
    check_annotated_by_nobody,
    check_cut_annotations,
    check_empty_annotations,
    check_ignored_cases,
)
from .channel_checks import check_covered_channels, check_empty_channels, check_missing_channels
from .duplicate_checks import check_duplicates, check_shared_groups
from .facts import SiteFacts
from .federation_checks import check_likely_patients, check_same_task, check_shared_cases
from .file_checks import check_datalist_place, check_files, check_links, check_trainable, check_trained_size
from .finding import Finding, Severity, site_finding
from .geometry_checks import check_enlargement, check_orientation, check_resampling, check_spacing
from .intensity_checks import check_constant_images, check_outliers, check_voxel_types, check_window
from .picture_checks import check_colours, check_turned_pictures
from .polarity_checks import check_full_masks, check_inverted_masks, check_same_polarity
from .reading import read_site
from .report import CheckReport, SiteReport, sorted_findings

SiteCheck = Callable[[SiteFacts], Iterator[Finding]]

# A new check of a site is a function and a line here.
SITE_CHECKS: tuple[SiteCheck, ...] = (
    check_trainable,
    check_trained_size,
    check_files,
    check_links,
    check_datalist_place,
    check_cut_annotations,
    check_inverted_masks,
    check_full_masks,
    check_constant_images,
    check_empty_channels,
    check_covered_channels,
    check_missing_channels,
    check_window,
    check_colours,
    check_turned_pictures,
    check_duplicates,
    check_shared_groups,
    check_enlargement,
    check_resampling,
    check_voxel_types,
    check_outliers,
    check_absent_classes,
    check_empty_annotations,
    check_ignored_cases,
    check_spacing,
    check_orientation,
)


def check_folder(folder: Path, watch: Watch | None = None) -> CheckReport:
    """Check a federation's folder or one site's.

    Args:
        folder: with ``federation.yaml``, or with ``data.yaml``.
        watch: learns how many cases of a site are read.

    Raises:
        DataError: if it is neither, or ``federation.yaml`` cannot be used.
    """
    if (folder / FEDERATION_FILE).is_file():
        values = read_values(folder / FEDERATION_FILE, FederationDescription)
        federation = validated(values, FederationDescription, str(folder / FEDERATION_FILE))
        names = list(federation.sites)
        if (folder / TEST_FOLDER / DESCRIPTION_FILE).is_file():
            names.append(TEST_FOLDER)
        reports = [check_site(folder / name, name, is_test=name == TEST_FOLDER, watch=watch) for name in names]
        return CheckReport(federation.name, _compared(reports, federation))
    if not (folder / DESCRIPTION_FILE).is_file():
        raise DataError(
            f"{folder}: found neither {FEDERATION_FILE} nor {DESCRIPTION_FILE}; expected a federation's folder or a "
            "site's."
        )
    name = folder.resolve().name
    report = check_site(folder, name, watch=watch)
    if report.facts is not None:
        result = [finding for _, finding in check_likely_patients([report.facts])]
        report = replace(report, findings=sorted_findings([*report.findings, *result]))
    return CheckReport(name, (report,))


def check_site(folder: Path, site: str, *, is_test: bool = False, watch: Watch | None = None) -> SiteReport:
    """Check the cases of one site by themselves."""
    role = "test" if is_test else "site"
    try:
        facts = read_site(folder, site, is_test=is_test, watch=watch)
    except DataError as error:
        remedy = "Correct this file; nothing else of the site was read."
        finding = site_finding(Severity.ERROR, "site-unusable", str(error), remedy, blocks_training=True)
        return SiteReport(site, role, None, (finding,))
    findings = [finding for check in SITE_CHECKS for finding in check(facts)]
    return SiteReport(site, role, facts, sorted_findings(findings))


def _compared(reports: list[SiteReport], federation: FederationDescription) -> tuple[SiteReport, ...]:
    """The reports with what was found between the sites."""
    sites = [report.facts for report in reports if report.facts is not None]
    if not sites:
        return tuple(reports)
    result: dict[str, list[Finding]] = defaultdict(list)
    # Everything lies on one disk: nobody needs the salt after this run.
    for site, finding in (
        *check_same_task(sites, federation.task),
        *check_same_polarity(sites),
        *check_shared_cases(sites, secrets.token_bytes(32)),
        *check_likely_patients(sites),
        *check_annotated_by_nobody(sites),
    ):
        result[site].append(finding)
    return tuple(
        SiteReport(
            report.site, report.role, report.facts, sorted_findings([*report.findings, *result.get(report.site, [])])
        )
        for report in reports
    )
