"""The console of a run: its rounds and what goes wrong. NVFlare's log files keep everything.

Imports nothing that takes time: a configuration of NVFlare's logs may name the filter
(``site_configs/simulator_log.json``).
"""

import logging
import re

from nvflare.fuel.utils.log_utils import ConciseLogFilter

# What a person waits for, besides warnings: rounds, what was concluded of the sites, and before that NVFlare's start.
_SHOWN = re.compile(
    r"Round \d+/\d+|Drawing larger|Continuing after|Deploy and start the Server App|Start the clients run simulation"
)


class ProgressFilter(logging.Filter):
    """Lets through the progress of a run, warnings and errors."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is shown."""
        return record.levelno >= logging.WARNING or bool(_SHOWN.search(record.getMessage()))


def show_progress_alone() -> None:
    """Let the console of an NVFlare simulator's process show progress and warnings.

    It is done where NVFlare shows its concise log, which it does by itself; who asks for another one (``-l full``) gets
    that. Files are not concerned.
    """
    for handler in logging.getLogger().handlers:
        is_concise = any(isinstance(item, ConciseLogFilter) for item in handler.filters)
        if is_concise and not any(isinstance(item, ProgressFilter) for item in handler.filters):
            handler.addFilter(ProgressFilter())
