"""Warns of sites whose own models nobody could score."""

from collections.abc import Sequence
from pathlib import Path

from ...custom.data.datalist import VALIDATION
from ...custom.data.site_data import count_cases
from ...custom.methods.personal.settings import PersonalSettings
from ...custom.settings import RunSettings
from ...transforms.errors import DataError


def without_validation(settings: RunSettings, data: Path, sites: Sequence[str]) -> str | None:
    """Return a warning where sites have models of their own and no cases to score them on, else None."""
    if not isinstance(settings, PersonalSettings):
        return None
    lacking = [site for site in sites if not _count_validation(data / site)]
    if not lacking:
        return None
    which = "all sites" if len(lacking) == len(sites) else ", ".join(lacking)
    return (
        f"warning: without a list 'validation' in the datalist: {which}. Nothing says what the own models score there; "
        "--validation 0.2 of `fedannot data import` makes such lists."
    )


def _count_validation(folder: Path) -> int:
    try:
        return count_cases(folder, VALIDATION)
    except DataError:
        # The run refuses such a site by name.
        return 0
