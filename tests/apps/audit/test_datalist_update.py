"""A new datalist counts in one step or not at all, and the one before it counts again on request."""

import json
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedannot.apps.audit import datalist_update
from fedannot.apps.audit.datalist_update import UPDATED_FROM, prepare_update, revert_update
from fedannot.apps.commands.audit import audit_app
from fedannot.custom.data.description import read_site_description
from fedannot.transforms.errors import DataError

LINES = ("# of the ward", "pipeline: image2d", "classes: [lesion]", "labels: {0: 0, 255: 1}", "channels: 1")
CONTENT = {"training": [{"image": "a.png", "label": "new/a.png", "given_label": "a_mask.png"}]}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site whose ``data.yaml`` another account may read, with a remark at the datalist."""
    (tmp_path / "datalist.json").write_text(json.dumps({"training": [{"image": "a.png", "label": "a_mask.png"}]}))
    text = "\r\n".join([*LINES, "datalist: datalist.json  # as given", "size: [64, 64]", ""])
    (tmp_path / "data.yaml").write_bytes(text.encode())
    (tmp_path / "data.yaml").chmod(0o640)
    return tmp_path


def files_of(site: Path) -> dict[str, bytes]:
    return {path.relative_to(site).as_posix(): path.read_bytes() for path in site.rglob("*") if path.is_file()}


def updated(site: Path, name: str = "reviewed", out: str = "new") -> Path:
    update = prepare_update(site, site / out, name)
    (site / out).mkdir()
    (site / out / "a.png").write_bytes(b"mask")
    return update.put_in_force(CONTENT, site / out)


def test_the_line_of_the_datalist_alone_changes(site: Path) -> None:
    before = files_of(site)
    assert updated(site) == site / "datalist.reviewed.json"
    now = files_of(site)
    old, new = (content["data.yaml"].decode() for content in (before, now))
    assert new == old.replace("datalist: datalist.json", 'datalist: "datalist.reviewed.json"')
    assert {name: now[name] for name in before if name != "data.yaml"} == {"datalist.json": before["datalist.json"]}
    assert json.loads(now["datalist.reviewed.json"]) == CONTENT | {UPDATED_FROM: "datalist.json"}
    assert stat.S_IMODE((site / "data.yaml").stat().st_mode) == 0o640
    assert stat.S_IMODE((site / "datalist.reviewed.json").stat().st_mode) == 0o600


@pytest.mark.parametrize("absolute", [False, True])
def test_updates_are_reverted_one_after_the_other(site: Path, absolute: bool) -> None:
    if absolute:
        text = (site / "data.yaml").read_text().replace("datalist.json", str(site / "datalist.json"))
        (site / "data.yaml").write_text(text)
    names = [updated(site), updated(site, out="second"), updated(site, "shifted", "third")]
    expected = ["datalist.reviewed.json", "datalist.reviewed-2.json", "datalist.shifted.json"]
    assert [file.name for file in names] == expected
    assert Path(read_site_description(site).datalist).is_absolute() == absolute
    for name in ["datalist.reviewed-2.json", "datalist.reviewed.json", "datalist.json"]:
        assert revert_update(site).file == site / name
        assert Path(read_site_description(site).datalist).name == name
    assert all(file.is_file() for file in names)
    with pytest.raises(DataError, match="no update of annotations has made it"):
        revert_update(site)


@pytest.mark.parametrize("step", range(2))
@pytest.mark.parametrize("error", [OSError("no space"), KeyboardInterrupt()], ids=["disk", "interrupted"])
def test_where_a_step_fails_all_is_as_before(site: Path, monkeypatch, step: int, error: BaseException) -> None:
    before, replace, calls = files_of(site), Path.replace, []

    def fail(self: Path, target: Path) -> Path:
        calls.append(target)
        if len(calls) > step:
            raise error
        return replace(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(type(error)):
            updated(site)
    assert [target.name for target in calls] == ["datalist.reviewed.json", "data.yaml"][: step + 1]
    assert files_of(site) == before
    assert updated(site).name == "datalist.reviewed.json"


def test_what_fails_once_it_counts_removes_nothing(site: Path, monkeypatch) -> None:
    replace_text = datalist_update._replace_text

    def fail(*arguments: object) -> None:
        replace_text(*arguments)
        raise OSError("the disk says nothing")

    monkeypatch.setattr(datalist_update, "_replace_text", fail)
    with pytest.raises(OSError, match="says nothing"):
        updated(site)
    assert (site / read_site_description(site).datalist).is_file()
    assert (site / "new" / "a.png").is_file()


def test_another_update_meanwhile_stops_this_one_and_loses_nothing(site: Path) -> None:
    late, late_too = (prepare_update(site, site / "late", "reviewed") for _ in range(2))
    first = updated(site)
    (site / "late").mkdir()
    with pytest.raises(DataError, match="was written meanwhile"):
        late.put_in_force(CONTENT, site / "late")
    assert not (site / "late").exists()
    first.rename(site / "moved.json")
    with pytest.raises(DataError, match=r"data\.yaml: was changed meanwhile"):
        late_too.put_in_force(CONTENT, site / "late")
    (site / "moved.json").rename(first)
    assert read_site_description(site).datalist == first.name


def test_a_description_without_lines_of_its_own_is_refused_before_anything_is_written(site: Path) -> None:
    (site / "data.yaml").write_text("{classes: [a], labels: {0: 0, 1: 1}, channels: 1, size: [8, 8]}\n")
    before = files_of(site)
    with pytest.raises(DataError, match="expected keys in lines of their own"):
        updated(site)
    assert files_of(site) == before


@pytest.mark.parametrize("name", ["../datalist.json", "/etc/passwd", "a/../b.json", "..", "", 3, "a\0b", "absent.json"])
def test_a_datalist_does_not_lead_elsewhere_by_what_it_was_made_from(site: Path, name: object) -> None:
    content = {"training": [], UPDATED_FROM: name}
    (site / "datalist.json").write_text(json.dumps(content))
    before = files_of(site)
    with pytest.raises(DataError, match=r"datalist\.json: key 'updated_from'|absent\.json: found no such file"):
        revert_update(site)
    assert files_of(site) == before


def test_the_command_reverts(site: Path) -> None:
    updated(site)
    result = CliRunner().invoke(audit_app, ["revert", str(site)])
    assert result.exit_code == 0, result.output
    assert "datalist.json again, in place of datalist.reviewed.json" in result.output.replace("\n", " ")
