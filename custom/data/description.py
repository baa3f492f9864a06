"""What describes a site's data, `data.yaml`: the pipeline that reads them and what their annotations mean."""

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, StrictInt, StrictStr, field_serializer, field_validator, model_validator
from pydantic_core import PydanticCustomError

from ...transforms.errors import DataError
from ...transforms.ignored_label import IGNORED_LABEL
from ...transforms.loading.image_channels import MAX_CHANNELS, ImageChannels
from .label_ranges import expanded, in_ranges
from .yaml_file import YamlContent, read_values, validated, write_values

DESCRIPTION_FILE = "data.yaml"
DATALIST_FILE = "datalist.json"
_GREY, _RGB = 1, 3

Positive = Annotated[int, Field(ge=1)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Window = tuple[Finite, Finite]


def _plain(value: Any) -> Any:
    return [_plain(part) for part in value] if isinstance(value, tuple) else value


def _as_channels(value: Any) -> Any:
    """Check the number of channels, or their names."""
    names = tuple(value) if isinstance(value, list | tuple) else None
    if names is None:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_CHANNELS:
            raise PydanticCustomError("channels", f"expected a number from 1 to {MAX_CHANNELS}, or a list of names")
        return value
    if not 1 <= len(names) <= MAX_CHANNELS or not all(isinstance(name, str) and name.strip() for name in names):
        raise PydanticCustomError("channels", f"expected 1 to {MAX_CHANNELS} names, or a number")
    if len(set(names)) != len(names):
        raise PydanticCustomError("channels", "expected names that differ")
    return names


# How many channels an image has, or their names in order.
Channels = Annotated[int | tuple[str, ...], BeforeValidator(_as_channels)]
MissingChannels = Literal["refuse", "zeros"]


class SiteDescription(YamlContent):
    """The content of ``data.yaml``: which pipeline reads a site's images, and what its annotations mean.

    Every pipeline has keys of its own; this is what they share.

    Args:
        pipeline: ``image2d``, ``volume_slices``, ``volume`` or ``classification``.
        classes: names of the classes; for segmentation of the foreground classes 1, 2, ….
        datalist: the MONAI datalist, relative to ``data.yaml`` and in its folder, or an absolute path; its paths are
            relative to itself.
    """

    pipeline: str
    classes: Annotated[tuple[str, ...], Field(min_length=1)]
    datalist: str = DATALIST_FILE

    if TYPE_CHECKING:
        # Every pipeline has these keys, at places of their own among the others.
        channels: Channels
        missing_channels: MissingChannels

    @field_validator("datalist")
    @classmethod
    def _datalist_stays(cls, datalist: str) -> str:
        # Who wrote a relative path meant a file next to it; a folder from elsewhere is not to reach other data so.
        if PurePosixPath(os.path.normpath(datalist)).parts[:1] == (os.pardir,):
            raise ValueError(
                f"key 'datalist' is {datalist!r}, which leads out of the folder of {DESCRIPTION_FILE}; expected a file "
                "in it, or an absolute path"
            )
        return datalist

    @model_validator(mode="after")
    def _classes_differ(self) -> Self:
        if len(set(self.classes)) != len(self.classes):
            raise ValueError(f"key 'classes' is {list(self.classes)}, expected names that differ")
        return self

    @property
    def spatial_dims(self) -> Literal[2, 3]:
        """Number of spatial axes of a sample."""
        return 2

    @property
    def in_channels(self) -> int:
        """Number of channels of a sample."""
        return self.channels if isinstance(self.channels, int) else len(self.channels)

    @property
    def channel_names(self) -> tuple[str, ...]:
        """Names of the channels; empty where only their number is known."""
        return () if isinstance(self.channels, int) else self.channels

    @property
    def image_channels(self) -> ImageChannels:
        """The channels that an image must have."""
        return ImageChannels(self.in_channels, self.channel_names, self.missing_channels == "zeros")

    @property
    def picture_channels(self) -> int | ImageChannels:
        """How pictures are read: 1 for grey or 3 for RGB from one file, or channels with a grey file for each."""
        return self.channels if self.channels in (_GREY, _RGB) else self.image_channels

    @property
    def shown_channels(self) -> int:
        """How the file of a picture's first channel is read to be shown: 3 for red, green and blue, else 1."""
        return _RGB if self.has_colours else _GREY

    @property
    def has_colours(self) -> bool:
        """Whether the channels are red, green and blue of a picture."""
        return self.channels == _RGB

    @property
    def resampled_pixel(self) -> float | None:
        """Mean size in millimetres of the pixels that every sample is resampled to; None where it is not known."""
        return None

    @property
    def has_fixed_grid(self) -> bool:
        """Whether pixels and their size follow from this description alone, and are the same in every sample."""
        return False


class SegmentationDescription(SiteDescription):
    """What the pipelines with masks share.

    Args:
        labels: value in a mask file → class, 0 for background; the file may have ranges of values, ``128-255: 1``.
        ignore: values in a mask file of pixels that count nowhere: neither background nor any class.
        annotated_classes: those of `classes` that the site annotates, by name or number; its background may hold the
            others. None for all of them.
    """

    labels: dict[int, Annotated[int, Field(ge=0, lt=IGNORED_LABEL)]]
    ignore: tuple[int, ...] = ()
    annotated_classes: Annotated[tuple[StrictStr | StrictInt, ...], Field(min_length=1)] | None = None

    @field_validator("labels", mode="before")
    @classmethod
    def _ranges_are_expanded(cls, labels: Any) -> Any:
        return expanded(labels) if isinstance(labels, Mapping) else labels

    @field_serializer("labels")
    def _ranges_are_written(self, labels: dict[int, int]) -> dict[int | str, int]:
        return in_ranges(labels)

    @model_validator(mode="after")
    def _annotated_classes_are_known(self) -> Self:
        for entry in self.annotated_classes or ():
            if not self._is_class(entry):
                raise ValueError(
                    f"key 'annotated_classes' has {entry!r}, expected one of 'classes' {list(self.classes)}, or its "
                    f"number from 1 to {len(self.classes)}"
                )
        if self.annotated_classes and len(set(self.annotated_labels)) != len(self.annotated_classes):
            raise ValueError(f"key 'annotated_classes' is {list(self.annotated_classes)}, expected each class once")
        return self

    @model_validator(mode="after")
    def _labels_fit_classes(self) -> Self:
        wanted, result = {0, *self.annotated_labels}, set(self.labels.values())
        if result != wanted:
            key = "classes" if self.annotated_classes is None else "annotated_classes"
            raise ValueError(
                f"key 'labels' leads to the classes {sorted(result)}, expected 0 (background) and one for each of "
                f"'{key}' {list(self.annotated_classes or self.classes)}: {sorted(wanted)}"
            )
        return self

    @model_validator(mode="after")
    def _ignored_values_differ(self) -> Self:
        if len(set(self.ignore)) != len(self.ignore):
            raise ValueError(f"key 'ignore' is {list(self.ignore)}, expected each value once")
        if both := sorted(set(self.ignore) & set(self.labels)):
            raise ValueError(
                f"key 'ignore' has {both[0]}, which 'labels' leads to the class {self.labels[both[0]]}; expected a "
                "value in one of them alone"
            )
        return self

    def _is_class(self, entry: str | int) -> bool:
        return entry in self.classes if isinstance(entry, str) else 1 <= entry <= len(self.classes)

    @property
    def labels_of_values(self) -> dict[int, int]:
        """Value in a mask file → class, :data:`IGNORED_LABEL` for those that are ignored."""
        return self.labels | dict.fromkeys(self.ignore, IGNORED_LABEL)

    @property
    def annotated_labels(self) -> tuple[int, ...]:
        """Numbers of the classes that the site annotates, ascending."""
        numbers = range(1, len(self.classes) + 1)
        if self.annotated_classes is None:
            return tuple(numbers)
        return tuple(label for label in numbers if {label, self.classes[label - 1]} & set(self.annotated_classes))

    @property
    def unannotated_classes(self) -> tuple[str, ...]:
        """Names of the classes that the site does not annotate."""
        annotated = self.annotated_labels
        return tuple(name for label, name in enumerate(self.classes, start=1) if label not in annotated)


class ImageDescription(SegmentationDescription):
    """``image2d``: pictures with masks of the same size.

    Args:
        channels: 1 for grey, 3 for RGB, images are converted; or the number or names of channels with a grey file each.
        size: rows and columns of every image as it is loaded.
        fit: how they are reached: ``resize`` stretches both sides, ``pad`` keeps the proportions and pads.
        missing_channels: what becomes of a case that lacks the file of a channel.
    """

    pipeline: Literal["image2d"] = "image2d"
    channels: Channels
    size: tuple[Positive, Positive]
    fit: Literal["resize", "pad"] = "resize"
    missing_channels: MissingChannels = "refuse"

    @property
    def has_fixed_grid(self) -> bool:
        """As above: pictures have no size of a pixel."""
        return True


class _VolumeDescription(SegmentationDescription):
    """What the pipelines of NIfTI volumes share.

    Args:
        orientation: directions in which the axes grow after loading: a letter of R/L, A/P and S/I for each.
        spacing: size of a voxel in millimetres that volumes are resampled to, in the order of the axes after
            orientation; None keeps each volume's own.
        fit: how ``size`` is reached: ``crop`` cuts off what is larger and pads what is smaller, ``resize`` stretches
            each axis, ``pad`` scales all axes alike and pads.
        crop: what of a volume counts, and where its centre lies: all of it, or the box around everything brighter
            than 0 in the first channel.
        intensity: ``zscore`` of each channel, or ``window``: intensities from its lower to its upper end become 0 to 1.
        window: lower and upper end of the window, in Hounsfield units for CT.
        channels: number or names of the channels, from a file with an axis of channels or from a file for each.
        missing_channels: what becomes of a case that lacks the file of a channel: refused, or filled with zeros.
        channel_windows: a window for each channel, in place of one for all.
    """

    orientation: Annotated[str, Field(pattern="^[RLAPSI]{3}$")] = "RAS"
    spacing: tuple[PositiveFloat, PositiveFloat, PositiveFloat] | None = None
    fit: Literal["resize", "crop", "pad"] = "crop"
    crop: Literal["centre", "foreground"] = "centre"
    intensity: Literal["zscore", "window"] = "zscore"
    window: Window | None = None
    channels: Channels = 1
    missing_channels: MissingChannels = "refuse"
    channel_windows: tuple[Window, ...] | None = None

    @property
    def has_colours(self) -> bool:
        """As above: volumes have none."""
        return False

    @property
    def resampled_pixel(self) -> float | None:
        """Mean size in millimetres of the pixels that every sample is resampled to; None for each volume's own."""
        return None if self.spacing is None else sum(self.spacing) / len(self.spacing)

    @model_validator(mode="after")
    def _directions_differ(self) -> Self:
        if any(len(set(pair) & set(self.orientation)) != 1 for pair in ("RL", "AP", "SI")):
            raise ValueError(f"key 'orientation' is {self.orientation!r}, expected one letter of R/L, A/P and S/I each")
        return self

    @model_validator(mode="after")
    def _window_where_needed(self) -> Self:
        windows = [self.window] if self.channel_windows is None else [*self.channel_windows, self.window]
        if (self.intensity == "window") != any(window is not None for window in windows):
            raise ValueError("key 'window' goes with intensity: window, for example window: [-1000, 400]")
        if any(window is not None and window[0] >= window[1] for window in windows):
            key, value = ("window", self.window) if self.window else ("channel_windows", self.channel_windows)
            raise ValueError(f"key {key!r} is {_plain(value)}, expected the lower end first")
        if self.channel_windows is not None and (self.window or len(self.channel_windows) != self.in_channels):
            raise ValueError(
                f"key 'channel_windows' has {len(self.channel_windows)} windows"
                f"{', and there is the key window' if self.window else ''}; expected one for each of "
                f"{self.image_channels.shown}, or the key 'window' alone"
            )
        return self


class SliceDescription(_VolumeDescription):
    """``volume_slices``: NIfTI volumes, cut into slices that are trained on one by one.

    Args:
        slice_axis: axis of the oriented volume across which it is cut.
        size: rows and columns of every slice.
        stride: every so many slices one is trained on.
        empty_slices: of those among them in which nothing is annotated, the share that is trained on.
    """

    pipeline: Literal["volume_slices"] = "volume_slices"
    slice_axis: Annotated[int, Field(ge=0, le=2)] = 2
    size: tuple[Positive, Positive]
    stride: Positive = 1
    empty_slices: Annotated[float, Field(ge=0, le=1)] = 1.0

    @property
    def trains_on_all(self) -> bool:
        """Whether every slice is trained on."""
        return self.stride == 1 and self.empty_slices == 1

    @property
    def resampled_pixel(self) -> float | None:
        """As above, in the plane of the slices."""
        if self.spacing is None:
            return None
        return (sum(self.spacing) - self.spacing[self.slice_axis]) / (len(self.spacing) - 1)

    @property
    def has_fixed_grid(self) -> bool:
        """As above, where nothing is stretched."""
        return self.spacing is not None and self.fit == "crop"


class VolumeDescription(_VolumeDescription):
    """``volume``: whole NIfTI volumes.

    Args:
        size: extents of every volume; None keeps each volume's own.
    """

    pipeline: Literal["volume"] = "volume"
    size: tuple[Positive, Positive, Positive] | None = None

    @property
    def spatial_dims(self) -> Literal[2, 3]:
        """Number of spatial axes of a sample."""
        return 3

    @property
    def has_fixed_grid(self) -> bool:
        """As above."""
        return self.size is not None and self.spacing is not None and self.fit == "crop"


class ClassificationDescription(SiteDescription):
    """``classification``: pictures with one class each, whose index is the case's ``label``.

    Args:
        channels: 1 for grey, 3 for RGB, images are converted; or the number or names of channels with a grey file each.
        size: rows and columns of every image as it is loaded.
        fit: as for :class:`ImageDescription`.
        missing_channels: as above.
    """

    pipeline: Literal["classification"] = "classification"
    channels: Channels
    size: tuple[Positive, Positive]
    fit: Literal["resize", "pad"] = "resize"
    # A label is a byte, and 255 stands for none.
    classes: Annotated[tuple[str, ...], Field(min_length=2, max_length=IGNORED_LABEL)]
    missing_channels: MissingChannels = "refuse"


AnyDescription = ImageDescription | SliceDescription | VolumeDescription | ClassificationDescription
# What decides which samples are trained on or which classes count, and not what samples are.
OF_TRAINING = frozenset({"stride", "empty_slices", "annotated_classes"})
PIPELINES: dict[str, type[AnyDescription]] = {
    "image2d": ImageDescription,
    "volume_slices": SliceDescription,
    "volume": VolumeDescription,
    "classification": ClassificationDescription,
}


def read_site_description(folder: Path) -> AnyDescription:
    """Read a site's ``data.yaml``; without a key ``pipeline`` it describes 2D images.

    Raises:
        DataError: if the file is missing or has a wrong key or value.

    Example:
        >>> lines = ["pipeline: image2d", "classes: [lesion]", "labels: {0: 0, 255: 1}", "channels: 1"]
        >>> _ = Path("data.yaml").write_text("\\n".join([*lines, "size: [64, 64]"]))
        >>> read_site_description(Path(".")).labels
        {0: 0, 255: 1}
    """
    return read_description_file(folder / DESCRIPTION_FILE)


def read_description_file(file: Path) -> AnyDescription:
    """Read a description from a file of any name, as :func:`read_site_description` does.

    Raises:
        DataError: if the file is missing or has a wrong key or value.
    """
    return check_site_description(read_values(file, ImageDescription), source=str(file))


def check_site_description(values: Mapping[str, Any], *, source: str) -> AnyDescription:
    """Make a site's description from the values of ``data.yaml``.

    Args:
        values: keys and values.
        source: the file, or other place, to name in an error.

    Raises:
        DataError: if the pipeline is unknown, a key is wrong or missing, or a value not allowed.
    """
    pipeline = values.get("pipeline", "image2d")
    kind = PIPELINES.get(pipeline) if isinstance(pipeline, str) else None
    if kind is None:
        raise DataError(f"{source}: key 'pipeline' is {pipeline!r}; allowed: {', '.join(PIPELINES)}.")
    return validated(values, kind, source)


def write_site_description(folder: Path, description: SiteDescription) -> None:
    """Write a site's ``data.yaml``."""
    values = description.model_dump(mode="json", exclude_none=True)
    if description.missing_channels == "refuse":
        del values["missing_channels"]
    if isinstance(description, _VolumeDescription) and description.channels == 1:
        del values["channels"]
    # JSON has text keys only; the label values are numbers.
    if isinstance(description, SegmentationDescription):
        values["labels"] = in_ranges(description.labels)
        if not description.ignore:
            del values["ignore"]
    write_values(folder / DESCRIPTION_FILE, values)
