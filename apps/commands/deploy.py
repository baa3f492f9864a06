"""`fedannot deploy`: from a job for the simulator to a federation of hospitals."""

from pathlib import Path
from typing import Annotated

import typer

from ..plain_lines import say
from ..wording.shell_words import shell_word
from .errors import reported_errors
from .job_names import JobArgument, complete_jobs
from .operation import HEALTH_EXAMPLE, STATUS_EXAMPLE, health, status

deploy_app = typer.Typer(help="Run jobs in a federation of hospitals; see docs/deployment.md.", no_args_is_help=True)
deploy_app.command(epilog=STATUS_EXAMPLE)(status)
deploy_app.command(epilog=HEALTH_EXAMPLE)(health)

KitArgument = Annotated[
    Path, typer.Argument(metavar="KIT", help="The startup kit of the server, a relay or a site, as provisioned.")
]
CheckedArgument = Annotated[
    Path,
    typer.Argument(
        metavar="KIT",
        help="The startup kit of the server, a relay or a site; or, for who can read the keys, that of an account, or "
        "the folder that `nvflare provision` wrote.",
    ),
]


@deploy_app.command(
    epilog="Example: fedannot deploy job fedaaai --sites hospital-1,hospital-2,hospital-3 --out deployed/fedaaai"
)
def job(
    job: JobArgument,
    out: Annotated[Path, typer.Option(help="Folder of the new job.")],
    sites: Annotated[
        str, typer.Option(help="Names of the sites, with commas; default: all that are there when the job starts.")
    ] = "",
    like: Annotated[
        Path | None,
        typer.Option(metavar="DATA_YAML", help="A site's data.yaml: dimensions, channels and classes of the network."),
    ] = None,
    settings: Annotated[
        str | None,
        typer.Option(metavar="NAME_OR_FILE", help="A set of settings, as for `fedannot simulate`."),
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; may repeat.")
    ] = None,
) -> None:
    """Make a job that `nvflare job submit` takes: without code, for these sites, on their own data."""
    with reported_errors():
        from ..deployment.deployable_job import deployable_job
        from ..runs.overrides import parse_override

        names = [name.strip() for name in sites.split(",") if name.strip()]
        overrides = dict(parse_override(text) for text in set_ or [])
        made = deployable_job(job, out, sites=names, description=like, settings=settings, overrides=overrides)
        chosen = made.settings
        who = f"{len(names)} sites" if names else "all sites"
        grace = (
            "" if chosen.grace_period is None else f", {chosen.grace_period:g} s after which the others are left out"
        )
        say(
            f"{out}: {made.name} for {who}, {chosen.rounds} rounds, at least {chosen.min_sites} usable results in "
            f"each{grace}."
        )
        if made.refused_by_default:
            say(f"Participants with the limits of fedannot refuse it: {made.refused_by_default}")
            say("Change the job, or ask every participant to change its limits.json (docs/deployment.md).")
        say(f"Submit it: nvflare job submit -j {shell_word(out)} --startup-kit KIT_OF_THE_RESEARCHER")


@deploy_app.command(epilog="Example: fedannot deploy configs site_configs")
def configs(
    out: Annotated[Path, typer.Argument(help="The new folder; must be absent or empty.")] = Path("site_configs"),
) -> None:
    """Copy what operator and sites fill in: project.yml, site.yaml, server.yaml, descriptions of data."""
    with reported_errors():
        from ..runs.installed import copy_configs

        for file in sorted(copy_configs(out).rglob("*.y*ml")):
            say(f"Written: {file}")
        project = out / "project.yml"
        say(f"Now fill in {project}, then: (umask 077; nvflare provision -p {shell_word(project)} -w provisioned)")


@deploy_app.command(
    epilog="Example: fedannot deploy prepare provisioned/fedannot/prod_00/hospital-1 --data my-data.yaml"
)
def prepare(
    kit: KitArgument,
    data: Annotated[
        Path | None, typer.Option(metavar="DATA_YAML", help="A filled-in file of site_configs/data.")
    ] = None,
    configs: Annotated[
        Path | None,
        typer.Option(help="Folder with site.yaml and server.yaml; default: as `fedannot deploy configs` copies them."),
    ] = None,
    jobs: Annotated[
        Path | None,
        typer.Option(help="Folder with the jobs of fedannot, to be approved; default: those that are installed."),
    ] = None,
) -> None:
    """Write the participant's policies into its kit: which jobs it approves, who may do what, what may leave.

    A relay has none; its kit is closed to other accounts of the machine.
    """
    with reported_errors():
        from ..deployment.kit import prepare_kit

        written = prepare_kit(kit, configs, data, jobs)
        for file in written:
            say(f"Written: {file}")
        if not written:
            say(f"{kit} is closed to others. A relay runs no jobs and has no policies.")
        say(f"Now: fedannot deploy check {shell_word(kit)}")


@deploy_app.command(
    epilog="Example: fedannot deploy approve deployed/mine --kit provisioned/fedannot/prod_00/hospital-1"
)
def approve(
    job: Annotated[
        Path,
        typer.Argument(
            help="The job's folder, as it will be submitted or as for the simulator, or the name of an installed job.",
            autocompletion=complete_jobs,
        ),
    ],
    kit: Annotated[Path, typer.Option(metavar="KIT", help="The startup kit of the server or of a site.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Let one more job run here, besides those of fedannot; shows first which classes the job names."""
    with reported_errors():
        from ..deployment.deployable_job import read_configuration
        from ..deployment.kit import approve_job
        from ..wording.outbound_fields import reason_of_model

        # Read once: what is shown is what is approved, whatever becomes of the folder.
        name, configuration = read_configuration(job)
        say(f"{name}: method {configuration.method}, digest {configuration.digest}")
        say("It names these classes, which run with this participant's rights:")
        for path in configuration.classes:
            say(f"  {path}")
        settings = ", ".join(sorted(configuration.settings))
        say(f"What may change within limits.json are its settings: {settings}.")
        if (precision := configuration.settings.get("update_precision", "fp32")) in ("bf16", "int8"):
            say(f"What leaves a site as its model: {reason_of_model(precision)}.")
        if not yes:
            typer.confirm(f"Approve it for {kit}?", abort=True)
        approve_job(kit, name, configuration)
        say(f"Approved in {kit / 'local'}. Every other participant has to approve it, too.")


@deploy_app.command(epilog="Example: fedannot deploy check provisioned/fedannot/prod_00/hospital-1")
def check(kit: CheckedArgument) -> None:
    """Check before joining whether everything is ready: what is wrong, and what to do about it. Exit code 1 if not."""
    with reported_errors():
        from ..deployment.check_points import show_points
        from ..deployment.kit_check import check_kit, is_ready
        from ..deployment.startup_kit import is_kit

        points = check_kit(kit)
        show_points(points)
        ready = is_ready(points)
        joins = is_kit(kit)
        say(("Ready to join." if joins else "Closed to others.") if ready else "Not ready.")
    if not ready:
        raise typer.Exit(1)
