"""What a component is for: which base class it must have, and where a name without a package is looked up."""

import os
from dataclasses import dataclass
from enum import Enum

# What a job may name where the participant says nothing else.
DEFAULT_PACKAGES = (
    "monai.networks.nets",
    "monai.losses",
    "monai.inferers",
    "monai.transforms",
    "torch.optim",
    "torch.nn",
    # A module is imported before its class is known, and some of fedannot do more than define something.
    "fedannot.custom",
    "fedannot.transforms",
)
# Packages and classes that the operator of this process adds, divided by commas.
ADDED_VARIABLE = "FEDANNOT_COMPONENTS"


@dataclass(frozen=True)
class _Kind:
    package: str
    bases: tuple[str, ...]


class Role(Enum):
    """What a component is for.

    Attributes:
        package: where a name without a package is looked up.
        bases: the classes of which the component's class must be a subclass, ``package.module:class``.
    """

    NETWORK = _Kind("monai.networks.nets", ("torch.nn:Module",))
    LOSS = _Kind("monai.losses", ("torch.nn:Module",))
    OPTIMIZER = _Kind("torch.optim", ("torch.optim:Optimizer",))
    SCHEDULE = _Kind("torch.optim.lr_scheduler", ("torch.optim.lr_scheduler:LRScheduler",))
    AUGMENTATION = _Kind("monai.transforms", ("monai.transforms:Transform",))
    INFERER = _Kind("monai.inferers", ("monai.inferers:Inferer",))

    @property
    def package(self) -> str:
        """Where a name without a package is looked up."""
        return self.value.package

    @property
    def bases(self) -> tuple[str, ...]:
        """Of what the component's class must be a subclass."""
        return self.value.bases


def allowed_packages() -> tuple[str, ...]:
    """Return the packages and classes that jobs may name in this process, the operator's own last.

    An operator adds some by the environment variable ``FEDANNOT_COMPONENTS`` and takes some away by the key
    ``components`` of the participant's ``limits.json``.
    """
    added = os.environ.get(ADDED_VARIABLE, "").split(",")
    return (*DEFAULT_PACKAGES, *(name.strip() for name in added if name.strip()))


def is_below(name: str, packages: tuple[str, ...]) -> bool:
    """Return whether a dotted name is one of some packages or classes, or in one of them.

    >>> is_below("torch.nn.Conv2d", ("torch.nn",)), is_below("torch.nnx.Conv2d", ("torch.nn",))
    (True, False)
    """
    return any(name == package or name.startswith(f"{package}.") for package in packages)
