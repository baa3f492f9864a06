"""How a bundle brings images to a size and labels back, :mod:`fedannot.transforms.loading.fitting` in expressions."""

from collections.abc import Sequence

from ...transforms.loading.fitting import Fit

# Where an image's extents before it was fitted are kept.
_BEFORE = "extents_before_fit"

_KEPT = "own if length is None else"
_FIRST = "min((a for a, length in enumerate(@fit_size) if length is not None), key=lambda a: @fit_size[a] / extents[a])"
_SCALED: dict[Fit, str] = {
    "resize": f"$lambda extents: tuple({_KEPT} length for own, length in zip(extents, @fit_size))",
    "pad": f"$lambda extents: (lambda first: tuple({_KEPT} max(1, round(own * @fit_size[first] / extents[first])) "
    f"for own, length in zip(extents, @fit_size)))({_FIRST})",
}
_PLANE_RESIZED = (
    "$lambda image, extents: image if tuple(image.shape[1:]) == tuple(extents) else "
    "torch.nn.functional.interpolate(image[None], tuple(extents), mode='bilinear', antialias=True)[0]"
)
_LINES_RESIZED = (
    "$lambda image, axis, length: image if image.shape[axis] == length else (lambda lines: torch.movedim("
    "torch.nn.functional.interpolate(lines.reshape(1, 1, -1, lines.shape[-1]), (lines[..., 0].numel(), length), "
    "mode='bilinear', antialias=True).reshape(*lines.shape[:-1], length), -1, axis).contiguous())"
    "(torch.movedim(image, axis, -1))"
)
_VOLUME_RESIZED = (
    "$lambda image, extents: functools.reduce(lambda volume, axis: @fit_lines(volume, axis + 1, extents[axis]), "
    "range(len(extents)), image)"
)
_PADDED = (
    "$lambda image: (lambda missing: torch.nn.functional.pad(image[None], [width for lack in reversed(missing) "
    "for width in (lack // 2, lack - lack // 2)], mode='replicate')[0] if any(missing) else image)"
    "([0 if length is None else length - own for own, length in zip(image.shape[1:], @fit_size)])"
)
_UNPADDED = (
    "$lambda mask, scaled: mask[(slice(None), *(slice((own - length) // 2, (own - length) // 2 + length) "
    "for own, length in zip(mask.shape[1:], scaled)))]"
)
_UNFITTED = (
    f"$lambda mask: (lambda extents: torch.nn.functional.interpolate(@fit_unpadded(mask.as_tensor(), "
    f"@fit_scaled(extents))[None], extents, mode='nearest-exact')[0])(mask.meta['{_BEFORE}'])"
)

# Steps of the preprocessing that keep what labels need on their way back.
RESIZE = (
    f"(image.meta.update({_BEFORE}=[int(n) for n in image.shape[1:]]), monai.data.MetaTensor(@fit_resized("
    "image.as_tensor(), @fit_scaled(tuple(image.shape[1:])))).copy_meta_from(image))[1]"
)
PAD = "monai.data.MetaTensor(@fit_padded(image.as_tensor()).contiguous()).copy_meta_from(image)"
UNFIT = "@fit_undone(mask)"


def fitting_config(size: Sequence[int | None], fit: Fit) -> dict[str, str | list[int | None]]:
    """Return the functions that :data:`RESIZE`, :data:`PAD` and :data:`UNFIT` call, as entries of a configuration.

    Args:
        size: extents that images are brought to; None for an axis that keeps its own.
        fit: ``resize`` or ``pad``.
    """
    of_volumes = {"fit_lines": _LINES_RESIZED, "fit_resized": _VOLUME_RESIZED}
    return {
        "fit_size": list(size),
        "fit_scaled": _SCALED[fit],
        **(of_volumes if len(size) == 3 else {"fit_resized": _PLANE_RESIZED}),
        "fit_padded": _PADDED,
        "fit_unpadded": _UNPADDED,
        "fit_undone": _UNFITTED,
    }
