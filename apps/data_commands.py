"""`fedannot data`: make a federation from a phantom or from folders, and add annotation noise to one."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from .errors import reported_errors

data_app = typer.Typer(help="Make federations: from a phantom, from folders of images and masks, with noise.")

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


class PhantomTask(StrEnum):
    """The kinds of phantom."""

    LESIONS_2D = "lesions2d"


@data_app.command(
    epilog='Example: fedannot data phantom --task lesions2d --sites 10 --noise "M(25,-25,10,0.2)" --exact '
    "--stratified 0.5 --out runs/lesions"
)
def phantom(
    out: OutOption,
    task: Annotated[PhantomTask, typer.Option(help="The kind of phantom.")] = PhantomTask.LESIONS_2D,
    sites: Annotated[int, typer.Option(help="Number of sites.")] = 10,
    images: Annotated[int, typer.Option(help="Training cases of each site.")] = 12,
    test_images: Annotated[int, typer.Option(help="Cases of the clean test set.")] = 50,
    noise: Annotated[
        str | None,
        typer.Option(metavar="M(MAX,MIN,SPREAD,P)", help="Contour noise in pixels at 256×256; default: clean labels."),
    ] = None,
    exact: ExactOption = False,
    stratified: StratifiedOption = None,
    seed: SeedOption = 0,
) -> None:
    """Write a generated federation of 2D lesions with a clean test set; no download, no patient."""
    del task  # There is one so far; naming it keeps commands valid when others come.
    with reported_errors():
        from ..custom.data.embedded import write_phantom_federation

        write_phantom_federation(
            out,
            num_sites=sites,
            noise=noise,
            exact=exact,
            stratified=stratified,
            seed=seed,
            images_per_site=images,
            test_images=test_images,
        )
        _print_federation(out)


@data_app.command(
    "import",
    epilog="Example: fedannot data import --images busi/images --labels busi/masks --sites 8 --include 'benign_*' "
    "--include 'malignant_*' --size 128,128 --out runs/busi",
)
def import_(
    images: Annotated[Path, typer.Option(help="Folder of images (PNG, JPEG, BMP, TIFF).")],
    labels: Annotated[Path, typer.Option(help="Folder of masks with the names of their images.")],
    out: OutOption,
    sites: Annotated[int, typer.Option(help="Number of sites, of equal size.")] = 8,
    test: Annotated[float, typer.Option(help="Share of the pairs for the common test set.")] = 0.2,
    validation: Annotated[float, typer.Option(help="Share of each site's pairs for its validation.")] = 0.0,
    label_map: Annotated[
        str | None,
        typer.Option(metavar="VALUE:CLASS,…", help="Meaning of mask values, '255:1'; default: 0/1 or 0/255 masks."),
    ] = None,
    size: Annotated[str, typer.Option(metavar="ROWS,COLUMNS", help="Size that images are loaded at.")] = "256,256",
    channels: Annotated[int, typer.Option(help="1 for grey, 3 for RGB; images are converted.")] = 1,
    classes: Annotated[str, typer.Option(metavar="NAME,…", help="Names of the classes 1, 2, ….")] = "lesion",
    include: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Take only images of such names; may repeat.")
    ] = None,
    seed: SeedOption = 0,
) -> None:
    """Copy images and masks from two folders into sites at random; pairs have the same name without suffix."""
    with reported_errors():
        from ..custom.data.importer import import_federation

        report = import_federation(
            images,
            labels,
            out,
            num_sites=sites,
            test_share=test,
            validation_share=validation,
            label_map=None if label_map is None else parse_label_map(label_map),
            size=parse_size(size),
            channels=channels,
            classes=[name.strip() for name in classes.split(",")],
            include=include or [],
            seed=seed,
        )
        for name in report.unpaired:
            typer.echo(f"Without a partner, left out: {name}")
        for reason in report.excluded:
            typer.echo(f"Left out: {reason}")
        typer.echo(f"Label values: {', '.join(f'{value} → class {label}' for value, label in report.labels.items())}")
        _print_federation(out)


@data_app.command(
    epilog='Example: fedannot data noise runs/busi --model "M(25,-15,5,0.8)" --exact --out runs/busi-noisy'
)
def noise(
    federation: Annotated[Path, typer.Argument(help="The federation's folder; it stays as it is.")],
    model: Annotated[
        str,
        typer.Option(metavar="M(MAX,MIN,SPREAD,P)", help="Contour noise in pixels at 256×256, scaled to the image."),
    ],
    out: OutOption,
    exact: ExactOption = False,
    stratified: StratifiedOption = None,
    seed: SeedOption = 0,
) -> None:
    """Copy a federation and add contour noise to its training and validation labels; clean ones are kept beside."""
    with reported_errors():
        from ..custom.data.noise_choice import NoiseChoice
        from ..custom.data.noisy_copy import add_contour_noise

        add_contour_noise(federation, out, NoiseChoice(model, exact, stratified), seed=seed)
        _print_federation(out)


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


def parse_size(text: str) -> tuple[int, int]:
    """Read ``128,128`` as rows and columns.

    Raises:
        DataError: if the text has another form.
    """
    from ..transforms.errors import DataError

    try:
        rows, columns = (int(part) for part in text.split(","))
    except ValueError:
        raise DataError(f"--size: found {text!r}, expected ROWS,COLUMNS, for example 128,128.") from None
    return rows, columns


def _print_federation(folder: Path) -> None:
    """Print what a federation holds; for the person who has the data."""
    from rich.console import Console
    from rich.table import Table

    from ..custom.data.overview import federation_overview

    table = Table(title=str(folder))
    for heading in ("site", "cases", "excluded", "μ", "σ", "Dice to clean, %"):
        table.add_column(heading, justify="left" if heading == "site" else "right")
    for row in federation_overview(folder):
        table.add_row(
            row.site,
            str(row.cases),
            str(row.excluded),
            "-" if row.mean is None else f"{row.mean:+.1f}",
            "-" if row.spread is None else f"{row.spread:.1f}",
            "-" if row.dice is None else f"{100 * row.dice:.1f}",
        )
    Console().print(table)
