import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from fedannot.apps import ProgressStep, Run, export_bundle, read_run, simulate
from fedannot.apps.runs.job import JobError


class Tags(HTMLParser):
    """Counts tags, and checks that they are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def tags_of(html: str) -> dict[str, int]:
    """The numbers of tags in a piece of HTML that is whole."""
    tags = Tags()
    tags.feed(html)
    assert tags.open == []
    return tags.count


def test_a_run_is_what_its_folder_holds(run: Run) -> None:
    written = json.loads((run.folder / "summary.json").read_text(encoding="utf-8"))
    assert run.summary.plain() == written
    assert written["seed"] == 3
    assert run.score == run.summary.last_rounds.main_score
    assert run.model.is_file()
    assert {file.stem for file in run.pictures} == {"cases", "dice", "groups", "weights", "weights_by_round"}
    assert read_run(run.folder) == run


def test_a_notebook_shows_scores_sites_and_pictures(run: Run) -> None:
    html = run._repr_html_()
    counts = tags_of(html)
    assert counts["img"] == len(run.pictures) == 5
    # A row for the headings, and one per site.
    assert counts["tr"] == 5
    assert str(run) in html
    assert run.sites["site"] == ["site-1", "site-2", "site-3", "site-4"]
    assert "how hard the pixels just inside" in html


def test_a_run_tells_its_progress_and_prints_nothing(
    run: Run, steps: list[ProgressStep], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run.summary.rounds_finished == 3
    counted = [(step.done, step.total) for step in steps if step.total is not None]
    # Three rounds of four sites, in each of which a site has its turn.
    assert {total for _, total in counted} == {12}
    assert [done for done, _ in counted] == sorted(done for done, _ in counted if done is not None)
    assert sum(step.stays and "Dice" in step.text for step in steps) == 3
    read_run(run.folder)
    assert capfd.readouterr() == ("", "")


def test_errors_are_raised(tmp_path: Path) -> None:
    """Nothing ends the process."""
    with pytest.raises(JobError, match="did you mean 'fedavg'"):
        simulate("fedavgg", tmp_path / "out")


def test_a_bundle_of_a_run(run: Run, tmp_path: Path) -> None:
    bundle = export_bundle(run, tmp_path / "bundle", intended_use="Research.")
    assert bundle.metadata["intended_use"] == "Research."
    assert bundle.model_card.is_file()
    assert f"{tmp_path / 'bundle' / 'run.py'} --dataset_dir IMAGES" in bundle._repr_html_()
    tags_of(bundle._repr_html_())
