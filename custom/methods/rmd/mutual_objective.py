"""What a site makes small in RMD: the losses of two networks on pixels of each other's choice, and their teaching."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn

from ....transforms.ignored_label import IGNORED_LABEL
from ...networks.building import layer_blocks
from ...networks.outputs import GivenOutputs, Outputs, all_outputs
from ...networks.second_network import first_network, second_network
from ...seeding import derive_seed
from ...training.batch import Batch
from ...training.objectives import Objective, Step
from ..fednoro.distillation import distillation_weight
from .distillation import distillation_loss
from .image_changes import draw_change
from .pixel_choice import pixel_losses, smallest_pixels
from .settings import RmdSettings
from .stage_dropout import stage_dropout


@dataclass(frozen=True)
class Ramps:
    """What rises with the epochs e of the whole run.

    Attributes:
        dropped: R(e).
        taught: of the pixels, min(μ exp(−5 (1 − e / t)²), 1).
        weight: λ exp(−5 (1 − e / t)²).
        is_strong: whether images are changed in all ways.
    """

    dropped: float
    taught: float
    weight: float
    is_strong: bool

    @classmethod
    def at(cls, settings: RmdSettings, epoch: int) -> "Ramps":
        """Return them in an epoch of the run, from 0."""
        end = settings.ramp_epochs
        return cls(
            settings.dropped_fraction * min(epoch / end, 1.0),
            min(distillation_weight(settings.certain_fraction, epoch, end), 1.0),
            distillation_weight(settings.distillation_weight, epoch, end),
            epoch >= end,
        )


class MutualObjective:
    """The sum of two networks' losses, each on the pixels with the smallest loss of the other, and of their teaching.

    No gradient goes to a teacher. The pass of changed images is in training mode, so normalisations see it, too.

    Args:
        objectives: the settings' loss of each network, with all that the settings add to it.
        settings: of the method.
        round_number: the round, from 1.
        seed: of what is drawn in the round.
    """

    def __init__(
        self, objectives: tuple[Objective, Objective], settings: RmdSettings, *, round_number: int, seed: int
    ) -> None:
        self._objectives, self._settings, self._round = objectives, settings, round_number
        self._generator = torch.Generator().manual_seed(derive_seed(seed, "image changes"))
        self._seed = derive_seed(seed, "dropout")

    def __call__(self, network: nn.Module, batch: Batch, step: Step) -> torch.Tensor:
        """Return the loss of both networks."""
        networks = first_network(network), second_network(network)
        ramps = Ramps.at(self._settings, (self._round - 1) * step.epochs + step.epoch)
        outputs = [all_outputs(each, batch.images) for each in networks]
        chosen = [batch, batch]
        if ramps.dropped:
            # Each network is trained on what the other one chooses.
            chosen = [_with_smallest(batch, outputs[other], 1 - ramps.dropped) for other in (1, 0)]
        losses = [
            objective(GivenOutputs(each, output), part, step)
            for objective, each, output, part in zip(self._objectives, networks, outputs, chosen, strict=True)
        ]
        if ramps.weight:
            losses.append(ramps.weight * self._teaching(networks, outputs, batch, step, ramps))
        return torch.stack(losses).sum()

    def _teaching(
        self, networks: Sequence[nn.Module], outputs: Sequence[Outputs], batch: Batch, step: Step, ramps: Ramps
    ) -> torch.Tensor:
        change = draw_change(batch.images, self._generator, is_strong=ramps.is_strong)
        images = change.of_images(batch.images)
        targets = [change.of_maps(output.main.detach().float().softmax(dim=1)) for output in outputs]
        counted = change.of_counted(_counted(batch))
        logits = []
        for index, each in enumerate(networks):
            generator = torch.Generator(images.device).manual_seed(derive_seed(self._seed, step.number, index))
            with stage_dropout(each, layer_blocks(each), images.ndim - 2, generator):
                logits.append(each(images))
        return distillation_loss(logits, targets, counted, ramps.taught)


def _counted(batch: Batch) -> torch.Tensor:
    """Which pixels are not ignored, ``(B, H, W[, D])``."""
    return batch.labels.squeeze(1) != IGNORED_LABEL if batch.fractions is None else batch.fractions.sum(dim=1) > 0


def _with_smallest(batch: Batch, outputs: Outputs, fraction: float) -> Batch:
    """A batch whose pixels are ignored apart from those with the smallest loss of a network."""
    losses = pixel_losses(outputs.main.detach(), batch)
    kept = smallest_pixels(losses, _counted(batch), fraction)[:, None]
    fractions = None if batch.fractions is None else batch.fractions * kept
    return replace(batch, labels=batch.labels.masked_fill(~kept, IGNORED_LABEL), fractions=fractions)
