"""What a recipe says of the settings that a job does not have: nnU-Net's choices, as defaults for research."""

from collections.abc import Collection, Mapping
from typing import Any, Literal

from pydantic import JsonValue

RecipeName = Literal["demo", "research"]
RESEARCH: RecipeName = "research"

_OPTIMIZER = "training.optimizer"
# What is not read where there are steps.
_EPOCHS, _STEPS = "training.local_epochs", "training.local_steps"
# Of the recipe's optimizer; another one needs other values.
_OF_OPTIMIZER = ("training.momentum", "training.nesterov", "training.learning_rate", "training.weight_decay")

# Isensee et al., nnU-Net, Nature Methods 18 (2021), Online Methods. Its epochs have 250 steps; the sites' models are
# averaged more often, as they drift apart with every step.
_NNUNET: dict[str, JsonValue] = {
    "training.optimizer": "sgd",
    "training.momentum": 0.99,
    "training.nesterov": True,
    "training.learning_rate": 1e-2,
    "training.schedule": "polynomial",
    "training.learning_rate_power": 0.9,
    "training.weight_decay": 3e-5,
    "training.gradient_clipping": 12.0,
    "training.precision": "auto",
    "training.local_steps": 50,
    "training.augmentation": "nnunet",
    "inference.mirroring": True,
}
# The Dice loss is that of a batch as one for images, and that of a sample for patches of volumes.
_OF_IMAGES: dict[str, JsonValue] = {"training.loss": "ce_batch_dice"}
_OF_VOLUMES: dict[str, JsonValue] = {"training.loss": "ce_dice", "training.foreground_share": round(1 / 3, 4)}


def recipe_values(
    recipe: Any, *, spatial_dims: Any, own: Collection[str] = (), given: Mapping[str, Any] | None = None
) -> dict[str, JsonValue]:
    """Return what a recipe says, by dotted keys; nothing for ``demo``, whose values are the job's.

    It says nothing of steps where epochs are given, and nothing of its optimizer's numbers where another one is.

    Args:
        recipe: the setting ``recipe`` of a segmentation.
        spatial_dims: 2 for images and slices, 3 for whole volumes.
        own: dotted keys that the method decides itself.
        given: what goes before the recipe, by dotted keys.

    Example:
        >>> recipe_values("research", spatial_dims=3)["training.loss"]
        'ce_dice'
        >>> recipe_values("demo", spatial_dims=3)
        {}
        >>> "training.local_steps" in recipe_values("research", spatial_dims=2, given={"training.local_epochs": 3})
        False
    """
    if recipe != RESEARCH:
        return {}
    values = _NNUNET | (_OF_VOLUMES if spatial_dims == 3 else _OF_IMAGES)
    left_out = {*own, *_replaced(given or {})}
    return {key: value for key, value in values.items() if key not in left_out}


def _replaced(given: Mapping[str, Any]) -> set[str]:
    """What the recipe leaves to given settings, since they choose otherwise what it belongs to."""
    replaced = {_STEPS} if _EPOCHS in given else set()
    optimizer = given.get(_OPTIMIZER, _NNUNET[_OPTIMIZER])
    if optimizer != _NNUNET[_OPTIMIZER] or any(key.startswith(f"{_OPTIMIZER}.") for key in given):
        replaced |= {_OPTIMIZER, *_OF_OPTIMIZER}
    return replaced


def with_missing(values: Mapping[str, Any], defaults: Mapping[str, JsonValue]) -> dict[str, Any]:
    """Return nested settings with defaults, given by dotted keys, where they have no value of their own.

    Example:
        >>> with_missing({"training": {"loss": "ce"}}, {"training.loss": "dice", "training.momentum": 0.9})
        {'training': {'loss': 'ce', 'momentum': 0.9}}
    """
    result = dict(values)
    for key, value in defaults.items():
        group, _, name = key.partition(".")
        block = result.get(group, {})
        # What is no table is refused later, by its key.
        if isinstance(block, Mapping) and name not in block:
            result[group] = {**block, name: value}
    return result
