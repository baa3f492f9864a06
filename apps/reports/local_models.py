"""The sites' own models of a finished run on this machine, from their run folders."""

from pathlib import Path

import torch
from torch import nn

from ...custom.data.personal_files import LOCAL_MODEL_FILE, PERSONAL_FOLDER
from ...custom.methods.fedavg.settings import FedAvgSettings
from ...custom.methods.lookup import method_of
from ...custom.methods.personal.own_threshold import AtThreshold
from ...custom.methods.personal.site import PersonalSite
from ...custom.networks.described import described_network
from .site_files import site_folders


def personal_file(run: Path, site: str, name: str) -> Path | None:
    """Return a file of a site's personal folder, None if there is none.

    Args:
        run: the run's output folder, which holds the sites' workspaces, or an NVFlare workspace.
        site: the site's name.
        name: the file's.
    """
    files = (folder / PERSONAL_FOLDER / name for folder in site_folders(run, site))
    return next((file for file in files if file.is_file()), None)


def local_model(run: Path, site: str, settings: FedAvgSettings) -> nn.Module | None:
    """Return a site's own model as it stored it, None for a method without such or a site that stored none.

    Args:
        run: see :func:`personal_file`.
        site: the site's name.
        settings: the run's settings.
    """
    file = personal_file(run, site, LOCAL_MODEL_FILE)
    return None if file is None else read_local_model(file, settings)


def read_local_model(file: Path, settings: FedAvgSettings) -> nn.Module:
    """Read a site's own model from its file.

    Args:
        file: what the site stored.
        settings: the run's settings, of a method with personal parts.

    Raises:
        TypeError: if the method has none.
    """
    method = method_of(settings).site_part(settings)
    if not isinstance(method, PersonalSite):
        raise TypeError(f"Expected the settings of a method with personal parts, but got those of {settings.method!r}.")
    content = torch.load(file, map_location="cpu", weights_only=True)
    shared = described_network(settings.network)
    shared.load_state_dict(content["shared"])
    personal = method.start(shared, seed=0)
    personal.load_state_dict(content["personal"])
    model = method.local_model(shared, personal)
    return AtThreshold(model, content["threshold"]) if "threshold" in content else model
