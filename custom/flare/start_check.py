"""The check at the start of every process of NVFlare on a prepared kit: server, site, and the process of each job.

It stands in the kit twice, so that no single file switches it off: the gates in ``resources.json`` make it, and so does
the component of :data:`fedannot.custom.flare.kit_files.START_CHECK_FILE`. Each demands the other.
"""

import logging
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence

from nvflare.apis.fl_component import FLComponent
from nvflare.fuel.utils.log_utils import FL_LOG_LEVEL

from ...transforms.errors import DataError
from .kit_files import own_folder
from .kit_policies import KitFault, KitProblem, Policy, kit_faults


def check_start() -> None:
    """End this process unless the policies of its kit are in force.

    Raises:
        SystemExit: with what is not in force, and what to do; it is printed to the console without a traceback.
    """
    kit = own_folder()
    try:
        faults = kit_faults(kit) + list(process_faults(sys.argv[1:], os.environ))
    except DataError as error:
        raise SystemExit(f"Does not start: {error}") from error
    if faults:
        listed = "\n".join(f"  {fault}" for fault in faults)
        first, word = any(fault.of_own_policies for fault in faults), shlex.quote(str(kit.absolute()))
        raise SystemExit(
            f"{kit} does not start, since its policies are not in force:\n{listed}\n"
            f"{'Change site.yaml or server.yaml first. ' if first else ''}"
            f"Then: fedannot deploy prepare {word}, and fedannot deploy check {word}"
        )


def process_faults(arguments: Sequence[str], environment: Mapping[str, str]) -> Iterator[KitFault]:
    """Yield what of a process's arguments and environment would count before the files of the kit.

    Args:
        arguments: those of NVFlare's program.
        environment: its variables.
    """
    # Some launchers give several settings as one argument.
    words = " ".join(arguments).lower().split()
    if "secure_train=true" not in words:
        yield KitFault(Policy.NO_FILES, KitProblem.NOT_SECURE, {"argument": "secure_train=true"})
    if any(word.startswith("allow_log_streaming=") for word in words):
        yield KitFault(Policy.LOGS, KitProblem.LOGS_SENT_BY_ARGUMENT, {"argument": "allow_log_streaming"})
    level = environment.get(FL_LOG_LEVEL, "").strip()
    if level and not level.isdigit() and level.upper() not in logging.getLevelNamesMapping():
        yield KitFault(Policy.LOGS, KitProblem.NO_LOG_LEVEL, {"variable": FL_LOG_LEVEL, "value": ascii(level)})


class StartCheck(FLComponent):  # type: ignore[misc]
    """A component of NVFlare's that checks the kit when it is built, before the process connects to anybody.

    Raises:
        SystemExit: see :func:`check_start`.
    """

    def __init__(self) -> None:
        super().__init__()
        check_start()
