"""Corrected annotations of a site: new files with their provenance, beside which the given ones stay as they are."""

from collections.abc import Sequence
from pathlib import Path

from ...transforms.errors import DataError
from .given_annotations import find_given
from .json_record import JsonRecord, read_record, write_record
from .whole_files import private_folder

CORRECTIONS_FOLDER = "corrections"
CORRECTIONS_FILE = "corrections.json"
_LABELS_FOLDER = "labels"


class AddedLesion(JsonRecord):
    """One connected part of what was added to an annotation.

    Args:
        number: from 1, in the order of the first voxels in the file.
        voxels: of it, or pixels.
        centre: the voxel at its middle, by the file's axes from 0; of two-dimensional files row and column.
        reverted: whether it is background again.
    """

    number: int
    voxels: int
    centre: tuple[int, ...]
    reverted: bool = False


class CorrectedLabel(JsonRecord):
    """What became of one given annotation.

    Args:
        label: the given annotation, relative to the site's data.
        image: its image, likewise.
        file: the corrected annotation, relative to the folder of the corrections; empty if nothing was added.
        added_voxels: voxels, or pixels, that were background and are foreground now.
        new_lesions: connected lesions that the given annotation has nothing of.
        reverted: whether the given annotation counts again.
        waits: whether nobody has decided yet whether the corrected one counts; until then the given one does.
        lesions: the connected parts of what was added; none in records of earlier versions.
        partial_file: the corrected annotation without the lesions that are reverted; empty where none is.
    """

    label: str
    image: str
    file: str = ""
    added_voxels: int = 0
    new_lesions: int = 0
    reverted: bool = False
    waits: bool = False
    lesions: tuple[AddedLesion, ...] = ()
    partial_file: str = ""

    @property
    def is_used(self) -> bool:
        """Whether the site trains on the corrected annotation."""
        return bool(self.file) and not self.reverted and not self.waits

    @property
    def counting_voxels(self) -> int:
        """How many voxels are foreground by a correction that counts."""
        return self.added_voxels - sum(lesion.voxels for lesion in self.lesions if lesion.reverted)

    @property
    def counting_file(self) -> str:
        """The corrected annotation that counts where a correction does, relative to the folder of the corrections."""
        return self.partial_file or self.file


class Corrections(JsonRecord):
    """The content of ``corrections.json``: how annotations of a site were corrected, and which.

    Args:
        site: the site's name.
        data: the folder with the site's data.
        method: the method whose rule it was.
        round_number: the round before whose training it happened.
        model_sha256: hash of the model that was received for that round.
        threshold: probability above which background became foreground.
        smallest_lesion: voxels of the smallest lesions that were added, where lesions were added as a whole.
        made: when, by the site's clock.
        labels: the annotations.
        failed: annotations that could not be corrected, and why; they stay as they are.
    """

    site: str
    data: str
    method: str
    round_number: int
    model_sha256: str
    threshold: float
    # Records of earlier versions lack it.
    smallest_lesion: int | None = None
    made: str
    labels: tuple[CorrectedLabel, ...]
    failed: tuple[tuple[str, str], ...] = ()

    @property
    def rule(self) -> str:
        """What was added, in words."""
        if self.smallest_lesion is None:
            return f"background with a probability above {self.threshold:g} becomes foreground"
        return (
            f"new lesions of at least {self.smallest_lesion} voxels are added as a whole, as sure as annotated ones, "
            "not more than are missing"
        )

    @property
    def used(self) -> tuple[CorrectedLabel, ...]:
        """The annotations that the site trains on in corrected form."""
        return tuple(label for label in self.labels if label.is_used)


def read_corrections(folder: Path) -> Corrections | None:
    """Read the corrections of a folder, None if there are none.

    Raises:
        DataError: if the file has a wrong key or value.
    """
    return read_record(folder / CORRECTIONS_FILE, Corrections)


def write_corrections(folder: Path, corrections: Corrections) -> None:
    """Write ``corrections.json`` in one step."""
    write_record(folder / CORRECTIONS_FILE, corrections)


def corrected_label_target(folder: Path, position: int, name: str) -> Path:
    """Return where a corrected annotation is written, without suffix; numbered, as given names may repeat.

    Args:
        folder: the folder of the corrections.
        position: of the case among the site's.
        name: the given file's name without suffix.
    """
    target = folder / _LABELS_FOLDER / f"{position + 1:04d}_{name}"
    private_folder(target.parent)
    return target


def labels_in_use(folder: Path, data_folder: Path) -> dict[Path, Path]:
    """Return for every given annotation that is corrected the file that counts in its place.

    Args:
        folder: the folder of the corrections, which need not exist.
        data_folder: the folder of the site's data.

    Raises:
        DataError: as :func:`read_corrections`.
    """
    corrections = read_corrections(folder)
    if corrections is None:
        return {}
    return {data_folder / label.label: folder / label.counting_file for label in corrections.used}


def revert_corrections(folder: Path, names: list[str] | None = None) -> Corrections:
    """Let given annotations count again, also such as wait; the corrected files stay for the record.

    Args:
        folder: the folder of the corrections.
        names: given annotations, by their path in the site's data or their file name; None for all.

    Returns:
        The corrections as they are now.

    Raises:
        DataError: if there are no corrections, or a name is not that of exactly one corrected annotation.
    """
    return _with_reverted(folder, names, reverted=True)


def restore_corrections(folder: Path, names: list[str] | None = None) -> Corrections:
    """Let corrected annotations count that were reverted or wait; what is known of their origin stays as it is.

    Args:
        folder: the folder of the corrections.
        names: given annotations, by their path in the site's data or their file name; None for all.

    Returns:
        The corrections as they are now.

    Raises:
        DataError: as :func:`revert_corrections`, or if a corrected file is gone; then none is restored.
    """
    return _with_reverted(folder, names, reverted=False)


def find_corrected(corrections: Corrections, names: Sequence[str] | None, folder: Path) -> frozenset[str]:
    """Return the corrected annotations that are meant by some names, by their path in the site's data.

    Args:
        corrections: they.
        names: such paths, or file names; None for all.
        folder: the folder of the corrections, for an error.

    Raises:
        DataError: if a name is not that of exactly one corrected annotation.
    """
    corrected = [label.label for label in corrections.labels if label.file]
    if names is None:
        return frozenset(corrected)
    return find_given(corrected, names, what="corrected", source=folder / CORRECTIONS_FILE)


def _with_reverted(folder: Path, names: list[str] | None, *, reverted: bool) -> Corrections:
    """Set which annotation counts, of all named cases in one step."""
    corrections = read_corrections(folder)
    if corrections is None:
        raise DataError(f"{folder}: found no {CORRECTIONS_FILE}; expected the folder of a site's corrections.")
    chosen = find_corrected(corrections, names, folder)
    labels = tuple(
        _let_count(label, reverted=reverted) if label.label in chosen else label for label in corrections.labels
    )
    changed = corrections.model_copy(update={"labels": labels})
    files = [label.counting_file for label in changed.used]
    gone = [] if reverted else [file for file in files if not (folder / file).is_file()]
    if gone:
        raise DataError(
            f"{folder}: found no {', '.join(gone)}; expected the corrected annotations that are to count. Restore the "
            "others one by one."
        )
    write_corrections(folder, changed)
    return changed


def _let_count(label: CorrectedLabel, *, reverted: bool) -> CorrectedLabel:
    """Return an annotation that counts as given or as corrected; where all its lesions were reverted, with all of them.

    What was decided of some lesions alone is kept.
    """
    changes: dict[str, object] = {"reverted": reverted, "waits": False}
    if not reverted and all(lesion.reverted for lesion in label.lesions):
        changes["lesions"] = tuple(lesion.model_copy(update={"reverted": False}) for lesion in label.lesions)
    return label.model_copy(update=changes)
