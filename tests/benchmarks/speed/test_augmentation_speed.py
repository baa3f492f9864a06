"""Augmentation of whole batches compared with that of single samples, and with none, in CPU seconds of one thread."""

from collections.abc import Sequence

import pytest
import torch
from measuring import compare_processor_times

from fedannot.custom.networks.devices import preferred_device
from fedannot.custom.training.augmentation import AugmentedBatches
from fedannot.custom.training.augmentation_at_once import AugmentedAtOnce
from fedannot.custom.training.augmentation_nnunet import NnunetBatches
from fedannot.custom.training.batch import Batches
from fedannot.custom.training.batches import SampleBatches

pytestmark = pytest.mark.benchmark

KINDS = ("rotation", "flip", "elastic", "noise")
# Extents, samples, samples per batch.
SIZES = [((64, 64), 64, 8), ((128, 128), 32, 8), ((256, 256), 16, 8), ((64, 64, 64), 8, 2)]


@pytest.mark.parametrize(("extents", "number", "batch_size"), SIZES, ids=str)
def test_augmentation_of_batches_and_of_single_samples(
    speed_table, extents: Sequence[int], number: int, batch_size: int
) -> None:
    images = torch.randn(number, 1, *extents, generator=torch.Generator().manual_seed(0))
    plain = SampleBatches(images, (images[:, 0] > 1).to(torch.uint8), batch_size, preferred_device())
    # The first is the reference.
    sources: dict[str, Batches] = {
        "rotation, flip, elastic, noise": AugmentedBatches(plain, KINDS),
        "the same at once": AugmentedAtOnce(plain, KINDS),
        "nnunet": NnunetBatches(plain),
        "none": plain,
    }
    # As many draws as a median needs: what is drawn decides the time of an epoch.
    generator = torch.Generator().manual_seed(1)

    def epoch(batches: Batches) -> None:
        for batch in batches.epoch(generator):
            batch.images.sum().item()

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        compare_processor_times(
            speed_table,
            f"augmentation of a sample {' × '.join(map(str, extents))}",
            {name: lambda given=given: epoch(given) for name, given in sources.items()},
            number=number,
        )
    finally:
        torch.set_num_threads(before)
