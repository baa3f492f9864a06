"""`fedannot data import`: make a federation of images and annotations as they lie."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..plain_lines import say
from .data_options import (
    OutOption,
    SeedOption,
    is_of_colours,
    parse_colour_map,
    parse_label_map,
    parse_numbers,
    print_federation,
)
from .errors import reported_errors

if TYPE_CHECKING:
    from ..importing.notes import ImportReport

EPILOG = (
    "Example: fedannot data import --images busi/images --labels busi/masks --sites 8 --size 128,128 --out "
    "runs/busi\n\nExample: fedannot data import --datalist cells/datalist.json --sites by-source --out runs/cells\n\n"
    "Example: fedannot data import --class-folders scans --sites 4 --size 64,64 --out runs/scans\n\n"
    "Example: fedannot data import --dataset isic2017=DIR --sites 50 --out runs/skin"
)


class VolumePipelineName(StrEnum):
    """The pipelines of volumes."""

    SLICES = "volume_slices"
    WHOLE = "volume"


class FitName(StrEnum):
    """How images reach their size."""

    RESIZE = "resize"
    CROP = "crop"
    PAD = "pad"


class CropName(StrEnum):
    """Where a crop lies."""

    CENTRE = "centre"
    FOREGROUND = "foreground"


def import_federation(
    out: OutOption,
    images: Annotated[Path | None, typer.Option(help="Folder of images: pictures, volumes or DICOM folders.")] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="Folder of masks with the names of their images; the same folder where names tell them apart."
        ),
    ] = None,
    label_suffix: Annotated[
        str, typer.Option(help="What masks' names have behind, '_segmentation'; a number may follow.")
    ] = "",
    image_suffix: Annotated[str, typer.Option(help="What images' names have that their masks' lack, '_ct'.")] = "",
    label_include: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Masks are files of such names, '*_mask*'; may repeat.")
    ] = None,
    class_folders: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder with a folder of pictures for every class.")
    ] = None,
    classes_csv: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Table with a row for every picture; the pictures are in --images."),
    ] = None,
    image_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Its column of pictures: paths or names, with suffix or without.")
    ] = None,
    class_column: Annotated[str | None, typer.Option(metavar="NAME", help="Its column of classes.")] = None,
    group_column: Annotated[str | None, typer.Option(metavar="NAME", help="Its column of patients.")] = None,
    source_column: Annotated[str | None, typer.Option(metavar="NAME", help="Its column of centres.")] = None,
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
        typer.Option(
            metavar="VALUE:CLASS,…",
            help="Meaning of mask values, '255:1'; of ranges, '128-255:1', below which is background; or of colours, "
            "'#ff0000:1'. Default: as found.",
        ),
    ] = None,
    instances: Annotated[
        bool, typer.Option("--instances", help="Values in masks number objects, all of one class.")
    ] = False,
    trust_voxels: Annotated[
        bool,
        typer.Option("--trust-voxels", help="Masks lie where their images lie, whatever their headers say of it."),
    ] = False,
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
    fit: Annotated[
        FitName | None,
        typer.Option(
            help="How the size is reached: stretched, cut around the centre, or scaled and padded; default: pictures "
            "resize, volumes crop."
        ),
    ] = None,
    allow_cut: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the annotated voxels that a crop may cut off.")
    ] = 0.05,
    crop: Annotated[CropName | None, typer.Option(help="Where volumes are cropped to the size.")] = None,
    window: Annotated[
        str | None, typer.Option(metavar="LOW,HIGH", help="CT window; default: z-score of each volume.")
    ] = None,
    slice_axis: Annotated[int | None, typer.Option(help="Axis that volumes are cut across; default: 2.")] = None,
    stride: Annotated[int | None, typer.Option(help="Train on one of so many slices; default: on all.")] = None,
    empty_slices: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Of the slices without annotation, train on this share; default: on all."),
    ] = None,
    seed: SeedOption = 0,
) -> None:
    """Make sites of images and annotations as they lie: folders, a datalist, a table, or a public data set.

    Everything is copied; what cannot be used is named and left out.
    """
    with reported_errors():
        from ..runs.progress import Progress

        Progress().tell("Reading the data set.")
        from ..functions.data import import_found
        from ..importing.find import Named, find_datasets
        from ..importing.options import ImportOptions

        names = None if classes is None else [name.strip() for name in classes.split(",")]
        wanted = Named(
            images=images,
            labels=labels,
            label_suffix=label_suffix,
            image_suffix=image_suffix,
            label_include=label_include or [],
            datalist=datalist,
            key=key,
            named=dataset or [],
            class_folders=class_folders,
            classes_csv=classes_csv,
            image_column=image_column,
            class_column=class_column,
            group_column=group_column,
            source_column=source_column,
            classes=names,
            include=include or [],
            group=group,
            seed=seed,
        )
        datasets = find_datasets(wanted)
        keys = {
            "channels": channels,
            "size": None if size is None else parse_numbers("--size", size, int),
            "spacing": None if spacing is None else parse_numbers("--spacing", spacing, float, count=3),
            "orientation": orientation,
            "fit": None if fit is None else fit.value,
            "crop": None if crop is None else crop.value,
            "intensity": None if window is None else "window",
            "window": None if window is None else parse_numbers("--window", window, float, count=2),
            "slice_axis": slice_axis,
            "stride": stride,
            "empty_slices": empty_slices,
        }
        options = ImportOptions(
            pipeline=None if pipeline is None else pipeline.value,
            keys={key: value for key, value in keys.items() if value is not None},
            labels=None if label_map is None or is_of_colours(label_map) else parse_label_map(label_map),
            colours=None if label_map is None or not is_of_colours(label_map) else parse_colour_map(label_map),
            numbered=instances,
            classes=names,
            trust_voxels=trust_voxels,
            allowed_cut=allow_cut,
        )
        with Progress(states_in_log=False) as progress:
            made = import_found(
                datasets,
                out,
                sites=sites,
                test=test,
                validation=validation,
                options=options,
                seed=seed,
                on_progress=progress,
            )
        _print_import(made.report)
        print_federation(out)
        _print_jobs(out)


def _print_import(report: "ImportReport") -> None:
    """Print what did not come along, and how label values were understood."""
    for text in report.skipped + report.excluded:
        say(f"Left out: {text}")
    if report.labels:
        from ...custom.data.label_ranges import in_ranges

        meaning = ", ".join(f"{value} → class {label}" for value, label in in_ranges(report.labels).items())
        say(f"Label values: {meaning}")
    for text in report.notes:
        say(text)


def _print_jobs(federation: Path) -> None:
    """Print which jobs the data are for, and the command that begins with one."""
    from ...custom.compatibility import EXAMPLE_PATCH, held, network_settings, task_of
    from ..runs.data_compatibility import fitting_jobs, read_descriptions
    from ..runs.installed import jobs_folder

    description = next(iter(read_descriptions(federation).values()))
    task = task_of(description)
    fitting = fitting_jobs(jobs_folder(), task)
    which = f"Jobs that fit: {', '.join(job.name for job in fitting)}." if fitting else ""
    say(f"These are {held(description)}, for {task}. {which}".strip())
    if fitting:
        example = next((job for job in fitting if job.name.startswith("auto")), fitting[0])
        patch = f" --set training.patch={EXAMPLE_PATCH}" if description.spatial_dims == 3 else ""
        say(f"For example: fedannot simulate {example.name} --data {federation}{patch}")
    wanted = ", ".join(f"network.{key} = {value}" for key, value in network_settings(description).items())
    say(f"Under NVFlare itself a job's settings.conf must say: {wanted}")
