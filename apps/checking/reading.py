"""Reading a site's cases through the readers of training: what cannot be used here is what training leaves out."""

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from ...custom.data.contained_paths import relative_name
from ...custom.data.datalist import Case, read_datalist
from ...custom.data.description import (
    AnyDescription,
    ClassificationDescription,
    ImageDescription,
    SliceDescription,
    VolumeDescription,
    read_site_description,
)
from ...custom.data.masks import without_ignored
from ...custom.data.watch import Watch, watched
from ...transforms.array_types import Classes
from ...transforms.errors import DataError, MissingFileError
from ...transforms.loading.image_files import Picture, check_same_size, map_mask, read_mask, read_picture
from ...transforms.loading.picture_channels import read_picture_channels
from ...transforms.loading.volume_channels import read_image_volume
from ...transforms.loading.volume_files import Volume, as_image_lies, read_label_volume
from ...transforms.loading.volume_geometry import Contradiction
from .crop import share_kept
from .facts import AnnotationFacts, CaseFacts, ImageFacts, SiteFacts
from .finding import Finding, Severity
from .measured_facts import annotation_facts, picture_facts, volume_facts

Result = TypeVar("Result")

_MAX_THREADS = 4

MISSING, IMAGE, MASK, GEOMETRY, VALUES, CLASS = (
    "missing-file",
    "unreadable-image",
    "unreadable-mask",
    "geometry",
    "label-values",
    "class-index",
)
HEADER, TURNED = "header-geometry", "turned-mask"
# By the key of a label that is not trained on: how its problems are called, and what follows until one is mended.
_CONSEQUENCES = {
    "clean_label": ("clean", "Until then the clean labels of this list are not used at all."),
    "given_label": ("given", "Until then this case does not say how the site annotates."),
}
# What to do where the reader's own text gives no advice.
_MENDING = {
    MISSING: "Put the file there, or take the case out of the datalist.",
    IMAGE: "Copy or export the image again, or take the case out of the datalist.",
    MASK: "Export the mask again, or take the case out of the datalist.",
    GEOMETRY: "Export the mask again from its image; check that it belongs to this image.",
    VALUES: "Correct 'labels' in data.yaml, or the mask.",
    CLASS: "Correct the label in the datalist, or 'classes' in data.yaml.",
}


def read_site(folder: Path, site: str, *, is_test: bool = False, watch: Watch | None = None) -> SiteFacts:
    """Read all cases of a site once, a few at a time; no file that is wrong stops it.

    Args:
        folder: the site's folder.
        site: its name.
        is_test: whether it is the common test set.
        watch: learns how many cases are read.

    Raises:
        DataError: if the description or the datalist cannot be used.
    """
    description = read_site_description(folder)
    datalist = read_datalist(folder / description.datalist)
    reader = CaseReader(folder, description)
    listed = [(section, case) for section, cases in datalist.cases.items() for case in cases]
    with ThreadPoolExecutor(min(_MAX_THREADS, os.cpu_count() or 1)) as pool:
        reading = [pool.submit(reader, *entry) for entry in listed]
        cases = tuple(item.result() for item in watched(reading, f"Reading {site}", watch))
    return SiteFacts(site, folder, is_test, description, cases, datalist.refused)


class CaseReader:
    """Reads cases and keeps what a check needs of them.

    Args:
        folder: the site's folder, to which names are relative.
        description: the site's description.
    """

    def __init__(self, folder: Path, description: AnyDescription) -> None:
        self._folder = folder
        self._description = description

    def __call__(self, section: str, case: Case) -> CaseFacts:
        """Read a case; what is wrong with it becomes its problems."""
        problems: list[Finding] = []
        if isinstance(self._description, ClassificationDescription):
            image, annotation = self._classified(case, problems)
        elif isinstance(self._description, ImageDescription):
            image, annotation = self._picture(case, self._description, problems)
        else:
            image, annotation = self._volume(case, self._description, problems)
        label = self._name(case.label) if isinstance(case.label, Path) else None
        return CaseFacts(section, case, self._name(case.image), label, image, annotation, tuple(problems))

    def _classified(self, case: Case, problems: list[Finding]) -> tuple[ImageFacts | None, AnnotationFacts | None]:
        assert isinstance(self._description, ClassificationDescription)
        picture = self._read(case, problems)
        allowed = range(len(self._description.classes))
        for value, key in (*((value, key) for key, value in _labels(case)), (case.clean_label, "clean_label")):
            if value is not None and (not isinstance(value, int) or value not in allowed):
                which = "class" if key == "label" else "clean class"
                result = f"found the {which} {str(value)!r}; expected a whole number from 0 to {allowed[-1]}."
                problems.append(_finding(CLASS, self._name(case.image), result, _MENDING[CLASS], key))
        annotation = None
        if not case.is_undecided and isinstance(case.label, int) and case.label in allowed:
            annotation = AnnotationFacts({case.label: 1}, str(case.label))
        return None if picture is None else picture_facts(picture), annotation

    def _picture(
        self, case: Case, description: ImageDescription, problems: list[Finding]
    ) -> tuple[ImageFacts | None, AnnotationFacts | None]:
        picture = self._read(case, problems)

        def read(file: Path, attempt: "_Attempt") -> Classes | None:
            values = attempt(MASK, lambda: read_mask(file))
            if values is None:
                return None
            if picture is not None:
                shape = picture.intensities.shape[1:]
                attempt(GEOMETRY, lambda: check_same_size(file, values.shape, shape))
            return attempt(VALUES, lambda: map_mask(values, description.labels_of_values, file))

        classes = self._masks(case, read, problems)
        image = None if picture is None else picture_facts(picture)
        return image, None if classes is None else annotation_facts(classes)

    def _volume(
        self, case: Case, description: SliceDescription | VolumeDescription, problems: list[Finding]
    ) -> tuple[ImageFacts | None, AnnotationFacts | None]:
        channels = description.image_channels
        read_image = self._image_attempt(case, problems)
        image = read_image(IMAGE, lambda: read_image_volume(case.image_files, channels))
        for own, read_one in () if image is None else image.read:
            _note_header(self._name(own), read_one, problems)
        volume = None if image is None else image.first

        def read(file: Path, attempt: "_Attempt") -> Classes | None:
            mask = attempt(MASK, lambda: read_label_volume(file))
            if mask is None:
                return None
            _note_header(self._name(file), mask, problems)
            placed = None if volume is None else attempt(GEOMETRY, lambda: as_image_lies(file, mask, volume))
            if placed is not None and placed is not mask:
                problems.append(_turned(self._name(file), mask, placed))
            voxels = (placed or mask).voxels
            return attempt(VALUES, lambda: map_mask(voxels, description.labels_of_values, file))

        classes = self._masks(case, read, problems)
        annotation = None
        if classes is not None:
            fits = volume is not None and volume.voxels.shape == classes.shape
            kept = share_kept(without_ignored(classes), volume, description) if fits and volume is not None else 1.0
            annotation = annotation_facts(classes, kept)
        return None if image is None else volume_facts(image), annotation

    def _read(self, case: Case, problems: list[Finding]) -> Picture | None:
        files, channels = case.image_files, self._description.picture_channels

        def read() -> Picture:
            if isinstance(files, Path) and isinstance(channels, int):
                return read_picture(files, channels)
            parts = read_picture_channels(files, channels)
            return replace(read_picture(case.image, 1), intensities=np.concatenate(parts))

        return self._image_attempt(case, problems)(IMAGE, read)

    def _image_attempt(self, case: Case, problems: list[Finding]) -> "_Attempt":
        """An attempt to read an image, whose problem names the file of the channel that it is about."""
        others = {file: self._name(file) for file in case.channels if file is not None and file != case.image}
        return _Attempt(case.image, self._name(case.image), problems, others=others)

    def _masks(
        self,
        case: Case,
        read: Callable[[Path, "_Attempt"], Classes | None],
        problems: list[Finding],
    ) -> Classes | None:
        """Read the label and, only to see whether they can be used, its other versions; return the label's classes.

        Of several annotations and no label there is none that facts could be of; each of their files is read.
        """
        classes = None
        for key, value in (*_labels(case), *_other_versions(case)):
            if isinstance(value, Path):
                result = read(value, _Attempt(value, self._name(value), problems, key))
                classes = result if value == case.label else classes
            else:
                found = f"found {key!r} = {value} in the datalist; expected the path of a mask."
                remedy = "Name the mask in the datalist; for whole images with a class set pipeline: classification."
                problems.append(_finding(MASK, self._name(case.image), found, remedy, key))
        return classes

    def _name(self, file: Path) -> str:
        return Path(relative_name(file, self._folder)).as_posix()


class _Attempt:
    """Does what may go wrong with a file; an error becomes a problem."""

    def __init__(
        self,
        file: Path,
        name: str,
        problems: list[Finding],
        key: str = "label",
        others: Mapping[Path, str] | None = None,
    ) -> None:
        self._files = {file: name} | dict(others or {})
        self._file = file
        self._problems = problems
        self._key = key

    def __call__(self, kind: str, action: Callable[[], Result]) -> Result | None:
        try:
            return action()
        except (DataError, OSError) as error:
            # The longest path that fits: one may begin as another.
            fitting = [file for file in self._files if str(error).startswith(f"{file}: ")]
            named = max(fitting, key=lambda file: len(str(file)), default=self._file)
            text = str(error).removeprefix(f"{named}: ")
            kind = MISSING if isinstance(error, MissingFileError) else kind
        # The readers say what was found and expected first, what to do after it.
        result, _, advice = text.partition(". ")
        name = self._files[named]
        self._problems.append(_finding(kind, name, result.rstrip(".") + ".", advice or _MENDING[kind], self._key))
        return None


def _note_header(name: str, volume: Volume, problems: list[Finding]) -> None:
    """Say what of a header counts that contradicts itself, or is not in millimetres."""
    placement = volume.placement
    if placement is None or placement.remark is None:
        return
    severity = Severity.WARNING
    remedy = "Compare the voxel size with the scanner's, and correct the header if it is wrong."
    if placement.contradiction is None:
        severity, remedy = Severity.NOTE, "Nothing to do if the unit is right."
    elif placement.contradiction is Contradiction.NO_ORIENTATION:
        severity, remedy = Severity.NOTE, "Look at the contact sheet: nothing says which side is the patient's left."
    problems.append(Finding(severity, HEADER, (name,), placement.remark, remedy))


def _turned(name: str, mask: Volume, image: Volume) -> Finding:
    result = f"found a mask stored as {mask.orientation}, its image as {image.orientation}, at the same place."
    return Finding(Severity.NOTE, TURNED, (name,), result, "Nothing to do: it is turned to its image.")


def _labels(case: Case) -> Iterator[tuple[str, Path | int]]:
    """The label, unless a rule has to make it, and the annotations of several annotators."""
    if not case.is_undecided:
        yield "label", case.label
    for annotation in case.annotations:
        if case.is_undecided or annotation.file != case.label:
            yield "label", annotation.file


def _other_versions(case: Case) -> Iterator[tuple[str, Path | int]]:
    """The annotations of a case besides that in use, by their keys; one that a review has kept is the same file."""
    if case.clean_label is not None:
        yield "clean_label", case.clean_label
    if case.given_label is not None and case.given_label != case.label:
        yield "given_label", case.given_label


def _finding(kind: str, file: str, found: str, remedy: str, key: str) -> Finding:
    """What is wrong with a file that keeps its case from training, or else with another version of its label alone."""
    if key == "label":
        return Finding(Severity.ERROR, kind, (file,), found, remedy)
    prefix, consequence = _CONSEQUENCES[key]
    return Finding(Severity.WARNING, f"{prefix}-{kind}", (file,), found, f"{remedy} {consequence}")
