"""Methods with personal parts at the server: the shared part is averaged, and sites keep their models at the end."""

from collections.abc import Collection
from typing import Any

import pytest
from support.rounds import round_of

from fedannot.custom.methods.decoupled.server import DecoupledServer
from fedannot.custom.methods.decoupled.settings import DecoupledSettings
from fedannot.custom.methods.ditto.settings import DittoSettings
from fedannot.custom.methods.fedrep.settings import FedRepSettings
from fedannot.custom.methods.personal.server import PersonalServer
from fedannot.custom.methods.personal.settings import PersonalSettings
from fedannot.custom.methods.single_site.settings import SingleSiteSettings
from fedannot.custom.task_names import KEEP_MODEL


@pytest.mark.parametrize(
    ("settings", "is_model"),
    [(DittoSettings(), True), (DecoupledSettings(), True), (FedRepSettings(), False), (SingleSiteSettings(), False)],
    ids=lambda value: getattr(value, "method", ""),
)
def test_a_shared_part_is_scored_at_the_server_where_it_is_a_model(settings: PersonalSettings, is_model: bool) -> None:
    assert PersonalServer(settings).is_scored_at_server is is_model


def after_rounds(answers: dict[str, dict[str, Any]], stopped: bool = False) -> list[str]:
    """What is said when sites that have trained, a and b, answer so."""
    said: list[str] = []

    def ask(task: str, sites: Collection[str] | None = None) -> dict[str, dict[str, Any]]:
        assert (task, sites) == (KEEP_MODEL, None)
        return answers

    PersonalServer(DittoSettings()).after_rounds(
        round_of(4, num_samples={"a": 3, "b": 4}, ask=ask, said=said, stopped=stopped)
    )
    return said


def test_every_site_keeps_the_last_model_and_those_that_did_not_are_named() -> None:
    stored, failed = {"has_model": True}, {"has_model": False}
    assert after_rounds({"a": stored, "b": stored}) == []
    assert after_rounds({"a": stored}) == ["['b'] did not store the final model."]
    assert after_rounds({"a": failed, "b": stored}) == ["['a'] did not store the final model."]


def test_nobody_is_missed_in_a_run_that_is_stopped() -> None:
    assert after_rounds({}, stopped=True) == []


def test_decoupled_predictions_begin_with_a_warm_up_that_no_other_run_branches_into() -> None:
    server = DecoupledServer(DecoupledSettings(warmup_rounds=2))
    stages = [server.stage(round_of(number)) for number in (1, 2, 3)]
    assert stages == ["warm-up", "warm-up", "decoupled predictions"]
    assert server.rounds_of_averaging == 0
    assert PersonalServer(DittoSettings()).stage(round_of(1)) == "federated averaging"
