"""Masks that come back from annotation servers: studies of MONAI Label, exports of CVAT. Both are by images' names."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ...custom.audit.findings import AuditedCase
from ...custom.data.description import ImageDescription, SegmentationDescription
from ...custom.data.masks import Mask, plain_name, read_classes
from ...transforms.errors import DataError
from ...transforms.folded_names import folded
from ...transforms.printable import printable
from ..importing.cvat import CvatImage, is_cvat_export, read_cvat
from ..importing.layouts import monailabel
from .case_files import CaseReader, sha256_of
from .edited_masks import EditedMask, FoundMask, find_edited, read_edited
from .exported_files import name_of_copy


def find_all_edited(source: Path, reader: CaseReader, *, dicom: Path | None = None) -> dict[str, FoundMask]:
    """Return edited masks by the given annotation that each stands for, whatever tool they come from.

    Args:
        source: a folder of masks, see :func:`.edited_masks.find_edited`; the studies of MONAI Label; or an export of
            CVAT.
        reader: of the audit.
        dicom: see :func:`.edited_masks.find_edited`.

    Raises:
        DataError: if the source cannot be read, has no edited mask, or one of no single case.
    """
    description = reader.description
    if not isinstance(description, SegmentationDescription):
        raise DataError(f"{source}: edited masks were given for images that have classes; expected masks.")
    if is_cvat_export(source):
        return _of_cvat(source, reader, description)
    if source.is_dir() and (source / monailabel.DATASTORE_FILE).is_file():
        return _of_monailabel(source, reader, description)
    return find_edited(source, reader, dicom=dicom)


@dataclass(frozen=True)
class _DrawnMask:
    """A mask that CVAT has drawn."""

    image: CvatImage

    def read(self, given: Path, description: SegmentationDescription) -> tuple[Mask, Mask]:
        """As :meth:`.edited_masks.EditedMask.read`."""
        before, classes = read_classes(given, description), self.image.classes(_numbers(description))
        assert classes is not None
        if classes.shape != before.classes.shape:
            raise DataError(
                f"{self.image.source}: found a mask of the shape {classes.shape}; expected that of {given}, "
                f"{before.classes.shape}."
            )
        return before, Mask(classes)


@dataclass(frozen=True)
class _FinalMask:
    """A final annotation of MONAI Label.

    Attributes:
        file: the mask.
        labels: value in it → class; None where nobody has said it, so that values are the site's own.
    """

    file: Path
    labels: Mapping[int, int] | None

    def read(self, given: Path, description: SegmentationDescription) -> tuple[Mask, Mask]:
        """As :meth:`.edited_masks.EditedMask.read`."""
        if self.labels is None:
            return read_edited(self.file, given, description)
        own = description.model_copy(update={"labels": dict(self.labels), "ignore": ()})
        return read_edited(self.file, given, description, edited=own)


def _of_cvat(source: Path, reader: CaseReader, description: SegmentationDescription) -> dict[str, FoundMask]:
    if not isinstance(description, ImageDescription):
        raise DataError(f"{source}: is an export of CVAT, which draws on pictures; the masks of this site are volumes.")
    names, numbers = _ImageNames(reader), _numbers(description)
    result: dict[str, FoundMask] = {}
    for image in read_cvat(source):
        # Nothing is drawn where nobody has looked, too.
        if image.is_annotated(numbers):
            _add(result, names.case_of(image.source, image.name), _DrawnMask(image), image.source)
    if not result:
        raise DataError(f"{source}: found no image with a polygon or mask; expected edited masks.")
    return result


def _of_monailabel(source: Path, reader: CaseReader, description: SegmentationDescription) -> dict[str, FoundMask]:
    dataset, names, numbers = monailabel.read(source, seed=0), _ImageNames(reader), _numbers(description)
    labels = None
    if dataset.labels is not None:
        by_index = {0: 0, **{index: _class_of(source, name, numbers) for index, name in enumerate(dataset.classes, 1)}}
        labels = {value: by_index[index] for value, index in dataset.labels.items()}
    result: dict[str, FoundMask] = {}
    unchanged = 0
    for item in dataset.cases:
        assert isinstance(item.label, Path)
        case = names.case_of(str(item.label), str(item.name))
        given = reader.files(case).label
        # A studies folder may have begun with the given masks.
        if isinstance(given, Path) and sha256_of(given) == sha256_of(item.label):
            unchanged += 1
            continue
        _add(result, case, _FinalMask(item.label, labels), str(item.label))
    if not result:
        raise DataError(f"{source}: found {unchanged} final annotations as they were given; expected edited ones.")
    return result


def _add(result: dict[str, FoundMask], case: AuditedCase, mask: EditedMask, source: str) -> None:
    if case.label in result:
        raise DataError(f"{source}: found a second edited mask of {case.label}; expected one.")
    result[case.label] = (case, mask)


def _numbers(description: SegmentationDescription) -> dict[str, int]:
    """The class of each name that a site annotates."""
    return {folded(description.classes[label - 1]): label for label in description.annotated_labels}


def _class_of(source: Path, name: str, numbers: Mapping[str, int]) -> int:
    if (number := numbers.get(folded(name))) is None:
        raise DataError(
            f"{source}: found the label {printable(name)!r}; expected one of {', '.join(map(repr, numbers))}."
        )
    return number


class _ImageNames:
    """Finds the case of an image by its path in the site's data, its file name, or that without its suffix."""

    def __init__(self, reader: CaseReader) -> None:
        self._cases: defaultdict[str, list[AuditedCase]] = defaultdict(list)
        for case in reader.audit.cases:
            path = PurePosixPath(name_of_copy(reader, reader.data / case.image))
            for name in {path.as_posix(), path.name, (path.parent / plain_name(Path(path))).as_posix()}:
                self._cases[name].append(case)
            self._cases[plain_name(Path(path))].append(case)

    def case_of(self, source: str, name: str) -> AuditedCase:
        """Return the case of an image.

        Args:
            source: to name in an error.
            name: as an export calls it.

        Raises:
            DataError: if no audited image has the name, or several have.
        """
        parts = PurePosixPath(name).parts
        keys = ["/".join(parts[start:]) for start in range(len(parts))]
        cases = next((self._cases[key] for key in keys if key in self._cases), [])
        if (count := len({case.label for case in cases})) != 1:
            raise DataError(f"{source}: {count} audited cases have an image {printable(name)!r}; expected one.")
        return cases[0]
