"""A forward and a backward pass of a network in MONAI's form before a run: whether shapes fit, and its memory.

The pass is made on PyTorch's meta device, where tensors have shapes and no values: it takes milliseconds whatever the
batch. A class that reads values is run on two small samples instead.
"""

import functools
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from ..components.component import ComponentError, first_line
from ..settings import ClassifierSettings, NetworkSettings, RunSettings
from .building import assign_blocks, layer_blocks
from .described import described_network
from .devices import with_safe_convolutions
from .kept_memory import kept_tensors
from .outputs import all_outputs
from .own_network import registrations
from .second_network import first_network

_MEBIBYTE = 2**20
# Tensors as large as the parameters: themselves, their gradients, and what Adam keeps of each.
_COPIES = 4
_FEW = 2
# The share of all parameters that may have no gradient, and how many are named.
_FEW_UNTRAINED = 0.01
_SAID = 4

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class DryRun:
    """What a pass showed.

    Attributes:
        extents: of a sample.
        batch_size: samples of a batch.
        parameters: how many the network has.
        activations_mb: what a step of training keeps of a batch for its backward pass, in MiB.
        memory_mb: as above, with parameters, gradients and what an optimizer keeps.
    """

    extents: tuple[int, ...]
    batch_size: int
    parameters: int
    activations_mb: float
    memory_mb: float


def dry_run(settings: RunSettings, extents: Sequence[int] | None = None) -> DryRun:
    """Run the network of a job's settings once in training and once in evaluation.

    Args:
        settings: the job's, whose network is a component.
        extents: of a sample; by default the patch of the training, or else the first extents that the network takes.

    Raises:
        ComponentError: if the network cannot be built, takes no such batch or does not return what the task needs; the
            text says what was found and what was expected.
    """
    extents = extents or getattr(settings.training, "patch", None)
    chosen = None if extents is None else tuple(int(extent) for extent in extents)
    network = settings.network
    known = registrations(network.component)
    return _dry_run(network.model_dump_json(), type(network), settings.training.batch_size, chosen, known)


@functools.lru_cache(maxsize=32)
def _dry_run(
    network: str,
    kind: type[NetworkSettings | ClassifierSettings],
    batch_size: int,
    extents: tuple[int, ...] | None,
    known: int,
) -> DryRun:
    """A site asks for the same pass before every task; an own network may be another under the same name."""
    del known
    settings = kind.model_validate_json(network)
    built = described_network(settings)
    if extents is None:
        failed: ComponentError | None = None
        for attempted in vars(built)["pass_extents"]:
            try:
                return _pass(built, settings, batch_size, attempted)
            except ComponentError as error:
                failed = error
        assert failed is not None
        raise failed
    return _pass(built, settings, batch_size, extents)


def _pass(
    network: nn.Module, settings: NetworkSettings | ClassifierSettings, batch_size: int, extents: tuple[int, ...]
) -> DryRun:
    few = min(batch_size, _FEW)
    try:
        kept = _kept_bytes(settings, batch_size, extents, "meta")
    except ComponentError:
        raise
    except Exception:
        # Either its class reads values, or it takes no such batch.
        kept = _on_values(settings, few, extents) * batch_size // few
    if isinstance(settings, NetworkSettings) and batch_size > 1:
        # As the last of an epoch may be, and a volume in evaluation.
        _single_sample(settings, extents)
    count = sum(parameter.numel() for parameter in network.parameters())
    weights = sum(parameter.numel() * parameter.element_size() for parameter in network.parameters())
    memory = (_COPIES * weights + kept) / _MEBIBYTE
    return DryRun(extents, batch_size, count, round(kept / _MEBIBYTE, 1), round(memory, 1))


def _single_sample(settings: NetworkSettings | ClassifierSettings, extents: tuple[int, ...]) -> None:
    try:
        _kept_bytes(settings, 1, extents, "meta")
    except ComponentError:
        raise
    except Exception:
        _on_values(settings, 1, extents)


def _on_values(settings: NetworkSettings | ClassifierSettings, batch_size: int, extents: tuple[int, ...]) -> int:
    try:
        return _kept_bytes(settings, batch_size, extents, "cpu")
    except ComponentError:
        raise
    except Exception as error:
        shape = (batch_size, settings.in_channels, *extents)
        raise ComponentError(
            f"{_name(settings)} takes no batch of the shape {shape}: {first_line(error)}. Its arguments are "
            f"{_arguments(settings)}; choose others, or another size of the images."
        ) from error


def _kept_bytes(
    settings: NetworkSettings | ClassifierSettings,
    batch_size: int,
    extents: tuple[int, ...],
    device: str,
) -> int:
    """Bytes that the backward pass of a batch needs, apart from the parameters."""
    # A second network of the settings takes what the first one takes.
    moved = with_safe_convolutions(first_network(described_network(settings)).to(device))
    images = torch.zeros(batch_size, settings.in_channels, *extents, device=device)
    with torch.random.fork_rng(devices=[]):
        moved.train()
        with kept_tensors((*moved.parameters(), *moved.buffers())) as kept:
            outputs = all_outputs(moved, images)
            _check_shape(outputs.main, settings, images, "training")
            total = torch.stack([entry.float().mean() for entry in (outputs.main, *outputs.further)]).sum()
        total.backward()  # type: ignore[no-untyped-call]
        if all(parameter.grad is None for parameter in moved.parameters()):
            raise ComponentError(f"{_name(settings)} has no parameter that its output depends on.")
        _check_gradients(moved, settings)
        with torch.no_grad():
            _check_shape(moved.eval()(images), settings, images, "evaluation")
    return kept.nbytes


def _check_gradients(network: nn.Module, settings: NetworkSettings | ClassifierSettings) -> None:
    """Refuse a network with blocks that are never trained, as those of a loss that it returns besides its logits.

    A block with few parameters may stay untrained, as the heads of deep supervision where there is none, and a part of
    a block, as a normalisation of a transformer that its mode leaves out; of a large part the log says so.
    """
    sizes = {name: entry.numel() for name, entry in network.named_parameters() if entry.requires_grad}
    without = [name for name in sizes if network.get_parameter(name).grad is None]
    if _share(without, sizes) <= _FEW_UNTRAINED:
        return
    block_of = assign_blocks(sizes, _blocks(settings, sizes))
    trained = {block_of[name] for name in sizes if name not in without}
    of_blocks = [name for name in without if block_of[name] not in trained]
    if _share(of_blocks, sizes) > _FEW_UNTRAINED:
        raise ComponentError(
            f"{_name(settings)}: its logits depend on no parameter of {', '.join(_first(of_blocks))}, "
            f"{_share(of_blocks, sizes):.0%} of all, which would never be trained. Choose a network, or arguments, "
            "without these parts; a loss that a network returns besides its logits is not part of the training."
        )
    _LOGGER.warning(
        "%s: %.0f %% of its parameters are not trained, since its logits do not depend on them: %s",
        _name(settings),
        100 * _share(without, sizes),
        ", ".join(_first(without)),
    )


def _blocks(settings: NetworkSettings | ClassifierSettings, trained: Collection[str]) -> list[str]:
    """The layer blocks that have trained parameters; a network with values shows their order."""
    blocks = layer_blocks(described_network(settings))
    return [block for block in blocks if any(f"{name}.".startswith(f"{block}.") for name in trained)]


def _share(names: Collection[str], sizes: Mapping[str, int]) -> float:
    return sum(sizes[name] for name in names) / max(sum(sizes.values()), 1)


def _first(names: Sequence[str]) -> list[str]:
    return [*names[:_SAID], "…"] if len(names) > _SAID else list(names)


def _check_shape(
    logits: torch.Tensor, settings: NetworkSettings | ClassifierSettings, images: torch.Tensor, mode: str
) -> None:
    batch, extents = images.shape[0], tuple(images.shape[2:])
    expected: tuple[int, ...]
    if isinstance(settings, ClassifierSettings):
        expected, of_what = (batch, settings.num_classes), f"{settings.num_classes} classes"
    else:
        expected = (batch, settings.num_classes + 1, *extents)
        of_what = f"the background and {settings.num_classes} classes, at the extents of the labels"
    if tuple(logits.shape) != expected:
        raise ComponentError(
            f"{_name(settings)} returns {tuple(logits.shape)} in {mode} for a batch of the shape "
            f"{tuple(images.shape)}; expected {expected}: {of_what}. Its arguments are {_arguments(settings)}."
        )


def _name(settings: NetworkSettings | ClassifierSettings) -> str:
    assert settings.component is not None
    return settings.component.target


def _arguments(settings: NetworkSettings | ClassifierSettings) -> str:
    assert settings.component is not None
    return repr(settings.component.arguments)[:300]
