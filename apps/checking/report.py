"""The result of a check: what was found at each site, for people and, as JSON, for machines."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TypedDict

from ...custom.data.datalist import SECTIONS
from .annotation_checks import class_counts
from .facts import ImageFacts, SiteFacts
from .finding import Finding, Severity

# Counts up when a key of the JSON changes its name or meaning.
REPORT_VERSION = 1

_ORDER = {severity: position for position, severity in enumerate(Severity)}


class Range(TypedDict):
    """The smallest and the largest values along every axis."""

    smallest: list[float]
    largest: list[float]


class ImageRanges(TypedDict):
    """What a site's readable images are, as JSON; ranges are None without any."""

    readable: int
    voxel_types: dict[str, int]
    orientations: dict[str, int]
    shape: Range | None
    spacing_mm: Range | None
    mean_intensity: Range | None


class ListCounts(TypedDict):
    """How many items a list of the datalist has, and how many of them training takes."""

    items: int
    usable: int


class SiteReportJson(TypedDict):
    """The report of a site as JSON."""

    site: str
    role: str
    can_train: bool
    pipeline: str | None
    lists: dict[str, ListCounts]
    classes: dict[str, dict[str, int]]
    not_annotated: list[str]
    ignored_values: list[int]
    images: ImageRanges
    counts: dict[str, int]
    findings: list[dict[str, object]]


class CheckReportJson(TypedDict):
    """The report as JSON."""

    content: str
    version: int
    name: str
    can_train: bool
    sites: list[SiteReportJson]


@dataclass(frozen=True)
class SiteReport:
    """What was found at a site; names files and so stays there.

    Attributes:
        site: its name.
        role: ``site``, or ``test`` for the federation's common test set.
        facts: what was read; None if its description or datalist cannot be used.
        findings: the worst first, then by kind.
    """

    site: str
    role: str
    facts: SiteFacts | None
    findings: tuple[Finding, ...]

    @property
    def can_train(self) -> bool:
        """Whether the site can train; of the test set, whether it can be tested on."""
        return not any(finding.blocks_training for finding in self.findings)

    def count(self, severity: Severity) -> int:
        """Return the number of findings of a severity."""
        return sum(finding.severity == severity for finding in self.findings)

    @property
    def lists(self) -> dict[str, tuple[int, int]]:
        """Name of each list that the datalist has → number of its items, and of those that training takes."""
        if self.facts is None:
            return {}
        counts = {}
        for section in SECTIONS:
            cases, refused = self.facts.section(section), self.facts.refused.get(section)
            if refused is not None:
                counts[section] = (len(cases) + len(refused), sum(case.is_usable for case in cases))
        return counts


@dataclass(frozen=True)
class CheckReport:
    """What was found in a folder.

    Attributes:
        name: the federation's name, or the site's.
        sites: the sites in their order, the common test set last.
    """

    name: str
    sites: tuple[SiteReport, ...]

    @property
    def can_train(self) -> bool:
        """Whether every site can train and the test set, where there is one, can be used."""
        return all(site.can_train for site in self.sites)


def sorted_findings(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Sort findings: the worst first, kinds together, otherwise as they came."""
    kinds = {kind: position for position, kind in reversed(list(enumerate(finding.kind for finding in findings)))}
    return tuple(sorted(findings, key=lambda finding: (_ORDER[finding.severity], kinds[finding.kind])))


def report_as_json(report: CheckReport) -> CheckReportJson:
    """Return the report as JSON: every key is always there, files are relative to the site's folder."""
    return {
        "content": "fedannot check",
        "version": REPORT_VERSION,
        "name": report.name,
        "can_train": report.can_train,
        "sites": [_site_as_json(site) for site in report.sites],
    }


def _site_as_json(site: SiteReport) -> SiteReportJson:
    return {
        "site": site.site,
        "role": site.role,
        "can_train": site.can_train,
        "pipeline": None if site.facts is None else site.facts.description.pipeline,
        "lists": {name: {"items": items, "usable": usable} for name, (items, usable) in site.lists.items()},
        "classes": {} if site.facts is None else {name: class_counts(site.facts, name) for name in site.lists},
        "not_annotated": list(getattr(site.facts and site.facts.description, "unannotated_classes", ())),
        "ignored_values": list(getattr(site.facts and site.facts.description, "ignore", ())),
        "images": _images_as_json([] if site.facts is None else [image for _, image in site.facts.images]),
        "counts": {severity.value: site.count(severity) for severity in Severity},
        "findings": [asdict(finding) for finding in site.findings],
    }


def _images_as_json(images: Sequence[ImageFacts]) -> ImageRanges:
    """Ranges over the images that can be read: a site's fingerprint in the sense of nnU-Net."""
    return {
        "readable": len(images),
        "voxel_types": dict(Counter(image.voxel_type for image in images)),
        "orientations": dict(Counter(image.orientation for image in images if image.orientation)),
        "shape": _range([image.shape for image in images]),
        "spacing_mm": _range([image.spacing for image in images if image.spacing is not None]),
        "mean_intensity": _range([(image.mean,) for image in images]),
    }


def _range(values: Sequence[Sequence[float]]) -> Range | None:
    """Smallest and largest along every axis."""
    if not values:
        return None
    columns = list(zip(*values, strict=True))
    return {"smallest": [min(column) for column in columns], "largest": [max(column) for column in columns]}
