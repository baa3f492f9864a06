"""FedProx's weight counts in full in every method and each of its stages, or is refused; it is never ignored."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support.labelled_pictures import Brightness
from support.labelled_pictures import make_data as make_classes
from support.pictures import make_data as make_masks
from support.site_views import HandmadeSite

from fedannot.custom.interface.declaration import Method
from fedannot.custom.methods import METHODS
from fedannot.custom.methods.fedcorr.server import SHARE_OF_NOISE
from fedannot.custom.methods.fednoro.server import DISTILLATION
from fedannot.custom.methods.fedselect.outbound import NUM_PARAMETERS
from fedannot.custom.methods.fedselect.server import IS_SELECTIVE, SCORER
from fedannot.custom.methods.lookup import find_method, read_job_settings
from fedannot.custom.networks.described import described_network
from fedannot.custom.settings import SettingsError, TrainingSettings
from fedannot.custom.training import loop
from fedannot.custom.training.objectives import Objective, with_penalty

KEY = "training.proximal_weight"
DATA = {
    "segmentation": make_masks([(1,)] * 6),
    "classification": make_classes([0, 0, 0, 1, 1, 1, 2, 2, 2], [0.1, 0.2, 0.0, 1.0, 1.1, 0.9, 2.0, 2.1, 1.9]),
}
NETWORK: dict[str, dict[str, Any]] = {
    "segmentation": {"features": [4, 4, 8, 8, 8, 4]},
    "classification": {"in_channels": 1, "num_classes": 3, "depth": 10, "widths": [4, 4, 8, 8], "stem": "small"},
}
RATE, WEIGHT = 0.1, 4.0
STAGES = ("warmup_rounds", "preprocessing_rounds", "finetuning_rounds")
# Of a noisy site, and of a server that chooses samples.
MESSAGE = {SCORER: [0.0] * NUM_PARAMETERS, IS_SELECTIVE: True, DISTILLATION: 0.5, SHARE_OF_NOISE: 0.5}
REFUSED = {"decoupled"}
# Of these another part is trained first, for as many steps, and decides what the first of these steps is.
OTHER_STEPS = {"fedrep", "fedfixer"}


def rounds_of(method: Method) -> tuple[int, ...]:
    """A round after the shortest warm-up, and one in it."""
    return (3, 1) if any(name in method.settings.model_fields for name in STAGES) else (3,)


def values_of(method: Method, weight: float, steps: int) -> dict[str, Any]:
    training = {"batch_size": 3, "optimizer": "sgd", "momentum": 0.0, "learning_rate": RATE, "schedule": "constant"}
    values: dict[str, Any] = {
        "task": method.task,
        "method": method.name,
        "rounds": 8,
        "network": NETWORK[method.task],
        "training": training | {"local_steps": steps, "proximal_weight": weight},
    }
    values |= {name: 1 for name in STAGES if name in method.settings.model_fields}
    return values | ({"models_to_sites": True} if method.models_to_sites else {})


def way(method: Method, weight: float, steps: int, number: int, folder: Path) -> torch.Tensor:
    """What so many steps of a site's round change of the parameters."""
    settings = read_job_settings(values_of(method, weight, steps))
    folder.mkdir()
    if method.task == "classification":
        (folder / "data.yaml").write_text("channels: 1\nsize: [4, 4]\nclasses: [a, b, c]\npipeline: classification\n")
        (folder / "datalist.json").write_text('{"training": []}')
    network, site = described_network(settings.network), HandmadeSite(folder, DATA[method.task])
    received = torch.cat([value.detach().flatten().clone() for value in network.parameters()])
    part = method.site_part(settings)
    view = site.view(part, number, MESSAGE)
    part.train(network, view)
    if method.name == "single_site":
        network = part.model_in_use(network, view)
    return torch.cat([value.detach().flatten() for value in network.parameters()]) - received


@pytest.mark.parametrize(
    ("method", "number"),
    [
        pytest.param(method, number, id=f"{method.name}-{method.task}-{number}")
        for method in METHODS
        if method.name not in REFUSED
        for number in rounds_of(method)
    ],
)
def test_the_second_step_of_every_method_is_shorter_by_the_penalty(method: Method, number: int, tmp_path: Path) -> None:
    """The first step is the same, to w₁; the gradient of the second one has μ (w₁ − w₀) more, whatever the loss is."""
    first, plain, near = (
        way(method, weight, steps, number, tmp_path / f"{weight}-{steps}")
        for weight, steps in ((WEIGHT, 1), (0.0, 2), (WEIGHT, 2))
    )
    assert float(first.norm()) > 1e-3
    if method.name in OTHER_STEPS:
        assert not torch.equal(plain, near)
        return
    torch.testing.assert_close(plain - near, RATE * WEIGHT * first, atol=2e-6, rtol=1e-4)


@pytest.mark.parametrize(
    ("task", "name", "weights"), [("segmentation", "fedrep", [WEIGHT] * 2), ("classification", "fedfixer", [0, WEIGHT])]
)
def test_where_a_round_trains_twice_what_is_trained_is_kept_near_the_received(
    task: str, name: str, weights: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each training of a round takes its own start as w_t; none before it may have changed what it trains."""
    starts: list[tuple[float, list[torch.Tensor | None]]] = []

    def noted(objective: Objective, training: TrainingSettings, network: torch.nn.Module) -> Objective:
        values = [value.detach().clone() if value.requires_grad else None for value in network.parameters()]
        starts.append((training.proximal_weight, values))
        return with_penalty(objective, training, network)

    monkeypatch.setattr(loop, "with_penalty", noted)
    method = find_method(task, name)
    way(method, WEIGHT, 2, 3, tmp_path / "site")
    received = list(described_network(read_job_settings(values_of(method, WEIGHT, 2)).network).parameters())
    assert [weight for weight, _ in starts] == weights
    for _, start in starts:
        trained = [pair for pair in zip(start, received, strict=True) if pair[0] is not None]
        assert trained
        assert all(torch.equal(value, other) for value, other in trained)


@pytest.mark.parametrize("method", [method for method in METHODS if method.name in REFUSED], ids=lambda each: each.name)
def test_others_refuse_it_by_name(method: Method) -> None:
    with pytest.raises(SettingsError, match=KEY):
        read_job_settings(values_of(method, WEIGHT, 1))


@pytest.mark.parametrize(("task", "name"), [("segmentation", "ditto"), ("classification", "fedfixer")])
def test_a_model_of_the_site_s_own_has_no_penalty_but_its_own(task: str, name: str, tmp_path: Path) -> None:
    method = find_method(task, name)
    ways = [way(method, weight, 2, 3, tmp_path / str(weight)) for weight in (0.0, WEIGHT)]
    assert not torch.equal(*ways)
    kept = [torch.load(file, weights_only=True) for file in sorted(tmp_path.glob("*/run/*/round_3.pt"))]
    assert len(kept) == 2
    assert all(torch.equal(value, kept[1][entry]) for entry, value in kept[0].items())


@pytest.mark.parametrize("weight", [10.0, 1e4])
def test_a_huge_weight_keeps_a_classifier_at_the_received_one(weight: float, tmp_path: Path) -> None:
    """Steps of 1/μ go to w₀ − ∇ℓ/μ, so that ‖w − w₀‖ falls as 1/μ."""
    method = find_method("classification", "fedavg")
    values = values_of(method, weight, steps=9)
    values["training"] |= {"learning_rate": 1 / weight, "weight_decay": 0.0}
    part, network = method.site_part(read_job_settings(values)), Brightness()
    part.train(network, HandmadeSite(tmp_path, DATA["classification"]).view(part))
    assert 0 < abs(float(network.scale.detach()) - 1) < 2 / weight


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf")])
def test_a_weight_is_a_number_from_zero_on(value: float) -> None:
    with pytest.raises(SettingsError, match=KEY):
        read_job_settings(values_of(find_method("classification", "fedavg"), value, 1))
