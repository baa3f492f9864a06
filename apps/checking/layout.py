"""Where the foreground of a mask lies: how much of the image it takes, how much of the border, and what it leaves."""

from dataclasses import dataclass

import numpy as np

from ...transforms.array_types import Classes

# Fractions of the image's border that are annotated, and of the background that lies off it, from which the background
# is a thing inside the foreground.
_BORDER, _ENCLOSED = 0.9, 0.75


@dataclass(frozen=True)
class MaskLayout:
    """Where the foreground of one mask lies, over all its classes.

    Attributes:
        foreground: fraction of the image that is foreground.
        border: fraction of the border that is; of a volume over the faces of the two axes that have most of it, since
            bodies go on through the first and the last slice.
        enclosed: fraction of the background that does not lie on that border, 0 where there is no background.
    """

    foreground: float
    border: float
    enclosed: float

    @classmethod
    def of(cls, classes: Classes) -> "MaskLayout":
        """Measure a mask ``(H, W)`` or ``(I, J, K)``, 0 for background."""
        shares = [_foreground(np.take(classes, [0, -1], axis=axis)) for axis in range(classes.ndim)]
        across = sorted(range(classes.ndim), key=lambda axis: -shares[axis])[:2]
        inside = classes[tuple(slice(1, -1) if axis in across else slice(None) for axis in range(classes.ndim))]
        background = classes.size - int(np.count_nonzero(classes))
        enclosed = inside.size - int(np.count_nonzero(inside))
        return cls(
            foreground=_foreground(classes),
            border=sum(shares[axis] for axis in across) / 2,
            enclosed=enclosed / background if background else 0.0,
        )

    @property
    def is_inside_out(self) -> bool:
        """Whether the background is a thing inside the foreground, as in a mask whose values are confused."""
        return self.border >= _BORDER and self.enclosed >= _ENCLOSED

    @property
    def is_full(self) -> bool:
        """Whether there is no background, as in an empty mask whose values are confused."""
        return self.foreground == 1


def _foreground(classes: Classes) -> float:
    return int(np.count_nonzero(classes)) / max(classes.size, 1)
