"""What a person says of an import, and the description of the sites' data that follows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...custom.data.description import SiteDescription, check_site_description
from ...custom.data.label_ranges import MOST_VALUES, runs
from ...transforms.errors import DataError
from .cut import ALLOWED_CUT
from .source import SourceDataset

# Whatever number an object has, it is of the one class; as many as sixteen bits can number.
NUMBERED = dict.fromkeys(range(1, MOST_VALUES), 1)


@dataclass(frozen=True)
class ImportOptions:
    """What the federation's descriptions say, besides what the data set says of itself.

    Attributes:
        pipeline: for volumes ``volume_slices`` or ``volume``; None takes what fits the data set, whole volumes.
        keys: further keys of ``data.yaml``, such as ``size``, ``channels`` or ``spacing``.
        labels: value in a mask → class, besides 0 → 0; None takes the data set's, or what two-valued masks say.
        ignore: values in a mask of pixels that count nowhere; None takes the data set's.
        classes: names of the classes; None takes the data set's.
        numbered: the values in masks number objects of one class; see :data:`NUMBERED`.
        colours: of masks in colours, colour → class; see :class:`fedannot.apps.importing.reading.Reading`.
        trust_voxels: see :class:`fedannot.apps.importing.reading.Reading`.
        round_labels: see :class:`fedannot.apps.importing.reading.Reading`.
        unite_masks: several masks of an image are parts of one annotation, also where they cover each other.
        allowed_cut: largest fraction of all annotated voxels that the pipeline's crop may cut off.
    """

    pipeline: str | None = None
    keys: Mapping[str, Any] | None = None
    labels: Mapping[int, int] | None = None
    ignore: Sequence[int] | None = None
    classes: Sequence[str] | None = None
    numbered: bool = False
    colours: Mapping[int, int] | None = None
    trust_voxels: bool = False
    round_labels: bool = False
    unite_masks: bool = False
    allowed_cut: float = ALLOWED_CUT

    def __post_init__(self) -> None:
        if sum((self.labels is not None, self.numbered, self.colours is not None)) > 1:
            raise DataError("Import: expected one of a label map of values, one of colours, and --instances.")

    @property
    def asked(self) -> Mapping[int, int] | None:
        """Value in a mask → class, as the person said it."""
        if self.colours is not None:
            return {label: label for label in {0, *self.colours.values()}}
        return NUMBERED if self.numbered else self.labels

    @property
    def channels(self) -> int | tuple[str, ...] | None:
        """The channels that the person asked for, None for as many as images need."""
        return (self.keys or {}).get("channels")

    @property
    def has_ranges(self) -> bool:
        """Whether the person gave whole ranges of values to a class, as grey masks need it."""
        return self.labels is not None and any(last - first > 1 for first, last, _ in runs(self.labels))


def ignored_values(dataset: SourceDataset, options: ImportOptions) -> tuple[int, ...]:
    """Return the values in masks of pixels that count nowhere, as a person or the data set says."""
    return dataset.ignore if options.ignore is None else tuple(options.ignore)


def described(dataset: SourceDataset, options: ImportOptions, labels: Mapping[int, int]) -> SiteDescription:
    """Return what describes the sites' data.

    Args:
        dataset: what was found.
        options: what a person said.
        labels: value in a mask → class.

    Raises:
        DataError: if an option does not fit the data set, or a key is wrong.
    """
    values: dict[str, Any] = {"classes": tuple(options.classes or dataset.classes)}
    if dataset.task == "classification":
        values |= {"pipeline": "classification", "channels": dataset.channels or 1, "size": (256, 256)}
    elif dataset.volumes:
        values |= {"pipeline": options.pipeline or "volume", "labels": dict(labels), "channels": dataset.channels or 1}
    else:
        values |= {"pipeline": "image2d", "labels": dict(labels), "channels": dataset.channels or 1, "size": (256, 256)}
    if "labels" in values:
        _check_names(values["labels"], values["classes"])
        values["ignore"] = ignored_values(dataset, options)
    elif options.ignore:
        raise DataError(f"--ignore: says what values in masks mean, but {dataset.name} has no masks.")
    if dataset.task == "classification" and len(values["classes"]) < len(dataset.classes):
        raise DataError(
            f"--classes: found {len(values['classes'])} names; expected one for each of the {len(dataset.classes)} "
            f"classes, {', '.join(dataset.classes)}."
        )
    if options.pipeline is not None and values["pipeline"] != options.pipeline:
        raise DataError(
            f"--pipeline: found {options.pipeline!r}, but {dataset.name} holds "
            f"{'classes' if dataset.task == 'classification' else 'pictures'}; expected {values['pipeline']!r}."
        )
    values |= options.keys or {}
    if values["pipeline"] == "volume_slices" and "size" not in values:
        raise DataError(
            "--size: found none; slices need ROWS,COLUMNS, to which those of all volumes are cropped or padded, or "
            "with --fit resize or --fit pad scaled."
        )
    extents = 3 if values["pipeline"] == "volume" else 2
    if len(values.get("size", range(extents))) != extents:
        raise DataError(
            f"--size: found {','.join(map(str, values['size']))}; expected "
            f"{'three extents' if extents == 3 else 'ROWS,COLUMNS'} for the pipeline {values['pipeline']!r}."
        )
    return check_site_description(values, source="Import")


def _check_names(labels: Mapping[int, int], classes: Sequence[str]) -> None:
    """Refuse label values that lead to other classes than those that have a name."""
    result, wanted = sorted(set(labels.values())), list(range(len(classes) + 1))
    if result != wanted:
        raise DataError(
            f"Import: the label values lead to the classes {result}, and the names are {', '.join(classes)}; expected "
            f"0 (background) and one class for each name, {wanted}. Names are given by --classes NAME,…, classes by "
            "--label-map VALUE:CLASS,…"
        )
