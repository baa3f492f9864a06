"""Files that cannot be used, and sites that cannot train because of it."""

from collections.abc import Iterator
from pathlib import Path

from ...custom.data.contained_paths import relative_name
from ...custom.data.datalist import TESTING, TRAINING, VALIDATION
from ...custom.data.description import SliceDescription, VolumeDescription
from ...custom.training.trained_sizes import least_samples
from .facts import SiteFacts
from .finding import Finding, Severity, plural, site_finding

# Kind of finding: data.yaml names a datalist by a path outside of its folder.
DATALIST_ELSEWHERE = "datalist-elsewhere"


def check_files(site: SiteFacts) -> Iterator[Finding]:
    """Find items and files that cannot be used; such cases are left out of training."""
    for section, items in site.refused.items():
        for item in items:
            yield Finding(
                Severity.ERROR,
                "refused-item",
                (item.name,),
                f"list {section!r}: {item.reason}",
                "Correct the item in the datalist; files must lie in the datalist's folder.",
            )
    for case in site.cases:
        yield from case.problems


def check_links(site: SiteFacts) -> Iterator[Finding]:
    """Find files with more than one name on the disk: where the others lie cannot be known from here."""
    files = dict.fromkeys(file for case in site.cases for file in case.case.files)
    linked = [relative_name(file, site.folder) for file in files if _has_other_names(file)]
    if linked:
        yield site_finding(
            Severity.WARNING,
            "hard-links",
            f"found {plural(len(linked), 'file')} with further names on the disk (hard links), which may lie outside "
            "this folder; who changes the file under one name changes it under all, and removing it here removes "
            "nothing there.",
            "If a store without duplicates or a backup made them, nothing is wrong: listed files are only read. Else "
            "give the folder copies of its own: cp -r --no-preserve=links DIR COPY.",
            files=linked,
        )


def check_datalist_place(site: SiteFacts) -> Iterator[Finding]:
    """Find a datalist outside of the site's folder: its images are those next to it."""
    datalist = Path(site.description.datalist)
    if datalist.is_absolute() and not datalist.resolve().is_relative_to(site.folder.resolve()):
        yield site_finding(
            Severity.NOTE,
            DATALIST_ELSEWHERE,
            f"data.yaml names the datalist {datalist}, outside of this folder; the images beside it are read.",
            "If you wrote data.yaml, nothing is wrong. If it came from somebody else, look whether these are the data.",
            files=["data.yaml"],
        )


def check_trained_size(site: SiteFacts) -> Iterator[Finding]:
    """Find images that are too small for the networks, or too few of a small size for a batch."""
    size = getattr(site.description, "size", None)
    # Patches of volumes reach beyond small ones.
    if site.is_test or size is None or isinstance(site.description, VolumeDescription):
        return
    shown = " × ".join(map(str, size))
    least = least_samples(tuple(size), is_classification=site.is_classification)
    if least is None:
        yield site_finding(
            Severity.ERROR,
            "too-small-images",
            f"found the size {shown} in data.yaml; a segmentation halves images four times and expects 16 pixels or "
            "more along every axis.",
            "Give a larger 'size' in data.yaml; images are resized or padded to it.",
            files=["data.yaml"],
            blocks_training=True,
        )
        return
    usable = sum(case.is_usable for case in site.section(TRAINING))
    if 0 < usable < least and not isinstance(site.description, SliceDescription):
        yield site_finding(
            Severity.ERROR,
            "too-few-small-images",
            f"found {plural(usable, 'usable training image')} of {shown} pixels; the network shrinks each to a single "
            "pixel, and its normalisation needs two.",
            "Add cases, or give a larger 'size' in data.yaml: 33 pixels along one axis are enough.",
            files=["data.yaml"],
            blocks_training=True,
        )


def _has_other_names(file: Path) -> bool:
    try:
        return file.stat().st_nlink > 1
    except OSError:
        return False


def check_trainable(site: SiteFacts) -> Iterator[Finding]:
    """Find lists that a run needs and that have no usable case, or nothing annotated to learn from."""
    needed = TESTING if site.is_test else TRAINING
    for section in (TRAINING, VALIDATION, TESTING):
        listed = len(site.section(section)) + len(site.refused.get(section, []))
        usable = sum(case.is_usable for case in site.section(section))
        if not usable and (listed or section == needed):
            result = (
                f"found {plural(usable, 'usable case')} of {listed} in the list {section!r}; expected at least one."
            )
            remedy = "Mend the errors below." if listed else f"Add cases to the list {section!r} of the datalist."
            yield site_finding(Severity.ERROR, "no-usable-case", result, remedy, blocks_training=section == needed)
    annotated = site.annotations(needed)
    if site.is_classification or not annotated:
        return
    if not any(facts.areas and facts.share_kept for _, facts in annotated):
        yield site_finding(
            Severity.WARNING if site.is_test else Severity.ERROR,
            "nothing-annotated",
            f"found no foreground in any of {plural(len(annotated), 'usable case')} of the list {needed!r}, as it is "
            "loaded; a segmentation cannot be learnt from that.",
            "Check that the masks were exported with their objects, that 'labels' in data.yaml names their values, and "
            "for volumes that 'size' and 'crop' do not cut them off.",
            blocks_training=not site.is_test,
        )
