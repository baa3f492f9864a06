"""What a hospital's commands leave on a disk, all of them, is its owner's alone, whatever the umask is."""

import os
import stat
from pathlib import Path

import pytest
from conftest import SMALL, SMALL_FEDIA
from test_fedia_runs import EAGER
from typer.testing import CliRunner

from fedannot.apps.audit.case_files import CaseReader
from fedannot.apps.audit.found import find_audit
from fedannot.apps.audit.stored_decisions import new_decision, store_decision
from fedannot.apps.commands.cli import app

# What is meant for others: nothing of a patient is in it.
SHARED = ("audit/audit.html", "pages/shared-1.html", "bundle")
AUDIT = {**SMALL, "rounds": 2, "min_predicted_fraction": 0.0}


def run(*words: object, code: int = 0) -> None:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output


def settings(values: dict[str, object]) -> list[str]:
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a hospital has imported, checked, audited, reviewed, exported, corrected and drawn."""
    folder, before = tmp_path_factory.mktemp("tour") / "hospital", os.umask(0)
    try:
        data, audit = folder / "data", folder / "audit"
        few = ("--images", 4, "--test-images", 1, "--seed", 103)
        run("data", "phantom", "--sites", 2, *few, "--noise", "M(25,-25,2,0.5)", "--out", data)
        run("data", "noise", data, "--model", "M(25,-25,2,0.5)", "--out", folder / "noisy")
        files = ("--images", data / "site-1/images", "--labels", data / "site-1/labels")
        run("data", "import", *files, "--sites", 2, "--out", folder / "imported")
        run("data", "check", data, "--out", folder / "check", "--json", folder / "reports" / "check.json")
        run("audit", "--data", data, "--out", audit, *settings(AUDIT))
        result = find_audit(audit, "site-1")
        finding = next((case, item) for case in result.audit.cases for item in case.findings)
        shown = CaseReader(result).shown(finding[0])
        store_decision(
            result.folder, result.audit, new_decision(finding[1].id, "keep", reviewer="Dr Ada", reason="", shown=shown)
        )
        of_site = (audit, "--site", "site-1")
        run("audit", "page", *of_site, "--no-files", "--out", folder / "pages")
        run("audit", "page", *of_site, "--share", "--out", folder / "pages")
        run("audit", "export", *of_site, "--out", folder / "exported")
        run("audit", "apply", *of_site, "--out", data / "site-1" / "reviewed", "--update-datalist")
        run("show", audit)
        run("bundle", "export", audit, "--out", folder / "bundle")
        run("simulate", "fedia", "--out", folder / "fedia", *settings({**SMALL_FEDIA, **EAGER}))
        run("show", folder / "fedia")
        run("corrections", "show", folder / "fedia", "--out", folder / "drawn")
        run("corrections", "write", folder / "fedia", "--out", folder / "corrected")
    finally:
        os.umask(before)
    return folder


def test_files_are_0600_and_folders_0700(tour: Path) -> None:
    open_to_others = [
        f"{path.relative_to(tour)} {mode:o}"
        for path in (tour, *tour.rglob("*"))
        if not path.is_symlink()
        and not str(path.relative_to(tour)).startswith(SHARED)
        and (mode := stat.S_IMODE(path.stat().st_mode)) != (0o700 if path.is_dir() else 0o600)
    ]
    assert open_to_others == []


@pytest.mark.parametrize(
    "pattern",
    [
        *("data/site-1/images/*.png", "noisy/*/labels/*.png", "imported/*/images/*.png", "check/*.png"),
        *("reports/check.json", "audit/run/**/findings.json", "audit/run/**/decisions.json", "audit/run/**/page.html"),
        *("pages/site-1.html", "exported/findings.csv", "data/site-1/reviewed/*.json"),
        *("audit/pictures/*.png", "audit/*.html", "audit/log.txt", "fedia/run/**/corrections.json", "drawn/*/*.png"),
        *("corrected/**/*.nii.gz", "fedia/summary.json", "audit/run/**/summary.json"),
    ],
)
def test_the_tour_has_been_everywhere(tour: Path, pattern: str) -> None:
    assert list(tour.glob(pattern))


def test_what_is_meant_for_others_can_be_read(tour: Path) -> None:
    for name in SHARED:
        assert (tour / name).stat().st_mode & 0o044 == 0o044
