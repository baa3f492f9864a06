"""Suggested annotations in the geometry of the given files, which may be larger than what the network sees."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from ...custom.audit.findings import AuditedCase
from ...custom.data.description import SegmentationDescription
from ...custom.data.masks import Mask, plain_name, read_classes, write_changed
from ...custom.data.preparation import build_restoration
from ...custom.data.whole_files import private_folder
from ...transforms.array_types import Classes
from ...transforms.coarse_change import completed_change
from ...transforms.errors import DataError
from .case_files import CaseReader, merged


class SuggestedFiles:
    """Writes suggestions as annotations of a site.

    Args:
        reader: of an audit of annotations that are masks.
        description: the site's.
    """

    def __init__(self, reader: CaseReader, description: SegmentationDescription) -> None:
        self._reader, self._description = reader, description

    def classes(self, case: AuditedCase, names: Sequence[str]) -> tuple[Mask, Classes]:
        """Return a given annotation as it lies in its file, and the same with suggestions in it.

        What no suggestion changes keeps every pixel of the file, however much larger that is than what the network
        sees.

        Args:
            case: which case.
            names: ids of the findings whose suggestions count, where two differ the earlier one.

        Raises:
            DataError: if a file cannot be read, or a finding has no suggestion.
        """
        files, read = self._reader.files(case), self._reader.read(case)
        assert isinstance(files.label, Path)
        if missing := [name for name in names if name not in read.suggestions]:
            raise DataError(f"{self._reader.folder / case.arrays}: found no suggestion for {', '.join(missing)}.")
        given = read_classes(files.label, self._description)
        return given, self.in_file(case, read.given, merged(read.given, read.suggestions, list(names)), given)

    def in_file(self, case: AuditedCase, given: Classes, suggested: Classes, mask: Mask) -> Classes:
        """Return a suggested annotation with the shape of its file; what it does not change is as in the file.

        Nothing remains of an object that goes, see :func:`~fedannot.transforms.coarse_change.completed_change`.

        Args:
            case: which case.
            given: the given annotation in the network's image.
            suggested: the suggested one there.
            mask: the given one in its file.

        Raises:
            DataError: if a file cannot be read, or they do not fit together.
        """
        files = self._reader.files(case)
        assert isinstance(files.label, Path)
        changed = torch.from_numpy((suggested != given).astype(np.uint8))
        restore = build_restoration(self._description, mask.classes.shape)
        try:
            place = restore(files.image, files.label, changed) != 0
            seen, restored = (restore(files.image, files.label, torch.from_numpy(own)) for own in (given, suggested))
        except ValueError as error:
            raise DataError(f"{case.label}: its suggestions do not fit it: {error}") from error
        if place.shape != mask.classes.shape:
            raise DataError(
                f"{case.label}: found the shape {mask.classes.shape}; expected that of its image, {place.shape}."
            )
        return completed_change(mask.classes, seen, restored, place)

    def write(self, target: Path, case: AuditedCase, names: Sequence[str]) -> tuple[Path, int]:
        """Write an annotation with suggestions in it, with the geometry and the label values of the given file.

        Args:
            target: the file without suffix.
            case: which case.
            names: as for :meth:`classes`.

        Returns:
            The file, and how many pixels or voxels have another class.

        Raises:
            DataError: as :meth:`classes`, or if a label value is none that a PNG can hold.
        """
        given, classes = self.classes(case, names)
        label = self._reader.files(case).label
        assert isinstance(label, Path)
        changed = int(np.count_nonzero(classes != given.classes))
        return write_changed(target, label, classes, self._description), changed


def target_of(folder: Path, position: int, case: AuditedCase) -> Path:
    """Return where a case's new annotation is written, without suffix; numbered, as given names may repeat."""
    private_folder(folder)
    return folder / f"{position + 1:04d}_{plain_name(Path(case.label))}"
