"""FedRobust at a site: what it is without an adversary, its steps by hand, and rounds that go on from the last one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from support.labelled_pictures import Brightness
from support.labelled_pictures import make_data as make_classes
from support.pictures import Threshold, make_data
from support.site_views import HandmadeSite
from torch import nn

from fedannot.custom.data.description import ClassificationDescription
from fedannot.custom.data.site_data import LoadedCase, SiteData
from fedannot.custom.interface.method import SiteMethod
from fedannot.custom.methods.fedavg.site import FedAvgSite
from fedannot.custom.methods.fedrobust import METHODS
from fedannot.custom.methods.fedrobust.channel_change import ChannelChange
from fedannot.custom.methods.fedrobust.site import CHANGE_FOLDER, FedRobustSite
from fedannot.custom.training.loop import TrainingStopped

CELLS = make_classes([0, 0, 0, 0, 1, 1, 1, 2], [0.1, 0.2, 0.0, 1.0, 1.0, 1.1, 0.9, 2.0])
PICTURES = make_data([(1, 2)] * 4)
TASKS = pytest.mark.parametrize(
    ("task", "network", "data"),
    [("classification", Brightness, CELLS), ("segmentation", lambda: Threshold(2), PICTURES)],
)
RATE, PENALTY, STEP = 0.5, 0.25, 0.2
STEPS_BY_HAND = {"optimizer": "sgd", "momentum": 0, "weight_decay": 0, "batch_size": 4, "learning_rate": RATE}


class ChannelMeans(nn.Module):
    """A linear model of the mean of each of two channels, with three classes."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[1.0, -0.5], [0.25, 1.5], [-1.0, 0.75]]))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.mean(dim=(2, 3)) @ self.weight.T


def two_channels() -> SiteData:
    images = torch.randn(4, 1, 2, 3, 3, generator=torch.Generator().manual_seed(1))
    labels = torch.tensor([[0], [1], [2], [1]], dtype=torch.uint8)
    pairs = enumerate(zip(images, labels, strict=True))
    cases = [LoadedCase(f"{index}.png", str(index), image, label, None, None) for index, (image, label) in pairs]
    description = ClassificationDescription(channels=2, size=(3, 3), classes=("a", "b", "c"))
    return SiteData("site-1", tuple(cases), description, ())


def site_part(task: str = "classification", training: Any = None, channels: int = 1, **settings: Any) -> FedRobustSite:
    num_classes = {"classification": 3, "segmentation": 2}[task]
    values = {"rounds": 30, "network": {"in_channels": channels, "num_classes": num_classes}}
    of_task = {"batch_size": 3, "local_epochs": 2, "learning_rate": 0.05} | (training or {})
    declared = next(method for method in METHODS if method.task == task)
    made = declared.site_part(declared.settings.model_validate(values | {"training": of_task} | settings))
    assert isinstance(made, FedRobustSite)
    return made


def trained(method: SiteMethod, site: HandmadeSite, network: nn.Module, number: int = 1) -> list[torch.Tensor]:
    method.train(network, site.view(method, number))
    return [parameter.detach().clone() for parameter in network.parameters()]


def kept(folder: Path, number: int = 1) -> dict[str, torch.Tensor]:
    file = folder / "run" / CHANGE_FOLDER / f"round_{number}.pt"
    result: dict[str, torch.Tensor] = torch.load(file, weights_only=True)
    return result


@TASKS
def test_without_a_step_or_with_a_large_penalty_it_is_federated_averaging(
    task: str, network: Any, data: SiteData, tmp_path: Path
) -> None:
    free, dear, usual = site_part(task, ascent_step=0), site_part(task, change_penalty=1e30), site_part(task)
    expected = trained(FedAvgSite(free.settings), HandmadeSite(tmp_path / "averaged", data), network())
    assert torch.equal(trained(free, HandmadeSite(tmp_path / "free", data), network())[0], expected[0])
    assert not (tmp_path / "free/run" / CHANGE_FOLDER).exists()
    assert torch.equal(trained(dear, HandmadeSite(tmp_path / "dear", data), network())[0], expected[0])
    assert 0 < float(kept(tmp_path / "dear")["offset"].abs()) < 1e-28
    assert not torch.equal(trained(usual, HandmadeSite(tmp_path / "usual", data), network())[0], expected[0])


def test_a_change_is_a_matrix_over_the_channels_and_an_offset_in_any_dimensions() -> None:
    change = ChannelChange(3)
    generator = torch.Generator().manual_seed(0)
    for images in (torch.randn(2, 3, 4, 5, generator=generator), torch.randn(2, 3, 4, 5, 6, generator=generator)):
        assert torch.equal(ChannelChange(3)(images), images)
        with torch.no_grad():
            for parameter in change.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
        matrix, offset = np.eye(3) + change.deviation.detach().numpy(), change.offset.detach().numpy()
        expected = np.einsum("oc,bc...->bo...", matrix, images) + offset.reshape(3, *[1] * (images.ndim - 2))
        assert change(images).detach().numpy() == pytest.approx(expected, abs=1e-5)


def gradients(weight: NDArray[Any], matrix: NDArray[Any], offset: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Of the mean cross entropy of :class:`ChannelMeans`, by w, Λ and δ: (p − y) zᵀ, Wᵀ (p − y) xᵀ, Wᵀ (p − y)."""
    cases = two_channels().cases
    means = np.stack([case.image[0].double().mean(dim=(1, 2)).numpy() for case in cases])
    seen = means @ matrix.T + offset
    exponentials = np.exp(seen @ weight.T)
    wrong = exponentials / exponentials.sum(axis=1, keepdims=True) - np.eye(3)[[int(case.label) for case in cases]]
    wrong /= len(cases)
    back = wrong @ weight
    return wrong.T @ seen, back.T @ means, back.sum(axis=0)


@pytest.mark.parametrize("training", [{}, {"precision": "fp16"}, {"gradient_clipping": 100.0}])
def test_steps_of_a_linear_model_by_hand(training: dict[str, Any], tmp_path: Path) -> None:
    """The first is step · ∂ℓ/∂(Λ, δ); w and the adversary step at the same time, from the same gradient."""
    weight, matrix, offset = ChannelMeans().weight.detach().double().numpy(), np.eye(2), np.zeros(2)
    for number in (1, 2, 3):
        of_weight, of_matrix, of_offset = gradients(weight, matrix, offset)
        of_matrix, of_offset = of_matrix - 2 * PENALTY * (matrix - np.eye(2)), of_offset - 2 * PENALTY * offset
        length = STEP / (2 * PENALTY)
        weight, matrix, offset = weight - RATE * of_weight, matrix + length * of_matrix, offset + length * of_offset
        settings = STEPS_BY_HAND | {"local_epochs": number, "augmentation": False} | training
        method = site_part(training=settings, channels=2, change_penalty=PENALTY, ascent_step=STEP)
        network = ChannelMeans()
        trained(method, HandmadeSite(tmp_path / str(number), two_channels()), network)
        tolerance = 5e-3 if "precision" in training else 1e-6
        result = kept(tmp_path / str(number))
        assert result["offset"].numpy() == pytest.approx(offset, abs=tolerance)
        assert (result["deviation"] + torch.eye(2)).numpy() == pytest.approx(matrix, abs=tolerance)
        assert network.weight.detach().numpy() == pytest.approx(weight, abs=tolerance)
    assert np.abs(offset).min() > 0.02


def test_a_clipped_gradient_is_not_the_adversary_s(tmp_path: Path) -> None:
    for name, clipping in (("clipped", 1e-3), ("free", None)):
        settings = STEPS_BY_HAND | {"local_epochs": 1, "augmentation": False, "gradient_clipping": clipping}
        trained(site_part(training=settings, channels=2), HandmadeSite(tmp_path / name, two_channels()), ChannelMeans())
    assert torch.equal(kept(tmp_path / "clipped")["offset"], kept(tmp_path / "free")["offset"])


def test_the_penalty_alone_takes_a_share_of_the_change_away() -> None:
    """−λ ∂(‖Λ − I‖² + ‖δ‖²) = −2λ (Λ − I, δ), and the step is s/(2λ)."""
    change = ChannelChange(2)
    with torch.no_grad():
        change.deviation.copy_(torch.tensor([[0.5, -1.0], [2.0, 0.0]]))
        change.offset.copy_(torch.tensor([1.0, -3.0]))
    adversary = change.adversary(penalty=2.0, step=0.25)
    (0 * change(torch.ones(1, 2, 3)).sum()).backward()
    adversary.step()
    assert change.deviation.tolist() == [[0.375, -0.75], [1.5, 0.0]]
    assert change.offset.tolist() == [0.75, -2.25]


@TASKS
def test_a_round_goes_on_from_the_last_one_with_the_same_bits(
    task: str, network: Any, data: SiteData, tmp_path: Path
) -> None:
    method, whole, again = site_part(task), network(), network()
    site = HandmadeSite(tmp_path / "whole", data)
    for number in (1, 2):
        trained(method, site, whole, number)
    # Another process continues after round 1; what came later does not count.
    first = HandmadeSite(tmp_path / "first", data)
    for number in (1, 2):
        trained(method, first, network(), number)
    trained(method, HandmadeSite(tmp_path / "unused", data), again)
    view = HandmadeSite(tmp_path / "other", data).view(method, 2, earlier_folders=[first.run_folder], continued_round=1)
    site_part(task).train(again, view)
    assert all(torch.equal(one, two) for one, two in zip(whole.parameters(), again.parameters(), strict=True))
    one, two = kept(tmp_path / "whole", 2), kept(tmp_path / "other", 2)
    assert all(torch.equal(value, two[name]) for name, value in one.items())
    files = [file for file in (tmp_path / "whole").rglob("*") if file.is_file()]
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)


@pytest.mark.parametrize("damage", ["cut", "other channels", "lost"])
def test_a_change_that_cannot_be_used_starts_at_none_with_a_warning(damage: str, tmp_path: Path) -> None:
    method, site = site_part(), HandmadeSite(tmp_path, CELLS)
    fresh = trained(site_part(ascent_step=0.1), HandmadeSite(tmp_path / "fresh", CELLS), Brightness(), 2)
    trained(method, site, Brightness())
    file = site.run_folder / CHANGE_FOLDER / "round_1.pt"
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:300])
    elif damage == "lost":
        file.unlink()
    else:
        torch.save(ChannelChange(2).state_dict(), file)
    site.said.clear()
    assert torch.equal(trained(method, site, Brightness(), 2)[0], fresh[0])
    expected = "nothing is kept in channel_changes" if damage == "lost" else "cannot be used"
    assert [expected in said for said in site.said] == [True, False]


def test_a_change_that_is_not_finite_is_not_kept(tmp_path: Path) -> None:
    network = Brightness()
    network.scale.data.fill_(float("nan"))
    site = HandmadeSite(tmp_path, CELLS)
    trained(site_part(), site, network)
    assert list(site.run_folder.iterdir()) == []
    assert ["is not finite, and is not kept" in said for said in site.said] == [True]


def test_a_training_that_is_given_up_keeps_nothing(tmp_path: Path) -> None:
    method, site = site_part(), HandmadeSite(tmp_path, CELLS)
    site.stopped = True
    with pytest.raises(TrainingStopped):
        method.train(Brightness(), site.view(method))
    assert list(site.run_folder.iterdir()) == []
