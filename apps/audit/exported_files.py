"""The files that an export has written, so that those which nobody has changed are told from edited ones."""

from collections.abc import Iterable
from pathlib import Path

from ...custom.data.contained_paths import relative_name
from ...custom.data.json_record import JsonRecord, read_record, write_record
from .case_files import CaseReader, sha256_of

EXPORT_FILE = "fedannot_export.json"
# Images and masks as the site has given them.
GIVEN_FOLDER = "given"
# How far above a mask the folder of its export is looked for.
_MOST_PARENTS = 8


class ExportedFiles(JsonRecord):
    """The content of ``fedannot_export.json``.

    Args:
        site: the site's name.
        audited: when the audit was made, by the site's clock.
        sha256: hash of each file by its path in the folder of the export.
    """

    site: str
    audited: str
    sha256: dict[str, str]


def name_of_copy(reader: CaseReader, file: Path) -> str:
    """Return the path of a copy of a given file in an export, which is laid out as the site's data are.

    Where the datalist lies elsewhere, it is laid out as the folder of the datalist is.
    """
    start = reader.data
    if not reader.datalist.resolve().is_relative_to(start.resolve()):
        start = reader.datalist.parent
    name = Path(relative_name(file, start))
    return name.name if name.is_absolute() or ".." in name.parts else name.as_posix()


def write_exported_files(folder: Path, site: str, audited: str) -> None:
    """Write what a folder consists of as an export; links are left out, as their files are not its own."""
    files = [file for file in sorted(folder.rglob("*")) if file.is_file() and not file.is_symlink()]
    hashes = {file.relative_to(folder).as_posix(): sha256_of(file) for file in files}
    write_record(folder / EXPORT_FILE, ExportedFiles(site=site, audited=audited, sha256=hashes))


class UnchangedFiles:
    """Says of files whether they are as an export has written them; the record of each export is read once."""

    def __init__(self) -> None:
        self._records: dict[Path, ExportedFiles | None] = {}

    def has(self, file: Path) -> bool:
        """Return whether a file lies where an export has put it, with the same content, or is the export's own record.

        Raises:
            DataError: if the record of the export cannot be read.
        """
        for folder in _folders_around(file):
            if (record := self._record(folder)) is None:
                continue
            name = file.absolute().relative_to(folder).as_posix()
            return name == EXPORT_FILE or (name in record.sha256 and record.sha256[name] == sha256_of(file))
        return False

    def has_link(self, file: Path) -> bool:
        """Return whether a link lies among the given files of an export, in the place of no file that was copied.

        Raises:
            DataError: if the record of the export cannot be read.
        """
        for folder in _folders_around(file):
            if (record := self._record(folder)) is not None:
                name = file.absolute().relative_to(folder).as_posix()
                return name.startswith(f"{GIVEN_FOLDER}/") and name not in record.sha256
        return False

    def _record(self, folder: Path) -> ExportedFiles | None:
        if folder not in self._records:
            self._records[folder] = read_record(folder / EXPORT_FILE, ExportedFiles)
        return self._records[folder]


def _folders_around(file: Path) -> Iterable[Path]:
    return file.absolute().parents[:_MOST_PARENTS]
