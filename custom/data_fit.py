"""Do a site's data fit the job's network? Asked before anything is decoded."""

from pathlib import Path

from ..transforms.errors import DataError
from .data.description import (
    DESCRIPTION_FILE,
    PIPELINES,
    ClassificationDescription,
    SegmentationDescription,
    SiteDescription,
    read_site_description,
)
from .settings import RunSettings

# What describes data for a task, and what its cases have.
_TASKS: dict[str, tuple[type[SiteDescription], str]] = {
    "segmentation": (SegmentationDescription, "masks"),
    "classification": (ClassificationDescription, "one class each"),
}

# What a patch may be where the settings name none; a person will want another.
_EXAMPLE_PATCH = "[96,96,64]"


def check_data_fit(folder: Path, settings: RunSettings, *, site: str) -> None:
    """Check that the network that the job's settings describe can take the data of a folder.

    Args:
        folder: the folder with ``data.yaml``.
        settings: the job's settings.
        site: the site's name, for messages.

    Raises:
        DataError: if the data are for another task, or differ from the network in spatial dimensions, channels or
            classes; it says which settings would fit.
    """
    try:
        description = read_site_description(folder)
    except DataError as error:
        raise DataError(f"Site {site}: {error}") from error
    file = folder / DESCRIPTION_FILE
    wanted_kind, what = _TASKS[settings.task]
    if not isinstance(description, wanted_kind):
        fitting = [name for name, kind in PIPELINES.items() if issubclass(kind, wanted_kind)]
        raise DataError(
            f"Site {site}: {file} has the pipeline {description.pipeline!r}, but the job {settings.method!r} trains a "
            f"network for {settings.task}; expected one of {', '.join(fitting)}, whose cases have {what}."
        )
    network = settings.network
    wanted = network_settings(description)
    changes = {key: value for key, value in wanted.items() if getattr(network, key) != value}
    if not changes:
        return
    kind = "foreground classes" if settings.task == "segmentation" else "classes"
    raise DataError(
        f"Site {site}: {file} describes {wanted['in_channels']} channels and {wanted['num_classes']} {kind} in "
        f"{wanted['spatial_dims']} spatial dimensions, but the job's network expects {network.in_channels} and "
        f"{network.num_classes} in {network.spatial_dims}. If the description is right, run the job with "
        f"{_options(changes)}."
    )


def network_settings(description: SiteDescription) -> dict[str, int]:
    """Return the settings of the network that follow from a description of data."""
    return {
        "in_channels": description.in_channels,
        "num_classes": len(description.classes),
        "spatial_dims": description.spatial_dims,
    }


def _options(changes: dict[str, int]) -> str:
    options = [f"--set network.{key}={value}" for key, value in changes.items()]
    if changes.get("spatial_dims") == 3:
        options.append(f"--set training.patch={_EXAMPLE_PATCH} (or another patch)")
    if changes.get("spatial_dims") == 2:
        options.append("and without training.patch")
    return " ".join(options)
