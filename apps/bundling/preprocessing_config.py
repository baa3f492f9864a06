"""The steps that prepare images for a network, in MONAI's words."""

from typing import Any

from ...custom.data.description import (
    AnyDescription,
    ClassificationDescription,
    ImageDescription,
    SliceDescription,
    VolumeDescription,
)
from ...transforms.loading.image_channels import ImageChannels
from ...transforms.loading.volume_transforms import ROUNDING
from ...transforms.strict_files import JsonObject
from .fitting_config import PAD, RESIZE

IMAGE = "image"
Config = JsonObject
OF_PICTURES = (ImageDescription, ClassificationDescription)


def keeps_extents(description: AnyDescription) -> bool:
    """Return whether images are fitted to their size in a way that needs their extents on the way back.

    Pictures that are only resized go back to the extents of their file, and what MONAI crops it records itself.
    """
    if isinstance(description, OF_PICTURES):
        return description.fit == "pad"
    return description.size is not None and description.fit != "crop"


def fitted_size(description: AnyDescription) -> list[int | None]:
    """Return the extents that images are brought to; None for an axis that keeps its own."""
    assert description.size is not None
    size: list[int | None] = list(description.size)
    if isinstance(description, SliceDescription):
        size.insert(description.slice_axis, None)
    return size


def preprocessing(description: AnyDescription) -> list[Config]:
    """Return the steps from a file to what the network gets."""
    if isinstance(description, ImageDescription | ClassificationDescription):
        return _picture_steps(description)
    return _volume_steps(description)


def _picture_steps(description: ImageDescription | ClassificationDescription) -> list[Config]:
    """The steps of :func:`fedannot.transforms.loading.image_pipeline.build_picture_pipeline`."""
    size = tuple(description.size)
    keeps = keeps_extents(description)
    resized = f"torch.nn.functional.interpolate(image[None], {size}, mode='bilinear', antialias=True)[0]"
    by_channel = isinstance(description.picture_channels, ImageChannels)
    constant = "torch.zeros_like(image) if bool(image.min() == image.max()) else image"
    return [
        # Not LoadImaged, which tries other readers where ours refuses a picture.
        step("Lambdad", func="$lambda file: @read_picture(file)"),
        *([] if by_channel else [_lambda(constant)]),
        _lambda(RESIZE if keeps else f"image if tuple(image.shape[1:]) == {size} else {resized}"),
        step("NormalizeIntensityd", channel_wise=True) if by_channel else step("NormalizeIntensityd"),
        *([_lambda(PAD)] if keeps else []),
    ]


def _volume_steps(description: SliceDescription | VolumeDescription) -> list[Config]:
    """The steps of :class:`fedannot.transforms.loading.volume_pipeline.VolumePipeline`."""
    several = description.in_channels > 1
    steps = [
        step("$@reading_images.ReadAnyVolumed", **({"channels": "@image_channels"} if several else {})),
        step("Orientationd", axcodes=description.orientation, labels=None),
    ]
    if description.spacing is not None:
        steps.append(step("$@reading_volumes.CheckResampledSized", spacing=list(description.spacing)))
        steps.append(step("Spacingd", pixdim=list(description.spacing), mode="bilinear", padding_mode="border"))
    if description.crop == "foreground":
        bright = "$lambda image: image > 0 if bool((image > 0).any()) else torch.ones_like(image > 0)"
        bright = "$@reading_volumes.foreground" if several else bright
        steps.append(step("CropForegroundd", source_key=IMAGE, select_fn=bright))
    if several:
        steps.append(_channel_intensities(description))
    elif description.window is None:
        constant = f"bool(image.max() - image.min() <= {ROUNDING!r} * image.abs().max())"
        steps += [_lambda(f"torch.zeros_like(image) if {constant} else image"), step("NormalizeIntensityd")]
    else:
        low, high = description.window
        steps.append(step("ScaleIntensityRanged", a_min=low, a_max=high, b_min=0.0, b_max=1.0, clip=True))
    if keeps_extents(description):
        steps += [_lambda(RESIZE), _lambda(PAD)]
    elif description.size is not None:
        size = [-1 if length is None else length for length in fitted_size(description)]
        steps.append(step("ResizeWithPadOrCropd", spatial_size=size, mode="edge"))
    return steps


def _channel_intensities(description: SliceDescription | VolumeDescription) -> Config:
    """What scales the intensities of each of several channels."""
    window, count = description.window, description.in_channels
    windows = description.channel_windows or (() if window is None else (window,) * count)
    if not windows:
        return step("$@reading_volumes.NormalizeVolumed")
    return step("$@reading_volumes.ScaleChannelsd", windows=[list(pair) for pair in windows])


def step(target: str, key: str = IMAGE, **arguments: Any) -> Config:
    """Return a dictionary transform of MONAI at a key."""
    return {"_target_": target, "keys": key, **arguments}


def _lambda(expression: str) -> Config:
    return step("Lambdad", func=f"$lambda image: {expression}")
