"""What a model is known by."""

import hashlib
from collections.abc import Mapping

import torch


def model_hash(params: Mapping[str, torch.Tensor]) -> str:
    """Return the SHA-256 of a state dict: of names, types, shapes and values in sorted order of the names."""
    digest = hashlib.sha256()
    for name in sorted(params):
        tensor = params[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()
