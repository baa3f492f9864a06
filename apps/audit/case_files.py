"""The files and arrays of audited cases, as the audit saw them."""

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ...custom.audit.case_arrays import CaseArrays, read_case_arrays
from ...custom.audit.findings import AuditedCase, Finding
from ...custom.data.contained_paths import ContainedPaths, relative_name
from ...custom.data.datalist import Case, read_datalist
from ...custom.data.description import AnyDescription, ClassificationDescription, read_site_description
from ...custom.data.preparation import IMAGE, LABEL, Preparation, build_preparation
from ...custom.data.regular_files import open_regular_file
from ...transforms.array_types import Classes, SingleFloats
from ...transforms.errors import DataError
from .found import FoundAudit


@dataclass(frozen=True)
class ReadCase:
    """What is known of a case, in the network's image.

    Attributes:
        image: float32 ``(S, C, H, W[, D])``.
        given: the given annotation, uint8 ``(S, H, W[, D])``; ``(S,)`` of a classification.
        prediction: of the same shape, None where the audit has kept none.
        suggestions: by id of a finding the whole annotation with what is suggested, of the same shape.
        spacing: size of a pixel along the spatial axes in millimetres; None in pixels.
    """

    image: SingleFloats
    given: Classes
    prediction: Classes | None
    suggestions: Mapping[str, Classes]
    spacing: tuple[float, ...] | None


class CaseReader:
    """Reads the cases of an audit from the site's data; only files that the site's datalist names are opened.

    Args:
        found: the audit.

    Raises:
        DataError: if the site's description or its datalist cannot be read.
    """

    def __init__(self, found: FoundAudit) -> None:
        self.audit, self.folder = found.audit, found.folder
        self.data = Path(self.audit.data)
        try:
            self.description: AnyDescription = read_site_description(self.data)
            datalist = read_datalist(self.datalist)
        except DataError as error:
            raise DataError(f"Site {self.audit.site}: {error}") from error
        self._cases: dict[tuple[str, str], Case] = {}
        for cases in datalist.cases.values():
            for case in cases:
                self._cases.setdefault((relative_name(case.image, self.data), self._label_of(case)), case)
        self._arrays = ContainedPaths(self.folder)

    @property
    def datalist(self) -> Path:
        """The site's datalist."""
        return self.data / self.description.datalist

    @cached_property
    def _preparation(self) -> Preparation:
        return build_preparation(self.description)

    def files(self, case: AuditedCase) -> Case:
        """Return the files of a case.

        Raises:
            DataError: if the site's datalist no longer has the image with this annotation.
        """
        result = self._cases.get((case.image, case.label))
        if result is None:
            raise DataError(
                f"{self.datalist}: found no case with the image {case.image!r} and the annotation {case.label!r}; "
                "expected it as the audit saw it. Audit again where the datalist has changed."
            )
        return result

    def shown(self, case: AuditedCase) -> str:
        """Return the hash of what is shown as the annotation: of its file, or of the name of the class.

        Raises:
            DataError: as :meth:`files`, or if the file cannot be read.
        """
        label = self.files(case).label
        if isinstance(label, int):
            return hashlib.sha256(case.label.encode()).hexdigest()
        return sha256_of(label)

    def version_of_files(self, case: AuditedCase) -> str:
        """Return what changes when any file of a case is written again.

        Raises:
            DataError: as :meth:`files`, or if a file is missing, or no regular file; none is opened.
        """
        files = self.files(case)
        try:
            known = {file: file.stat() for file in files.files if file != files.clean_label}
        except OSError as error:
            raise DataError(f"{error.filename}: found no such file; expected a file of the site's datalist.") from error
        for file, own in known.items():
            if not stat.S_ISREG(own.st_mode):
                raise DataError(f"{file}: found a folder, pipe or device; expected a file of the site's datalist.")
        return hashlib.sha256(repr([(own.st_size, own.st_mtime_ns) for own in known.values()]).encode()).hexdigest()[
            :16
        ]

    def read(self, case: AuditedCase) -> ReadCase:
        """Read a case as the network sees it.

        Raises:
            DataError: if a file is missing or cannot be used, or the arrays are those of another image.
        """
        # Known clean annotations are for evaluation; that one cannot be read matters to nobody here.
        prepared = self._preparation(replace(self.files(case), clean_label=None))
        given = prepared.tensors[LABEL].numpy()
        arrays = self.arrays(case)
        suggestions: dict[str, Classes] = {}
        if arrays is not None:
            if arrays.prediction.shape != given.shape:
                raise DataError(
                    f"{case.image}: its audited prediction has the shape {arrays.prediction.shape}, its annotation "
                    f"{given.shape}; expected the same. Audit again where files or data.yaml have changed."
                )
            for finding in case.findings:
                if finding.id in arrays.suggestions:
                    suggestions[finding.id] = with_suggestion(given, arrays.suggestions[finding.id], finding, case)
        return ReadCase(
            prepared.tensors[IMAGE].numpy(),
            given,
            None if arrays is None else arrays.prediction,
            suggestions,
            prepared.spacing,
        )

    def arrays(self, case: AuditedCase) -> CaseArrays | None:
        """Return what the audit has kept of a case; None where it kept nothing.

        Raises:
            DataError: if the file is missing, damaged or none of the audit's.
        """
        if not case.arrays:
            return None
        if self._arrays.leads_out(case.arrays):
            raise DataError(f"{self.folder}: the arrays {case.arrays!r} lead out of it; expected a file in it.")
        return read_case_arrays(self.folder / case.arrays)

    def suggested_class(self, case: AuditedCase, finding: Finding) -> int | None:
        """Return the index of the class that is suggested for a classified image; None where there is none.

        Raises:
            DataError: if the site's description has no such class.
        """
        if not isinstance(self.description, ClassificationDescription) or not can_be_accepted(finding, is_class=True):
            return None
        name = finding.classes[1]
        if name not in self.description.classes:
            raise DataError(f"{case.image}: {name!r} is suggested, which is no class of {self.data / 'data.yaml'}.")
        return self.description.classes.index(name)

    def _label_of(self, case: Case) -> str:
        """What an audited case calls this annotation."""
        if isinstance(case.label, Path):
            return relative_name(case.label, self.data)
        classes = self.description.classes
        return classes[case.label] if 0 <= case.label < len(classes) else str(case.label)


def can_be_accepted(finding: Finding, *, is_class: bool) -> bool:
    """Return whether something is suggested: an annotation, or for a classified image the class it looks like."""
    return len(finding.classes) > 1 if is_class else finding.has_suggestion


def with_suggestion(given: Classes, suggestion: Classes, finding: Finding, case: AuditedCase) -> Classes:
    """Return the whole annotation with a suggestion in its place.

    Args:
        given: the given annotation in the network's image.
        suggestion: as :class:`~fedannot.custom.audit.case_arrays.CaseArrays` holds it.
        finding: whose suggestion it is.
        case: to name in an error.

    Raises:
        DataError: if it has another shape than its place.
    """
    whole = given.copy()
    try:
        part = whole if finding.place is None else finding.place.of(whole)
    except IndexError:
        part = None
    if part is None or part.shape != suggestion.shape:
        raise DataError(
            f"{case.image}: the suggestion {finding.id!r} has the shape {suggestion.shape}; expected that of its place "
            f"in the annotation {os.fspath(case.label)}. Audit again where files have changed."
        )
    part[...] = suggestion
    return whole


def merged(given: Classes, suggestions: Mapping[str, Classes], names: list[str]) -> Classes:
    """Return an annotation with some suggestions in it; where two differ, the earlier one counts.

    Args:
        given: the given annotation.
        suggestions: as in :class:`ReadCase`.
        names: ids of the findings, in the order in which they count.
    """
    result = given.copy()
    for name in names:
        place = (result == given) & (suggestions[name] != given)
        result[place] = suggestions[name][place]
    return result


def sha256_of(file: Path) -> str:
    """Return the hash of a file's content.

    Raises:
        DataError: if it cannot be read.
    """
    try:
        with open_regular_file(file) as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror}); expected the given annotation.") from error
