"""`fedannot data cache`: whose prepared images, how many, and their removal."""

import json
import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedannot.apps import prepared_images
from fedannot.apps.commands.data import data_app
from fedannot.apps.deployment import machine_checks
from fedannot.apps.deployment.check_points import State
from fedannot.apps.deployment.kit import Kit, KitError, prepare_kit
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.data.site_data import load_site_data
from fedannot.custom.data.store_location import CACHE_VARIABLE, participant_store
from fedannot.transforms.errors import DataError


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(data_app, ["cache", *map(str, arguments)])
    return result.exit_code, result.output


@pytest.fixture
def kit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A prepared kit of a site; nothing names a store, and the home is an empty one."""
    monkeypatch.delenv(CACHE_VARIABLE)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    folder = tmp_path / "kits" / "hospital-1"
    for part in ("startup", "local"):
        (folder / part).mkdir(parents=True)
    (folder / "startup" / "fed_client.json").write_text("{}")
    (folder / "local" / "resources.json.default").write_text('{"components": []}')
    prepare_kit(folder)
    return folder


@pytest.fixture
def site(tmp_path: Path) -> Path:
    write_phantom_federation(tmp_path / "data", LesionImages(), num_sites=1, images_per_site=3, test_images=1)
    return tmp_path / "data" / "site-1"


def test_a_kits_images_are_shown_and_removed_alone(kit: Path, site: Path, tmp_path: Path) -> None:
    load_site_data(site, participant_store(kit / "local"), site="hospital-1")
    load_site_data(site, participant_store(), site="site-1")
    for name, root in (("kit", kit / "cache"), ("user", tmp_path / "home" / ".cache" / "fedannot" / "prepared")):
        arguments = ["--kit", kit] if name == "kit" else []
        code, text = run(*arguments)
        assert code == 0
        assert text.startswith(f"Prepared images: {root} (")
        size = sum(file.stat().st_size for part in ("packs", "blobs") for file in (root / part).iterdir())
        assert f"Held: 1 list of cases, {size / 2**20:.1f} MiB" in text
        assert "Limits: 20 GiB, 30 days since the last use" in text
    code, text = run("--kit", kit, "--clear")
    assert (code, text.splitlines()[-1]) == (0, "Removed.")
    assert prepared_images(kit).usage.packs == 0
    assert prepared_images().usage.packs == 1
    assert {file.name for file in (kit / "cache").rglob("*") if file.is_file()} == {"fedannot-prepared.json", "store"}
    assert all(file.is_file() for file in site.glob("*/*.png")), "the images themselves stay"
    assert prepared_images().clear().usage.packs == 0


def test_looking_makes_nothing(kit: Path, tmp_path: Path) -> None:
    for arguments in ((), ("--kit", kit), ("--clear",), ("--kit", kit, "--clear")):
        code, text = run(*arguments)
        assert code == 0
        assert "Held: 0 lists of cases, 0.0 MiB" in text
    assert not (kit / "cache").exists()
    assert not (tmp_path / "home").exists()


def test_what_is_no_store_is_not_cleared(kit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("x")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "thesis"))
    code, text = run("--clear")
    assert code == 1
    assert "found no fedannot-prepared.json; expected a folder of prepared images. Nothing is removed." in text
    assert (tmp_path / "thesis" / "thesis.tex").exists()
    with pytest.raises(KitError, match="Expected the startup kit of a server, a relay or a site"):
        prepared_images(tmp_path)
    monkeypatch.delenv(CACHE_VARIABLE)
    (kit / "local" / "cache.json").write_text(json.dumps({"folder": "cache"}))
    with pytest.raises(DataError, match="expected an absolute path"):
        prepared_images(kit)


def test_the_check_of_a_kit_says_where_prepared_images_lie(kit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (point,) = machine_checks.check_prepared_images(Kit.open(kit))
    assert (point.state, point.found) == (State.READY, f"{kit.resolve()}/cache, at most 20 GiB, 30 days")
    assert not (kit / "cache").exists()
    (kit / "local" / "cache.json").write_text(json.dumps({"max_gib": "much"}))
    (point,) = machine_checks.check_prepared_images(Kit.open(kit))
    assert point.state == State.PROBLEM
    assert "cache.json" in point.found
    (kit / "file").write_text("x")
    monkeypatch.setenv(CACHE_VARIABLE, str(kit / "file"))
    (kit / "local" / "cache.json").write_text("{}")
    (point,) = machine_checks.check_prepared_images(Kit.open(kit))
    assert point.state == State.PROBLEM
    assert re.search("found a file; expected a folder", point.found)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes what belongs to another user")
def test_the_check_of_a_kit_says_that_another_user_has_the_folder(kit: Path) -> None:
    (kit / "cache").mkdir()
    os.chown(kit / "cache", 12345, 12345)
    (point,) = machine_checks.check_prepared_images(Kit.open(kit))
    assert point.state == State.PROBLEM
    assert "belongs to user 12345" in point.found
