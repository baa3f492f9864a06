"""One site of eight that lies about its model: how far it moves each part of the global one within the bounds.

The liars are those of the table in ``docs/security.md``. The honest sites' updates have one length in each part, so
that the bound is known: a share times the ratio times that length.
"""

from pathlib import Path

import pytest
import torch
from benchmarks.lying_executors import LIAR, SAMPLES, false_model
from support.rounds import round_of

from fedannot.custom.aggregation.influence import InfluenceBounds
from fedannot.custom.aggregation.reported_counts import ReportedCounts
from fedannot.custom.methods.fedavg.server import FedAvgServer
from fedannot.custom.methods.fedavg.settings import FedAvgSettings
from fedannot.custom.networks.building import build_network
from fedannot.custom.networks.layout import NetworkLayout
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.run.round_training import RoundTraining, TrainingRun
from fedannot.custom.run.transport import Reply

Params = dict[str, torch.Tensor]

SITES = tuple(f"site-{number}" for number in range(1, 9))
BOUNDS = {"max_update_ratio": 1.0, "max_share": 1.5 / 8}
# Of an honest update in every part; small beside the weights, as after the first rounds.
LENGTH = 0.05
NETWORK = build_network(features=(4, 4, 8, 8, 8, 4), upsample="nontrainable")
ATTACKS = ("turned", "samples", "bias", "last", "zeros")


def part_of(name: str) -> tuple[str, str] | None:
    """A layer block and what it is in there; None for what is not trained."""
    block = name.partition(".")[0]
    if "running" in name or "num_batches" in name:
        return None
    if ".adn.N." in name:
        return block, "normalisation"
    return block, "biases" if name.endswith(".bias") else "weights"


PARTS = sorted({part for name in NETWORK.state_dict() if (part := part_of(name))})


def length(params: Params, reference: Params, part: tuple[str, str]) -> float:
    squares = [(params[name] - reference[name]).double().square().sum() for name in params if part_of(name) == part]
    return float(torch.stack(squares).sum().sqrt())


def honest(seed: int, reference: Params) -> Params:
    """A model whose update has the length in every part."""
    generator = torch.Generator().manual_seed(seed)
    ways = {name: torch.randn(tensor.shape, generator=generator) for name, tensor in reference.items() if part_of(name)}
    zero = {name: torch.zeros_like(way) for name, way in ways.items()}
    scales = {part: LENGTH / length(ways, zero, part) for part in PARTS}
    moved = {name: reference[name] + scales[part_of(name)] * way for name, way in ways.items()}
    noisy = {
        name: (tensor * (1 + 0.1 * torch.rand(tensor.shape, generator=generator))).to(tensor.dtype)
        for name, tensor in reference.items()
    }
    return {**noisy, **moved}


REFERENCE: Params = {name: tensor.clone() for name, tensor in NETWORK.state_dict().items()}
HONEST = {site: honest(number, REFERENCE) for number, site in enumerate(SITES)}


def averaged(of_liar: Params, folder: Path, num_samples: int = 10, **settings: object) -> Params:
    """What a round makes of seven honest models and one other."""
    made = FedAvgSettings.model_validate({"min_sites": 5, "influence": BOUNDS} | settings)
    this_round = round_of(1, influence=BOUNDS)
    this_round.params = REFERENCE
    this_round.bounds = InfluenceBounds(made.influence, lambda _: None)
    run = TrainingRun(
        made,
        NetworkLayout.of(NETWORK, REFERENCE, ()),
        OutboundRegistry(()),
        ReportedCounts(lambda _: None),
        waiting_folder=folder / "waiting",
        refuse=lambda site, reason: pytest.fail(f"{site} is refused: {reason}"),
    )
    training = RoundTraining(run, FedAvgServer(made), this_round, len(SITES))
    for site, params in HONEST.items():
        lies = site == LIAR
        fields = {"num_samples": num_samples if lies else 10, "num_excluded": 0, "embedded_data": False}
        assert training.receive(Reply(site, 1, fields, of_liar if lies else params))
    this_round.reports = training.reports
    return training.average().params


def lie(attack: str) -> tuple[Params, int]:
    return false_model(attack, REFERENCE, HONEST[LIAR]), SAMPLES if attack == "samples" else 10


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_liar_moves_every_part_by_its_fraction_of_the_others_length_at_most(attack: str, tmp_path: Path) -> None:
    """With the weights of the honest sites unchanged: one that claims no more than they do, and one that does."""
    model, num_samples = lie(attack)
    still = averaged(REFERENCE, tmp_path, num_samples)
    result = averaged(model, tmp_path, num_samples)
    share = BOUNDS["max_share"] if attack == "samples" else 1 / len(SITES)
    for part in PARTS:
        assert length(result, still, part) <= share * BOUNDS["max_update_ratio"] * LENGTH * (1 + 1e-4), part


@pytest.mark.parametrize("attack", [*ATTACKS, "statistics"])
@pytest.mark.parametrize("rule", ["trimmed_mean", "median", "multi_krum"])
def test_with_a_robust_rule_nothing_goes_beyond_the_honest_models(rule: str, attack: str, tmp_path: Path) -> None:
    model, num_samples = lie(attack)
    result = averaged(model, tmp_path, num_samples, aggregation={"rule": rule})
    for name, tensor in result.items():
        if tensor.is_floating_point():
            # With false statistics it is honest in the rest.
            lies = attack != "statistics" or part_of(name) is None
            values = torch.stack([params[name] for site, params in HONEST.items() if site != LIAR or not lies])
            assert (tensor >= values.amin(dim=0) - 1e-5).all(), name
            assert (tensor <= values.amax(dim=0) + 1e-5).all(), name
            assert "var" not in name or (tensor >= 0).all(), name


def test_honest_models_of_one_length_are_left_as_they_are(tmp_path: Path) -> None:
    result = averaged(HONEST[LIAR], tmp_path)
    for name in result:
        if part_of(name):
            mean = torch.stack([params[name] for params in HONEST.values()]).mean(dim=0)
            torch.testing.assert_close(result[name], mean, rtol=1e-4, atol=1e-6)
