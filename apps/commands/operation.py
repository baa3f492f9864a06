"""`fedannot deploy status` and `fedannot deploy health`: what a federation, and this machine's part of it, does now."""

import json
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..plain_lines import say
from .errors import reported_errors

if TYPE_CHECKING:
    from ..deployment.federation_status import FederationStatus

STATUS_EXAMPLE = (
    "Example: fedannot deploy status --startup-kit provisioned/fedannot/prod_00/lead@research.org --watch 10"
)
HEALTH_EXAMPLE = "Example: fedannot deploy health provisioned/fedannot/prod_00/hospital-1"


def status(
    startup_kit: Annotated[
        Path, typer.Option(metavar="KIT", help="The startup kit of the administrator or of the researcher.")
    ],
    job: Annotated[str | None, typer.Option(metavar="JOB_ID", help="Only this job.")] = None,
    watch: Annotated[
        float | None, typer.Option(min=1, metavar="SECONDS", help="Look again and again, until the job has ended.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, one document for every look.")] = False,
) -> None:
    """Show the sites and jobs of a federation: rounds, who has answered, score, time left, and what to do.

    Exit code 1 if a site of a running job is silent, a job has ended without a result, or the server does not answer.
    """
    with reported_errors():
        from ..deployment.federation_status import connected

        # What NVFlare logs of a connection is no part of the answer.
        logging.getLogger().addHandler(logging.NullHandler())
        with connected(startup_kit) as observer:
            while True:
                result = observer.look(job)
                _show(result, as_json)
                if watch is None or (job is not None and all(item.state.is_end for item in result.jobs)):
                    break
                time.sleep(watch)
    if result.is_trouble:
        raise typer.Exit(1)


def _show(found: "FederationStatus", as_json: bool) -> None:
    from ..deployment import status_text
    from ..terminal import Terminal

    console = Terminal(soft_wrap=True)
    if as_json:
        console.print(json.dumps(status_text.as_json(found)))
        return
    for line in status_text.status_lines(found):
        style = "red" if line.is_trouble else "yellow" if line.is_remedy else None
        console.print("  " * line.level + ("→ " if line.is_remedy else "") + line.text, style=style)


def health(
    kit: Annotated[Path, typer.Argument(metavar="KIT", help="The startup kit of the server or of a site.")],
    quiet: Annotated[bool, typer.Option("--quiet", help="Print problems alone.")] = False,
) -> None:
    """Check in a second whether this participant's process runs and is connected; for systemd, Docker and monitoring.

    Exit code 1 if not. Data, policies and versions are `fedannot deploy check`'s.
    """
    with reported_errors():
        from ..deployment.check_points import State, show_points
        from ..deployment.health import check_health

        points = check_health(kit)
        show_points([point for point in points if not quiet or point.state is State.PROBLEM])
        is_well = all(point.state is not State.PROBLEM for point in points)
        if not quiet:
            say("Healthy." if is_well else "Not healthy.")
    if not is_well:
        raise typer.Exit(1)
