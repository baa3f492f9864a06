"""Start weights from a file: tensors alone are read, nothing of what came with them is run."""

from collections.abc import Mapping
from pathlib import Path

import torch

from ...transforms.errors import DataError

# Where a MONAI Bundle has its weights.
BUNDLE_WEIGHTS = Path("models") / "model.pt"

# Under which other programs store a state dict in a file.
_KEYS = ("state_dict", "model")
# What training has besides the network: what FedCurv and SCAFFOLD remember, and a second network; see
# fedannot.custom.methods.fedcurv.curvature, fedannot.custom.methods.fedavg.control_variates and .second_network.
REMEMBERED_PARTS = ("curvature", "control_variates", "second_network")
_REMEMBERED = tuple(f"{part}." for part in REMEMBERED_PARTS)


class ModelFileError(DataError):
    """A file with weights cannot be used; the text names it and what is in it."""


def read_state_dict(file: Path) -> dict[str, torch.Tensor]:
    """Read a state dict, or one under the key ``state_dict`` or ``model``, with ``weights_only``.

    Raises:
        ModelFileError: if the file cannot be read or holds anything else.
    """
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        # Whatever a broken file makes of the unpickler, whose text recommends to load it without care.
        what = type(error).__name__
        raise ModelFileError(f"{file}: is no checkpoint that can be read ({what}); expected a state dict.") from error
    for key in _KEYS:
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict) or not all(isinstance(value, torch.Tensor) for value in content.values()):
        raise ModelFileError(f"{file}: holds {type(content).__name__}; expected a state dict of tensors.")
    return {name.removeprefix("module."): tensor for name, tensor in content.items()}


def check_fits(file: Path, found: Mapping[str, torch.Tensor], wanted: Mapping[str, torch.Tensor]) -> None:
    """Check that a state dict has the names and shapes of a network's.

    Raises:
        ModelFileError: with the first three names of every kind that do not fit.
    """
    missing, unknown = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
    differing = sorted(name for name in set(wanted) & set(found) if wanted[name].shape != found[name].shape)
    if missing or unknown or differing:
        raise ModelFileError(
            f"{file}: does not fit the network; missing {missing[:3]}, unknown {unknown[:3]}, of another shape "
            f"{differing[:3]} (the first three of {len(missing)}, {len(unknown)} and {len(differing)})."
        )


def read_start_weights(source: Path, start: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Read the weights with which a run begins.

    Args:
        source: a MONAI Bundle's folder, or a file with a state dict. Of a bundle the weights alone are read: neither
            its configuration nor its TorchScript is.
        start: the network's own start weights, whose names, shapes and types the result has. What FedCurv and
            SCAFFOLD remember, and a second network, begin as they are here where the file has none of them.

    Raises:
        ModelFileError: if there are no weights, or they do not fit the network or are not finite.
    """
    file = source / BUNDLE_WEIGHTS if source.is_dir() else source
    if not file.is_file():
        raise ModelFileError(
            f"{file}: found no such file; expected as start model a state dict, or a bundle's folder with "
            f"{BUNDLE_WEIGHTS}."
        )
    remembered = {name: tensor for name, tensor in start.items() if name.startswith(_REMEMBERED)}
    result = remembered | read_state_dict(file)
    check_fits(file, result, start)
    # What float64 has may be too large for the network's type.
    result = {name: result[name].to(tensor.dtype).clone() for name, tensor in start.items()}
    if unusable := [name for name, tensor in result.items() if not bool(torch.isfinite(tensor).all())]:
        raise ModelFileError(
            f"{file}: found values that are not finite in {unusable[:3]}; expected the weights of a model."
        )
    return result
