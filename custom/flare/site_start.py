"""The start of a site's process under NVFlare, which may live for one task only."""

import importlib
import sys

# The programs of NVFlare that are a site's process: of a simulator, and of a federation.
_SITE_PROGRAMS = (
    "nvflare.private.fed.app.simulator.simulator_worker",
    "nvflare.private.fed.app.client.worker_process",
)
# MONAI imports all of itself, and with it optional packages for plots, scores of embeddings, ultrasound confidence
# maps, the sizes of objects, panoptic quality and trainers: two fifths of its start.
_UNUSED = ("ignite", "matplotlib", "pandas", "scipy.optimize", "scipy.signal", "skimage", "sklearn", "tensorboard")


def is_site_process() -> bool:
    """Return whether the program of this process is a site's of NVFlare."""
    specification = getattr(sys.modules["__main__"], "__spec__", None)
    return getattr(specification, "name", None) in _SITE_PROGRAMS


def import_monai_without_extras() -> None:
    """Import MONAI without the optional packages that no site uses, unless it is imported already.

    MONAI then offers the features that need these packages no more in this process, which must be a site's own.
    """
    if "monai" in sys.modules:
        return
    absent = [name for name in _UNUSED if name not in sys.modules]
    # Python raises ImportError for a module whose entry is None.
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]
    try:
        importlib.import_module("monai")
    finally:
        for name in absent:
            del sys.modules[name]
