"""What a site keeps of its updates in fewer bits, and a server's round of them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support.rounds import round_of
from support.site_views import HandmadeSite

from fedannot.custom.aggregation.influence import InfluenceBounds
from fedannot.custom.aggregation.quantised_updates import SCALES, QuantisedUpdate, quantised
from fedannot.custom.aggregation.reported_counts import ReportedCounts
from fedannot.custom.data.tensor_files import load_latest_tensors
from fedannot.custom.methods.fedavg.server import FedAvgServer
from fedannot.custom.methods.fedavg.settings import FedAvgSettings
from fedannot.custom.methods.fedavg.site import FedAvgSite
from fedannot.custom.methods.lookup import read_job_settings
from fedannot.custom.networks.layout import NetworkLayout
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.refusals import RefusalCode, RefusalReason
from fedannot.custom.run.round_training import RoundTraining, TrainingRun
from fedannot.custom.run.sent_updates import RESIDUALS_FOLDER, update_of_round
from fedannot.custom.run.transport import Reply
from fedannot.custom.settings import SettingsError

Params = dict[str, torch.Tensor]

NETWORK = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.Conv2d(3, 2, 1))
TRAINED = [name for name, _ in NETWORK.named_parameters()]
RECEIVED: Params = {name: value.clone() for name, value in NETWORK.state_dict().items()}
FIELDS = {"num_samples": 10, "num_excluded": 0, "embedded_data": False}


def settings(**changes: Any) -> FedAvgSettings:
    return FedAvgSettings.model_validate({"update_precision": "int8"} | changes)


def trained(seed: int, reference: Params = RECEIVED) -> Params:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: value + torch.rand(value.shape, generator=generator) if value.is_floating_point() else value + seed
        for name, value in reference.items()
    }


class Rounds:
    """A site's messages, round by round."""

    def __init__(self, folder: Path) -> None:
        self.site = HandmadeSite(folder)

    def sent(self, number: int, params: Params, **changes: Any) -> Params:
        made = settings()
        return update_of_round(params, RECEIVED, made, TRAINED, self.site.view(FedAvgSite(made), number, **changes))

    @property
    def folder(self) -> Path:
        return self.site.run_folder / RESIDUALS_FOLDER


def test_the_residual_of_the_round_before_counts_and_no_other(tmp_path: Path) -> None:
    rounds = Rounds(tmp_path)
    first, second = trained(1), trained(2)
    alone = quantised(second, RECEIVED, "int8", TRAINED).sent["0.weight"]
    rounds.sent(1, first)
    kept = load_latest_tensors([(rounds.folder, 1)])
    assert kept is not None
    assert all(
        torch.equal(kept[1][name], value)
        for name, value in quantised(first, RECEIVED, "int8", TRAINED).residual.items()
    )
    with_residual = quantised(second, RECEIVED, "int8", TRAINED, kept[1]).sent["0.weight"]
    assert not torch.equal(with_residual, alone)
    # Again, as where the server was killed: what the round had left does not count in itself.
    for _ in range(2):
        assert torch.equal(rounds.sent(2, second)["0.weight"], with_residual)
    # Absent from the third round.
    assert torch.equal(rounds.sent(4, second)["0.weight"], alone)


def test_after_an_update_that_is_not_finite_zeros_count(tmp_path: Path) -> None:
    rounds, second = Rounds(tmp_path), trained(2)
    rounds.sent(1, trained(1))
    rounds.sent(2, trained(1) | {"0.weight": torch.full((3, 2, 3, 3), torch.nan)})
    alone = quantised(second, RECEIVED, "int8", TRAINED).sent["0.weight"]
    assert torch.equal(rounds.sent(3, second)["0.weight"], alone)


def test_residuals_of_another_network_or_a_damaged_file_are_left_out(tmp_path: Path) -> None:
    rounds, second = Rounds(tmp_path), trained(2)
    other = {"0.weight": torch.zeros(1, 2), "2.weight": torch.zeros(2, 3, 1, 1)}
    update_of_round(other, other, settings(), TRAINED, rounds.site.view(FedAvgSite(settings()), 1))
    alone = quantised(second, RECEIVED, "int8", TRAINED).sent["0.weight"]
    assert torch.equal(rounds.sent(2, second)["0.weight"], alone)
    (rounds.folder / "round_2.pt").write_bytes(b"no tensors")
    assert torch.equal(rounds.sent(3, second)["0.weight"], alone)
    assert any("cannot be read" in said for said in rounds.site.said)


def test_a_continued_run_takes_the_residual_after_the_round_it_goes_on_from(tmp_path: Path) -> None:
    """The earlier run was killed at the server after round 1, when the site had sent its update of round 2."""
    before = Rounds(tmp_path / "before")
    before.sent(1, trained(1))
    expected = before.sent(2, trained(2))["0.weight"]
    again = Rounds(tmp_path / "again")
    earlier: dict[str, Any] = {"earlier_folders": (before.site.run_folder,), "continued_round": 1}
    assert torch.equal(again.sent(2, trained(2), **earlier)["0.weight"], expected)


def training_of(folder: Path, refused: dict[str, RefusalReason], **changes: Any) -> RoundTraining:
    made = settings(**changes)
    this_round = round_of(1)
    this_round.params = RECEIVED
    this_round.bounds = InfluenceBounds(made.influence, lambda _: None)
    layout = NetworkLayout.of(NETWORK, RECEIVED, ("0", "1", "2"))
    registry, claims = OutboundRegistry(()), ReportedCounts(lambda _: None)
    run = TrainingRun(made, layout, registry, claims, folder / "waiting", refused.__setitem__)
    return RoundTraining(run, FedAvgServer(made), this_round, 5)


MESSAGES = {f"site-{number}": quantised(trained(number), RECEIVED, "int8", TRAINED).sent for number in range(1, 6)}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"aggregation": {"rule": "trimmed_mean"}, "min_sites": 3},
        {"aggregation": {"rule": "median"}, "min_sites": 3},
        {"aggregation": {"rule": "multi_krum"}, "min_sites": 5},
        {"aggregation": {"rule": "geometric_median"}, "min_sites": 3},
        {"influence": {"max_update_ratio": 0.5, "max_share": 0.5}, "waiting_memory_mb": 0},
    ],
)
def test_a_round_of_messages_is_that_of_the_models_they_stand_for(tmp_path: Path, changes: dict[str, Any]) -> None:
    """By every rule, with messages that wait in memory and in files; the other round is in full precision."""
    averages = []
    for precision in ("int8", "fp32"):
        refused: dict[str, RefusalReason] = {}
        training = training_of(tmp_path / precision, refused, **changes | {"update_precision": precision})
        for site, message in MESSAGES.items():
            whole = dict(QuantisedUpdate(message, RECEIVED, TRAINED))
            assert training.receive(Reply(site, 1, FIELDS, message if precision == "int8" else whole)), refused
        training._round.reports = training.reports
        averages.append(training.average().params)
        assert training.num_samples == dict.fromkeys(MESSAGES, 10)
    assert all(torch.equal(averages[0][name], value) for name, value in averages[1].items())


def test_messages_that_are_no_updates_are_refused_by_name_and_the_round_goes_on(tmp_path: Path) -> None:
    refused: dict[str, RefusalReason] = {}
    training = training_of(tmp_path, refused)
    message = MESSAGES["site-2"]
    assert training.receive(Reply("site-1", 1, FIELDS, MESSAGES["site-1"]))
    attacks = {
        "site-2": trained(2),
        "site-3": message | {SCALES: -message[SCALES]},
        "site-4": message | {SCALES: message[SCALES] * 1e9},
        "site-5": {},
    }
    for site, sent in attacks.items():
        assert not training.receive(Reply(site, 1, FIELDS, sent))
    codes = [RefusalCode.ENTRIES_MISSING, RefusalCode.FIELD_OUT_OF_RANGE, RefusalCode.DIVERGED, RefusalCode.NO_MODEL]
    assert [refused[site].code for site in attacks] == codes
    assert not training.receive(Reply("site-2", 2, FIELDS, message))
    assert refused["site-2"].code is RefusalCode.OTHER_ROUND
    assert list(training.reports) == ["site-1"]


def test_jobs_whose_control_variates_follow_from_models_are_refused() -> None:
    plain = {"method": "fedavg", "drift_correction": "scaffold", "training": {"optimizer": "sgd", "momentum": 0.0}}
    read_job_settings(plain)
    with pytest.raises(SettingsError, match="key 'update_precision' is 'int8', but 'drift_correction' is 'scaffold'"):
        read_job_settings(plain | {"update_precision": "int8"})
    with pytest.raises(SettingsError, match="'fp32', 'bf16' or 'int8'"):
        read_job_settings({"method": "fedavg", "update_precision": "int4"})
