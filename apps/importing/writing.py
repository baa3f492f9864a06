"""A data set where it lies becomes a federation: checked, converted where need be, split into sites, copied."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ...custom.data.description import (
    ClassificationDescription,
    SiteDescription,
)
from ...custom.data.federation import FederationDescription, write_federation
from ...custom.data.watch import Watch, watched
from ...custom.data.whole_files import new_folder, private_file, write_text
from ...custom.data.yaml_file import validated
from ...transforms.errors import DataError, MissingFileError
from ...transforms.ignored_label import IGNORED_LABEL
from .case_groups import CaseTraits
from .case_names import case_names
from .checked import CheckedCase, checked_case
from .contour_masks import check_classes_are_drawn
from .copying import copy_cases
from .cut import check_cut
from .label_values import grey_values, label_map, with_known_values
from .mask_notes import (
    drawn_contours,
    full_masks,
    ignored_pixels,
    kept_offsets,
    resampled_masks,
    rounded_masks,
    segments_by_names,
    segments_of_several_values,
    several_masks,
    trusted_voxels,
    turned_masks,
)
from .notes import (
    IMPORT_FILE,
    ImportReport,
    absent_from_test,
    colours,
    header_remarks,
    identical_images,
    likely_patients_parted,
    missing_channels,
    moved_to_test,
    patients_parted,
    turned_pictures,
)
from .options import ImportOptions, described, ignored_values
from .plan import Plan, SiteChoice, make_plan
from .reading import Reading
from .several_readers import SeveralReadersError
from .source import LeftOut, SourceDataset


def write_imported_federation(
    datasets: Sequence[SourceDataset],
    out: Path,
    choice: SiteChoice,
    options: ImportOptions | None = None,
    *,
    test_share: float | None = None,
    validation_share: float = 0.0,
    seed: int = 0,
    watch: Watch | None = None,
) -> ImportReport:
    """Write data sets of one kind as a new federation.

    Files are copied as they are, but volumes that are no NIfTI become NIfTI, and masks of several files one PNG.
    Sizes and label values are only described in each site's ``data.yaml``. A case of the test set gets its clean label
    where it is known.

    Args:
        datasets: what was found.
        out: the federation's folder, absent or empty; it appears when everything is written.
        choice: how the cases are split into sites.
        options: how the sites' data are described; None as the data set says.
        test_share: see :func:`~fedannot.apps.importing.plan.make_plan`.
        validation_share: as above.
        seed: seed of the split.
        watch: learns how far it is.

    Raises:
        DataError: if the data sets differ in kind, there are too few usable cases, the label values do not explain
            themselves, the pipeline's crop would cut off more than is allowed, or an argument is out of range.
    """
    dataset, options = _together(datasets), options or ImportOptions()
    # Wrong options are reported before many files are read.
    known = described(dataset, options, {0: 0} | dict(options.asked or dataset.labels or {1: 1}))
    with new_folder(out) as folder:
        staging = folder / ".converted"
        cases = _usable_cases(dataset, options, known, staging, watch)
        plan = _planned(cases, choice, test_share=test_share, validation_share=validation_share, seed=seed)
        copy_cases(folder, cases.description, cases.checked, plan, seed, watch)
        stratified = ", by class" if choice.by_content else ""
        stratified += ", patients parted" if choice.parts_patients else ""
        made = f"import of {dataset.name}, split at random{stratified}, seed {seed}"
        values: dict[str, Any] = {"name": out.resolve().name, "task": dataset.task, "sites": tuple(plan.sites)}
        values |= {"made": made, "patients_parted": choice.parts_patients or None}
        write_federation(folder, validated(values, FederationDescription, "Import"))
        shutil.rmtree(staging, ignore_errors=True)
        notes = _notes(cases, options, plan, parts_patients=choice.parts_patients)
        left_out, count = tuple(cases.excluded), len(cases.checked)
        report = ImportReport(dataset.skipped, left_out, cases.labels, notes, num_cases=count)
        write_text(private_file(folder / IMPORT_FILE), json.dumps(report.plain(), indent=1) + "\n")
    return report


@dataclass(frozen=True)
class _UsableCases:
    """The cases that can be used, and how they are read.

    Attributes:
        dataset: with the channels that its images need.
        checked: the cases.
        excluded: cases that cannot be used.
        labels: value in a mask → class; empty for classification.
        ignore: values in a mask of pixels that count nowhere.
        description: of the sites' data.
        cut: what the pipeline's crop cuts off, in words; None if it is nothing.
        has_chosen_channels: whether a person or the data set's layout chose the channels.
    """

    dataset: SourceDataset
    checked: Sequence[CheckedCase]
    excluded: Sequence[LeftOut]
    labels: dict[int, int]
    ignore: tuple[int, ...]
    description: SiteDescription
    cut: str | None
    has_chosen_channels: bool

    @property
    def meaning(self) -> dict[int, int]:
        """Value in a mask → class, or the label of pixels that count nowhere."""
        return self.labels | dict.fromkeys(self.ignore, IGNORED_LABEL)

    @cached_property
    def traits(self) -> list[CaseTraits]:
        """What each case shows."""
        return [CaseTraits(case.digest, _classes_in(case, self.meaning)) for case in self.checked]


def _usable_cases(
    dataset: SourceDataset, options: ImportOptions, known: SiteDescription, staging: Path, watch: Watch | None
) -> _UsableCases:
    """Read all cases, and understand what the values of their masks mean."""
    channels = options.channels or dataset.channels
    of_pictures = channels if isinstance(channels, int) else None
    unites = options.unite_masks or dataset.unites_masks
    reading = Reading(
        known, of_pictures, options.colours, options.trust_voxels, unites, round_labels=options.round_labels
    )
    checked, excluded = _check(dataset, staging, reading, watch)
    if all(case.contours for case in checked):
        check_classes_are_drawn([facts for case in checked for facts in case.contours])
    if channels is None:
        dataset = replace(dataset, channels=3 if any(case.has_colours for case in checked) else 1)
    ignore = ignored_values(dataset, options)
    labels = label_map(dataset, checked, options.asked, ignore)
    description = described(dataset, options, labels)
    meaning = labels | dict.fromkeys(ignore, IGNORED_LABEL)
    if labels:
        checked = with_known_values(checked, meaning, excluded)
    cut = check_cut(checked, meaning, description, options.allowed_cut)
    return _UsableCases(dataset, checked, excluded, labels, ignore, description, cut, channels is not None)


def _planned(
    cases: _UsableCases, choice: SiteChoice, *, test_share: float | None, validation_share: float, seed: int
) -> Plan:
    """Split the cases; an error names the first one that could not be used."""
    try:
        return make_plan(
            [case.source for case in cases.checked],
            choice,
            test_share=test_share,
            validation_share=validation_share,
            seed=seed,
            traits=cases.traits,
        )
    except DataError as error:
        first = f" First case left out: {cases.excluded[0]}" if cases.excluded else ""
        raise DataError(f"{error}{first}") from error


def _notes(cases: _UsableCases, options: ImportOptions, plan: Plan, *, parts_patients: bool) -> tuple[str, ...]:
    """What a person has to know of the cases and of the split, in sentences."""
    checked, labels = cases.checked, cases.meaning
    chosen = cases.description.in_channels if cases.has_chosen_channels else None
    notes = (
        *cases.dataset.notes,
        trusted_voxels(checked),
        turned_masks(checked),
        resampled_masks(checked),
        kept_offsets(checked),
        drawn_contours(checked),
        segments_by_names(checked),
        segments_of_several_values(checked),
        header_remarks(checked),
        rounded_masks(checked),
        several_masks(checked),
        grey_values(checked, labels) if options.has_ranges else None,
        cases.cut,
        None if cases.dataset.volumes or cases.description.channel_names else colours(checked, chosen),
        missing_channels(checked, cases.description.image_channels),
        turned_pictures(checked),
        full_masks(checked, labels),
        ignored_pixels(checked, cases.ignore),
        identical_images(checked),
        patients_parted(checked, plan) if parts_patients else likely_patients_parted(checked, plan),
        moved_to_test(checked, plan),
        _absent(cases.description, cases.traits, plan),
    )
    return tuple(filter(None, notes))


def _classes_in(case: CheckedCase, labels: Mapping[int, int]) -> frozenset[int]:
    """The class of a picture, or the foreground classes of a mask; value in the mask → class."""
    classes = [annotation.file for annotation in case.annotations] or [case.label]
    if all(isinstance(label, int) for label in classes):
        return frozenset(label for label in classes if isinstance(label, int))
    return frozenset(labels[value] for value in case.counts) - {0, IGNORED_LABEL}


def _absent(description: SiteDescription, traits: Sequence[CaseTraits], plan: Plan) -> str | None:
    """Which classes the test set lacks, if there is one."""
    if not plan.test:
        return None
    first = 0 if isinstance(description, ClassificationDescription) else 1
    in_test: set[int] = set().union(*(traits[index].classes for index in plan.test))
    everywhere: set[int] = set().union(*(case.classes for case in traits))
    return absent_from_test(dict(enumerate(description.classes, start=first)), in_test, everywhere)


def _together(datasets: Sequence[SourceDataset]) -> SourceDataset:
    """Several data sets of one kind as one."""
    first, *others = datasets
    for other in others:
        kinds = [
            (part.task, part.volumes, part.classes, part.labels, part.channels, part.ignore) for part in (first, other)
        ]
        if kinds[0] != kinds[1]:
            raise DataError(
                f"Import: found {first.name} and {other.name}, which differ in task, kind, classes, label values or "
                "channels; expected data sets that can be trained on together."
            )
    return replace(
        first,
        name=", ".join(part.name for part in datasets),
        cases=tuple(
            case if len(datasets) == 1 else replace(case, source=case.source or part.name)
            for part in datasets
            for case in part.cases
        ),
        skipped=tuple(entry for part in datasets for entry in part.skipped),
        notes=tuple(note for part in datasets for note in part.notes),
        unites_masks=all(part.unites_masks for part in datasets),
    )


def _check(
    dataset: SourceDataset, staging: Path, reading: Reading, watch: Watch | None
) -> tuple[list[CheckedCase], list[LeftOut]]:
    """The cases that can be read and fit each other; and why the others cannot."""
    names = case_names(dataset.cases)
    checked: list[CheckedCase] = []
    excluded: list[LeftOut] = []
    named = list(zip(dataset.cases, names, strict=True))
    for case, name in watched(named, "Reading the cases", watch):
        try:
            checked.append(checked_case(replace(case, name=name), dataset, staging, reading))
        except SeveralReadersError:
            # Whose mask is taken is decided for all images at once, and by a person.
            raise
        except DataError as error:
            excluded.append(LeftOut(case.path or case.image.name, _reason(error), str(error)))
    if not checked:
        first = f" First reason: {excluded[0]}" if excluded else ""
        raise DataError(f"Import of {dataset.name}: found no usable case among {len(dataset.cases)}.{first}")
    return checked, excluded


def _reason(error: DataError) -> str:
    if isinstance(error, MissingFileError):
        return "a file is missing"
    return "a file cannot be read, or mask and image do not fit"
