"""FedDM's parts by hand and against brute force: projection, peers, pixels; and who has to allow it."""

import itertools
import math
from typing import Any

import pytest
import torch
from support.rounds import NoModels, round_of

from fedannot.custom.approval.configuration import JobRefusedError
from fedannot.custom.approval.limits import Limits, check_settings
from fedannot.custom.methods.feddm.peers import chosen_peers, image_distances, random_images
from fedannot.custom.methods.feddm.pixel_selection import SelectedPixels, focal_loss, pixel_losses, selected_pixels
from fedannot.custom.methods.feddm.projection import projected_mean, without_conflict
from fedannot.custom.methods.feddm.server import FedDMServer
from fedannot.custom.methods.feddm.settings import FedDMSettings
from fedannot.custom.methods.lookup import read_job_settings
from fedannot.custom.settings import SettingsError
from fedannot.custom.training.batch import Batch
from fedannot.custom.training.objectives import Step

VALUES: dict[str, Any] = {
    "rounds": 4,
    "models_to_sites": True,
    "network": {"features": (4, 4, 8, 8, 8, 4), "num_classes": 1, "upsample": "nontrainable"},
    "training": {"loss": "ce", "batch_size": 4},
    "random_images": 5,
    "random_extent": 32,
}


def settings(**changes: Any) -> FedDMSettings:
    return FedDMSettings.model_validate(VALUES | changes)


def vectors(*rows: tuple[float, ...]) -> list[torch.Tensor]:
    return [torch.tensor(row, dtype=torch.float64) for row in rows]


def test_conflicts_are_projected_by_hand() -> None:
    first, second, has = without_conflict(*vectors((1, 1), (1, -3)))
    assert (first.tolist(), second.tolist(), has) == (pytest.approx([1.2, 0.4]), pytest.approx([2.0, -2.0]), True)
    mean = projected_mean(vectors((1, 1), (1, -3)), torch.ones(2).double())
    assert mean is not None
    assert mean.tolist() == pytest.approx([1.6, -0.8])


def test_without_a_conflict_there_is_nothing_to_project() -> None:
    for updates in (vectors((1, 0), (0, 1), (1, 1)), vectors((0, 0), (1, 1)), vectors((1, -2))):
        assert projected_mean(updates, updates[0]) is None


def test_pairs_are_of_the_highest_and_the_lowest_along_the_history() -> None:
    """Along (1, 0): 3, 2, 1, −1. So (3, 0) with (−1, 1), (2, 1) with (1, −3); then their sums."""
    updates = vectors((1, -3), (3, 0), (-1, 1), (2, 1))
    mean = projected_mean(updates, torch.tensor([1.0, 0.0]).double())
    one = sum(without_conflict(updates[1], updates[2])[:2])
    other = sum(without_conflict(updates[3], updates[0])[:2])
    assert isinstance(one, torch.Tensor)
    assert isinstance(other, torch.Tensor)
    assert mean is not None
    assert mean.tolist() == pytest.approx((sum(without_conflict(one, other)[:2]) / 4).tolist())
    # Of three the middle one waits for the sum of the others.
    three = projected_mean(updates[1:], torch.tensor([1.0, 0.0]).double())
    assert three is not None
    assert three.tolist() == pytest.approx((sum(without_conflict(one, updates[3])[:2]) / 3).tolist())
    # A permutation of the sites changes nothing.
    for order in itertools.permutations(updates):
        again = projected_mean(order, torch.tensor([1.0, 0.0]).double())
        assert again is not None
        assert again.tolist() == pytest.approx(mean.tolist())


def test_peers_are_the_nearest_and_farthest_in_most_images() -> None:
    maps = torch.rand(4, 7, 2, 3, generator=torch.Generator().manual_seed(0))
    distances = image_distances(maps)
    votes: dict[tuple[int, str], list[int]] = {}
    for image, site in itertools.product(range(7), range(4)):
        far = {other: math.dist(maps[site, image].flatten(), maps[other, image].flatten()) for other in range(4)}
        assert distances[image, site].tolist() == pytest.approx([far[other] for other in range(4)], abs=1e-6)
        del far[site]
        votes.setdefault((site, "near"), []).append(min(far, key=far.__getitem__))
        votes.setdefault((site, "far"), []).append(max(far, key=far.__getitem__))
    most = {key: max(sorted(set(of_key)), key=of_key.count) for key, of_key in votes.items()}
    assert chosen_peers(distances) == [(most[site, "near"], most[site, "far"]) for site in range(4)]
    assert chosen_peers(distances[:, :2, :2]) == [(1, 1), (0, 0)]


def test_a_model_that_says_nothing_finite_is_nobodys_peer() -> None:
    """Its distances are NaN, which are the smallest and the largest of all to a search."""
    maps = torch.rand(4, 7, 2, 3, generator=torch.Generator().manual_seed(0))
    honest = [0, 2, 3]
    expected = chosen_peers(image_distances(maps[honest]))
    maps[1, 4] = math.nan
    chosen_by_site = chosen_peers(image_distances(maps))
    assert chosen_by_site[1] is None
    for pair, wanted in zip([chosen_by_site[site] for site in honest], expected, strict=True):
        assert wanted is not None
        assert pair == tuple(honest[place] for place in wanted)
    assert chosen_peers(image_distances(maps[:2])) == [None, None]


@pytest.mark.parametrize("place", [1, 2])
def test_a_peer_of_huge_weights_takes_no_annotation_away(place: int) -> None:
    """Without a guard all that is small for the own model became background, or was ignored."""
    labels = torch.tensor([[1] * 10 + [0, 255]])
    losses = [torch.arange(12.0)[None] for _ in range(3)]
    losses[place] = torch.full((1, 12), math.nan)
    assert torch.equal(selected_pixels(labels, losses[0], losses[1], losses[2], 0.6), labels)


def test_random_images_are_the_same_whatever_fits_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = torch.cat(list(random_images(settings(), 3)))
    monkeypatch.setattr("fedannot.custom.methods.feddm.peers._MOST_NUMBERS", 2 * 3 * 2 * 32 * 32)
    parts = list(random_images(settings(), 3))
    assert [len(part) for part in parts] == [2, 2, 1]
    assert torch.equal(torch.cat(parts), whole)
    assert 0 <= float(whole.min()) < float(whole.max()) < 1


def chosen(own: str, nearest: str, farthest: str) -> list[int]:
    """Ten foreground pixels, two of background, one ignored; a digit is a pixel's loss."""
    labels = torch.tensor([[1] * 10 + [0, 0, 255]])
    losses = [torch.tensor([[*map(float, text), 0.0, 9.0, 0.0]]) for text in (own, nearest, farthest)]
    result: list[int] = selected_pixels(labels, *losses, 0.6)[0].tolist()
    return result


def test_which_pixels_are_kept_by_hand() -> None:
    """Six of ten are small: for the own model the first six, for the nearest the first five and the last."""
    kept = chosen("0123456789", "0123498765", "0129456783")
    # The fourth is small for both, but not for the farthest; the last is small for both peers.
    assert kept == [1, 1, 1, 255, 1, 0, 255, 255, 255, 0, 0, 0, 255]
    # Of eight pixels five are below the threshold: all stay.
    few = torch.tensor([[1, 1, 1, 1, 1, 1, 1, 1, 0]])
    losses = torch.arange(9.0)[None]
    assert torch.equal(selected_pixels(few, losses, -losses, losses, 0.7), few)
    # Of a share of all nothing is dropped.
    many = torch.ones(1, 20, dtype=torch.long)
    assert torch.equal(selected_pixels(many, *(torch.rand(1, 20) for _ in range(3)), 1.0), many)


def test_the_focal_loss_by_hand() -> None:
    """p = (0.665241, 0.244728, 0.090031); label 0 is background, and an ignored pixel does not count."""
    logits = torch.tensor([2.0, 1.0, 0.0]).view(1, 3, 1, 1).expand(1, 3, 1, 3)
    labels = torch.tensor([[[0, 2, 255]]])
    expected = 0.75 * (1 - 0.665241) ** 2 * 0.407606 + 0.25 * (1 - 0.090031) ** 2 * 2.407606
    assert focal_loss(logits, labels, is_focal=True).item() == pytest.approx(expected / 2, abs=1e-5)
    assert focal_loss(logits, labels, is_focal=False).item() == pytest.approx((0.407606 + 2.407606) / 2, abs=1e-5)
    assert focal_loss(logits, torch.full_like(labels, 255), is_focal=True).item() == 0.0
    assert pixel_losses(logits, labels)[0, 0, :2].tolist() == pytest.approx([0.407606, 2.407606], abs=1e-5)


def test_with_a_share_of_all_pixels_it_is_the_plain_loss() -> None:
    class Scaled(torch.nn.Module):
        def __init__(self, scale: float) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.tensor(scale))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return torch.cat([-self.scale * images, self.scale * images], dim=1)

    images = torch.randn(2, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    batch = Batch(images, (images > -0.5).long(), torch.arange(2))
    network = Scaled(1.0)
    plain = torch.nn.functional.cross_entropy(network(images), batch.labels.squeeze(1)).item()

    def loss(share: float) -> float:
        objective = SelectedPixels(Scaled(2.0), Scaled(-1.0), share=share, is_focal=False)
        return float(objective(network, batch, Step(0, 0, 1)))

    assert loss(1.0) == pytest.approx(plain, abs=1e-6)
    assert abs(loss(0.8) - plain) > 0.01


def test_without_a_word_from_everybody_there_is_no_such_job() -> None:
    with pytest.raises(SettingsError, match=r"^job: key 'models_to_sites' is false, but the method 'feddm'"):
        read_job_settings({"method": "feddm", "training": {"loss": "ce"}}, "job")
    values = settings(min_sites=3, influence={"max_share": 0.5}, data_required=True).model_dump(mode="json")
    with pytest.raises(
        JobRefusedError, match=r"limits\.json here does not allow it\. Expected 'models_to_sites': true"
    ):
        check_settings(values, Limits())
    assert check_settings(values, Limits(models_to_sites=True)).method == "feddm"
    # A word for it is no consent.
    for value in ("true", "yes", 1):
        with pytest.raises(ValueError, match="models_to_sites"):
            Limits.model_validate({"models_to_sites": value})
    # Of a job of another method nobody asks that.
    other = {key: values[key] for key in ("rounds", "network", "training", "min_sites", "data_required")}
    assert check_settings(other | {"method": "fedavg", "task": "segmentation"}, Limits()).method == "fedavg"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"training": {"loss": "dice"}}, "are not read after the first round"),
        ({"aggregation": {"rule": "median"}, "min_sites": 3}, "has an aggregation of its own"),
    ],
)
def test_what_would_not_be_read_is_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        settings(**changes)


class Held(NoModels):
    """Models in memory."""

    def __init__(self, models: dict[str, dict[str, torch.Tensor]]) -> None:
        self.sites, self._models = tuple(sorted(models)), models

    def params(self, site: str) -> dict[str, torch.Tensor]:
        return self._models[site]


def played(server: FedDMServer, number: int, models: dict[str, list[float]]) -> list[float]:
    """A round of a layer of two numbers from (0, 0), without peers; a statistic is averaged."""
    made = round_of(number)
    states = {site: {"a.weight": torch.tensor(row), "a.mean": torch.tensor([9.0])} for site, row in models.items()}
    made.params, made.trained = {"a.weight": torch.zeros(2), "a.mean": torch.zeros(1)}, ("a.weight",)
    plain = torch.stack([state["a.weight"] for state in states.values()]).mean(dim=0)
    made.average, made.models = {"a.weight": plain, "a.mean": torch.tensor([5.0])}, Held(states)
    result = server._projected(made, {site: states[site] for site in sorted(states)})
    assert result["a.mean"].tolist() == [5.0]
    values: list[float] = result["a.weight"].tolist()
    return values


def test_the_first_round_is_the_plain_mean_and_later_ones_are_projected_with_a_history_that_survives() -> None:
    server, again = FedDMServer(settings()), FedDMServer(settings())
    conflicting = {"a": [1.0, 1.0], "b": [1.0, -3.0]}
    assert played(server, 1, conflicting) == [1.0, -1.0]
    again.restore(server.state(), ())
    for each in (server, again):
        assert played(each, 2, conflicting) == pytest.approx([1.6, -0.8])
        history = each.state()["history"]
        assert isinstance(history, dict)
        assert history["a"].tolist() == pytest.approx([0.99 + 0.016, -0.99 - 0.008])
    assert server.record(round_of(2))["conflicting_layers"] == 1
    # No conflict: the average's own bits.
    third = {"a": [0.1, 0.3], "b": [0.7, 0.1], "c": [0.2, 0.2]}
    plain = torch.stack([torch.tensor(row) for row in third.values()]).mean(dim=0)
    assert played(server, 3, third) == plain.tolist()
    assert server.record(round_of(3))["conflicting_layers"] == 0
