"""`fedannot data`: make a federation from a phantom or from folders, and add annotation noise to one."""

from pathlib import Path
from typing import Annotated

import typer

from ..plain_lines import say
from ..wording.shell_words import shell_word
from .data_import import EPILOG, import_federation
from .data_making import ANNOTATORS_EXAMPLES, NOISE_EXAMPLES, PHANTOM_EXAMPLES, annotators, noise, phantom
from .data_options import OutOption
from .errors import reported_errors

data_app = typer.Typer(help="Make federations of a phantom or of your own data, check them, and add annotation noise.")
data_app.command("import", epilog=EPILOG)(import_federation)


@data_app.command(epilog="Example: fedannot data cvat export.zip --classes lesion,cyst --out masks")
def cvat(
    export: Annotated[
        Path,
        typer.Argument(
            help="An export of CVAT: 'CVAT for images 1.1' or 'Segmentation mask 1.1', as .zip, .xml or a folder."
        ),
    ],
    out: OutOption,
    classes: Annotated[str, typer.Option(metavar="NAME,…", help="The labels that become the classes 1, 2, …")],
) -> None:
    """Draw the annotations of an export of CVAT as masks, to import them beside their images."""
    with reported_errors():
        from ..importing.cvat_masks import write_cvat_masks

        names = [name.strip() for name in classes.split(",")]
        masks = write_cvat_masks(export, names, out)
        say(f"{masks.count} masks in {out}")
        if masks.without:
            say(f"Nothing is drawn on {len(masks.without)} images, which have no mask: {', '.join(masks.without[:20])}")
        label_map = ",".join(f"{number}:{number}" for number in range(1, len(names) + 1))
        options = f"--labels {shell_word(out)} --classes {shell_word(classes)} --label-map {label_map}"
        say(f"Import them with: fedannot data import --images DIR {options}")


@data_app.command(
    epilog="Example: fedannot data hdf5 MMIS --images t1,t1c,t2 --labels label_a1,label_a2,label_a3,label_a4 "
    "--spacing voxel_spacing --axes zyx --out nifti"
)
def hdf5(
    source: Annotated[Path, typer.Argument(help="A folder of HDF5 files, each of one case.")],
    out: OutOption,
    images: Annotated[str, typer.Option(metavar="NAME,…", help="The volume of each channel in a file.")],
    labels: Annotated[str, typer.Option(metavar="NAME,…", help="The mask of each annotator in a file.")],
    spacing: Annotated[
        str, typer.Option(metavar="NAME|Z,Y,X", help="Three lengths in mm in the order of the axes, or where they are.")
    ],
    axes: Annotated[
        str | None,
        typer.Option(metavar="zyx|xyz|…", help="The axes of the volumes; needed if a file has no labels of them."),
    ] = None,
    spacing_axes: Annotated[
        str | None, typer.Option(metavar="zyx|xyz|…", help="The axes of the three lengths; default: as the volumes.")
    ] = None,
) -> None:
    """Write volumes of HDF5 files as NIfTI, to import them: a file for each channel, a folder for each annotator."""
    with reported_errors():
        from ..importing.hdf5_volumes import IMAGES, LABELS, Hdf5Names, convert_hdf5

        for option, order in (("--axes", axes), ("--spacing-axes", spacing_axes)):
            if order is not None and sorted(order) != sorted("xyz"):
                raise typer.BadParameter("expected x, y and z in some order", param_hint=f"'{option}'")
        channels, annotators = (tuple(name.strip() for name in names.split(",")) for names in (images, labels))
        given = spacing if spacing[:1].isalpha() or spacing[:1] in "/_" else _three_lengths(spacing)
        converted = convert_hdf5(source, Hdf5Names(channels, annotators, given, axes, spacing_axes), out)
        say(f"{converted.count} cases in {out}")
        for text in converted.left_out[:20]:
            say(f"Left out: {text}")
        names = f" --channels {shell_word(images)}" if len(channels) > 1 else ""
        folders = f"--images {shell_word(out / IMAGES)} --labels {shell_word(out / LABELS)}"
        say(f"Import them with: fedannot data import {folders}{names} --annotators by-folder --classes NAME,…")


def _three_lengths(text: str) -> tuple[float, float, float]:
    try:
        first, second, third = (float(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter("expected a name or three numbers", param_hint="'--spacing'") from None
    return first, second, third


data_app.command(epilog=PHANTOM_EXAMPLES)(phantom)
data_app.command(epilog=NOISE_EXAMPLES)(noise)
data_app.command(epilog=ANNOTATORS_EXAMPLES)(annotators)


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
    prepared: Annotated[bool, typer.Option("--prepared", help="Draw what the network sees, too.")] = False,
    salt_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with a secret that hospitals agree on: write salted fingerprints of images and patients to OUT, "
            "without names, for `fedannot data overlap`. Arguments can be read by every account of a machine.",
        ),
    ] = None,
) -> None:
    """Look for what is wrong with the data before anybody trains: which file, and how to mend it.

    Exit code 1 if a site cannot train. Nothing is changed, and nothing leaves the site. What is wrong with annotations
    that can be read is what `fedannot audit` finds.
    """
    with reported_errors():
        from ..runs.progress import Progress

        Progress().tell(f"Checking {folder}.")
        from ..checking.fingerprints import read_salt
        from ..checking.outputs import write_outputs
        from ..checking.table import print_report
        from ..functions.data import check as check_data
        from ..terminal import Terminal

        salt = None if salt_file is None else read_salt(salt_file)
        with Progress(states_in_log=False) as progress:
            report = check_data(folder, on_progress=progress).report
            progress.state("Drawing the contact sheets.")
            target = out or Path("runs") / "check" / folder.resolve().name
            written = write_outputs(report, target, pictures=pictures, json_file=json_, salt=salt, prepared=prepared)
        print_report(report, Terminal())
        for what, file in written:
            say(f"{what}: {file}")
    if not report.can_train:
        raise typer.Exit(1)


@data_app.command(epilog="Example: fedannot data export runs/mine --nnunet --out nnUNet_raw/Dataset501_Mine")
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A federation's folder, or one site's; it stays.")],
    out: OutOption,
    nnunet: Annotated[
        bool, typer.Option("--nnunet", help="As a raw data set of nnU-Net, all sites' cases together.")
    ] = False,
) -> None:
    """Write cases in the form that another program trains on; only of data that lie on one machine already."""
    with reported_errors():
        from ...transforms.errors import DataError
        from ..runs.progress import Progress

        if not nnunet:
            raise DataError("Expected the form to write: --nnunet.")
        Progress().tell(f"Exporting {folder}.")
        from ..importing.nnunet_export import export_nnunet

        with Progress(states_in_log=False) as progress:
            made = export_nnunet(folder, out, progress.state)
        say(f"{out}: {made.training} cases to train on, {made.testing} to test with.")
        say(
            f"Folds that part no patient: splits_final.json ({made.folds}); copy it into nnU-Net's preprocessed folder."
        )


@data_app.command(epilog="Example: fedannot data overlap hospital-a.json hospital-b.json")
def overlap(
    files: Annotated[list[Path], typer.Argument(help="Files of fingerprints, from `fedannot data check --salt-file`.")],
) -> None:
    """Count the images and patients that hospitals have in common, from salted fingerprints alone."""
    with reported_errors():
        from ..checking.overlap import find_overlaps
        from ..checking.table import print_overlaps
        from ..terminal import Terminal

        print_overlaps(*find_overlaps(files), Terminal())


@data_app.command(epilog="Example: fedannot data cache --kit provisioned/fedannot/prod_00/hospital-1 --clear")
def cache(
    kit: Annotated[
        Path | None, typer.Option(help="A startup kit, the server's or a site's; default: your own runs.")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Remove all prepared copies, and nothing else.")] = False,
) -> None:
    """Show where prepared copies of images lie and how many, or remove them; the images themselves stay."""
    with reported_errors():
        from ..functions.prepared import prepared_images

        held = prepared_images(kit)
        for line in str(held).splitlines():
            say(line)
        if clear:
            left = held.clear().usage.being_prepared
            say(
                f"Removed, but for what running processes prepare ({left}): repeat it when they have ended."
                if left
                else "Removed."
            )
