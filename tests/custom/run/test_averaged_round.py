"""What a site of a swarm says and keeps of a round that it averages, against shares by hand."""

from typing import Any

import pytest
from plain_records import site_report

from fedannot.custom.refusals import RefusalCode, RefusalReason
from fedannot.custom.run.averaged_round import AveragedRound


def averaged(**num_samples: int) -> AveragedRound:
    reports = {site: site_report(num_samples=count) for site, count in num_samples.items()}
    return AveragedRound(2, reports, {"d": RefusalReason.of(RefusalCode.NO_MODEL)})


def test_it_is_said_whose_models_how_many_sites_in_effect_and_how_long_the_rest_takes() -> None:
    # Fractions of 1/2, 1/4 and 1/4: 1 / (1/4 + 1/16 + 1/16). Two more rounds of 20 s.
    said = averaged(b=10, a=20, c=10).describe(4, 20.0)
    assert said == "Round 2/4: averaged ['a', 'b', 'c'], 2.7 effective sites, about 40 s left"
    assert averaged(a=5, b=5).describe(2, 20.0) == "Round 2/2: averaged ['a', 'b'], 2.0 effective sites"


@pytest.mark.parametrize(("task", "score"), [("segmentation", "dice"), ("classification", "f1")])
def test_the_record_has_sites_refusals_and_weights_and_no_score(task: str, score: str) -> None:
    # 1 / (0.9² + 0.1²)
    record: dict[str, Any] = averaged(b=10, a=90).record(task, 20.0004).plain()
    assert (record["round"], record["stage"], record["seconds"]) == (2, "swarm", 20.0)
    assert (record["evaluated_on"], record[score]) == (None, None)
    assert {site: report["num_samples"] for site, report in record["sites"].items()} == {"a": 90, "b": 10}
    assert record["refused"] == {"d": {"code": "no_model"}}
    assert record["effective_sites"] == pytest.approx(1.2195122)
    assert record["weights"] == {"a": pytest.approx(0.9), "b": pytest.approx(0.1)}
    assert record["dominant"] == {"site": "a", "weight": 0.9}


def test_several_sites_that_decide_together_leave_no_dominant_one() -> None:
    assert averaged(a=10, b=10).record("segmentation", 1.0).dominant is None
