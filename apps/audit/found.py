"""Audits of sites, found in the folders of a run."""

from dataclasses import dataclass
from pathlib import Path

from ...custom.audit.findings import AUDIT_FOLDER, FINDINGS_FILE, SiteAudit, read_audit
from ...custom.data.participant_folder import with_private_folder
from ...transforms.errors import DataError
from ...transforms.natural_order import natural_order


@dataclass(frozen=True)
class FoundAudit:
    """The audit of one site and the folder that it lies in."""

    folder: Path
    audit: SiteAudit

    @property
    def site(self) -> str:
        """The site's name."""
        return self.audit.site


def find_audits(folder: Path, site: str | None = None) -> list[FoundAudit]:
    """Find the audits in a folder: the folder of one, a run's output, or a site's workspace.

    Args:
        folder: where to look, at any depth.
        site: only this site's.

    Raises:
        DataError: if there is none, a file cannot be read, or there are several of one site.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder; expected that of an audit, of a run, or a workspace.")
    result = [FoundAudit(where, read_audit(where)) for where in _folders(folder)]
    chosen = sorted((item for item in result if site in (None, item.site)), key=lambda one: natural_order(one.site))
    if not chosen:
        sites = ", ".join(item.site for item in result)
        what = f"found no audit of site {site!r}, but of: {sites}" if result else f"found no {FINDINGS_FILE} in it"
        raise DataError(f"{folder}: {what}; expected the folder of an audit, or of a run with one.")
    for one in chosen:
        folders = [str(other.folder) for other in chosen if other.site == one.site]
        if len(folders) > 1:
            raise DataError(
                f"{folder}: found {len(folders)} audits of {one.site}; name the folder of one: {', '.join(folders)}."
            )
    return chosen


def find_audit(folder: Path, site: str | None = None) -> FoundAudit:
    """Find the only audit in a folder as above.

    Raises:
        DataError: as :func:`find_audits`, or if there are audits of several sites.
    """
    result = find_audits(folder, site)
    if len(result) > 1:
        sites = ", ".join(item.site for item in result)
        raise DataError(f"{folder}: found audits of {sites}; say which with --site.")
    return result[0]


def has_audits(folder: Path) -> bool:
    """Return whether a folder holds the audit of any site, at any depth."""
    return folder.is_dir() and bool(_folders(folder))


def _folders(folder: Path) -> list[Path]:
    """Folders with findings; those in which others keep a file of that name are no audits."""
    if (folder / FINDINGS_FILE).is_file():
        return [folder]
    files = [file for place in with_private_folder(folder) for file in place.rglob(FINDINGS_FILE)]
    return sorted(file.parent for file in files if file.parent.name == AUDIT_FOLDER)
