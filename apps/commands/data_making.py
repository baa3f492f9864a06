"""The commands of `fedannot data` that make a federation: of a phantom, or of one without noise in its annotations."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from .data_options import OutOption, SeedOption, parse_numbers, print_federation, refuse_options
from .errors import reported_errors

PHANTOM_EXAMPLES = (
    'Example: fedannot data phantom --task lesions2d --sites 10 --noise "M(25,-25,10,0.2)" --exact '
    "--stratified 0.5 --out runs/lesions\n\n"
    "Example: fedannot data phantom --task lesions3d --sites 4 --completeness 0.4,0.6,0.8,1 --out runs/volumes\n\n"
    'Example: fedannot data phantom --task chambers3d --sites 4 --protocols "0-0-C(20,8)-D(20,8)" --out runs/chambers'
)
NOISE_EXAMPLES = (
    'Example: fedannot data noise runs/busi --model "M(25,-15,5,0.8)" --exact --out runs/busi-noisy\n\n'
    "Example: fedannot data noise runs/ms --completeness 0.4,0.6,0.8,1 --out runs/ms-m0\n\n"
    "Example: fedannot data noise runs/atria --protocols 0-0-C-D --out runs/atria-cd\n\n"
    "Example: fedannot data noise runs/kvasir --labels 0-S40-P20-C20 --table kvasir-capsule --out runs/kvasir-noisy"
)
ANNOTATORS_EXAMPLES = (
    "Example: fedannot data annotators runs/cells --scenario noisy --out runs/cells-noisy\n\n"
    "Example: fedannot data annotators runs/cells --scenario ROC --reference staple --out runs/cells-roc\n\n"
    "Example: fedannot data annotators runs/cells --scenario site:1=Ann,2=Bo --out runs/cells-two"
)

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


class PhantomTask(StrEnum):
    """The kinds of phantom."""

    LESIONS_2D = "lesions2d"
    LESIONS_3D = "lesions3d"
    CHAMBERS_3D = "chambers3d"
    CELLS_2D = "cells2d"


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
