"""Digests of images and masks as decoded, which are equal where all pixels are."""

import hashlib

import numpy as np

from ...transforms.array_types import Array


def digest_of(array: Array) -> str:
    """Return the SHA-256 of an array's shape and values in C order."""
    content = hashlib.sha256(repr(array.shape).encode())
    content.update(np.ascontiguousarray(array).data)
    return content.hexdigest()
