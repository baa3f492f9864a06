"""The weights that the runs of a comparison begin with, by their hashes."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import torch

from ...custom.networks.building import load_checkpoint
from ...custom.networks.described import described_network
from ...custom.networks.start_weights import read_start_weights
from ...custom.settings import ClassifierSettings, RunSettings
from ..reports.compared_settings import StartWeights


def start_state(settings: RunSettings, seed: int) -> dict[str, torch.Tensor]:
    """Return the state dict that a run begins with, made as the server of the run makes it.

    Args:
        settings: the run's.
        seed: the run's.

    Raises:
        ComponentError: if the settings name a network that cannot be built.
        DataError: if a start model or a checkpoint cannot be used.
    """
    network = described_network(settings.network, seed)
    if isinstance(settings.network, ClassifierSettings) and settings.network.checkpoint:
        load_checkpoint(network, Path(settings.network.checkpoint))
    params = dict(network.state_dict())
    return read_start_weights(Path(settings.start_model), params) if settings.start_model else params


def compared_start_weights(settings: Mapping[str, RunSettings], arms: Sequence[str], seed: int) -> StartWeights:
    """Return the hashes of the start weights of several arms.

    A method may put a network of all methods inside one of its own, or add buffers to it. Compared are the entries that
    the networks of all arms have.

    Args:
        settings: of each arm, by its name.
        arms: the arms whose networks are equal by their settings, the reference first.
        seed: of the runs.

    Raises:
        ComponentError, DataError: see :func:`start_state`.
    """
    entries: dict[str, dict[str, str]] = {}
    for arm in arms:
        digests = {name: _digest(value) for name, value in start_state(settings[arm], seed).items()}
        entries[arm] = _named_as(digests, entries[arms[0]]) if entries else digests
    common = sorted(set.intersection(*(set(of_arm) for of_arm in entries.values())))
    hashes = {arm: _joined({name: of_arm[name] for name in common}) for arm, of_arm in entries.items()}
    return StartWeights(seed=seed, num_entries=len(common), sha256=hashes)


def _named_as(entries: Mapping[str, str], reference: Collection[str]) -> dict[str, str]:
    """Entries without the name of the module that most of the reference's entries are in."""
    prefixes = ["", *dict.fromkeys(f"{name.partition('.')[0]}." for name in entries)]
    forms = [
        {name.removeprefix(prefix): value for name, value in entries.items() if name.startswith(prefix)}
        for prefix in prefixes
    ]
    return max(forms, key=lambda form: len(form.keys() & set(reference)))


def _digest(value: torch.Tensor) -> str:
    array = value.detach().cpu().contiguous()
    content = hashlib.sha256(f"{array.dtype} {tuple(array.shape)} ".encode())
    content.update(array.reshape(-1).view(torch.uint8).numpy().tobytes())
    return content.hexdigest()


def _joined(digests: Mapping[str, str]) -> str:
    return hashlib.sha256("".join(f"{name} {digest}\n" for name, digest in digests.items()).encode()).hexdigest()
