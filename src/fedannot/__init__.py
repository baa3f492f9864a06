"""Federated training of medical imaging models that bad annotations do not spoil, on MONAI and NVIDIA FLARE.

>>> import fedannot
>>> fedannot.plan("fedavg", changes={"rounds": 2, "network.features": [4, 4, 8, 8, 8, 4]}).rounds
2

Methods and data lie in :mod:`fedannot.custom`, images and masks in :mod:`fedannot.transforms`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .apps import (
        Arm,
        check,
        compare,
        copy_job,
        cross_validate,
        export_bundle,
        export_results,
        import_folders,
        installed_jobs,
        plan,
        read_audit,
        read_compared,
        read_run,
        recipe,
        simulate,
    )
    from .apps.functions.audits import audit

    __version__: str

__all__ = [
    "Arm",
    "__version__",
    "audit",
    "check",
    "compare",
    "copy_job",
    "cross_validate",
    "export_bundle",
    "export_results",
    "import_folders",
    "installed_jobs",
    "plan",
    "read_audit",
    "read_compared",
    "read_run",
    "recipe",
    "simulate",
]
_OF_APPS = frozenset(__all__) - {"__version__", "audit"}


def __getattr__(name: str) -> Any:
    """Import what is asked for: whoever imports a part of fedannot imports no other."""
    if name == "__version__":
        # The metadata of what is installed take a while to find.
        from importlib.metadata import version  # noqa: PLC0415

        return version("fedannot")
    if name == "audit":
        from .apps.functions.audits import audit  # noqa: PLC0415

        return audit
    if name in _OF_APPS:
        from . import apps  # noqa: PLC0415

        return getattr(apps, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
