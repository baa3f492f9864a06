"""Volumes in memory and their batches, for tests of what is trained on."""

import torch

from fedannot.custom.data.site_data import LoadedCase


def make_volume(label, image=None):
    """A case of one volume, its image the annotation where none is given."""
    label = label.to(torch.uint8)
    image = label.float() if image is None else image
    return LoadedCase("a", "a", image[None, None], label[None], None, None)


def epochs(batches, count, seed=0):
    """The batches of some epochs."""
    generator = torch.Generator().manual_seed(seed)
    return [list(batches.epoch(generator)) for _ in range(count)]
