"""Whether data are prepared as they were in a run: its model sees nothing else rightly."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ...custom.data.description import DESCRIPTION_FILE, SiteDescription
from ...custom.data.description_values import NUM_VALUES, description_values, differing_keys
from ...transforms.errors import DataError

# By site, as it reported them.
Preparations = Mapping[str, Sequence[float | None]]


def check_preparation(
    folder: Path, description: SiteDescription, reported: Preparations | None, site: str | None = None
) -> None:
    """Check that a description prepares images as the sites of a run did.

    Where these differ among each other it is to be like one of them. What a run has not reported is not checked.

    Args:
        folder: of the description, to name in the error.
        description: as it is now.
        reported: of the run's sites; None of an earlier version.
        site: the site that it is of, None for any.

    Raises:
        DataError: if images would be prepared in another way.
    """
    known = {name: values for name, values in (reported or {}).items() if len(values) == NUM_VALUES}
    if site in known:
        known = {name: values for name, values in known.items() if name == site}
    values = description_values(description)
    if values is None or not known:
        return
    differing = {name: differing_keys(values, of_site) for name, of_site in known.items()}
    name, keys = min(differing.items(), key=lambda item: len(item[1]))
    if keys:
        raise DataError(
            f"{folder / DESCRIPTION_FILE}: prepares images in other ways than {name} did in the run, in "
            f"{', '.join(keys)}: the model would see other images than it was trained on. Set the file back, or name a "
            "folder whose file is as it was."
        )
