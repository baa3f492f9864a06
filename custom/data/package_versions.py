"""Versions of installed packages, found by the names of folders: reading what they say of themselves takes 10 ms."""

import os
import re
import sys
from functools import cache
from importlib.metadata import version

_FOLDER = re.compile(r"(?P<name>[A-Za-z0-9_.]+)-(?P<version>[^-]+)\.dist-info")


@cache
def package_versions(names: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of packages by their names.

    Raises:
        PackageNotFoundError: if one is not installed.

    >>> list(package_versions(("numpy", "torch")))
    ['numpy', 'torch']
    """
    found: dict[str, str] = {}
    for folder in filter(os.path.isdir, sys.path):
        for entry in os.listdir(folder):  # noqa: PTH208
            if entry.endswith(".dist-info") and (parts := _FOLDER.fullmatch(entry)):
                # The first on the path is what is imported.
                found.setdefault(parts["name"].lower(), parts["version"])
    return {name: found.get(name) or version(name) for name in names}
