"""`fedannot data import`: make a federation of images and annotations as they lie."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..plain_lines import say
from ..wording.shell_words import shell_word
from . import import_options as option
from .data_options import (
    OutOption,
    SeedOption,
    is_of_colours,
    parse_channels,
    parse_colour_map,
    parse_label_map,
    parse_numbers,
    print_federation,
)
from .errors import reported_errors
from .import_options import CropName, FitName, MissingChannelsName

if TYPE_CHECKING:
    from ..importing.notes import ImportReport
    from ..importing.options import ImportOptions
    from ..importing.source import SourceDataset

# So many files of a reason are printed; the record of the import has them all.
_SHOWN_FILES = 20

# What a key of ``data.yaml`` is given as.
DescriptionValue = str | int | float | Sequence[int] | Sequence[float] | Sequence[str]

EPILOG = (
    "Example: fedannot data import --images busi/images --labels busi/masks --sites 8 --size 128,128 --out "
    "runs/busi\n\nExample: fedannot data import --datalist cells/datalist.json --sites by-source --out runs/cells\n\n"
    "Example: fedannot data import --class-folders scans --sites 4 --size 64,64 --out runs/scans\n\n"
    "Example: fedannot data import --dataset isic2017=DIR --sites 50 --out runs/skin"
)


def import_federation(
    out: OutOption,
    images: option.Images = None,
    labels: option.Labels = None,
    label_suffix: option.LabelSuffix = "",
    image_suffix: option.ImageSuffix = "",
    label_include: option.LabelInclude = None,
    annotators: option.Annotators = None,
    class_folders: option.ClassFolders = None,
    classes_csv: option.ClassesCsv = None,
    image_column: option.ImageColumn = None,
    class_column: option.ClassColumn = None,
    group_column: option.GroupColumn = None,
    source_column: option.SourceColumn = None,
    datalist: option.Datalist = None,
    key: option.Key = None,
    dataset: option.Dataset = None,
    sites: option.Sites = "8",
    test: option.Test = None,
    validation: option.Validation = 0.0,
    test_source: option.TestSource = None,
    part_patients: option.PartPatients = False,
    group: option.Group = None,
    source: option.Source = None,
    include: option.Include = None,
    label_map: option.LabelMap = None,
    ignore: option.Ignore = None,
    instances: option.Instances = False,
    unite_masks: option.UniteMasks = False,
    trust_voxels: option.TrustVoxels = False,
    round_labels: option.RoundLabels = False,
    classes: option.Classes = None,
    channels: option.Channels = None,
    missing_channels: option.MissingChannels = None,
    pipeline: option.Pipeline = None,
    size: option.Size = None,
    spacing: option.Spacing = None,
    orientation: option.Orientation = None,
    fit: option.Fit = None,
    allow_cut: option.AllowCut = 0.05,
    crop: option.Crop = None,
    window: option.Window = None,
    slice_axis: option.SliceAxis = None,
    stride: option.Stride = None,
    empty_slices: option.EmptySlices = None,
    seed: SeedOption = 0,
) -> None:
    """Make sites of images and annotations as they lie: folders, a datalist, a table, or a public data set.

    Everything is copied; what cannot be used is named and left out.
    """
    with reported_errors():
        from ..runs.progress import Progress

        Progress().tell("Reading the data set.")
        from ..importing.find import Named, find_datasets

        names = None if classes is None else [name.strip() for name in classes.split(",")]
        wanted = Named(
            images=images,
            labels=labels,
            label_suffix=label_suffix,
            image_suffix=image_suffix,
            label_include=label_include or [],
            annotators=annotators,
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
            source=source,
            seed=seed,
        )
        datasets = find_datasets(wanted)
        keys = _description_keys(
            channels=channels,
            missing_channels=missing_channels,
            size=size,
            spacing=spacing,
            orientation=orientation,
            fit=fit,
            crop=crop,
            window=window,
            slice_axis=slice_axis,
            stride=stride,
            empty_slices=empty_slices,
        )
        options = _options(
            keys,
            label_map,
            pipeline=None if pipeline is None else pipeline.value,
            classes=names,
            ignore=None if ignore is None else parse_numbers("--ignore", ignore, int),
            numbered=instances,
            unite_masks=unite_masks,
            trust_voxels=trust_voxels,
            round_labels=round_labels,
            allowed_cut=allow_cut,
        )
        split = {"test_sources": test_source or [], "parts_patients": part_patients}
        _import(datasets, out, options, sites=sites, test=test, validation=validation, seed=seed, **split)


def _options(keys: Mapping[str, DescriptionValue], label_map: str | None, **others: Any) -> "ImportOptions":
    """What a person says of the data, with a label map of values or of colours.

    Raises:
        DataError: if the label map has another form.
    """
    from ..importing.options import ImportOptions

    if label_map is None:
        return ImportOptions(keys=keys, **others)
    if is_of_colours(label_map):
        return ImportOptions(keys=keys, colours=parse_colour_map(label_map), **others)
    return ImportOptions(keys=keys, labels=parse_label_map(label_map), **others)


def _import(
    datasets: "Sequence[SourceDataset]",
    out: Path,
    options: "ImportOptions",
    *,
    sites: str,
    test: float | None,
    validation: float,
    seed: int,
    **split: Any,
) -> None:
    """Make the federation, and print what became of the data."""
    from ..functions.data import import_found
    from ..runs.progress import Progress

    with Progress(states_in_log=False) as progress:
        made = import_found(
            datasets,
            out,
            sites=sites,
            test=test,
            validation=validation,
            **split,
            options=options,
            seed=seed,
            on_progress=progress,
        )
    _print_import(made.report, out)
    print_federation(out)
    _print_left_out(made.report, out)
    _print_jobs(out)


def _description_keys(
    *,
    channels: str | None,
    missing_channels: MissingChannelsName | None,
    size: str | None,
    spacing: str | None,
    orientation: str | None,
    fit: FitName | None,
    crop: CropName | None,
    window: str | None,
    slice_axis: int | None,
    stride: int | None,
    empty_slices: float | None,
) -> dict[str, DescriptionValue]:
    """The keys of ``data.yaml`` that a person gave.

    Raises:
        DataError: if numbers have another form.
    """
    keys: dict[str, DescriptionValue | None] = {
        "channels": None if channels is None else parse_channels("--channels", channels),
        "missing_channels": None if missing_channels is None else missing_channels.value,
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
    return {key: value for key, value in keys.items() if value is not None}


def _print_import(report: "ImportReport", out: Path) -> None:
    """Print what did not come along, and how label values were understood."""
    from ..importing.notes import IMPORT_FILE

    for own in report.by_reason.values():
        for entry in own[:_SHOWN_FILES]:
            say(f"Left out: {entry}")
        if len(own) > _SHOWN_FILES:
            say(f"Left out: {len(own) - _SHOWN_FILES} more for this reason, named in {out / IMPORT_FILE}")
    if report.labels:
        from ...custom.data.label_ranges import in_ranges

        meaning = ", ".join(f"{value} → class {label}" for value, label in in_ranges(report.labels).items())
        say(f"Label values: {meaning}")
    for text in report.notes:
        say(text)


def _print_left_out(report: "ImportReport", out: Path) -> None:
    """Print how many files were left out for which reason."""
    if not report.left_out:
        return
    from rich import box
    from rich.table import Table

    from ..importing.notes import IMPORT_FILE, left_out_columns
    from ..terminal import Terminal

    table = Table(title=f"Left out of {out}", box=box.SIMPLE_HEAD, pad_edge=False)
    columns = left_out_columns(report)
    for heading in columns:
        table.add_column(heading, justify="right" if heading == "number" else "left", overflow="fold")
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*cells)
    Terminal().print(table)
    say(f"All of them by name: {out / IMPORT_FILE}")


def _print_jobs(federation: Path) -> None:
    """Print which jobs the data are for, and the command that begins with one."""
    from ...custom.compatibility import held, network_settings, task_of
    from ...custom.consensus_rule import CHOICES, CHOICES_OF_CLASSES
    from ...custom.data.description import ClassificationDescription
    from ...custom.data.federation import TEST_FOLDER
    from ...custom.data.volume_extents import suggested_patch
    from ..runs.data_compatibility import fitting_jobs, has_several_annotations, read_descriptions
    from ..runs.installed import jobs_folder
    from ..runs.job import Job

    described = read_descriptions(federation)
    descriptions = described.values()
    description = next(iter(descriptions))
    task = task_of(description)
    several = has_several_annotations(described)
    fitting = fitting_jobs(jobs_folder(), task, descriptions, several_annotations=several)
    which = f"Jobs that fit: {', '.join(job.name for job in fitting)}." if fitting else ""
    say(f"These are {held(description)}, for {task}. {which}".strip())
    if fitting:
        first = "fedavg" if several else "auto"
        example = next((job for job in fitting if job.name.startswith(first)), fitting[0])
        is_planned = Job(example).settings().training_predictions is not None
        patch = ""
        if description.spatial_dims == 3 and not is_planned:
            sites = [folder for folder in described if folder.name != TEST_FOLDER]
            patch = f" --set training.patch=[{','.join(map(str, suggested_patch(sites)))}]"
        rule = ""
        if several:
            is_of_classes = isinstance(description, ClassificationDescription)
            choices = CHOICES_OF_CLASSES if is_of_classes else CHOICES
            say(f"Cases have several annotations; training.consensus says what is trained on: {choices}.")
            if is_of_classes:
                say("Of classes with equal numbers of annotators the majority is the first one of data.yaml.")
            else:
                say("Of two annotations the majority is what both annotate, which is smaller than either.")
            copied = f"fedannot data annotators {shell_word(federation)} --scenario clean --keep-annotations --out NEW"
            say(f"To compare annotators: {copied}, then an audit of NEW.")
            rule = " --set training.consensus=majority"
        say(f"For example: fedannot simulate {example.name} --data {shell_word(federation)}{rule}{patch}")
        if is_planned:
            say("It takes about an hour, with settings that are planned for it: --hours for another time.")
    wanted = ", ".join(f"network.{key} = {value}" for key, value in network_settings(description).items())
    say(f"Under NVFlare itself a job's settings.conf must say: {wanted}")
