"""`fedannot data`: make a federation from a phantom or from folders, and add annotation noise to one."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ..plain_lines import say
from ..wording.shell_words import shell_word
from .data_import import EPILOG, import_federation
from .data_options import OutOption, SeedOption, parse_numbers, print_federation, refuse_options
from .errors import reported_errors

data_app = typer.Typer(help="Make federations of a phantom or of your own data, check them, and add annotation noise.")
data_app.command("import", epilog=EPILOG)(import_federation)

ExactOption = Annotated[
    bool, typer.Option("--exact", help="Fix the number of sites that draw larger to its expected value.")
]
StratifiedOption = Annotated[
    float | None,
    typer.Option(
        metavar="LO",
        help="Strengths go up in equal steps from LO (fraction of the limit, from 0 to below 1) to the limit.",
    ),
]


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


class PhantomTask(StrEnum):
    """The kinds of phantom."""

    LESIONS_2D = "lesions2d"
    LESIONS_3D = "lesions3d"
    CHAMBERS_3D = "chambers3d"
    CELLS_2D = "cells2d"


@data_app.command(
    epilog='Example: fedannot data phantom --task lesions2d --sites 10 --noise "M(25,-25,10,0.2)" --exact '
    "--stratified 0.5 --out runs/lesions\n\n"
    "Example: fedannot data phantom --task lesions3d --sites 4 --completeness 0.4,0.6,0.8,1 --out runs/volumes\n\n"
    'Example: fedannot data phantom --task chambers3d --sites 4 --protocols "0-0-C(20,8)-D(20,8)" --out runs/chambers'
)
def phantom(
    out: OutOption,
    task: Annotated[
        PhantomTask,
        typer.Option(
            help="2D images with one lesion, volumes with several, volumes of a heart chamber, or cells in classes."
        ),
    ] = PhantomTask.LESIONS_2D,
    sites: Annotated[int | None, typer.Option(help="Number of sites; default: 10, 4, 4, 4.")] = None,
    images: Annotated[int | None, typer.Option(help="Training cases of each site; default: 12, 8, 8, 300.")] = None,
    test_images: Annotated[
        int | None, typer.Option(help="Cases of the clean test set; default: 50, 8, 8, 320.")
    ] = None,
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
            metavar="FRACTION,…",
            help="lesions3d: fraction of its lesions that each site annotates; default: all of them.",
        ),
    ] = None,
    protocols: Annotated[
        str | None,
        typer.Option(
            metavar="PROTOCOL-…",
            help="chambers3d: by which protocol each site annotates, as for `fedannot data noise`; default: all alike.",
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
        from ..runs.progress import Progress

        Progress().tell(f"Drawing the federation {out}.")
        given: dict[PhantomTask, dict[str, str | float | bool | None]] = {
            PhantomTask.LESIONS_2D: {"--noise": noise, "--exact": exact or None, "--stratified": stratified},
            PhantomTask.LESIONS_3D: {"--completeness": completeness},
            PhantomTask.CHAMBERS_3D: {"--protocols": protocols},
            PhantomTask.CELLS_2D: {"--labels": labels},
        }
        for other, options in given.items():
            if other is not task:
                refuse_options(f"the task {task.value}", {key: value is not None for key, value in options.items()})
        from ...custom.data.phantoms.choice import DRAWINGS
        from ...custom.data.phantoms.writer import write_phantom_federation

        shares = None if completeness is None else parse_numbers("--completeness", completeness, float)
        imperfections: dict[PhantomTask, dict[str, Any]] = {
            PhantomTask.LESIONS_2D: {"noise": noise, "exact": exact, "stratified": stratified},
            PhantomTask.LESIONS_3D: {"completeness": shares},
            PhantomTask.CHAMBERS_3D: {"protocols": protocols},
            PhantomTask.CELLS_2D: {"label_noise": labels},
        }
        drawing = DRAWINGS[task.value](**imperfections[task])
        with Progress(states_in_log=False) as progress:
            write_phantom_federation(
                out,
                drawing,
                num_sites=sites,
                seed=seed,
                images_per_site=images,
                test_images=test_images,
                watch=progress.state,
            )
        print_federation(out)


@data_app.command(
    epilog='Example: fedannot data noise runs/busi --model "M(25,-15,5,0.8)" --exact --out runs/busi-noisy\n\n'
    "Example: fedannot data noise runs/ms --completeness 0.4,0.6,0.8,1 --out runs/ms-m0\n\n"
    "Example: fedannot data noise runs/atria --protocols 0-0-C-D --out runs/atria-cd\n\n"
    "Example: fedannot data noise runs/kvasir --labels 0-S40-P20-C20 --table kvasir-capsule --out runs/kvasir-noisy"
)
def noise(
    federation: Annotated[Path, typer.Argument(help="The federation's folder; it stays as it is.")],
    out: OutOption,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="M(MAX,MIN,SPREAD,P)", help="Contour noise in pixels at 256×256, scaled to what is trained on."
        ),
    ] = None,
    completeness: Annotated[
        str | None,
        typer.Option(metavar="FRACTION,…", help="Fraction of each case's lesions that a site annotates, one per site."),
    ] = None,
    protocols: Annotated[
        str | None,
        typer.Option(
            metavar="PROTOCOL-…",
            help="By which protocol sites annotate, one entry per site or one for all: 0; C, opening and random "
            "erosion; or D, closing and random dilation. Lengths are 3 and 4 pixels at 256×256, but at least one pixel "
            "of the masks; others are taken as they are: C(12,8).",
        ),
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

    Either contours are noisy (--model), or lesions are missing (--completeness), or sites follow protocols of their own
    (--protocols), or classes are wrong (--labels).
    """
    with reported_errors():
        from ..runs.progress import Progress

        Progress().tell(f"Copying {federation}.")
        from ...custom.data.noise.choice import NoiseChoice
        from ...custom.data.noise.mislabelled_copy import mislabel_cases
        from ...custom.data.noise.noisy_copy import add_contour_noise, follow_protocols, leave_lesions_out
        from ...transforms.errors import DataError

        if sum(option is not None for option in (model, completeness, protocols, labels)) != 1:
            raise DataError(
                "Expected one of --model, for noisy contours, --completeness, for missing lesions, --protocols, for "
                "sites' own protocols, and --labels, for wrong classes."
            )
        of_contours = {"--exact": exact, "--stratified": stratified is not None}
        of_labels = {"--table": table is not None}
        with Progress(states_in_log=False) as progress:
            watch = progress.state
            if completeness is not None:
                refuse_options("--completeness", of_contours | of_labels)
                leave_lesions_out(
                    federation, out, parse_numbers("--completeness", completeness, float), seed=seed, watch=watch
                )
            elif protocols is not None:
                refuse_options("--protocols", of_contours | of_labels)
                follow_protocols(federation, out, protocols, seed=seed, watch=watch)
            elif labels is not None:
                refuse_options("--labels", of_contours)
                mislabel_cases(federation, out, labels, table=table, seed=seed, watch=watch)
            elif model is not None:
                refuse_options("--model", of_labels)
                add_contour_noise(federation, out, NoiseChoice(model, exact, stratified), seed=seed, watch=watch)
        print_federation(out)


@data_app.command(
    epilog="Example: fedannot data annotators runs/cells --scenario noisy --out runs/cells-noisy\n\n"
    "Example: fedannot data annotators runs/cells --scenario ROC --reference staple --out runs/cells-roc\n\n"
    "Example: fedannot data annotators runs/cells --scenario site:1=Ann,2=Bo --out runs/cells-two"
)
def annotators(
    federation: Annotated[Path, typer.Argument(help="The federation's folder; it stays as it is.")],
    out: OutOption,
    scenario: Annotated[
        str,
        typer.Option(
            metavar="NAME|site:k=rater",
            help="clean: the consensus everywhere; noisy: of each case a random annotator; random-one: of each site "
            "one; ROA: a fraction of every site's cases is noisy; ROC: a fraction of the sites is; or a site's "
            "annotator.",
        ),
    ],
    reference: Annotated[str, typer.Option(help="The clean labels: majority or staple.")] = "majority",
    keep_annotations: Annotated[
        bool,
        typer.Option("--keep-annotations", help="Keep all annotations beside the label, for an audit of annotators."),
    ] = False,
    ratio: Annotated[float | None, typer.Option(help="Noisy fraction, of ROA and ROC; default: 0.5.")] = None,
    seed: SeedOption = 0,
) -> None:
    """Copy a federation with several annotators as one with their noise; the consensus is kept as clean labels."""
    with reported_errors():
        from ..runs.progress import Progress

        Progress().tell(f"Copying {federation}.")
        from ...custom.data.noise.annotator_copy import AnnotatorScenario, write_annotator_scenario

        if scenario not in ("ROA", "ROC"):
            refuse_options(f"the scenario {scenario}", {"--ratio": ratio is not None})
        chosen = AnnotatorScenario.parse(
            scenario, ratio=0.5 if ratio is None else ratio, reference=reference, seed=seed
        )
        chosen = replace(chosen, keeps_annotations=keep_annotations)
        with Progress(states_in_log=False) as progress:
            write_annotator_scenario(federation, out, chosen, watch=progress.state)
        print_federation(out)


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
