"""Any network in MONAI's form, with what data and task decide put under its class's own names."""

from typing import Any

from torch import nn

from ...transforms.errors import shown
from ..components.building import build_component, component_class, parameters_of
from ..components.component import Component, ComponentError
from ..components.roles import Role
from ..global_rng import briefly_seeded_rng
from ..settings import ClassifierSettings, NetworkSettings
from .block_order import ATTEMPTED_EXTENTS
from .outputs import give_main_output
from .own_network import OWN_TARGET
from .shared_entries import leave_out_shared_entries
from .size_check import build_of_checked_size

# What classes call the channels of an image, the outputs for segmentation and classification, and the axes of space.
_INPUTS = ("in_channels", "n_input_channels", "in_chans", "input_channels")
_OUTPUTS = ("out_channels", "num_classes", "n_classes", "out_chans")
_AXES = ("spatial_dims", "dimensions", "spatial_dim")


def component_network(settings: NetworkSettings | ClassifierSettings, seed: int = 0) -> nn.Module:
    """Build the network whose class settings name.

    It returns the logits alone, whatever else its class returns, see :mod:`.outputs`; its state dict names a shared
    parameter once.

    Args:
        settings: of a network, with a component.
        seed: seed of the start weights; the global random state is left as it was.

    Raises:
        ComponentError: if the class or its arguments cannot be used.
    """
    component = settings.component
    assert component is not None
    given = arguments_of_task(component, settings)

    def build() -> nn.Module:
        built: nn.Module = build_component(component, Role.NETWORK, given)
        return built

    with briefly_seeded_rng(seed):
        # What a researcher runs of their own code is theirs to decide.
        is_own = component.target == OWN_TARGET
        network = build() if is_own else build_of_checked_size(build, component.target, shown(component.arguments))
    if not any(True for _ in network.parameters()):
        raise ComponentError(f"{component.target} has no parameters; expected a network that can be trained.")
    return prepared_network(network, settings, component.arguments.get("img_size"))


def prepared_network(
    network: nn.Module, settings: NetworkSettings | ClassifierSettings, extents: Any = None
) -> nn.Module:
    """Make any network one that every method can train; it is changed in place and returned.

    Args:
        network: takes ``(B, in_channels, H, W[, D])``.
        settings: channels and axes of the images.
        extents: of the images, where the network takes no others.
    """
    # What a pass needs that tells the order of the blocks; see block_order.
    vars(network)["pass_channels"] = settings.in_channels
    vars(network)["pass_extents"] = _extents_to_attempt(settings, extents)
    return give_main_output(leave_out_shared_entries(network))


def arguments_of_task(component: Component, settings: NetworkSettings | ClassifierSettings) -> dict[str, Any]:
    """Return what data and task decide of a network, by the names that its class has for it.

    Raises:
        ComponentError: if the class takes no number of channels or of outputs.
    """
    known = parameters_of(component_class(component, Role.NETWORK))
    is_classifier = isinstance(settings, ClassifierSettings)
    outputs = settings.num_classes if is_classifier else settings.num_classes + 1
    wanted = (
        (_INPUTS, settings.in_channels, "the channels of an image"),
        (tuple(reversed(_OUTPUTS)) if is_classifier else _OUTPUTS, outputs, "the number of outputs"),
        (_AXES, settings.spatial_dims, ""),
    )
    given: dict[str, Any] = {}
    for names, value, what in wanted:
        name = next((name for name in names if name in known), None)
        if name is not None:
            given[name] = value
        elif what:
            raise ComponentError(
                f"{component.target} has no argument for {what}: expected one of {', '.join(names)}. Known: "
                f"{', '.join(known)}."
            )
    if is_classifier and "classification" in known:
        given["classification"] = True
    return given


def _extents_to_attempt(settings: NetworkSettings | ClassifierSettings, extents: Any) -> tuple[tuple[int, ...], ...]:
    axes = settings.spatial_dims
    if isinstance(extents, int):
        return ((extents,) * axes,)
    if isinstance(extents, list | tuple) and len(extents) == axes:
        return (tuple(int(extent) for extent in extents),)
    return tuple((extent,) * axes for extent in ATTEMPTED_EXTENTS)
