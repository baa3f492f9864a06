"""Files of imported cases, copied into the folders of their sites with what describes them."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ...custom.data.annotations import UNDECIDED, annotator_folder
from ...custom.data.datalist import TESTING, Case, write_datalist
from ...custom.data.description import (
    SiteDescription,
    write_site_description,
)
from ...custom.data.federation import TEST_FOLDER
from ...custom.data.manifest import Manifest, write_manifest
from ...custom.data.noise.federation_copy import ANNOTATIONS
from ...custom.data.watch import Watch, watched
from ...custom.data.whole_files import private_file, private_folder
from ...transforms.loading.image_channels import reference_file
from .channel_files import channel_name
from .checked import CheckedCase
from .plan import Plan


def copy_cases(
    folder: Path,
    description: SiteDescription,
    cases: Sequence[CheckedCase],
    plan: Plan,
    seed: int,
    watch: Watch | None,
) -> None:
    """Copy cases into the folders of their sites and of the test set, and describe each folder.

    Args:
        folder: the federation's.
        description: of the sites' data.
        cases: all cases; a plan has their positions.
        plan: which case is where.
        seed: of the split.
        watch: learns how far it is.
    """
    for site, sections in watched(list(plan.sites.items()), "Copying the sites' cases", watch):
        copied = {
            section: [_copied(cases[index], folder / site) for index in positions]
            for section, positions in sections.items()
        }
        _describe(folder / site, description, copied, seed)
    if plan.test:
        clean = [_copied(_clean(cases[index]), folder / TEST_FOLDER) for index in plan.test]
        _describe(folder / TEST_FOLDER, description, {TESTING: clean}, seed)


def _clean(case: CheckedCase) -> CheckedCase:
    """The case with its clean label as the label, where it is known."""
    return case if case.clean_label is None else replace(case, label=case.clean_label, clean_label=None, annotations=())


def _describe(folder: Path, description: SiteDescription, sections: Mapping[str, Sequence[Case]], seed: int) -> None:
    write_datalist(folder / description.datalist, sections)
    write_site_description(folder, description)
    write_manifest(folder, Manifest(made="import", seed=seed))


def _copied(case: CheckedCase, folder: Path) -> Case:
    def copy(file: Path | int, kind: str) -> Path | int:
        if isinstance(file, int):
            return file
        return _copy(file, folder / kind, case.name)

    channels = tuple(
        None if file is None else _copy(file, folder / "images", channel_name(case.name, number))
        for number, file in enumerate(case.channels)
    )
    # One annotation needs no rule, and is the label.
    single = case.annotations[0] if len(case.annotations) == 1 and case.label == UNDECIDED else None
    annotations = tuple(
        replace(one, file=copy(one.file, f"{ANNOTATIONS}/{annotator_folder(one.annotator)}"))
        for one in case.annotations
        if single is None
    )
    return Case(
        image=reference_file(channels) if channels else _copy(case.image, folder / "images", case.name),
        label=copy(case.label if single is None else single.file, "labels"),
        clean_label=None if case.clean_label is None else copy(case.clean_label, "clean_labels"),
        group=case.source.group,
        source=case.source.source,
        annotator=None if single is None else single.annotator,
        channels=channels,
        annotations=annotations,
    )


def _copy(file: Path, folder: Path, name: str) -> Path:
    suffix = ".nii.gz" if file.name.lower().endswith(".nii.gz") else file.suffix
    private_folder(folder)
    return Path(shutil.copyfile(file, private_file(folder / f"{name}{suffix}")))
