"""What sites corrected in their annotations, or undid of how they annotate: found in a run's folders."""

from dataclasses import dataclass
from pathlib import Path

from ...custom.data.corrections import CORRECTIONS_FILE, Corrections, read_corrections
from ...custom.data.participant_folder import with_private_folder
from ...custom.data.undone import UNDONE_FILE, Undone, read_undone, undone_records
from ...custom.run.state import SUMMARY_FILE
from ...transforms.errors import DataError
from ...transforms.natural_order import natural_order
from .output import read_summary


@dataclass(frozen=True)
class SiteCorrections:
    """The corrections of one site and the folder that they lie in."""

    folder: Path
    corrections: Corrections

    @property
    def site(self) -> str:
        """The site's name."""
        return self.corrections.site


@dataclass(frozen=True)
class SiteUndone:
    """What one site undid in a run.

    Attributes:
        folder: of the latest record, the only one that counts.
        undone: the record.
        earlier: earlier records of the run, the latest first.
    """

    folder: Path
    undone: Undone
    earlier: tuple[Undone, ...] = ()

    @property
    def site(self) -> str:
        """The site's name."""
        return self.undone.site


def find_records(folder: Path) -> list[SiteCorrections | SiteUndone]:
    """Find all corrections and all that was undone in a folder: a site's own, a run's output, or a workspace.

    Raises:
        DataError: if there is neither, or one cannot be read.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder; expected that of a run, or a site's workspace.")
    found = _records_in(folder)
    if not found:
        raise DataError(
            f"{folder}: found no {CORRECTIONS_FILE} in it and no {UNDONE_FILE}; expected the folder of a run in which "
            "annotations were corrected, a site's workspace, or the corrections themselves."
        )
    return sorted(found, key=lambda one: (natural_order(one.site), str(one.folder)))


def find_corrections(folder: Path) -> list[SiteCorrections]:
    """Find all corrections in a folder likewise, without what was undone.

    Raises:
        DataError: if there are none, or one cannot be read.
    """
    found = [one for one in find_records(folder) if isinstance(one, SiteCorrections)]
    if not found:
        raise DataError(f"{folder}: found no {CORRECTIONS_FILE} in it; expected a run that corrected annotations.")
    return found


def corrected_nothing(folder: Path, site: str | None = None) -> bool:
    """Return whether a folder is that of a run, or of one of its sites, in which no annotation was corrected.

    Args:
        folder: as for :func:`find_records`.
        site: only this site's.
    """
    sites = {app.name.removeprefix("app_") for app in folder.glob("**/app_*") if app.is_dir()} - {"server"}
    if (folder / SUMMARY_FILE).is_file():
        sites |= set(read_summary(folder).sites)
    if not sites or site not in {None, *sites}:
        return False
    return all(site not in (None, one.site) for one in _records_in(folder))


def _records_in(folder: Path) -> list[SiteCorrections | SiteUndone]:
    return [*_corrections_in(folder), *_undone_in(folder)]


def _corrections_in(folder: Path) -> list[SiteCorrections]:
    records = ((file.parent, read_corrections(file.parent)) for file in _files(folder, CORRECTIONS_FILE))
    return [SiteCorrections(where, corrections) for where, corrections in records if corrections is not None]


def _files(folder: Path, name: str) -> list[Path]:
    return sorted(file for place in with_private_folder(folder) for file in place.rglob(name))


def _undone_in(folder: Path) -> list[SiteUndone]:
    found = []
    for run in sorted({file.parent.parent for file in _files(folder, UNDONE_FILE)}):
        if records := undone_records(run):
            latest, *earlier = (read_undone(record) for record in records)
            found.append(SiteUndone(records[0], latest, tuple(earlier)))
    return found
