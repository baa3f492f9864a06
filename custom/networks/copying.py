"""Copies of one network with weights of their own, in a tenth of the time that Python's general copy takes."""

import copy
import copyreg
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

# What a type defines where its objects are not copied attribute by attribute.
_COPIES = ("__new__", "__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__")
# With these an object without its attributes, as a copy is at first, may not be found in a set or a dictionary, or may
# answer as the general copy does not expect.
_OWN_WAYS = (*_COPIES, "__hash__", "__eq__", "__getattr__", "__getattribute__")
# What a type defines where its weights are not loaded entry by entry.
_OWN_LOADING = (
    "load_state_dict",
    "_load_from_state_dict",
    "state_dict",
    "_save_to_state_dict",
    "get_extra_state",
    "set_extra_state",
)
# These only add what files of old versions lack.
_FOR_OLD_FILES = (nn.Conv2d.__setstate__, nn.Upsample.__setstate__, _NormBase._load_from_state_dict)
_CONTAINERS = (dict, OrderedDict, set, list)
_UNCHANGING = (bool, int, float, str, type(None))
_TENSORS = (torch.Tensor, nn.Parameter)
# The dictionaries of a module in which its tensors and its parts are.
_OF_TENSORS, _OF_PARTS = ("_parameters", "_buffers"), "_modules"


def network_copy(network: nn.Module) -> nn.Module:
    """Return a copy of a network that shares nothing with it, as :func:`copy.deepcopy` does.

    Args:
        network: any network.
    """
    return NetworkTemplate(network).copy()


class NetworkTemplate:
    """Makes copies of a network that share nothing with it or each other, as :func:`copy.deepcopy` does.

    Every module holds a dozen dictionaries of hooks, nearly all of them empty, and the general copy asks each how it is
    to be copied. Here that is found out once. A network is left to the general copy if a module says itself how it is
    copied or loaded, or holds anything but plain values, parts and tensors, each in one place, or anything has a hook.

    Args:
        network: any network; it must not change as long as copies are made.

    Attributes:
        network: the network.
        is_plain: whether copies are made without the general copy.
    """

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self._modules = list(network.modules())
        entries = [(module, attribute) for module in self._modules for attribute in vars(module).items()]
        tensors = [
            tensor
            for _, (name, value) in entries
            if name in _OF_TENSORS and isinstance(value, dict)
            for tensor in value.values()
            if tensor is not None
        ]
        self.is_plain = (
            all(map(_is_plain_type, {type(module) for module in self._modules}))
            and all(map(_is_plain_tensor, tensors))
            and _are_apart(tensor.untyped_storage().data_ptr() for tensor in tensors)
            and _are_apart(id(value) for _, (_, value) in entries if type(value) in _CONTAINERS)
            and all(_is_plain_attribute(name, value) for _, (name, value) in entries)
        )
        if self.is_plain:
            self._tensors = tensors
            places = {id(tensor): place for place, tensor in enumerate(tensors)}
            numbers = {id(module): number for number, module in enumerate(self._modules)}
            self._parts = [_Part.of(module, places, numbers) for module in self._modules]
            self._places = {name: places[id(value)] for name, value in network.state_dict(keep_vars=True).items()}

    def copy(self) -> nn.Module:
        """Return a copy with the same weights."""
        if not self.is_plain:
            return copy.deepcopy(self.network)
        return self._with(self._tensors)

    def with_weights(self, params: Mapping[str, torch.Tensor]) -> nn.Module | None:
        """Return a copy with other weights, or None if it takes PyTorch's own loading to tell whether they fit.

        Args:
            params: a state dict; what is not in one has the template's values.
        """
        if not self.is_plain or params.keys() != self._places.keys():
            return None
        values = list(self._tensors)
        for name, place in self._places.items():
            given, own = params[name], values[place]
            if given.shape != own.shape or given.dtype != own.dtype or given.layout != own.layout:
                return None
            values[place] = given
        return self._with(values)

    def _with(self, values: list[torch.Tensor]) -> nn.Module:
        """A copy with the values of these tensors."""
        with torch.no_grad():
            # Of the same layout in memory.
            tensors = [torch.empty_like(tensor) for tensor in self._tensors]
            torch._foreach_copy_(tensors, values)
        for place, own in enumerate(self._tensors):
            if isinstance(own, nn.Parameter):
                tensors[place] = nn.Parameter(tensors[place], own.requires_grad)
        twins = [type(module).__new__(type(module)) for module in self._modules]
        for twin, part in zip(twins, self._parts, strict=True):
            part.give(twin, tensors, twins)
        return twins[0]


@dataclass(frozen=True)
class _Part:
    """How a module's copy gets its attributes.

    Attributes:
        attributes: all of the module, in their order.
        new: makes those that change.
        tensors: by dictionary the place of each tensor among all, None for none.
        parts: the number of each part among all modules, None for none.
    """

    attributes: dict[str, Any]
    new: tuple[tuple[str, Callable[..., Any]], ...]
    tensors: tuple[tuple[str, tuple[tuple[str, int | None], ...]], ...]
    parts: tuple[tuple[str, int | None], ...]

    @classmethod
    def of(cls, module: nn.Module, places: Mapping[int, int], numbers: Mapping[int, int]) -> "_Part":
        attributes = dict(vars(module))
        own = (*_OF_TENSORS, _OF_PARTS)
        new = tuple(
            (name, type(value)) for name, value in attributes.items() if type(value) in _CONTAINERS and name not in own
        )
        return cls(
            attributes,
            new,
            tuple((kind, _numbered(attributes[kind], places)) for kind in _OF_TENSORS),
            _numbered(attributes[_OF_PARTS], numbers),
        )

    def give(self, twin: nn.Module, tensors: list[torch.Tensor], twins: list[nn.Module]) -> None:
        """Give a module that has no attributes its own."""
        attributes = vars(twin)
        attributes.update(self.attributes)
        for name, kind in self.new:
            value = attributes[name]
            attributes[name] = kind(value) if value else kind()
        for group, places in self.tensors:
            attributes[group] = {name: None if place is None else tensors[place] for name, place in places}
        attributes[_OF_PARTS] = {name: None if number is None else twins[number] for name, number in self.parts}


def _numbered(named: Mapping[str, object], numbers: Mapping[int, int]) -> tuple[tuple[str, int | None], ...]:
    return tuple((name, None if value is None else numbers[id(value)]) for name, value in named.items())


def _is_plain_type(kind: type[nn.Module]) -> bool:
    """Whether modules of a type are copied attribute by attribute, and loaded entry by entry."""
    if kind in copyreg.dispatch_table or any(vars(base).get("__slots__") for base in kind.__mro__):
        return False
    for way in (*_OWN_WAYS, *_OWN_LOADING):
        own = getattr(kind, way, None)
        if own != getattr(nn.Module, way, None) and own not in _FOR_OLD_FILES:
            return False
    return True


def _is_plain_tensor(tensor: torch.Tensor) -> bool:
    """Whether a tensor is no more than its values, which lie close together in a memory of its own."""
    return (
        type(tensor) in _TENSORS
        and tensor.layout == torch.strided
        and tensor.is_leaf
        and (isinstance(tensor, nn.Parameter) or not tensor.requires_grad)
        and tensor.grad is None
        and not vars(tensor)
        and not tensor._backward_hooks
        and not tensor._post_accumulate_grad_hooks
        and tensor.numel() > 0
        and tensor.untyped_storage().nbytes() == tensor.nbytes
        and torch.empty_like(tensor).stride() == tensor.stride()
    )


def _is_plain_attribute(name: str, value: object) -> bool:
    if name in (*_OF_TENSORS, _OF_PARTS):
        return type(value) is dict
    kind = type(value)
    if kind in (dict, OrderedDict):
        return all(is_unchanging(item) for pair in value.items() for item in pair)  # type: ignore[attr-defined]
    if kind in (set, list):
        return all(map(is_unchanging, value))  # type: ignore[call-overload]
    return is_unchanging(value)


def is_unchanging(value: object) -> bool:
    """Return whether a value is plain and cannot change, so that a copy may have the very same."""
    return type(value) in _UNCHANGING or (type(value) is tuple and all(map(is_unchanging, value)))


def _are_apart(numbers: Iterable[int]) -> bool:
    listed = list(numbers)
    return len(set(listed)) == len(listed)
