"""The files that a check writes: contact sheets, the report as JSON, fingerprints."""

import json
from pathlib import Path

from ...custom.data.whole_files import private_folder, write_text
from .contact_sheet import draw_contact_sheet
from .fingerprints import salt_key, write_fingerprints
from .report import CheckReport, report_as_json

FINGERPRINT_FILE = "fingerprints.json"
PREPARED_SUFFIX = "-prepared.png"


def write_outputs(
    report: CheckReport,
    out: Path,
    *,
    pictures: bool,
    json_file: Path | None,
    salt: str | None,
    prepared: bool = False,
) -> list[tuple[str, Path]]:
    """Write what was asked for, in place of what an earlier check wrote.

    Args:
        report: of the check.
        out: folder of the contact sheets and the fingerprints; made if need be.
        pictures: whether to draw contact sheets.
        json_file: where the report goes as JSON.
        prepared: whether to draw contact sheets of what the network sees, too.
        salt: of the fingerprints; None writes none.

    Returns:
        What was written, and where.

    Raises:
        DataError: if the salt is too short to be a secret.
    """
    written = []
    if json_file is not None:
        private_folder(json_file.parent)
        write_text(json_file, json.dumps(report_as_json(report), indent=1) + "\n")
        written.append(("All findings", json_file))
    if salt is not None:
        salt_key(salt)
        private_folder(out)
        sites = [site.facts for site in report.sites if site.facts is not None]
        write_fingerprints(out / FINGERPRINT_FILE, sites, salt)
        written.append(("Fingerprints, which name no file", out / FINGERPRINT_FILE))
    if pictures or prepared:
        private_folder(out)
        sheets = [draw_contact_sheet(site, out / f"{site.site}.png") for site in report.sites if pictures]
        if prepared:
            sheets += [
                draw_contact_sheet(site, out / f"{site.site}{PREPARED_SUFFIX}", prepared=True) for site in report.sites
            ]
        if any(sheets):
            written.append(("Contact sheets, which show patients' images", out))
    return written
