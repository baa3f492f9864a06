"""Federated averaging in one process in the form of published programs, with PyTorch's defaults, to be timed beside.

Every site trains a deep copy of the global network on a data loader over tensors in memory; state dicts are averaged
entry by entry, weighted with the numbers of samples. Nothing is scored, sent or written.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

Batches = DataLoader[tuple[torch.Tensor, ...]]
LEARNING_RATE, BETAS = 2e-3, (0.9, 0.99)


def loaders(sites: Sequence[tuple[torch.Tensor, torch.Tensor]], batch_size: int) -> list[Batches]:
    """Return a loader of each site's images ``(N, C, H, W)`` and labels ``(N, H, W)``."""
    return [DataLoader(TensorDataset(*site), batch_size=batch_size, shuffle=True) for site in sites]


def train_site(network: nn.Module, batches: Batches, epochs: int) -> list[float]:
    """Train a network in place, and return the loss of every step."""
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE, betas=BETAS)
    device = next(network.parameters()).device
    network.train()
    losses = []
    for _ in range(epochs):
        for images, labels in batches:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(images.to(device)), labels.to(device).long())
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def averaged(models: Sequence[dict[str, Any]], sizes: Sequence[int]) -> dict[str, Any]:
    """Return the mean of state dicts, weighted with the sites' numbers of samples."""
    average = copy.deepcopy(models[0])
    for name in average:
        average[name] = sum(model[name] * size for model, size in zip(models, sizes, strict=True)) / sum(sizes)
    return average


def federated_round(network: nn.Module, sites: Sequence[Batches], epochs: int) -> list[float]:
    """Give a network the average of what the sites make of it, and return the loss of every step of every site."""
    models, losses = [], []
    for batches in sites:
        local = copy.deepcopy(network)
        losses += train_site(local, batches, epochs)
        models.append(local.state_dict())
    network.load_state_dict(averaged(models, [len(batches.dataset) for batches in sites]))  # type: ignore[arg-type]
    return losses
