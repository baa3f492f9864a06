"""Which data sets a person names: folders, a datalist, classes in folders or in a table, or public data sets."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...transforms.errors import DataError
from ...transforms.loading.dicom_header import is_dicom
from ...transforms.loading.dicom_kind import is_structure_set
from .annotator_names import ANNOTATORS_OF_MASKS
from .channel_files import with_channels
from .class_folders import read_class_folders
from .class_tables import TableColumns, read_class_table
from .datalists import read_source_datalist
from .folders import fits, read_folders
from .layouts import DATASETS
from .source import GivenLabel, SourceCase, SourceDataset
from .structure_sets import read_structure_set, shown_names
from .volumes import dicom_patient

_PLACES = (
    "--images with --labels, or --datalist, or --dataset NAME=DIR, or --class-folders, or --classes-csv with --images"
)


@dataclass(frozen=True)
class Named:
    """What a person says of where a data set lies.

    Attributes:
        images: folder of images; goes with `labels`, or with `classes_csv`.
        labels: folder of masks.
        label_suffix: what a mask's name has behind its image's.
        image_suffix: what an image's name has that its mask's lacks.
        label_include: patterns of mask file names; empty takes all.
        datalist: in place of folders, see :func:`~fedannot.apps.importing.datalists.read_source_datalist`.
        key: as above.
        named: in place of both, ``name=folder`` of public data sets.
        class_folders: a folder with one for each class.
        classes_csv: a table of images and their classes.
        image_column: its column of images.
        class_column: of classes.
        group_column: of patients.
        source_column: of centres.
        classes: names of the classes in their order, where they are folders or stand in a table.
        include: patterns of image file names; empty takes all.
        group: regular expression whose first group, found in an image's name or else in its path below the folder, is
            its volume or patient.
        source: as above, its centre.
        seed: seed of what an importer draws, such as which of several annotators is taken.
        annotators: what names the annotators of an image's masks, ``by-suffix`` or ``by-folder``, or a table's column;
            None refuses several masks that are no parts of one annotation.
    """

    images: Path | None = None
    labels: Path | None = None
    label_suffix: str = ""
    image_suffix: str = ""
    label_include: Sequence[str] = ()
    datalist: Path | None = None
    key: str | None = None
    named: Sequence[str] = ()
    class_folders: Path | None = None
    classes_csv: Path | None = None
    image_column: str | None = None
    class_column: str | None = None
    group_column: str | None = None
    source_column: str | None = None
    classes: Sequence[str] | None = None
    include: Sequence[str] = ()
    group: str | None = None
    source: str | None = None
    seed: int = 0
    annotators: str | None = None


def find_datasets(wanted: Named) -> list[SourceDataset]:
    """Find the cases where they lie.

    Raises:
        DataError: if not exactly one place is given, an option would do nothing, or nothing usable is found.
    """
    of_folders = wanted.labels is not None or (wanted.images is not None and wanted.classes_csv is None)
    others = (wanted.datalist, wanted.class_folders, wanted.classes_csv, wanted.named or None)
    if of_folders + sum(place is not None for place in others) != 1:
        raise DataError(f"Import: expected either {_PLACES}.")
    _refuse_idle_options(wanted, of_folders=of_folders)
    return [
        _with_patients(_with_paths(_with_regions(_included(dataset, wanted.include), wanted.classes), root), wanted)
        for dataset, root in _datasets(wanted, of_folders=of_folders)
        for dataset in (with_channels(dataset),)
    ]


def _datasets(wanted: Named, *, of_folders: bool) -> list[tuple[SourceDataset, Path]]:
    """The data sets as they are found, each with the folder of its images."""
    if of_folders:
        dataset = _folders(wanted)
        assert wanted.images is not None
        return [(dataset, wanted.images)]
    if wanted.datalist is not None:
        return [(read_source_datalist(wanted.datalist, key=wanted.key), wanted.datalist.parent)]
    if wanted.class_folders is not None:
        folder = wanted.class_folders.expanduser()
        return [(read_class_folders(folder, names=wanted.classes, masks=wanted.label_include), folder)]
    if wanted.classes_csv is not None:
        folder = wanted.images if wanted.images is not None else wanted.classes_csv.parent
        return [(_table(wanted, wanted.classes_csv, folder), folder)]
    return [_named(text, wanted.seed) for text in wanted.named]


def _refuse_idle_options(wanted: Named, *, of_folders: bool) -> None:
    """Refuse options that the place does not have, rather than pass over them."""
    if wanted.key is not None and wanted.datalist is None:
        raise DataError("--key: names a list of a datalist; expected --datalist with it.")
    if wanted.label_suffix and not of_folders:
        raise DataError("--label-suffix: belongs to the names of masks; expected --images and --labels with it.")
    if wanted.image_suffix and not of_folders:
        raise DataError("--image-suffix: tells images from masks; expected --images and --labels with it.")
    if wanted.label_include and not of_folders and wanted.class_folders is None:
        raise DataError(
            "--label-include: tells masks from images; expected --images and --labels, or --class-folders, with it."
        )
    if wanted.annotators is not None and not (of_folders or wanted.classes_csv is not None):
        raise DataError(
            "--annotators: names annotators of masks or rows; expected --images and --labels, or --classes-csv, with "
            "it. A datalist names its annotators itself."
        )
    if wanted.annotators is not None and (wanted.annotators in ANNOTATORS_OF_MASKS) != of_folders:
        raise DataError(
            f"--annotators: found {wanted.annotators!r}; expected {' or '.join(ANNOTATORS_OF_MASKS)} for masks, the "
            "name of a column with --classes-csv."
        )
    columns = {
        "--image-column": wanted.image_column,
        "--class-column": wanted.class_column,
        "--group-column": wanted.group_column,
        "--source-column": wanted.source_column,
    }
    if wanted.classes_csv is None and any(columns.values()):
        given = ", ".join(name for name, column in columns.items() if column)
        raise DataError(f"{given}: names a column of a table; expected --classes-csv with it.")


def _folders(wanted: Named) -> SourceDataset:
    if wanted.images is None or wanted.labels is None:
        raise DataError(
            "Import: expected --images and --labels together. Masks beside images: name the folder twice; classes in "
            "place of masks: --class-folders or --classes-csv."
        )
    return read_folders(
        wanted.images,
        wanted.labels,
        label_suffix=wanted.label_suffix,
        image_suffix=wanted.image_suffix,
        include=wanted.include,
        label_include=wanted.label_include,
        annotators=wanted.annotators,
    )


def _table(wanted: Named, file: Path, images: Path) -> SourceDataset:
    if wanted.image_column is None or wanted.class_column is None:
        raise DataError("--classes-csv: expected --image-column and --class-column with it, names in its first row.")
    columns = TableColumns(
        wanted.image_column, wanted.class_column, wanted.group_column, wanted.source_column, wanted.annotators
    )
    return read_class_table(file, images, columns, names=wanted.classes)


def _included(dataset: SourceDataset, patterns: Sequence[str]) -> SourceDataset:
    """The cases whose image's file name fits a pattern; all without patterns."""
    if not patterns:
        return dataset
    chosen = tuple(case for case in dataset.cases if fits(case.image, patterns))
    if not chosen:
        raise DataError(f"--include: no image of {dataset.name} fits {', '.join(patterns)}.")
    return replace(dataset, cases=chosen)


def _with_regions(dataset: SourceDataset, classes: Sequence[str] | None) -> SourceDataset:
    """The data set with the classes that name the regions of its structure sets, if all its masks are such."""
    if dataset.task != "segmentation" or not dataset.volumes:
        return dataset
    files = [
        file
        for case in dataset.cases
        for label in (case.label, *(annotation.file for annotation in case.annotations))
        for file in _files(label)
    ]
    if not files or not all(map(is_structure_set, files)):
        return dataset
    if classes is None and dataset.labels is None:
        names = read_structure_set(files[0]).names
        raise DataError(
            f"{files[0]}: found the regions {shown_names(names)}; expected --classes NAME,… with those to import. "
            "Where regions overlap, the later class counts."
        )
    named = tuple(classes or dataset.classes)
    return replace(dataset, classes=named, labels={label: label for label in range(len(named) + 1)})


def _files(label: GivenLabel) -> tuple[Path, ...]:
    return label if isinstance(label, tuple) else (label,) if isinstance(label, Path) else ()


def _with_paths(dataset: SourceDataset, root: Path) -> SourceDataset:
    """The cases with the paths of their images below a folder."""
    cases = tuple(
        replace(case, path=case.image.relative_to(root).as_posix()) if case.image.is_relative_to(root) else case
        for case in dataset.cases
    )
    return replace(dataset, cases=cases)


def _with_patients(dataset: SourceDataset, wanted: Named) -> SourceDataset:
    """The cases with their patients and centres, where the data set does not name them.

    What a pattern finds comes before what DICOM says.
    """
    from_dicom: list[str] = []

    def patient(case: SourceCase) -> str | None:
        named = case.group or _searched(case, wanted.group, "--group")
        if named is None and is_dicom(case.image) and (named := dicom_patient(case.image)) is not None:
            from_dicom.append(named)
        return named

    cases = tuple(
        replace(case, group=patient(case), source=case.source or _searched(case, wanted.source, "--source"))
        for case in dataset.cases
    )
    notes = dataset.notes
    if from_dicom:
        text = f"Patients: the PatientID of {len(from_dicom)} DICOM series names {len(set(from_dicom))}."
        notes = (*notes, text)
    return replace(dataset, cases=cases, notes=notes)


def _searched(case: SourceCase, pattern: str | None, option: str) -> str | None:
    """Return what the first group of a regular expression finds in an image's name, else in its path, else None."""
    if pattern is None:
        return None
    try:
        texts = (unicodedata.normalize("NFC", text) for text in (case.image.name, case.path) if text is not None)
        match = next((match for text in texts if (match := re.search(pattern, text)) is not None), None)
        return None if match is None else match.group(1)
    except (re.error, IndexError) as error:
        raise DataError(
            f"{option}: found {pattern!r} ({error}); expected a regular expression with a group, such as '^([^_]+)_'."
        ) from error


def _named(text: str, seed: int) -> tuple[SourceDataset, Path]:
    name, separator, folder = text.partition("=")
    if not separator or name not in DATASETS:
        raise DataError(
            f"--dataset: found {text!r}, expected NAME=DIR with a name among {', '.join(sorted(DATASETS))}."
        )
    root = Path(folder).expanduser()
    return DATASETS[name].read(root, seed=seed), root
