"""The limits of a participant where it trains or averages."""

from pathlib import Path

from .approved import APPROVED_FILE
from .limits import LIMITS_FILE, Limits, Minimum, read_limits

# Of a simulation, in which nobody has data to protect.
NO_LIMITS = Limits(smallest=Minimum(min_sites=1, samples_per_step=1, patients=1), largest_share=1.0)


def own_limits(config_folder: Path) -> Limits:
    """Read the limits of a participant where it trains or averages; none where there is no prepared kit.

    Args:
        config_folder: the participant's own configuration folder, in a kit ``local``.

    Raises:
        DataError: if the file cannot be used.
    """
    is_prepared = any((config_folder / name).is_file() for name in (APPROVED_FILE, LIMITS_FILE))
    return read_limits(config_folder) if is_prepared else NO_LIMITS
