"""`fedannot data`: make a federation from a phantom or from folders, and add annotation noise to one."""

import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from .errors import reported_errors

data_app = typer.Typer(help="Make federations of a phantom or of your own data, check them, and add annotation noise.")

if TYPE_CHECKING:
    from .importing.writing import ImportReport

Number = TypeVar("Number", int, float)

OutOption = Annotated[Path, typer.Option(help="The new federation's folder; must be absent or empty.")]
SeedOption = Annotated[int, typer.Option(help="Seed of everything random.")]
ExactOption = Annotated[
    bool, typer.Option("--exact", help="Fix the number of sites that draw larger to its expected value.")
]
StratifiedOption = Annotated[
    float | None,
    typer.Option(
        metavar="LO",
        help="Strengths go up in equal steps from LO (share of the limit, from 0 to below 1) to the limit.",
    ),
]


class VolumePipelineName(StrEnum):
    """The pipelines of volumes."""

    SLICES = "volume_slices"
    WHOLE = "volume"


class CropName(StrEnum):
    """Where a crop lies."""

    CENTRE = "centre"
    FOREGROUND = "foreground"


class PhantomTask(StrEnum):
    """The kinds of phantom."""

    LESIONS_2D = "lesions2d"
    LESIONS_3D = "lesions3d"
    CELLS_2D = "cells2d"


@data_app.command(
    epilog='Example: fedannot data phantom --task lesions2d --sites 10 --noise "M(25,-25,10,0.2)" --exact '
    "--stratified 0.5 --out runs/lesions\n\n"
    "Example: fedannot data phantom --task lesions3d --sites 4 --completeness 0.4,0.6,0.8,1 --out runs/volumes"
)
def phantom(
    out: OutOption,
    task: Annotated[
        PhantomTask, typer.Option(help="Pictures with one lesion, volumes with several, or cells in classes.")
    ] = PhantomTask.LESIONS_2D,
    sites: Annotated[int | None, typer.Option(help="Number of sites; default: 10, 4, 4.")] = None,
    images: Annotated[int | None, typer.Option(help="Training cases of each site; default: 12, 8, 200.")] = None,
    test_images: Annotated[int | None, typer.Option(help="Cases of the clean test set; default: 50, 8, 320.")] = None,
    noise: Annotated[
        str | None,
        typer.Option(
            metavar="M(MAX,MIN,SPREAD,P)", help="lesions2d: contour noise in pixels at 256×256; default: clean labels."
        ),
    ] = None,
    exact: ExactOption = False,
    stratified: StratifiedOption = None,
    completeness: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE,…", help="lesions3d: share of its lesions that each site annotates; default: all of them."
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(metavar="NOISE-…", help="cells2d: wrong classes, as for `fedannot data noise`; default: none."),
    ] = None,
    seed: SeedOption = 0,
) -> None:
    """Write a generated federation with a clean test set; no download, no patient."""
    with reported_errors():
        given: dict[PhantomTask, dict[str, Any]] = {
            PhantomTask.LESIONS_2D: {"--noise": noise, "--exact": exact or None, "--stratified": stratified},
            PhantomTask.LESIONS_3D: {"--completeness": completeness},
            PhantomTask.CELLS_2D: {"--labels": labels},
        }
        for other, options in given.items():
            if other is not task:
                _refuse_options(f"the task {task.value}", {key: value is not None for key, value in options.items()})
        counts: dict[str, Any] = {"num_sites": sites, "images_per_site": images, "test_images": test_images}
        if task is PhantomTask.LESIONS_2D:
            from ..custom.data.embedded import write_phantom_federation

            write_phantom_federation(
                out, noise=noise, exact=exact, stratified=stratified, seed=seed, **_without_none(counts)
            )
        elif task is PhantomTask.LESIONS_3D:
            from ..custom.data.embedded_volumes import write_volume_federation

            shares = None if completeness is None else parse_numbers("--completeness", completeness, float)
            counts = {"num_sites": sites, "volumes_per_site": images, "test_volumes": test_images}
            write_volume_federation(out, completeness=shares, seed=seed, **_without_none(counts))
        else:
            from ..custom.data.embedded_cells import write_cell_federation

            write_cell_federation(out, label_noise=labels, seed=seed, **_without_none(counts))
        _print_federation(out)


@data_app.command(
    "import",
    epilog="Example: fedannot data import --images busi/images --labels busi/masks --sites 8 --size 128,128 --out "
    "runs/busi\n\nExample: fedannot data import --datalist cells/datalist.json --sites by-source --out runs/cells\n\n"
    "Example: fedannot data import --dataset isic2017=DIR --sites 50 --out runs/skin",
)
def import_(
    out: OutOption,
    images: Annotated[Path | None, typer.Option(help="Folder of images: pictures, volumes or DICOM folders.")] = None,
    labels: Annotated[Path | None, typer.Option(help="Folder of masks with the names of their images.")] = None,
    label_suffix: Annotated[str, typer.Option(help="What masks' names have behind, '_segmentation'.")] = "",
    datalist: Annotated[Path | None, typer.Option(help="JSON file with a list of cases, in place of folders.")] = None,
    key: Annotated[str | None, typer.Option(help="Name of the list in the datalist.")] = None,
    dataset: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=DIR", help="A public data set as it is published (docs/datasets.md); may repeat."),
    ] = None,
    sites: Annotated[
        str,
        typer.Option(
            metavar="SITES", help="8, 'by-source' (a site of every source), '2-per-source', '50-by-source' (in all)."
        ),
    ] = "8",
    test: Annotated[
        float | None, typer.Option(help="Share of the cases for the common test set; default: as published, or 0.2.")
    ] = None,
    validation: Annotated[float, typer.Option(help="Share of each site's cases for its validation.")] = 0.0,
    group: Annotated[
        str | None, typer.Option(metavar="REGEX", help="Finds the patient in an image's name; patients stay together.")
    ] = None,
    include: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Take only images of such names; may repeat.")
    ] = None,
    label_map: Annotated[
        str | None,
        typer.Option(metavar="VALUE:CLASS,…", help="Meaning of mask values, '255:1'; default: as found."),
    ] = None,
    classes: Annotated[
        str | None, typer.Option(metavar="NAME,…", help="Names of the classes; default: as found.")
    ] = None,
    channels: Annotated[int | None, typer.Option(help="1 for grey, 3 for RGB; pictures are converted.")] = None,
    pipeline: Annotated[
        VolumePipelineName | None, typer.Option(help="Volumes whole or as slices; default: whole.")
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="ROWS,COLUMNS", help="Size of pictures and slices; of volumes three extents or none."),
    ] = None,
    spacing: Annotated[
        str | None,
        typer.Option(metavar="MM,MM,MM", help="Voxel size that volumes are resampled to; default: their own."),
    ] = None,
    orientation: Annotated[str | None, typer.Option(metavar="RAS", help="Directions of the axes of volumes.")] = None,
    crop: Annotated[CropName | None, typer.Option(help="Where volumes are cropped to the size.")] = None,
    window: Annotated[
        str | None, typer.Option(metavar="LOW,HIGH", help="CT window; default: z-score of each volume.")
    ] = None,
    slice_axis: Annotated[int | None, typer.Option(help="Axis that volumes are cut across; default: 2.")] = None,
    seed: SeedOption = 0,
) -> None:
    """Make sites of images and annotations as they lie: two folders, a datalist, or a public data set.

    Everything is copied; what cannot be used is named and left out.
    """
    with reported_errors():
        from .importing.find import find_datasets
        from .importing.plan import SiteChoice
        from .importing.writing import ImportOptions, write_imported_federation

        datasets = find_datasets(
            images=images,
            labels=labels,
            label_suffix=label_suffix,
            datalist=datalist,
            key=key,
            named=dataset or [],
            include=include or [],
            group=group,
            seed=seed,
        )
        keys = {
            "channels": channels,
            "size": None if size is None else parse_numbers("--size", size, int),
            "spacing": None if spacing is None else parse_numbers("--spacing", spacing, float, count=3),
            "orientation": orientation,
            "crop": None if crop is None else crop.value,
            "intensity": None if window is None else "window",
            "window": None if window is None else parse_numbers("--window", window, float, count=2),
            "slice_axis": slice_axis,
        }
        options = ImportOptions(
            pipeline=None if pipeline is None else pipeline.value,
            keys={key: value for key, value in keys.items() if value is not None},
            labels=None if label_map is None else parse_label_map(label_map),
            classes=None if classes is None else [name.strip() for name in classes.split(",")],
        )
        report = write_imported_federation(
            datasets,
            out,
            SiteChoice.parse(sites),
            options,
            test_share=test,
            validation_share=validation,
            seed=seed,
        )
        _print_import(report)
        _print_federation(out)


@data_app.command(
    epilog='Example: fedannot data noise runs/busi --model "M(25,-15,5,0.8)" --exact --out runs/busi-noisy\n\n'
    "Example: fedannot data noise runs/ms --completeness 0.4,0.6,0.8,1 --out runs/ms-m0\n\n"
    "Example: fedannot data noise runs/kvasir --labels 0-S40-P20-C20 --table kvasir-capsule --out runs/kvasir-noisy"
)
def noise(
    federation: Annotated[Path, typer.Argument(help="The federation's folder; it stays as it is.")],
    out: OutOption,
    model: Annotated[
        str | None,
        typer.Option(metavar="M(MAX,MIN,SPREAD,P)", help="Contour noise in pixels at 256×256, scaled to the image."),
    ] = None,
    completeness: Annotated[
        str | None,
        typer.Option(metavar="SHARE,…", help="Share of each case's lesions that a site annotates, one per site."),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="NOISE-…",
            help="Wrong classes, one entry per site or one for all: 0, or S, P, C (symmetric, pairflip, clinical) with "
            "a rate in %.",
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            help="For clinical label noise, which classes are confused: kvasir-capsule, oia-odir, cell-phantom or a "
            "YAML file."
        ),
    ] = None,
    exact: ExactOption = False,
    stratified: StratifiedOption = None,
    seed: SeedOption = 0,
) -> None:
    """Copy a federation with imperfect training and validation labels; the clean ones are kept beside.

    Either contours are noisy (--model), or lesions are missing (--completeness), or classes are wrong (--labels).
    """
    with reported_errors():
        from ..custom.data.mislabelled_copy import mislabel_cases
        from ..custom.data.noise_choice import NoiseChoice
        from ..custom.data.noisy_copy import add_contour_noise, leave_lesions_out
        from ..transforms.errors import DataError

        if sum(option is not None for option in (model, completeness, labels)) != 1:
            raise DataError(
                "Expected one of --model, for noisy contours, --completeness, for missing lesions, and --labels, for "
                "wrong classes."
            )
        of_contours = {"--exact": exact, "--stratified": stratified is not None}
        of_labels = {"--table": table is not None}
        if completeness is not None:
            _refuse_options("--completeness", of_contours | of_labels)
            leave_lesions_out(federation, out, parse_numbers("--completeness", completeness, float), seed=seed)
        elif labels is not None:
            _refuse_options("--labels", of_contours)
            mislabel_cases(federation, out, labels, table=table, seed=seed)
        elif model is not None:
            _refuse_options("--model", of_labels)
            add_contour_noise(federation, out, NoiseChoice(model, exact, stratified), seed=seed)
        _print_federation(out)


@data_app.command(epilog="Example: fedannot data check runs/busi --json runs/busi-check.json")
def check(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A federation's folder, or one site's.")],
    json_: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all findings as JSON; names files.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the contact sheets; default: runs/check/NAME_OF_DIR.")
    ] = None,
    pictures: Annotated[bool, typer.Option(help="Draw a contact sheet of every site.")] = True,
    salt: Annotated[
        str | None,
        typer.Option(
            help="A secret that hospitals agree on: write salted fingerprints of images and patients to OUT, without "
            "names, for `fedannot data overlap`."
        ),
    ] = None,
) -> None:
    """Look for what is wrong with the data before anybody trains: which file, and how to mend it.

    Exit code 1 if a site cannot train. Nothing is changed, and nothing leaves the site.
    """
    with reported_errors():
        from rich.console import Console

        from .checking.checking import check_folder
        from .checking.outputs import write_outputs
        from .checking.table import print_report

        report = check_folder(folder)
        written = write_outputs(
            report, out or Path("runs") / "check" / folder.resolve().name, pictures=pictures, json_file=json_, salt=salt
        )
        print_report(report, Console())
        for what, file in written:
            typer.echo(f"{what}: {file}")
    if not report.can_train:
        raise typer.Exit(1)


@data_app.command(epilog="Example: fedannot data overlap hospital-a.json hospital-b.json")
def overlap(
    files: Annotated[list[Path], typer.Argument(help="Files of fingerprints, from `fedannot data check --salt`.")],
) -> None:
    """Count the images and patients that hospitals have in common, from salted fingerprints alone."""
    with reported_errors():
        from rich.console import Console

        from .checking.overlap import find_overlaps
        from .checking.table import print_overlaps

        print_overlaps(*find_overlaps(files), Console())


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a person named, so that the rest keeps its default."""
    return {key: value for key, value in values.items() if value is not None}


def _refuse_options(what: str, given: Mapping[str, bool]) -> None:
    """Refuse options that something does not have, rather than pass over them."""
    from ..transforms.errors import DataError

    if names := [name for name, is_given in given.items() if is_given]:
        raise DataError(f"{', '.join(names)}: {what} does not have it.")


def parse_label_map(text: str) -> dict[int, int]:
    """Read ``85:1,170:2``.

    Raises:
        DataError: if the text has another form.
    """
    from ..transforms.errors import DataError

    try:
        entries = [entry.split(":") for entry in text.split(",")]
        return {int(value): int(label) for value, label in entries}
    except ValueError:
        raise DataError(f"--label-map: found {text!r}, expected VALUE:CLASS,…, for example 85:1,170:2.") from None


def parse_numbers(
    option: str, text: str, kind: Callable[[str], Number], *, count: int | None = None
) -> tuple[Number, ...]:
    """Read numbers with commas between them, ``128,128``.

    Args:
        option: the option to name in an error.
        text: what was given.
        kind: int or float.
        count: how many there must be, None for any number.

    Raises:
        DataError: if the text has another form.
    """
    from ..transforms.errors import DataError

    try:
        numbers = tuple(kind(part) for part in text.split(","))
        if not all(map(math.isfinite, numbers)) or (count is not None and len(numbers) != count):
            raise ValueError
    except ValueError:
        kinds = "whole numbers" if kind is int else "numbers"
        wanted = kinds if count is None else f"{count} {kinds}"
        raise DataError(f"{option}: found {text!r}, expected {wanted} with commas between them.") from None
    return numbers


def _print_import(report: "ImportReport") -> None:
    """Print what did not come along, and how label values were understood."""
    for text in report.skipped + report.excluded:
        typer.echo(f"Left out: {text}")
    if report.labels:
        meaning = ", ".join(f"{value} → class {label}" for value, label in report.labels.items())
        typer.echo(f"Label values: {meaning}")


def _print_federation(folder: Path) -> None:
    """Print what a federation holds; for the person who has the data."""
    from rich.console import Console
    from rich.table import Table

    from ..custom.data.overview import federation_overview

    rows = [
        {
            "site": row.site,
            "cases": str(row.cases),
            "excluded": str(row.excluded),
            "μ": "-" if row.mean is None else f"{row.mean:+.1f}",
            "σ": "-" if row.spread is None else f"{row.spread:.1f}",
            "complete, %": "-" if row.completeness is None else f"{100 * row.completeness:.0f}",
            "wrong, %": "-" if row.wrong is None else f"{100 * row.wrong:.1f}",
            "Dice to clean, %": "-" if row.dice is None else f"{100 * row.dice:.1f}",
        }
        for row in federation_overview(folder)
    ]
    # Columns that would be empty for all sites are left out.
    headings = [heading for heading in rows[0] if any(row[heading] != "-" for row in rows)]
    table = Table(title=str(folder))
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "site" else "right")
    for row in rows:
        table.add_row(*(row[heading] for heading in headings))
    Console().print(table)
