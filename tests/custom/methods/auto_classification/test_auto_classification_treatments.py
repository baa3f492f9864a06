"""FedGSCA in place of corrections: its form, when it begins, and that it goes on after a restart."""

import json
from pathlib import Path
from typing import Any

from support.rounds import round_of
from test_auto_classification_server import Run, Sites

from fedannot.apps.runs.job import Job
from fedannot.custom.methods.auto_classification.server import AutoClassificationServer
from fedannot.custom.methods.auto_classification.settings import AutoClassificationSettings
from fedannot.custom.methods.auto_classification.treatments import FORM, treatment_of
from fedannot.custom.methods.fedgsca.settings import FedGSCASettings
from fedannot.custom.records.plain_values import check_restorable
from fedannot.custom.task_names import ESTIMATE_CONFUSION

JOBS = Path(__file__).parents[4] / "jobs"
NETWORK = {"in_channels": 1, "num_classes": 3}
SELECTOR: dict[str, Any] = {
    **{"num_samples": 9, "noise_level": 0.4, "num_patients": 9, "selector_patients": [5, 4]},
    **{"selector_means": [0.1, 0.8], "selector_variances": [0.1, 0.1], "selector_priors": [0.6, 0.4]},
}


def test_it_has_the_form_of_its_job_and_shares_the_rest() -> None:
    job = Job.open(JOBS / "fedgsca").settings()
    assert isinstance(job, FedGSCASettings)
    assert {name: getattr(job, name) for name in FORM} == FORM
    given = AutoClassificationSettings.model_validate(
        {"rounds": 10, "warmup_rounds": 4, "network": NETWORK, "treatment": "fedgsca", "training": {"batch_size": 3}}
    )
    result = treatment_of(given)
    assert result is not None
    settings = result[1]
    assert isinstance(settings, FedGSCASettings)
    assert (settings.method, settings.warmup_rounds, settings.training.batch_size) == ("fedgsca", 4, 3)
    # What is nobody's choice is as in the job.
    others = set(FedGSCASettings.model_fields) - set(AutoClassificationSettings.model_fields)
    assert {name: getattr(settings, name) for name in others} == {name: getattr(job, name) for name in others}
    assert treatment_of(given.model_copy(update={"treatment": "both"})) is None


def test_it_begins_with_the_first_estimate_that_establishes_something_and_stays() -> None:
    sites = Sites(a=0.02, b=0.0)
    run = Run(sites, treatment="fedgsca")
    assert run.before(3) == [(ESTIMATE_CONFUSION, None)]
    assert run.server.message(round_of(3)) == {}
    assert run.server.stage(round_of(3)) == "federated averaging"
    sites.levels = {"a": 0.4, "b": 0.0}
    assert run.before(7) == [(ESTIMATE_CONFUSION, None)]
    assert run.server.message(round_of(7)) == {"treatment": "fedgsca"}
    assert run.server.stage(round_of(7)) == "sample selection"
    run.server.after_training(round_of(7, reports={"a": SELECTOR, "b": SELECTOR}))
    message = run.server.message(round_of(8))
    assert message["fedannot_selector"]["means"] == SELECTOR["selector_means"]
    state = run.server.state()
    check_restorable(state, "the state")
    other = AutoClassificationServer(run.server.settings)
    other.restore(json.loads(json.dumps(state)), [])
    assert other.message(round_of(8)) == message


def test_without_it_nobody_is_instructed_to_treat() -> None:
    run = Run(Sites(a=0.4, b=0.0))
    run.before(3)
    run.server.after_training(round_of(3, reports={"a": SELECTOR}))
    assert run.server.message(round_of(3)) == {}
