"""What the crop to the size cuts off the annotations of volumes: reported at import, and refused where it is much."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...custom.data.description import SiteDescription, SliceDescription, VolumeDescription
from ...transforms.errors import DataError
from ...transforms.ignored_label import IGNORED_LABEL
from .checked import CheckedCase

ALLOWED_CUT = 0.05


@dataclass(frozen=True)
class Cut:
    """Annotated voxels outside the pipeline's crop.

    Attributes:
        share: of all annotated voxels.
        shares: of those of each case, 0 where nothing is annotated.
    """

    share: float
    shares: tuple[float, ...]

    @classmethod
    def of(cls, checked: Sequence[CheckedCase], labels: Mapping[int, int]) -> "Cut":
        """Add up what is cut off the foreground of cases; value in the masks → class."""
        annotated, kept = [0], [0]
        for case in checked:
            counts = [count for value, count in case.counts.items() if labels[value] not in (0, IGNORED_LABEL)]
            annotated.append(sum(count.pixels for count in counts))
            kept.append(sum(count.kept for count in counts))
        shares = [1 - left / own if own else 0.0 for own, left in zip(annotated[1:], kept[1:], strict=True)]
        return cls(1 - sum(kept) / max(sum(annotated), 1) if any(annotated) else 0.0, tuple(shares))


def check_cut(
    checked: Sequence[CheckedCase], labels: Mapping[int, int], description: SiteDescription, allowed: float
) -> str | None:
    """Return how much of the foreground is cut off, None where nothing is.

    Args:
        checked: the cases.
        labels: value in the masks → class.
        description: of the sites' data.
        allowed: largest fraction of all annotated voxels that may be cut off.

    Raises:
        DataError: if more is; the text says what to do.
    """
    cut = Cut.of(checked, labels)
    if not any(cut.shares):
        return None
    assert isinstance(description, SliceDescription | VolumeDescription)
    worst = max(range(len(cut.shares)), key=lambda index: cut.shares[index])
    many = sum(share > ALLOWED_CUT for share in cut.shares)
    to_the_size = description.size is not None and description.fit == "crop"
    how = f"the crop to {_times(description.size)}" if to_the_size else "the crop to the foreground"
    text = (
        f"{how} cuts off {_share(cut.share)} of the annotated voxels, of {many} of {len(checked)} cases more than "
        f"{ALLOWED_CUT:.0%}, most of {checked[worst].label_file.name}: {_share(cut.shares[worst])}"
    )
    if cut.share > allowed:
        remedy = (
            "--fit resize, which cuts nothing off, a larger --size, or --crop foreground"
            if to_the_size and description.crop == "centre"
            else "--crop centre, and where a size is wanted --fit resize, which cuts nothing off"
        )
        raise DataError(
            f"Import: {text}; expected at most {allowed:.0%} in all. Take {remedy}; or allow it with --allow-cut "
            f"{math.ceil(100 * cut.share) / 100:g}."
        )
    return f"Cut off: {text}."


def _share(share: float) -> str:
    return "under 0.1%" if share < 0.001 else f"{share:.1%}"


def _times(size: Sequence[int] | None) -> str:
    return " × ".join(map(str, size or ()))
