"""A site's own minimum for updates, as its kit has it."""

from pathlib import Path

from ..approval.own_limits import own_limits
from ..interface.update_floor import UpdateFloor


def own_floor(config_folder: Path) -> UpdateFloor:
    """Return how many patients and samples an update must be of to leave the site.

    Args:
        config_folder: the site's own configuration folder.

    Raises:
        DataError: if the site's limits cannot be read.
    """
    smallest = own_limits(config_folder).smallest
    return UpdateFloor(smallest.patients, smallest.samples_per_step)
