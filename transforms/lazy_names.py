"""Names of a package that are imported when they are asked for, so that the package itself costs nothing."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return what a package needs as ``__getattr__`` and ``__dir__``.

    Args:
        package: its name, ``__name__`` there.
        modules: for each public name the module that has it, relative to the package.

    >>> get, names = lazy_names("fedannot.transforms", {"contour_bands": "contour_bands", "DataError": "data_error"})
    >>> names()
    ['DataError', 'contour_bands']
    >>> get("DataError").__module__
    'fedannot.transforms.data_error'
    >>> get("absent")
    Traceback (most recent call last):
    ...
    AttributeError: module 'fedannot.transforms' has no attribute 'absent'
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{modules[name]}"), name)

    return get, lambda: sorted(modules)
