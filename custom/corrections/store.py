"""The store of a site's corrections: it writes, finds, reads and adopts them.

In a site's run folder each record lies in ``corrections/round_N``, with its files. Given annotations never change.
Records of earlier versions are read where those versions wrote them.
"""

import re
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ...transforms.errors import DataError
from ...transforms.printable import printable_logger
from ..data.json_record import read_record, write_record
from ..data.whole_files import new_folder, private_folder
from .earlier_forms import earlier_folders, has_earlier_form, is_earlier_form, read_earlier
from .kinds import PixelsReplaced
from .model import (
    CORRECTIONS_FILE,
    CORRECTIONS_FOLDER,
    CaseCorrection,
    Corrections,
)
from .pixels import CasePixels, read_ignored, read_relabelled, read_replaced, write_pixels
from .reviews_since import with_reviews

_LOGGER = printable_logger(__name__)
_LABELS_FOLDER = "labels"
# Numbers as they are written there; another writing of one would be a second record of a round.
_ROUND_FOLDER = re.compile("round_(0|[1-9][0-9]*)")


@dataclass(frozen=True)
class StoredCorrections:
    """A record of a site and where it lies.

    Attributes:
        folder: of the record.
        corrections: its content.
        earlier: earlier records of the run, the latest first, where all were read; they do not count.
    """

    folder: Path
    corrections: Corrections
    earlier: tuple[Corrections, ...] = ()

    @property
    def site(self) -> str:
        """The site's name."""
        return self.corrections.site

    def pixels(self, num_classes: int) -> dict[str, CasePixels]:
        """Return the decisions on pixels by given annotation.

        Args:
            num_classes: foreground classes of the site.

        Raises:
            DataError: if they cannot be read, or an object would get a class that the site does not have.
        """
        named = self.corrections
        ignored = read_ignored(self.folder / named.ignored_file) if named.ignored_file else {}
        relabelled = read_relabelled(self.folder / named.relabelled_file, num_classes) if named.relabelled_file else {}
        of_pixels, replaced = named.of(PixelsReplaced), {}
        if of_pixels is not None and named.replaced_file:
            replaced = read_replaced(self.folder / named.replaced_file, len(of_pixels.labels))
        names = dict.fromkeys([*ignored, *relabelled, *replaced])
        return {
            name: CasePixels(ignored.get(name), relabelled.get(name), replaced=replaced.get(name)) for name in names
        }


class CorrectionStore:
    """The corrections of a site in one run.

    Args:
        run_folder: the site's run folder.
        last_round: the last round that counts: a round that is repeated after a restart knows of no later one.
        reviewed: returns the names of the cases whose given label a review has decided by now; None for none.
    """

    def __init__(
        self, run_folder: Path, last_round: int, reviewed: Callable[[], Collection[str]] | None = None
    ) -> None:
        self._run_folder, self._last_round, self._reviewed = run_folder, last_round, reviewed

    def folder_of(self, round_number: int) -> Path:
        """Return where the record of a round is written."""
        return self._run_folder / CORRECTIONS_FOLDER / f"round_{round_number}"

    def latest(self) -> StoredCorrections | None:
        """Return the latest record that counts, None without one; a review that came later reverts what it decided.

        Raises:
            DataError: if it cannot be read, or the site's datalist cannot.
        """
        stored = self._recorded()
        if stored is None or self._reviewed is None or not any(case.is_active for case in stored.corrections.cases):
            return stored
        return replace(stored, corrections=with_reviews(stored.corrections, self._reviewed()))

    def _recorded(self) -> StoredCorrections | None:
        """The latest record that counts, as it was written."""
        for number, folder in record_folders(self._run_folder):
            if number <= self._last_round:
                return StoredCorrections(folder, read_corrections(folder))
        return None

    @property
    def reverted(self) -> frozenset[str]:
        """The names of the cases that the data manager has reverted; they stay so in later records."""
        stored = self.latest()
        return frozenset() if stored is None else stored.corrections.reverted

    def write(self, corrections: Corrections, pixels: Mapping[str, CasePixels] | None = None) -> StoredCorrections:
        """Write a record in one step; a record of the same round is replaced.

        A case with another class that was reverted goes on in the record as reverted, also where it is corrected no
        more: later records know of it.

        Args:
            corrections: they.
            pixels: by given annotation the decisions on its pixels.
        """
        target = self.folder_of(corrections.round_number)
        private_folder(target)
        decided = pixels or {}
        ignored = {name: of.ignored for name, of in decided.items() if of.ignored is not None}
        relabelled = {name: np.stack(of.relabelled) for name, of in decided.items() if of.relabelled is not None}
        replaced = {name: of.replaced for name, of in decided.items() if of.replaced is not None}
        names = {
            "ignored_file": write_pixels(target, "ignored", ignored),
            "relabelled_file": write_pixels(target, "relabelled", relabelled),
            "replaced_file": write_pixels(target, "replaced", replaced),
        }
        stored = self._recorded()
        earlier = () if stored is None else stored.corrections.cases
        restored = {case.name for case in earlier if case.is_active and case.overrides_review}
        own = (
            case.model_copy(update={"overrides_review": case.is_active and case.name in restored})
            for case in corrections.cases
        )
        cases = (*own, *_reverted_besides(corrections, earlier))
        written = corrections.model_copy(update=names | {"cases": cases})
        # The record names the files: with it they are replaced all at once.
        write_corrections(target, written)
        for file in target.glob("*.npz"):
            if file.name not in names.values():
                file.unlink()
        return StoredCorrections(target, written)

    def files_in_use(self, data_folder: Path) -> dict[Path, Path]:
        """Return the files that count in place of given annotations, by the given file.

        Args:
            data_folder: the folder of the site's data.

        Raises:
            DataError: as :meth:`latest`.
        """
        stored = self.latest()
        if stored is None:
            return {}
        return {
            data_folder / case.label: stored.folder / case.mask.counting_file
            for case in stored.corrections.used_masks
            if case.mask is not None
        }

    def adopt(self, earlier_runs: Iterable[Path], last_round: int, data_folder: Path) -> Path | None:
        """Copy the latest record of a run that is continued, unless this run has one.

        Where a file of it is absent nothing is copied: the site then says that it has corrected nothing, and is asked
        again.

        Args:
            earlier_runs: the site's run folders of that run, which need not exist.
            last_round: the last round that counts there.
            data_folder: the folder of the site's data in this run.

        Returns:
            Where the record came from; None if nothing was copied.

        Raises:
            DataError: if the earlier record cannot be read.
        """
        if record_folders(self._run_folder):
            return None
        for run_folder in earlier_runs:
            stored = CorrectionStore(run_folder, last_round).latest()
            if stored is not None and self._copy(stored, data_folder):
                return run_folder
        return None

    def _copy(self, stored: StoredCorrections, data_folder: Path) -> bool:
        """Copy a record with its files; return whether all of them are there."""
        corrections = stored.corrections
        files = {name: stored.folder / name for name in _files_of(corrections)}
        if absent := [str(file) for file in files.values() if not file.is_file()]:
            _LOGGER.warning("Site %s: files of its earlier corrections are absent: %s", corrections.site, absent)
            return False
        with new_folder(self.folder_of(corrections.round_number)) as unfinished:
            for name, file in files.items():
                (unfinished / name).parent.mkdir(exist_ok=True)
                shutil.copyfile(file, unfinished / name)
            write_corrections(unfinished, corrections.model_copy(update={"data": str(data_folder.resolve())}))
        return True


def _reverted_besides(corrections: Corrections, earlier: Sequence[CaseCorrection]) -> list[CaseCorrection]:
    """The reverted classes of earlier that a new record does not have."""
    known = {case.name for case in corrections.cases}
    return [case for case in earlier if case.is_reverted and case.new_class is not None and case.name not in known]


def record_folders(run_folder: Path) -> list[tuple[int, Path]]:
    """Return the folders of all records of a run with their rounds, the latest first.

    Args:
        run_folder: the site's run folder, which need not exist.

    Raises:
        DataError: if a record of an earlier version does not say its round.
    """
    places = (run_folder / CORRECTIONS_FOLDER).glob("round_*")
    numbers = {place: number for place in places if (number := round_of(place)) is not None}
    result = [(number, place) for place, number in numbers.items() if (place / CORRECTIONS_FILE).is_file()]
    return sorted([*result, *earlier_folders(run_folder)], key=lambda one: one[0], reverse=True)


def round_of(folder: Path) -> int | None:
    """Return the round that a record's folder is named by; None of other names."""
    match = _ROUND_FOLDER.fullmatch(folder.name)
    return int(match[1]) if match else None


def read_corrections(folder: Path) -> Corrections:
    """Read the record of a folder, also in the forms of earlier versions.

    Raises:
        DataError: if it is not there, cannot be read, or was made before another round than its folder says.
    """
    file = folder / CORRECTIONS_FILE
    is_earlier = is_earlier_form(file) if file.is_file() else has_earlier_form(folder)
    corrections = read_earlier(folder) if is_earlier else read_record(file, Corrections)
    if corrections is None:
        raise DataError(f"{file}: found no such file; expected the corrections of a site.")
    if folder.name.startswith("round_") and folder.name != f"round_{corrections.round_number}":
        raise DataError(
            f"{folder}: found corrections made before round {corrections.round_number}; expected them in a folder "
            f"round_{corrections.round_number}. Move them there, or remove them."
        )
    return corrections


def write_corrections(folder: Path, corrections: Corrections) -> None:
    """Write ``corrections.json`` in one step."""
    private_folder(folder)
    write_record(folder / CORRECTIONS_FILE, corrections)


def mask_target(folder: Path, position: int, name: str) -> Path:
    """Return where a new mask is written, without suffix; numbered, as given names may repeat.

    Args:
        folder: the folder of the record.
        position: of the case among the site's.
        name: the given file's name without suffix.
    """
    target = folder / _LABELS_FOLDER / f"{position + 1:04d}_{name}"
    private_folder(target.parent)
    return target


def _files_of(corrections: Corrections) -> list[str]:
    """The files that a record names, relative to its folder."""
    masks = [case.mask for case in corrections.cases if case.mask is not None]
    names = {name for mask in masks for name in (mask.file, mask.partial_file)}
    of_pixels = {corrections.ignored_file, corrections.relabelled_file, corrections.replaced_file}
    return sorted(name for name in names | of_pixels if name)
