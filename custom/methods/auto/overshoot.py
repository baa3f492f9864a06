"""How far the model itself draws outside zero while sites undo their offsets, and what training does about it."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...channel.anchor import Anchor
from ...channel.estimate import Estimate
from ...corrections.kinds import BoundaryShift, Correction
from .records import ChannelRecord


@dataclass(frozen=True)
class Overshoot:
    """How far the contours of a class move inward in training beside what sites undo.

    Attributes:
        value: positive inward, in the unit of the offsets.
        unit: for the sentence.
    """

    value: float
    unit: str

    def sentence(self, label: str) -> str:
        """Say what is done and why, naming the class by its label."""
        side = "outside" if self.value > 0 else "inside"
        return (
            f"In training contours of class {label} move by another {-self.value:+.2f} {self.unit}, as the model draws "
            f"that far {side} of zero otherwise."
        )


def overshoots(
    anchors: Sequence[Anchor | None],
    edges: Sequence[Estimate | None],
    before: ChannelRecord | None,
    *,
    limit: float,
    unit: str,
) -> dict[int, Overshoot]:
    """Return the overshoot by class, of the classes in which sites have moved contours since the earlier estimate.

    What counts in the end is where the model draws. Its contours are not those of the annotations: a model that has
    learnt for few rounds draws too large, and sites whose small offsets stay pull it to their side. Its contours lie at
    −a, where the anchor a is zero on its scale, so o = o_before − a, within the limit. A zero that is inferred may be
    wrong: then the images' edges have to lie on the same side of the model's contours, and the nearer one counts.
    Without contours that were moved there is none: federated averaging stays what it is. A model that still follows
    what was undone last is taken to have followed; the next estimate sees what is left.

    Args:
        anchors: zero of each class on the scale of the model, None without any.
        edges: of the images likewise.
        before: the earlier estimate with what was done since; None at the first one.
        limit: the largest overshoot in size.
        unit: of all offsets, for sentences.
    """
    found: dict[int, Overshoot] = {}
    for label, anchor in enumerate(anchors, start=1):
        done = _done(before, label)
        if anchor is None or not anchor.is_sure or not done:
            continue
        zero = _nearer(anchor.value, edges[label - 1]) if anchor.is_inferred else anchor.value
        value = min(max(statistics.median(done) - zero, -limit), limit)
        if value:
            found[label] = Overshoot(value, unit)
    return found


def with_model_bias(corrections: Iterable[Correction], overshoot: Mapping[int, Overshoot]) -> tuple[Correction, ...]:
    """Return a site's corrections with the overshoot of the classes whose contours it moves."""
    return tuple(
        one.model_copy(
            update={"model_bias": {label: overshoot[label].value for label in one.bias if label in overshoot}}
        )
        if isinstance(one, BoundaryShift)
        else one
        for one in corrections
    )


def _nearer(zero: float, edges: Estimate | None) -> float:
    """The nearer of zero and edges where both lie on one side of the model's contours; else 0."""
    if edges is None or zero * edges.value <= 0:
        return 0.0
    return min(zero, edges.value, key=abs)


def _done(before: ChannelRecord | None, label: int) -> list[float]:
    """The model bias of each site that has moved contours of a class since the estimate; 0 where it was asked none."""
    sites = {} if before is None else before.sites
    shifts = [site.of(BoundaryShift) for site in sites.values() if site.corrected_before_round is not None]
    return [shift.model_bias.get(label, 0.0) for shift in shifts if shift is not None and label in shift.bias]
