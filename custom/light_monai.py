"""Imports MONAI without what it loads for features that no site uses; a site's process may live for one task only."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

# MONAI imports all of itself, and with it optional packages for plots, scores of embeddings, ultrasound confidence
# maps, the sizes of objects, panoptic quality and trainers: more than half of its start.
_UNUSED = ("ignite", "matplotlib", "pandas", "scipy.optimize", "scipy.signal", "skimage", "sklearn", "tensorboard")


@contextmanager
def unused_packages_absent() -> Iterator[None]:
    """Let imports of the unused packages fail, as if they were not installed; afterwards they can be imported again.

    The first import of MONAI belongs inside; MONAI then offers the features that need these packages no more in this
    process. Packages that are loaded already stay as they are.
    """
    absent = [name for name in _UNUSED if name not in sys.modules]
    # Python raises ImportError for a module whose entry is None.
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]
