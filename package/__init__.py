"""Federated training of medical imaging models that bad annotations do not spoil, on MONAI and NVIDIA FLARE.

What a person calls lies in :mod:`fedannot.apps`; methods and data in :mod:`fedannot.custom`; images and masks in
:mod:`fedannot.transforms`.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "__version__":
        # The metadata of what is installed take a while to find.
        from importlib.metadata import version  # noqa: PLC0415

        return version("fedannot")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
