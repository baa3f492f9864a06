"""Records of corrections that earlier versions wrote, read as what this version writes.

========================================  ===========================================
file in a site's run folder               what it holds
========================================  ===========================================
``undone/round_N/undone.json``            contours, missed and relabelled objects
``undone_labels/round_N.json``            relabelled cases
``corrections/corrections.json``          added lesions, without a key ``version``
``label_suspicions.json``                 cases whose labels are doubted, for reports
========================================  ===========================================
"""

import re
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import Field

from ...transforms.errors import DataError
from ...transforms.strict_files import read_json
from ..data.json_record import JsonRecord, read_record
from .kinds import CasesRelabelled, LesionsAdded, server_corrections
from .model import (
    CORRECTIONS_FILE,
    CORRECTIONS_FOLDER,
    AddedLesion,
    CaseCorrection,
    Corrections,
    CorrectionState,
    NewClass,
    NewMask,
    Provenance,
)

OBJECTS_FOLDER, OBJECTS_FILE = "undone", "undone.json"
CASES_FOLDER = "undone_labels"
DOUBTS_FILE = "label_suspicions.json"

Form = TypeVar("Form", bound=JsonRecord)

_ROUND = re.compile("round_(0|[1-9][0-9]*)")
_ROUND_FILE = re.compile(r"round_(0|[1-9][0-9]*)\.json")


class _ObjectsCase(JsonRecord):
    label: str
    image: str
    ignored_objects: int = 0
    relabelled_objects: int = 0
    reverted: bool = False


class _OfModel(JsonRecord):
    site: str
    data: str
    method: str
    round_number: int
    model_sha256: str
    made: str

    @property
    def provenance(self) -> Provenance:
        return Provenance(
            method=self.method, round_number=self.round_number, model_sha256=self.model_sha256, made=self.made
        )


class _Objects(_OfModel):
    offsets: dict[int, float]
    missing: dict[int, float]
    swapped: float = 0.0
    overshoot: dict[int, float] = Field(default_factory=dict)
    cases: tuple[_ObjectsCase, ...]
    ignored_file: Annotated[str, Field(pattern=r"^(ignored-[0-9a-f]{16}\.npz)?$")] = ""
    relabelled_file: Annotated[str, Field(pattern=r"^(relabelled-[0-9a-f]{16}\.npz)?$")] = ""


class _Lesion(JsonRecord):
    number: int
    voxels: int
    centre: tuple[int, ...]
    reverted: bool = False


class _LesionsCase(JsonRecord):
    label: str
    image: str
    file: str = ""
    added_voxels: int = 0
    new_lesions: int = 0
    reverted: bool = False
    waits: bool = False
    lesions: tuple[_Lesion, ...] = ()
    partial_file: str = ""


class _Lesions(_OfModel):
    threshold: float
    smallest_lesion: int | None = None
    labels: tuple[_LesionsCase, ...]
    failed: tuple[tuple[str, str], ...] = ()


class _ChangedCase(JsonRecord):
    image: str
    given: str
    label: str


class _Cases(JsonRecord):
    round_number: int
    noise_level: float
    changed: tuple[_ChangedCase, ...] = ()
    transition: tuple[tuple[float, ...], ...] | None = None
    undoes: bool = True


class _DoubtedCase(JsonRecord):
    image: str
    given: str
    predicted: str
    confidence: float
    clean_probability: float
    relabelled: bool


class _Doubts(JsonRecord):
    site: str
    data: str
    method: str
    round_number: int
    noise_level: float
    coefficient: float
    suspects: tuple[_DoubtedCase, ...]


def earlier_folders(run_folder: Path) -> list[tuple[int, Path]]:
    """Return the folders of records of earlier versions in a run, with their rounds.

    A record of relabelled cases was a file; its folder is the one of that name without suffix, which need not exist.

    Raises:
        DataError: if a record of added lesions does not say its round.
    """
    result = [
        (int(match[1]), file.parent)
        for file in (run_folder / OBJECTS_FOLDER).glob(f"round_*/{OBJECTS_FILE}")
        if file.is_file() and (match := _ROUND.fullmatch(file.parent.name))
    ]
    result += [
        (int(match[1]), file.with_suffix(""))
        for file in (run_folder / CASES_FOLDER).glob("round_*.json")
        if file.is_file() and (match := _ROUND_FILE.fullmatch(file.name))
    ]
    lesions = run_folder / CORRECTIONS_FOLDER
    if (lesions / CORRECTIONS_FILE).is_file():
        result.append((_round_of(lesions / CORRECTIONS_FILE), lesions))
    return result


def _round_of(file: Path) -> int:
    """The round of a record that lies in no folder of a round."""
    content = read_json(file, "a record in JSON")
    values = content.get("provenance", content) if isinstance(content, dict) else {}
    number = values.get("round_number") if isinstance(values, dict) else None
    if not isinstance(number, int):
        raise DataError(f"{file}: found no round_number; expected the corrections of a site.")
    return number


def has_earlier_form(folder: Path) -> bool:
    """Return whether a folder has a record by a name that earlier versions alone have used."""
    return (folder / OBJECTS_FILE).is_file() or _cases_file(folder).is_file()


def is_earlier_form(file: Path) -> bool:
    """Return whether a record ``corrections.json`` has the form of an earlier version.

    Raises:
        DataError: if it is not JSON.
    """
    content = read_json(file, "a record in JSON")
    return isinstance(content, dict) and "version" not in content


def read_earlier(folder: Path) -> Corrections:
    """Read the record that an earlier version has written in a folder.

    Raises:
        DataError: if it cannot be read.
    """
    if (folder / OBJECTS_FILE).is_file():
        return _of_objects(_read(folder / OBJECTS_FILE, _Objects))
    if _cases_file(folder).is_file():
        return _of_cases(_read(_cases_file(folder), _Cases), folder.parent.parent / DOUBTS_FILE)
    return _of_lesions(_read(folder / CORRECTIONS_FILE, _Lesions))


def read_doubts(file: Path) -> Corrections:
    """Read the cases whose labels an earlier version has doubted.

    Raises:
        DataError: if they cannot be read.
    """
    doubts = _read(file, _Doubts)
    cases = tuple(
        CaseCorrection(
            image=suspect.image,
            new_class=NewClass(
                given=suspect.given,
                becomes=suspect.predicted if suspect.relabelled else "",
                predicted=suspect.predicted,
                confidence=suspect.confidence,
                clean_probability=suspect.clean_probability,
            ),
        )
        for suspect in doubts.suspects
    )
    return Corrections(
        site=doubts.site,
        data=doubts.data,
        provenance=Provenance(method=doubts.method, round_number=doubts.round_number),
        corrections=(CasesRelabelled(noise_level=doubts.noise_level, threshold=doubts.coefficient),),
        cases=cases,
    )


def _cases_file(folder: Path) -> Path:
    """The file of relabelled cases; other records with such a name lie in other folders."""
    return folder.parent / (f"{folder.name}.json" if folder.parent.name == CASES_FOLDER else "")


def _read(file: Path, form: type[Form]) -> Form:
    record = read_record(file, form)
    if record is None:
        raise DataError(f"{file}: found no such file; expected corrections that an earlier version has written.")
    return record


def _of_objects(earlier: _Objects) -> Corrections:
    return Corrections(
        site=earlier.site,
        data=earlier.data,
        provenance=earlier.provenance,
        corrections=server_corrections(
            bias=earlier.offsets,
            missed=earlier.missing,
            relabelled=earlier.swapped,
        ),
        cases=tuple(
            CaseCorrection(
                image=case.image,
                label=case.label,
                state=_state(reverted=case.reverted),
                ignored_objects=case.ignored_objects,
                relabelled_objects=case.relabelled_objects,
            )
            for case in earlier.cases
        ),
        ignored_file=earlier.ignored_file,
        relabelled_file=earlier.relabelled_file,
    )


def _of_lesions(earlier: _Lesions) -> Corrections:
    return Corrections(
        site=earlier.site,
        data=earlier.data,
        provenance=earlier.provenance,
        corrections=(LesionsAdded(threshold=earlier.threshold, smallest_lesion=earlier.smallest_lesion),),
        cases=tuple(_of_lesions_case(case) for case in earlier.labels),
        failed=earlier.failed,
    )


def _of_lesions_case(earlier: _LesionsCase) -> CaseCorrection:
    lesions = tuple(
        AddedLesion(
            number=lesion.number, voxels=lesion.voxels, centre=lesion.centre, state=_state(reverted=lesion.reverted)
        )
        for lesion in earlier.lesions
    )
    mask = NewMask(
        file=earlier.file,
        partial_file=earlier.partial_file,
        added_voxels=earlier.added_voxels,
        new_lesions=earlier.new_lesions,
        lesions=lesions,
    )
    return CaseCorrection(
        image=earlier.image,
        label=earlier.label,
        state=CorrectionState.PROPOSED if earlier.waits else _state(reverted=earlier.reverted),
        mask=mask if earlier.file else None,
    )


def _of_cases(earlier: _Cases, doubts_file: Path) -> Corrections:
    """Site and data stand in another record next to it, where there is one."""
    doubts = read_record(doubts_file, _Doubts)
    relabelled = CasesRelabelled(noise_level=earlier.noise_level, transition=earlier.transition)
    return Corrections(
        site="" if doubts is None else doubts.site,
        data="" if doubts is None else doubts.data,
        provenance=Provenance(method="auto_classification", round_number=earlier.round_number),
        corrections=(relabelled,) if earlier.undoes else (),
        cases=tuple(
            CaseCorrection(
                image=item.image, new_class=NewClass(given=item.given, becomes=item.label, predicted=item.label)
            )
            for item in earlier.changed
        ),
    )


def _state(*, reverted: bool) -> CorrectionState:
    return CorrectionState.REVERTED if reverted else CorrectionState.ACTIVE
