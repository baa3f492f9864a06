"""Where a participant's prepared cases lie: the variable, the kit's file, the user's cache; and their limits."""

import json
from pathlib import Path

import pytest

from fedannot.custom.data.store_location import CACHE_FILE, locate_store, participant_store
from fedannot.transforms.errors import DataError

GIB, DAY = 2**30, 86400


@pytest.fixture
def kit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kit's folder `local`; no variable, and a home of its own."""
    for variable in ("FEDANNOT_CACHE", "FEDANNOT_CACHE_GIB", "FEDANNOT_CACHE_DAYS", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "kit" / "local").mkdir(parents=True)
    return tmp_path / "kit" / "local"


def write(kit: Path, **values: object) -> None:
    (kit / CACHE_FILE).write_text(json.dumps(values))


def test_the_variable_counts_before_the_kit_and_the_kit_before_the_user(
    kit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = locate_store(kit)
    assert (result.store.root, result.named_by) == (tmp_path / "home/.cache/fedannot/prepared", "the user's cache")
    assert participant_store() == participant_store(kit)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert participant_store().root == tmp_path / "home/.cache/fedannot/prepared"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert participant_store().root == tmp_path / "xdg/fedannot/prepared"
    write(kit)
    assert locate_store(kit).store.root == tmp_path / "kit/cache", "beside local, outside the folders of jobs"
    assert participant_store().root == tmp_path / "xdg/fedannot/prepared"
    write(kit, folder="/disk/cache")
    result = locate_store(kit)
    assert (result.store.root, result.named_by) == (Path("/disk/cache"), str(kit / CACHE_FILE))
    monkeypatch.setenv("FEDANNOT_CACHE", "/elsewhere")
    result = locate_store(kit)
    assert (result.store.root, result.named_by) == (Path("/elsewhere"), "FEDANNOT_CACHE")
    assert not (tmp_path / "home").exists(), "nothing is made"


def test_a_kit_that_was_moved_keeps_its_cache_with_it(kit: Path, tmp_path: Path) -> None:
    write(kit, max_gib=1)
    kit.parent.rename(tmp_path / "moved")
    assert participant_store(tmp_path / "moved" / "local").root == tmp_path / "moved" / "cache"


def test_limits_are_the_variables_the_kits_or_the_defaults(kit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (participant_store(kit).limits.max_bytes, participant_store(kit).limits.max_age) == (20 * GIB, 30 * DAY)
    write(kit, max_gib=0.5, max_age_days=7)
    assert (participant_store(kit).limits.max_bytes, participant_store(kit).limits.max_age) == (GIB / 2, 7 * DAY)
    monkeypatch.setenv("FEDANNOT_CACHE_GIB", "3")
    monkeypatch.setenv("FEDANNOT_CACHE_DAYS", "1.5")
    assert (participant_store(kit).limits.max_bytes, participant_store(kit).limits.max_age) == (3 * GIB, 1.5 * DAY)


@pytest.mark.parametrize("folder", ["cache", "./x", "~/cache", "../x"])
def test_relative_paths_are_refused(kit: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    write(kit, folder=folder)
    with pytest.raises(DataError, match=r"cache\.json: folder names '.*'; expected an absolute path"):
        participant_store(kit)
    monkeypatch.setenv("FEDANNOT_CACHE", folder)
    with pytest.raises(DataError, match=r"the environment variable FEDANNOT_CACHE names '.*'; expected an absolute"):
        participant_store(kit)


@pytest.mark.parametrize(
    "values",
    [{"max_gib": 0}, {"max_gib": -1}, {"max_age_days": "long"}, {"max_age": 3}, {"folder": 7}, {"max_gib": 1e9}],
)
def test_wrong_values_name_the_file(kit: Path, values: dict[str, object]) -> None:
    write(kit, **values)
    with pytest.raises(DataError, match=str(kit / CACHE_FILE)):
        participant_store(kit)


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "many", "1e9"])
def test_wrong_limits_name_the_variable(kit: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("FEDANNOT_CACHE_GIB", value)
    with pytest.raises(DataError, match=f"Expected a number above 0 in FEDANNOT_CACHE_GIB, .* but found '{value}'"):
        participant_store(kit)
