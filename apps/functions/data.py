"""A federation's data: made of images as they lie, and checked; as values that a notebook shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...custom.data.overview import SiteOverview, federation_overview
from ..checking.checking import check_folder
from ..checking.finding import Finding, Severity
from ..checking.report import CheckReport
from ..importing.find import Named, find_datasets
from ..importing.notes import ImportReport, left_out_columns
from ..importing.options import ImportOptions
from ..importing.plan import SiteChoice
from ..importing.source import SourceDataset
from ..importing.writing import write_imported_federation
from ..reports.data_columns import federation_columns
from ..reports.html import html_paragraphs, html_table
from ..runs.progress import OnProgress, Progress, progress_of

_PLAIN = ImportOptions()


@dataclass(frozen=True)
class CheckedData:
    """What was found wrong in a folder; names files, and so stays at the site.

    Attributes:
        report: every site with its findings.
    """

    report: CheckReport

    @property
    def can_train(self) -> bool:
        """Whether every site can train."""
        return self.report.can_train

    @property
    def findings(self) -> dict[str, tuple[Finding, ...]]:
        """What was found at each site, the worst first."""
        return {site.site: site.findings for site in self.report.sites}

    def __str__(self) -> str:
        counts = {severity: sum(site.count(severity) for site in self.report.sites) for severity in Severity}
        result = ", ".join(f"{count} of severity {severity.value}" for severity, count in counts.items() if count)
        return f"{self.report.name}: {'can' if self.can_train else 'cannot'} train; {result or 'nothing was found'}"

    def _repr_html_(self) -> str:
        rows = [(site, finding) for site, findings in self.findings.items() for finding in findings]
        table = {
            "site": [site for site, _ in rows],
            "severity": [one.severity.value for _, one in rows],
            "found": [f"{one.found} {', '.join(one.files)}".strip() for _, one in rows],
            "what to do": [one.remedy for _, one in rows],
        }
        return html_paragraphs(str(self)) + (html_table(table, left=tuple(table)) if rows else "")


def check(folder: str | Path, *, on_progress: OnProgress | Progress | None = None) -> CheckedData:
    """Look for what is wrong with data before anybody trains; nothing is changed.

    Args:
        folder: a federation's, or one site's.
        on_progress: is given every step.

    Raises:
        DataError: if it is neither.

    >>> from fedannot.apps import check
    >>> from fedannot.custom import write_phantom_federation, LesionImages
    >>> write_phantom_federation(Path("data"), LesionImages(), num_sites=2, images_per_site=2, test_images=1)
    >>> print(check("data"))
    phantom-lesions2d: can train; nothing was found
    """
    return CheckedData(check_folder(Path(folder), progress_of(on_progress).state))


@dataclass(frozen=True)
class ImportedFederation:
    """A federation that was made of images as they lay; a notebook shows what each site has.

    Attributes:
        folder: the federation's.
        report: what did not come along, and how mask values were understood.
    """

    folder: Path
    report: ImportReport

    @property
    def sites(self) -> tuple[SiteOverview, ...]:
        """What each site holds, the test set last."""
        return federation_overview(self.folder)

    def __str__(self) -> str:
        cases = sum(site.cases for site in self.sites)
        left_out = len(self.report.left_out)
        return f"{self.folder}: {cases} cases in {len(self.sites)} folders, {left_out} left out"

    def _repr_html_(self) -> str:
        left_out = [f"Left out: {entry}" for entry in self.report.left_out]
        table = html_table(federation_columns(self.sites))
        reasons = html_table(left_out_columns(self.report), left=("left out", "for one")) if left_out else ""
        return html_paragraphs(str(self)) + table + html_paragraphs(*left_out, *self.report.notes) + reasons


def import_found(
    datasets: Sequence[SourceDataset],
    out: Path,
    *,
    sites: str = "8",
    test: float | None = None,
    validation: float = 0.0,
    test_sources: Sequence[str] = (),
    parts_patients: bool = False,
    options: ImportOptions = _PLAIN,
    seed: int = 0,
    on_progress: OnProgress | Progress | None = None,
) -> ImportedFederation:
    """Make a federation of data sets that :func:`fedannot.apps.importing.find.find_datasets` has found.

    Args:
        datasets: what was found.
        out: the federation's folder, absent or empty.
        sites: ``8``, ``by-source``, ``2-per-source`` or ``50-by-source``.
        test: fraction of the cases for the common test set; None for the published one, or a fifth.
        validation: fraction of each site's cases for its validation.
        test_sources: sources that the common test set is drawn from; empty for all.
        parts_patients: deal cases out one by one, whatever their patient.
        options: how the data are described.
        seed: of the split.
        on_progress: is given every step.

    Raises:
        DataError: see :func:`fedannot.apps.importing.writing.write_imported_federation`.
    """
    report = write_imported_federation(
        datasets,
        out,
        replace(SiteChoice.parse(sites), test_sources=tuple(test_sources), parts_patients=parts_patients),
        options,
        test_share=test,
        validation_share=validation,
        seed=seed,
        watch=progress_of(on_progress).state,
    )
    return ImportedFederation(out, report)


def import_folders(
    images: str | Path,
    labels: str | Path,
    out: str | Path,
    *,
    label_suffix: str = "",
    sites: int | str = 8,
    test: float | None = None,
    validation: float = 0.0,
    group: str | None = None,
    size: Sequence[int] | None = None,
    channels: int | Sequence[str] | None = None,
    label_map: Mapping[int, int] | None = None,
    classes: Sequence[str] | None = None,
    annotators: str | None = None,
    seed: int = 0,
    on_progress: OnProgress | Progress | None = None,
) -> ImportedFederation:
    """Make a federation of a folder of images and one of masks, files of the same names; everything is copied.

    Args:
        images: pictures, volumes or DICOM folders.
        labels: masks with the names of their images.
        out: the federation's folder, absent or empty.
        label_suffix: what masks' names have behind, ``_segmentation``.
        sites: how many, or as text ``by-source`` and the like.
        test: fraction of the cases for the common test set; None for a fifth.
        validation: fraction of each site's cases for its validation.
        group: regular expression that finds the patient in an image's name; patients stay together.
        size: rows and columns of pictures; of volumes three extents or none.
        channels: 1 for grey, 3 for RGB, or the names of several channels; None for RGB if an image has colours.
        label_map: class of each value in the masks, ``{255: 1}``; None as found.
        classes: their names.
        annotators: ``by-suffix`` or ``by-folder`` where images have masks of several annotators, which are all kept.
        seed: of the split.
        on_progress: is given every step.

    Raises:
        DataError: if nothing usable is found, or an option does not fit.

    >>> from pathlib import Path
    >>> import numpy as np
    >>> from PIL import Image
    >>> from fedannot.apps import import_folders
    >>> for name in ("images", "masks"):
    ...     Path(name).mkdir()
    ...     for number in range(5):
    ...         pixels = np.full((32, 32), 40 * number, np.uint8) if name == "images" else np.eye(32, dtype=np.uint8)
    ...         Image.fromarray(pixels).save(f"{name}/{number}.png")
    >>> print(import_folders("images", "masks", "mine", sites=2, size=(32, 32)))
    mine: 5 cases in 3 folders, 0 left out
    """
    wanted = Named(
        images=Path(images),
        labels=Path(labels),
        label_suffix=label_suffix,
        classes=classes,
        group=group,
        seed=seed,
        annotators=annotators,
    )
    keys = {
        "size": None if size is None else tuple(size),
        "channels": channels if channels is None or isinstance(channels, int) else tuple(channels),
    }
    options = ImportOptions(
        keys={key: value for key, value in keys.items() if value is not None}, labels=label_map, classes=classes
    )
    return import_found(
        find_datasets(wanted),
        Path(out),
        sites=str(sites),
        test=test,
        validation=validation,
        options=options,
        seed=seed,
        on_progress=on_progress,
    )
