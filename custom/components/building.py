"""Import a component's class, check it and its arguments, and build it."""

import importlib
import inspect
import pkgutil
import re
import types
from collections.abc import Mapping
from typing import Any

from ...transforms.errors import did_you_mean, shown
from .component import TARGET, Component, ComponentError, first_line, read_component
from .roles import Role, allowed_packages, is_below

# Classes that call what they are given, or read, write, print or look up by name what they are given.
_DENIED_MODULES = ("monai.transforms.io", "torch.nn.parallel", "torch.nn.utils", "fedannot.apps", "fedannot.jobs")
_DENIED_NAMES = re.compile(
    r"(Rand)?(Lambda|TorchVision|TorchIO|CuCIM)\w*|(Load|Save|Write)\w*|DataStats\w*|SimulateDelay\w*|CellSamWrapper|"
    r"TorchVisionFCModel|MILModel|NetAdapter|MultiModal|Transchex|BertPreTrainedModel|DataParallel|"
    r"\w*Perceptual\w*"
)
# Arguments that name a file, an address, a class to look up, or have weights downloaded.
_OUTSIDE = re.compile(
    r"(\w+_)?(pretrained|checkpoint|ckpt|url|path|paths|file|files|filename|dir|folder|root|store)(_\w+)?|weights|(\w+_)?(cls|class)"
)
_COLLECTING = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def component_class(component: Component, role: Role) -> type[Any]:
    """Return a component's class.

    Args:
        component: read by :func:`.component.read_component`.
        role: what it is for.

    Raises:
        ComponentError: if there is no such class, it is of no allowed package or can do more than its role, or is not
            what the role wants.
    """
    found = _class_at(component.target, allowed_packages())
    bases = tuple(pkgutil.resolve_name(base) for base in role.bases)
    if not issubclass(found, bases):
        wanted = " or ".join(base.replace(":", ".") for base in role.bases)
        raise ComponentError(f"{TARGET} is {component.target!r}, which is no {wanted}, as a {_name(role)} must be.")
    if inspect.isabstract(found) or found in bases:
        raise ComponentError(
            f"{TARGET} is {component.target!r}, which is abstract; expected a class that can be built."
        )
    return found


def parameters_of(kind: type[Any]) -> dict[str, inspect.Parameter]:
    """Return what a class's constructor takes by name, with what it passes on to its bases' constructors."""
    return _constructor(kind)[0]


def takes_anything(kind: type[Any]) -> bool:
    """Return whether a class's constructor takes arguments of any name: it and all its bases pass on what is left."""
    return _constructor(kind)[1]


def _constructor(kind: type[Any]) -> tuple[dict[str, inspect.Parameter], bool]:
    """Its arguments by name, and whether further ones are taken."""
    result: dict[str, inspect.Parameter] = {}
    for one in kind.__mro__:
        if "__init__" not in vars(one):
            continue
        parameters = list(inspect.signature(vars(one)["__init__"]).parameters.values())[1:]
        for parameter in parameters:
            if parameter.kind not in _COLLECTING and parameter.kind is not inspect.Parameter.POSITIONAL_ONLY:
                result.setdefault(parameter.name, parameter)
        if not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
            return result, False
    return result, True


def required_arguments(kind: type[Any]) -> list[str]:
    """Return what a class's constructor must be given; what it gives to its bases' constructors is its own matter."""
    own = next(one for one in kind.__mro__ if "__init__" in vars(one))
    return [
        parameter.name
        for parameter in list(inspect.signature(vars(own)["__init__"]).parameters.values())[1:]
        if parameter.kind not in _COLLECTING and parameter.default is inspect.Parameter.empty
    ]


def check_arguments(component: Component, role: Role, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Check a component's arguments against its class's signature; nothing is built.

    Args:
        component: read by :func:`.component.read_component`.
        role: what it is for.
        given: arguments from elsewhere than the settings, such as an optimizer's parameters.

    Returns:
        All arguments, those that would have weights downloaded by default turned off.

    Raises:
        ComponentError: if an argument is unknown or missing, or names a file, an address or weights to download.
    """
    given = given or {}
    kind = component_class(component, role)
    known = parameters_of(kind)
    for key, value in component.arguments.items():
        if key not in known:
            hint = did_you_mean(key, list(known))
            raise ComponentError(f"{component.target} has no argument {key!r}{hint} Allowed: {', '.join(known)}.")
        if key in given and value != given[key]:
            raise ComponentError(
                f"{component.target}: argument {key!r} is {shown(value)}, but follows from other settings as "
                f"{shown(given[key])}; leave it out."
            )
        if _reaches_outside(key, value):
            raise ComponentError(
                f"{component.target}: argument {key!r} is {shown(value)}; nothing may be read, downloaded or looked up "
                "here, leave it out."
            )
    arguments = {**component.arguments, **given}
    if missing := [key for key in required_arguments(kind) if key not in arguments]:
        raise ComponentError(
            f"{component.target} misses the arguments {', '.join(missing)}. Known: {', '.join(known)}."
        )
    return _without_downloads(known, arguments)


def build_component(component: Component, role: Role, given: Mapping[str, Any] | None = None) -> Any:
    """Build a component; the components among its arguments are built first.

    Args:
        component: read by :func:`.component.read_component`.
        role: what it is for.
        given: arguments from elsewhere than the settings, such as an optimizer's parameters.

    Raises:
        ComponentError: if it cannot be used; see :func:`component_class` and :func:`check_arguments`.

    Example:
        >>> build_component(read_component("DiceLoss", Role.LOSS), Role.LOSS).__class__.__name__
        'DiceLoss'
    """
    arguments = {
        key: value if given and key in given else _built(value, role)
        for key, value in check_arguments(component, role, given).items()
    }
    try:
        return component_class(component, role)(**arguments)
    except Exception as error:
        # Whatever a class makes of values that its signature takes.
        raise ComponentError(
            f"{component.target} cannot be built with {shown(component.arguments)}: {first_line(error)}"
        ) from error


def _built(value: Any, role: Role) -> Any:
    if isinstance(value, dict):
        if TARGET in value:
            return build_component(read_component(value, role), role)
        return {key: _built(entry, role) for key, entry in value.items()}
    return [_built(entry, role) for entry in value] if isinstance(value, list) else value


def _class_at(path: str, packages: tuple[str, ...]) -> type[Any]:
    """The class of a path: modules below an allowed package, then the class; never through what a module imports."""
    package = next((name for name in packages if is_below(path, (name,))), None)
    if package is None:
        raise ComponentError(f"{TARGET} is {path!r}; allowed are classes of {', '.join(packages)}.")
    if is_below(path, _DENIED_MODULES):
        raise ComponentError(f"{TARGET} is {path!r}; nothing of {', '.join(_DENIED_MODULES)} is allowed.")
    *modules, name = path.split(".")
    module = _module_at(path, ".".join(modules))
    found = vars(module).get(name)
    if found is None and hasattr(module, "__getattr__"):
        found = getattr(module, name, None)
    if found is None:
        classes = [key for key, value in vars(module).items() if isinstance(value, type) and not key.startswith("_")]
        raise ComponentError(
            f"{TARGET} is {path!r}, but {module.__name__} has no {name!r}{did_you_mean(name, classes)}"
        )
    if not isinstance(found, type):
        raise ComponentError(f"{TARGET} is {path!r}, which is no class; expected one.")
    own = f"{found.__module__}.{found.__qualname__}"
    if not is_below(own, packages) or is_below(own, _DENIED_MODULES) or _DENIED_NAMES.fullmatch(found.__name__):
        raise ComponentError(
            f"{TARGET} is {path!r}, which is not allowed: it is {own}. Allowed are classes of {', '.join(packages)}; "
            "those that read, write or call what they are given are left out."
        )
    return found


def _module_at(path: str, name: str) -> types.ModuleType:
    if any(part.startswith("_") for part in name.split(".")):
        raise ComponentError(f"{TARGET} is {path!r}; no part may begin with an underscore.")
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        raise ComponentError(f"{TARGET} is {path!r}, but there is no module {name!r}: {error}.") from error
    if module.__name__ != name:
        raise ComponentError(f"{TARGET} is {path!r}, but {name!r} is another module, {module.__name__!r}.")
    return module


def _without_downloads(known: Mapping[str, inspect.Parameter], arguments: dict[str, Any]) -> dict[str, Any]:
    """Turn off what a class would read or download where nothing is said, as some of MONAI's networks do."""
    off = {
        key: False if parameter.default is True else None
        for key, parameter in known.items()
        if key not in arguments and _reaches_outside(key, parameter.default)
    }
    return arguments | off


def _reaches_outside(key: str, value: Any) -> bool:
    """Whether an argument has something read, downloaded or imported: a text that names it, or a yes to weights."""
    if isinstance(value, dict):
        return any(_reaches_outside(inner, entry) or _reaches_outside(key, entry) for inner, entry in value.items())
    if isinstance(value, list | tuple):
        return any(_reaches_outside(key, entry) for entry in value)
    if not _OUTSIDE.fullmatch(key):
        return False
    # Any number but zero is a yes to a class.
    return (isinstance(value, str) and value != "") or (
        "pretrained" in key and isinstance(value, int | float) and bool(value)
    )


def _name(role: Role) -> str:
    return role.name.lower()
