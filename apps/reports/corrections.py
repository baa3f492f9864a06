"""What sites corrected in their annotations: found in a run's folders."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ...custom.corrections.earlier_forms import CASES_FOLDER, DOUBTS_FILE, OBJECTS_FILE, OBJECTS_FOLDER, read_doubts
from ...custom.corrections.kinds import CasesRelabelled
from ...custom.corrections.model import CORRECTIONS_FILE, CORRECTIONS_FOLDER, Corrections
from ...custom.corrections.reviews_since import reviewed_labels, with_reviews
from ...custom.corrections.store import StoredCorrections, read_corrections, round_of
from ...custom.data.participant_folder import with_private_folder
from ...custom.run.state import SUMMARY_FILE
from ...transforms.errors import DataError
from ...transforms.natural_order import natural_order
from .output import read_summary


def find_corrections(folder: Path) -> list[StoredCorrections]:
    """Find all corrections in a folder: a site's own, a run's output, or a workspace.

    Raises:
        DataError: if there are none, or one cannot be read.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder; expected that of a run, or a site's workspace.")
    result = _records_in(folder)
    if not result:
        raise DataError(
            f"{folder}: found no {CORRECTIONS_FILE} in it; expected the folder of a run in which annotations were "
            "corrected, a site's workspace, or the corrections themselves."
        )
    return sorted(result, key=lambda one: (natural_order(one.site), str(one.folder)))


def find_doubts(folder: Path, site: str | None = None) -> list[Corrections]:
    """Find the cases whose labels sites doubt, in the same places; of every site the latest.

    Args:
        folder: where to look, at any depth.
        site: only this site's.

    Raises:
        DataError: if there are none, or a file cannot be read.
    """
    result = [item.corrections for item in _records_in(folder) if item.corrections.of(CasesRelabelled) is not None]
    # Records of earlier versions say less than the file of doubts that lay in their run's folder.
    earlier = [read_doubts(file) for file in _files(folder, DOUBTS_FILE)]
    result = [item for item in result if not any(_is_same(item, other) for other in earlier)] + earlier
    chosen = [item for item in result if site in (None, item.site)]
    if not chosen:
        sites = ", ".join(item.site for item in result)
        what = f"found none of site {site!r}, but of: {sites}" if result else f"found no {CORRECTIONS_FILE} with any"
        raise DataError(f"{folder}: {what}; expected the folder of a run that doubts labels.")
    return sorted(chosen, key=lambda one: natural_order(one.site))


def has_doubts(folder: Path) -> bool:
    """Return whether a folder holds any, at any depth; also where there is no such folder, which is another error."""
    if not folder.is_dir() or _files(folder, DOUBTS_FILE):
        return True
    return any(item.corrections.of(CasesRelabelled) is not None for item in _records_in(folder))


def _is_same(one: Corrections, other: Corrections) -> bool:
    return (one.site, one.round_number) == (other.site, other.round_number)


def corrected_nothing(folder: Path, site: str | None = None) -> bool:
    """Return whether a folder is that of a run, or of one of its sites, in which no annotation was corrected.

    Args:
        folder: as for :func:`find_corrections`.
        site: only this site's.
    """
    sites = {app.name.removeprefix("app_") for app in folder.glob("**/app_*") if app.is_dir()} - {"server"}
    if (folder / SUMMARY_FILE).is_file():
        sites |= set(read_summary(folder).sites)
    if not sites or site not in {None, *sites}:
        return False
    return all(site not in (None, item.site) for item in _records_in(folder))


def _records_in(folder: Path) -> list[StoredCorrections]:
    runs: dict[Path, list[StoredCorrections]] = {}
    for place in dict.fromkeys(_record_folders(folder)):
        runs.setdefault(_run_of(place), []).append(StoredCorrections(place, read_corrections(place)))
    result = []
    for records in runs.values():
        latest, *earlier = sorted(records, key=lambda one: one.corrections.round_number, reverse=True)
        counting = with_reviews(latest.corrections, reviewed_labels(Path(latest.corrections.data)))
        result.append(replace(latest, corrections=counting, earlier=tuple(item.corrections for item in earlier)))
    return result


def _record_folders(folder: Path) -> Iterator[Path]:
    """The folders of all records, of earlier versions, too; folders of other names than rounds have are none."""
    files = [*_files(folder, CORRECTIONS_FILE), *_files(folder, OBJECTS_FILE)]
    places = [file.parent for file in files if file.is_file()]
    cases = [file.with_suffix("") for file in _files(folder, "round_*.json") if file.parent.name == CASES_FOLDER]
    for place in [*places, *cases]:
        if not place.name.startswith("round_") or round_of(place) is not None:
            yield place


def _run_of(place: Path) -> Path:
    """The run folder of a record, by which records of one site in one run are distinguished from others."""
    kind = place.parent if place.name.startswith("round_") else place
    return kind.parent if kind.name in (CORRECTIONS_FOLDER, OBJECTS_FOLDER, CASES_FOLDER) else kind


def _files(folder: Path, name: str) -> list[Path]:
    return sorted(file for place in with_private_folder(folder) for file in place.rglob(name))
