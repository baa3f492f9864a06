"""Which sizes of images the networks can be trained on: batch normalisation needs more than one value."""

# The U-Net halves an image four times, the classifier five times and then rounds up.
_SMALLEST_EXTENT, _CLASSIFIED_EXTENT = 16, 32


def is_single_pixel(extent: int) -> bool:
    """Return whether the U-Net shrinks an axis of so many pixels to one."""
    return _SMALLEST_EXTENT <= extent < 2 * _SMALLEST_EXTENT


def least_samples(size: tuple[int, ...], *, is_classification: bool) -> int | None:
    """Return how many images of a size a batch needs at least: 1, or 2 where the network shrinks them to a pixel.

    None if the network cannot take the size at all.

    >>> [least_samples((extent, 64), is_classification=False) for extent in (8, 16, 32)]
    [None, 1, 1]
    >>> least_samples((24, 24), is_classification=False)
    2
    """
    if is_classification:
        return 2 if all(extent <= _CLASSIFIED_EXTENT for extent in size) else 1
    if any(extent < _SMALLEST_EXTENT for extent in size):
        return None
    return 2 if all(is_single_pixel(extent) for extent in size) else 1
