"""Arms with other rules for several annotations: refused where a rule decides a label that is scored."""

import json
from pathlib import Path

import pytest
from support.several_annotators import write_site

from fedannot.apps.runs.compared_labels import check_same_labels
from fedannot.apps.runs.job import JobError
from fedannot.custom.data.federation import FederationDescription, write_federation
from fedannot.custom.methods.fedavg.averaging_settings import SegmentationAveragingSettings
from fedannot.custom.settings import RunSettings


def settings(rule: str | None) -> RunSettings:
    return SegmentationAveragingSettings.model_validate({"training": {"consensus": rule}})


@pytest.fixture
def federation(tmp_path: Path) -> Path:
    """Two sites and a test set; all cases have several annotations and no label."""
    for site in ("site-1", "site-2", "test"):
        write_site(tmp_path / site)
    change(tmp_path / "test", lambda lists: {"testing": lists["training"]})
    write_federation(tmp_path, FederationDescription(name="several", sites=("site-1", "site-2")))
    return tmp_path


def change(folder: Path, changed) -> None:  # type: ignore[no-untyped-def]
    file = folder / "datalist.json"
    file.write_text(json.dumps(changed(json.loads(file.read_text(encoding="utf-8")))), encoding="utf-8")


def with_labels(items: list[dict[str, object]]) -> list[dict[str, object]]:
    return [item | {"label": item["labels"][0]["file"]} for item in items]  # type: ignore[index]


@pytest.mark.parametrize("other", ["one:A", "staple", None])
def test_rules_that_decide_what_is_scored_may_not_differ(federation: Path, other: str | None) -> None:
    arms = {"first": settings("majority"), "second": settings(other)}
    with pytest.raises(
        JobError, match=r"test: found 3 of 3 cases of the list 'testing' .* \(first: majority, second: "
    ):
        check_same_labels(arms, [None, federation])
    check_same_labels({"first": arms["second"], "second": arms["second"]}, [federation])
    check_same_labels(arms, [None])
    change(federation / "test", lambda lists: {"testing": with_labels(lists["testing"])})
    check_same_labels(arms, [federation])
    # Without a test set the sites' own cases are scored, by the rule also where they have a label.
    (federation / "test" / "data.yaml").unlink()
    change(federation / "site-1", lambda lists: lists | {"validation": with_labels(lists["validation"])})
    with pytest.raises(JobError, match="site-1: found 1 of 1 cases of the list 'validation'"):
        check_same_labels(arms, [federation])


@pytest.mark.parametrize("other", ["soft", "random-per-epoch"])
def test_rules_whose_scores_are_of_the_majority_may(federation: Path, other: str) -> None:
    check_same_labels({"first": settings("majority"), "second": settings(other)}, [federation])
