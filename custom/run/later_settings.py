"""What settings were before there were any: a state that does not name them is of such a run."""

from collections.abc import Mapping
from typing import Any

from ...transforms.strict_files import JsonObject

_TRAINING_OF_CLASSIFIERS: JsonObject = {"optimizer": "sgd", "loss": "ce", "proximal_weight": 0.0}
_TRAINING_OF_SEGMENTATION: JsonObject = {
    "optimizer": "adam",
    "momentum": 0.9,
    "weight_decay": 0.0,
    "foreground_share": None,
    "mirror_axes": None,
}
_TRAINING_OF_ALL: JsonObject = {
    "nesterov": False,
    "betas": [0.9, 0.99],
    "schedule": "steps",
    "learning_rate_power": 0.9,
    "learning_rate_warmup": 0.0,
    "local_steps": None,
    "gradient_clipping": None,
    "precision": "fp32",
    "keep_optimizer": False,
    "class_weights": [],
    "consensus": None,
}

_LATER_SETTINGS: JsonObject = {
    "recipe": "demo",
    "start_model": "",
    "inference": {"mirroring": False},
    "inferer": None,
    "validate_every": None,
    "final_model": "last",
    "final_rounds": 5,
    "patience": None,
    "scored_rounds": None,
    # Of decoupled predictions.
    "network": {"test_code": "mean"},
    "training": _TRAINING_OF_SEGMENTATION | _TRAINING_OF_ALL,
    "influence": {"min_share": 0.0, "max_share": 1.0, "max_update_ratio": None, "max_quality_ratio": None},
    "aggregation": {"rule": "mean", "trim": 1, "byzantine": 1, "kept": None, "smoothing": 1e-5, "passes": 100},
    "server_optimizer": {
        "name": "none",
        "learning_rate": None,
        "momentum": 0.9,
        "betas": [0.9, 0.99],
        "tau": 1e-3,
    },
    "drift_correction": "none",
    "fraction": 1.0,
    "waiting_memory_mb": None,
    "update_precision": "fp32",
    # Of audits.
    "report_annotators": False,
    # Of `auto`.
    "bias_unit": "site",
    # Of FedHAC.
    "prototypes": "fixed",
    "followed_loss": "dice",
}

# The default of earlier versions, with which the server scored every round all the same.
_FORMER_VALIDATE_EVERY = 5

# Settings that have gone, with the value whose effect is left: a state that names it goes on.
_GONE_SETTINGS = {"judge": "global"}


def _former_unit(settings: Mapping[str, Any]) -> JsonObject:
    """What augmentation was done to at once; without a list of kinds the setting says nothing."""
    kinds = (settings.get("training") or {}).get("augmentation")
    has_kinds = isinstance(kinds, list | tuple) and any(isinstance(kind, str) for kind in kinds)
    return {"augmentation_unit": "sample" if has_kinds else "batch"}


def with_later_settings(settings: Mapping[str, Any]) -> JsonObject:
    """Add what had no setting when a state was made, also in a block that had others; leave out what has none now.

    Args:
        settings: by their current keys.
    """
    later = dict(_LATER_SETTINGS)
    if settings.get("task") == "classification":
        later["training"] = _TRAINING_OF_CLASSIFIERS | _TRAINING_OF_ALL
    else:
        later["training"] = {**_TRAINING_OF_SEGMENTATION, **_TRAINING_OF_ALL, **_former_unit(settings)}
    complete = later | {key: value for key, value in settings.items() if _GONE_SETTINGS.get(key) != value}
    if "final_model" not in settings and complete["validate_every"] == _FORMER_VALIDATE_EVERY:
        complete["validate_every"] = None
    blocks = {key: value for key, value in later.items() if isinstance(value, dict)}
    return complete | {key: block | complete[key] for key, block in blocks.items()}
