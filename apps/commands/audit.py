"""`fedannot audit`: what an audit found at a site; look, review, take suggestions over, hand them to other tools."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..plain_lines import GENERATED, say
from ..runs.interruption import given_command
from ..wording.shell_words import shell_word
from .errors import reported_errors
from .reviewed_annotations import FolderArgument, SiteOption, apply, export, only_audit, revert, warn
from .simulation import SettingOption

audit_app = typer.Typer(invoke_without_command=True, no_args_is_help=True)


class Profile(StrEnum):
    """How much an audit does."""

    IMAGE = "image"
    QUICK = "quick"
    THOROUGH = "thorough"


_NO_BROWSER = "No browser can be opened here: open the address."

FilesOption = Annotated[
    bool, typer.Option("--files/--no-files", help="Check the site's files, too, which reads all of them.")
]


@audit_app.callback(
    epilog="Example: fedannot audit --data runs/mine --out runs/audit\n\n"
    "Example: fedannot audit --data runs/mine/site-1 --profile image\n\n"
    "Example: fedannot audit --data runs/mine/site-1 --profile thorough --out runs/audit"
)
def audit(
    context: typer.Context,
    data: Annotated[
        Path | None, typer.Option(help="A federation's folder, or one site's; without it the embedded phantom.")
    ] = None,
    profile: Annotated[
        Profile,
        typer.Option(
            help="image: masks against the image boundary, in seconds and without training; one site suffices. "
            "quick: an early model predicts all cases. thorough: of contours, models that have not learnt them, "
            "in twice the rounds; of labels, a model of more rounds."
        ),
    ] = Profile.QUICK,
    set_: SettingOption = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the run; default: the job's.")] = None,
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("runs/audit"),
    resume: Annotated[bool, typer.Option("--resume", help="Continue the audit in the output folder.")] = False,
    jobs: Annotated[
        Path | None, typer.Option(help="A folder that holds the jobs; default: those that are installed.")
    ] = None,
) -> None:
    """Audit annotations: what looks wrong in which case, with which probability, and what to do now.

    A short federation trains reference models the annotations. Every site gets a page, which shows patients' images
    and stays there; the federation gets one without any case. Given files are never changed. The commands below work on
    what an audit has found, wherever it ran.
    """
    if context.invoked_subcommand is not None:
        return
    if profile is Profile.IMAGE:
        _audit_images(data, out, seed, unused={"--set": set_, "--resume": resume, "--jobs": jobs})
        return
    with reported_errors(lambda: f"Go on with: {given_command(context, resume=out.is_dir())}"):
        from ..runs.progress import Progress

        with Progress() as progress:
            progress.tell(f"Audit: a short federation, then every case.{'' if data or resume else f' {GENERATED}'}")
            from ..functions.audits import audit as run
            from ..runs.overrides import parse_override
            from ..wording.headline import headline

            made = run(
                data,
                out,
                profile="thorough" if profile is Profile.THOROUGH else "quick",
                changes=dict(parse_override(text) for text in set_ or []),
                seed=seed,
                resume=resume,
                jobs=jobs,
                on_progress=progress,
            )
        for site, result in made.sites.items():
            say(f"{site}: {headline(result)}")
            say(f"  {made.pages[site]}")
        say(f"All sites side by side, without a case: {made.federation_page}")
        say(f"Review a site's cases with: fedannot audit review {shell_word(out)} --site NAME")
        if data is None:
            say(GENERATED)


def _audit_images(data: Path | None, out: Path, seed: int | None, *, unused: Mapping[str, object]) -> None:
    if given := [name for name, value in unused.items() if value]:
        raise typer.BadParameter("expected it without --profile image, which trains nothing", param_hint=given)
    if data is None:
        raise typer.BadParameter("expected a folder with --profile image", param_hint="'--data'")
    with reported_errors():
        from ...custom.annotation_bias.profile.mask_shift import ShiftStatus
        from ..audit.image_audit import audit_images, write_image_audit
        from ..wording.image_audit import image_audit_in_words

        result = audit_images(data, seed=seed or 0)
        for line in image_audit_in_words(result):
            say(line)
        say(f"As numbers: {write_image_audit(result, out)}")
        for site, shift in result.mask_shifts.items():
            if shift.status is ShiftStatus.CORRECTABLE:
                command = f"fedannot audit apply {shell_word(out)} --site {shell_word(site)} --shift --out DIR"
                say(f"Move all masks of {site} back with: {command}")


@audit_app.command("federation", epilog="Example: fedannot audit federation simulator_workspace --out runs/audit.html")
def federation(
    workspace: Annotated[
        Path, typer.Argument(help="A run's output folder, the server's workspace, or a downloaded job result.")
    ],
    out: Annotated[Path, typer.Option(help="The page.")] = Path("runs/audit.html"),
) -> None:
    """Write the federation's page: sites side by side, how they annotate, what auto would do and why; no case."""
    with reported_errors():
        from ..audit.federation_page import write_federation_page
        from ..reports.output import find_run_folder, read_summary

        is_output = (workspace / "summary.json").is_file()
        summary = read_summary(workspace if is_output else find_run_folder(workspace))
        say(f"The federation's page: {write_federation_page(summary, out)}")


@audit_app.command("list", epilog="Example: fedannot audit list runs/audit --site site-1 --kind missing")
def list_(
    folder: FolderArgument,
    site: SiteOption = None,
    kind: Annotated[list[str] | None, typer.Option(help="Only findings of this kind; may repeat.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Findings of each site.")] = 24,
) -> None:
    """List what the audit found in this terminal, the worst first."""
    with reported_errors():
        from ..audit.found import find_audits
        from ..audit.listing import print_audit
        from ..terminal import Terminal

        console = Terminal()
        for result in find_audits(folder, site):
            print_audit(result, console, kinds=kind or (), limit=limit)


@audit_app.command(
    "page",
    epilog="Example: fedannot audit page runs/audit --site site-1\n\n"
    "Example: fedannot audit page runs/audit --site site-1 --share --out shared",
)
def page(
    folder: FolderArgument,
    site: SiteOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the pages, a file for each site; default: beside the findings.")
    ] = None,
    files: FilesOption = True,
    share: Annotated[
        bool,
        typer.Option(
            "--share",
            help="A copy for others: numbered cases; no names, paths, reviewers, comments or times.",
        ),
    ] = False,
    images: Annotated[
        bool, typer.Option("--with-images/--without-images", help="Of --share: with images and masks, or without.")
    ] = True,
) -> None:
    """Write what the audit found as a page: one file that asks for nothing elsewhere. Shows patients' images.

    The page is private to the account. A copy with --share may be read by others: its images still show patients, and
    what is burnt into their pixels stays.
    """
    if not images and not share:
        raise typer.BadParameter("expected it together with --share", param_hint="'--without-images'")
    with reported_errors():
        from ..audit.found import find_audits
        from ..audit.shared_page import SHARED_FILE, write_shared_page
        from ..audit.site_page import PAGE_FILE, write_site_page

        for number, result in enumerate(find_audits(folder, site), start=1):
            if share:
                target = result.folder / SHARED_FILE if out is None else out / f"shared-{number}.html"
                say(f"{result.site}: {write_shared_page(result, target, with_images=images)}")
                continue
            target = result.folder / PAGE_FILE if out is None else out / f"{result.site}.html"
            say(f"{result.site}: {write_site_page(result, target, check_files=files)}")


@audit_app.command(
    "review",
    epilog='Example: fedannot audit review runs/audit --site site-1 --reviewer "Dr Ada"\n\n'
    'Example: fedannot audit review runs/audit --site site-1 --reviewer "Dr Bo" --blind',
)
def review(
    folder: FolderArgument,
    site: SiteOption = None,
    reviewer: Annotated[
        str | None, typer.Option(help="Who reviews, stored with every decision; default: the name of the login.")
    ] = None,
    blind: Annotated[
        bool,
        typer.Option(
            "--blind",
            help="A second reader: the page has none of the decisions of others; needs --reviewer.",
        ),
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine; 0 takes a free one.")] = 0,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = True,
    idle_minutes: Annotated[
        float, typer.Option(min=0.02, help="End when the page has asked nothing for so long.")
    ] = 120,
    files: FilesOption = True,
    blind_first: Annotated[
        bool,
        typer.Option("--blind-first", help="Hide predictions and findings until you have judged the annotation."),
    ] = False,
) -> None:
    """Review the cases in a browser on this machine; every decision is stored at once. Ctrl-C ends it.

    The page is served to this machine alone. The browser is led to it by a file that no other account can read. The
    printed address works once: copy it into the address bar, not behind a browser's command, whose arguments every
    account of this machine can read.
    """
    if blind and not reviewer:
        raise typer.BadParameter(
            "expected it together with --reviewer, another name than the first's", param_hint="'--blind'"
        )
    with reported_errors(lambda: "All decisions are stored."):
        from ..audit.case_files import CaseReader
        from ..audit.review import ReviewServer
        from ..audit.review_opening import ReviewOpening
        from ..audit.site_page import checked_files

        result = only_audit(folder, site)
        reader = CaseReader(result)
        report = checked_files(reader) if files else None
        with (
            ReviewServer(
                reader, report, reviewer or _login(), port=port, is_blind=blind, blind_first=blind_first
            ) as server,
            ReviewOpening(server, say, warn) as opening,
        ):
            say(f"Review of {result.site}: {opening.new_address()}")
            say("The address works once; when it was used the next one is printed. Ctrl-C ends the review.")
            if open_:
                is_tried = opening.open_browser()
                say("Opening the browser. If no page appears, open the address." if is_tried else _NO_BROWSER)
            server.serve(60 * idle_minutes)
        say(f"Ended after {idle_minutes:g} minutes without a request. All decisions are stored.")


@audit_app.command("agreement", epilog="Example: fedannot audit agreement runs/audit --site site-1")
def agreement(folder: FolderArgument, site: SiteOption = None) -> None:
    """Say how far readers agree: percent and Cohen's kappa of the findings that both have decided.

    Counted are the findings that could be accepted or kept. Where a blind reader differs from another one, the finding
    is open: `audit apply` leaves it until somebody who sees both decides in `audit review`.
    """
    with reported_errors():
        from ...custom.audit.decisions import read_decisions
        from ..audit.found import find_audits
        from ..wording.agreement import agreement_in_words, differing_findings

        for result in find_audits(folder, site):
            decisions = read_decisions(result.folder, result.site)
            sentences = agreement_in_words(result.audit, decisions)
            for sentence in sentences or ["no two readers have decided about the same finding."]:
                say(f"{result.site}: {sentence}")
            for line in differing_findings(result.audit, decisions):
                say(f"  {line}")


def _login() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


audit_app.command(
    "apply",
    epilog="Example: fedannot audit apply runs/audit --site site-1 --out data/site-1/reviewed\n\n"
    "Example: fedannot audit apply runs/audit --site site-1 --shift --out data/site-1/shifted --update-datalist",
)(apply)
audit_app.command("revert", epilog="Example: fedannot audit revert runs/mine/site-1")(revert)
audit_app.command("export", epilog="Example: fedannot audit export runs/audit --site site-1 --out runs/for-slicer")(
    export
)
