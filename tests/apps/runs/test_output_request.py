"""An output folder keeps what it was asked for: the same goes on, entries may be added, all else is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from fedannot.apps.runs.output_request import keep_request

ASKED: dict[str, Any] = {"data": None, "free": [1], "arms": {"a": {"rounds": 2}}}


def keep(out: Path, **changes: Any) -> dict[str, Any]:
    keep_request(out, "request.json", ASKED | changes, contents="comparison", growing={"arms": "arm"}, free={"free"})
    content: dict[str, Any] = json.loads((out / "request.json").read_text(encoding="utf-8"))
    return content


def test_the_same_request_goes_on_and_entries_may_be_added(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert keep(out) == keep(out) == ASKED
    both = {"a": {"rounds": 2}, "b": {"rounds": 3}}
    assert keep(out, arms={"b": {"rounds": 3}}, free=[2]) == ASKED | {"arms": both, "free": [2]}
    assert keep(out)["arms"] == both


@pytest.mark.parametrize(
    ("changes", "differing"),
    [
        ({"data": "x"}, "data was None and is x"),
        ({"arms": {"a": {"rounds": 9}}}, r"the arm 'a' was \{'rounds': 2\} and is \{'rounds': 9\}"),
    ],
)
def test_another_request_is_refused_and_nothing_is_written(
    tmp_path: Path, changes: dict[str, Any], differing: str
) -> None:
    before = keep(tmp_path / "out")
    with pytest.raises(ValueError, match=f"out holds another comparison: {differing}. Choose another output folder"):
        keep(tmp_path / "out", **changes)
    assert json.loads((tmp_path / "out" / "request.json").read_text(encoding="utf-8")) == before


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ValueError, match=r"an empty folder or an earlier comparison, but .* holds other files"):
        keep(tmp_path)


def test_whoever_is_killed_while_writing_the_request_is_followed_by_others(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    (tmp_path / ".123.request.json").write_text("{")
    assert keep(tmp_path) == ASKED
    (tmp_path / "request.json").unlink()
    (tmp_path / ".lock").touch()
    (tmp_path / "123.request.json").touch()
    with pytest.raises(ValueError, match="holds other files"):
        keep(tmp_path)


def keep_data(out: Path, data: Path | str, root: Path | None = None) -> str:
    asked = {"data": str(data)}
    keep_request(out, "request.json", asked, contents="comparison", paths={"data"}, root=root)
    kept: str = json.loads((out / "request.json").read_text(encoding="utf-8"))["data"]
    return kept


def test_data_that_are_moved_with_the_folder_are_the_same(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    assert keep_data(before / "runs", before / "data" / "seed{seed}", before) == "{out}/../data/seed{seed}"
    # As an earlier version kept it, which is the same while it is where it was.
    file = before / "runs" / "request.json"
    file.write_text(json.dumps({"data": str(before / "data" / "seed{seed}")}), encoding="utf-8")
    keep_data(before / "runs", before / "runs" / ".." / "data" / "seed{seed}", before)
    before.rename(after)
    keep_data(after / "runs", after / "data" / "seed{seed}", after)
    for other in (after / "data2" / "seed{seed}", before / "data" / "seed{seed}", tmp_path / "data" / "seed{seed}"):
        with pytest.raises(ValueError, match=r"data was \{out\}/\.\./data/seed\{seed\} and is "):
            keep_data(after / "runs", other, after)


def test_data_outside_stay_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other data at the same place as seen from the folder are other data; the same in other words are the same."""
    (tmp_path / "one").mkdir()
    monkeypatch.chdir(tmp_path / "one")
    assert keep_data(tmp_path / "one" / "out", "data") == "data"
    assert keep_data(tmp_path / "one" / "out", tmp_path / "one" / "data") == str(tmp_path / "one" / "data")
    (tmp_path / "one" / "out").rename(tmp_path / "out")
    with pytest.raises(ValueError, match=r"data was .*one/data and is .*/data"):
        keep_data(tmp_path / "out", tmp_path / "data")
    assert keep_data(tmp_path / "out", tmp_path / "one" / "data") == str(tmp_path / "one" / "data")
