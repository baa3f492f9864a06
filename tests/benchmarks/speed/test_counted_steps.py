"""What a step of training launches, copies and waits for on a GPU, counted without one, beside other forms."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from measuring import Measurement
from plain_federation import loaders, train_site
from support.counted_steps import DEVICE, counted
from test_federation_overhead import FEATURES

from fedannot.custom.networks.building import build_network
from fedannot.custom.settings import TrainingSettings
from fedannot.custom.training.batches import SampleBatches
from fedannot.custom.training.loop import train
from fedannot.custom.training.losses import DiceRecord, sample_dice_losses
from fedannot.custom.training.objectives import training_objective

pytestmark = pytest.mark.benchmark

# An epoch of 32 images 64 × 64.
IMAGES, BATCH_SIZE = 32, 4
STEPS = IMAGES // BATCH_SIZE


class SelectedDice(DiceRecord):
    """The earlier form of the record over annotated samples: it selects the losses that count."""

    @torch.no_grad()
    def add(self, logits: torch.Tensor, labels: torch.Tensor, samples: torch.Tensor) -> None:
        losses = sample_dice_losses(logits.detach(), labels)
        counts = torch.stack([(labels.flatten(1) == label).any(dim=1) for label in (1,)], dim=1)
        self._total += losses[counts].sum(dtype=torch.float64)
        self._count += counts.sum()
        self._counted.append((samples, counts.any(dim=1)))


def network() -> torch.nn.Module:
    return build_network(features=FEATURES, upsample="nontrainable").to(DEVICE)


def data() -> tuple[torch.Tensor, torch.Tensor]:
    """Images and labels in main memory."""
    return torch.zeros(IMAGES, 1, 64, 64), torch.zeros(IMAGES, 64, 64, dtype=torch.uint8)


def own(dice: type[DiceRecord] | None = None, **settings: Any) -> Callable[[], object]:
    """An epoch at a site, whose steps are not recorded."""
    training = TrainingSettings(batch_size=BATCH_SIZE, local_epochs=1, **settings)
    trained = network()
    batches = SampleBatches(*data(), BATCH_SIZE, DEVICE)
    record = None if dice is None else dice(annotated_only=True, device=DEVICE)
    objective = training_objective(training, dice=record)
    return lambda: train(trained, batches, objective, training, learning_rate=1e-3, seed=0)


def plain() -> Callable[[], object]:
    """An epoch of the plain federated loop."""
    trained, (batches,) = network(), loaders([data()], BATCH_SIZE)
    return lambda: train_site(trained, batches, 1)


FORMS: dict[str, Callable[[], Callable[[], object]]] = {
    "a plain federated loop": plain,
    "FedAvg, FedA³I": own,
    "FedProx": lambda: own(proximal_weight=0.01),
    "FedIA": lambda: own(DiceRecord),
    "FedIA, its losses selected, as earlier": lambda: own(SelectedDice),
}


@pytest.mark.parametrize("form", FORMS)
def test_steps_are_counted(speed_table: Any, form: str) -> None:
    counts = counted(FORMS[form]())
    note = (
        f"{counts.kernels.total() / STEPS:.1f} kernels, {counts.copies / STEPS:.2f} copies and "
        f"{counts.waits / STEPS:.2f} waits a step"
    )
    speed_table.add(Measurement(f"an epoch of {STEPS} steps on a GPU, counted: {form}", note=note))
