"""How far the model itself draws outside zero while sites correct their offsets, and what training does about it."""

import statistics
from collections.abc import Iterable, Mapping, Sequence

from ...annotation_bias.estimate import Estimate
from ...annotation_bias.statuses import ReferenceLevel
from ...corrections.kinds import BoundaryShift, Correction
from .records import BiasRecord


def model_boundary_biases(
    reference_levels: Sequence[ReferenceLevel | None],
    edges: Sequence[Estimate | None],
    before: BiasRecord | None,
    *,
    limit: float,
) -> dict[int, float]:
    """Return the model boundary bias of the classes in which sites have moved contours since the earlier estimate.

    It is positive inward, in the unit of the offsets.

    What counts in the end is where the model draws. Its contours are not those of the annotations: a model that has
    learnt for few rounds draws too large, and sites whose small offsets stay pull it to their side. Its contours lie at
    −a, where the reference level a is zero on its scale, so o = o_before − a, within the limit. A zero that is inferred
    may be
    wrong: then the images' edges have to lie on the same side of the model's contours, and the nearer one counts.
    Without contours that were moved there is none: federated averaging stays what it is. A model that still follows
    what was corrected last is taken to have followed; the next estimate sees what is left.

    Args:
        reference_levels: zero of each class on the scale of the model, None without any.
        edges: of the images as above.
        before: the earlier estimate with what was done since; None at the first one.
        limit: the largest model boundary bias in size.
    """
    result: dict[int, float] = {}
    for label, reference_level in enumerate(reference_levels, start=1):
        done = _done(before, label)
        if reference_level is None or not reference_level.is_confident or not done:
            continue
        zero = (
            _nearer(reference_level.value, edges[label - 1]) if reference_level.is_inferred else reference_level.value
        )
        value = min(max(statistics.median(done) - zero, -limit), limit)
        if value:
            result[label] = value
    return result


def with_model_bias(
    corrections: Iterable[Correction], model_boundary_bias: Mapping[int, float]
) -> tuple[Correction, ...]:
    """Return a site's corrections with the model boundary bias of the classes whose contours it moves."""
    return tuple(
        correction.model_copy(
            update={
                "model_bias": {
                    label: model_boundary_bias[label] for label in correction.bias if label in model_boundary_bias
                }
            }
        )
        if isinstance(correction, BoundaryShift)
        else correction
        for correction in corrections
    )


def _nearer(zero: float, edges: Estimate | None) -> float:
    """The nearer of zero and edges where both lie on one side of the model's contours; else 0."""
    if edges is None or zero * edges.value <= 0:
        return 0.0
    return min(zero, edges.value, key=abs)


def _done(before: BiasRecord | None, label: int) -> list[float]:
    """The model bias of each site that has moved contours of a class since the estimate; 0 where it was asked none."""
    sites = {} if before is None else before.sites
    shifts = [site.of(BoundaryShift) for site in sites.values() if site.corrected_before_round is not None]
    return [shift.model_bias.get(label, 0.0) for shift in shifts if shift is not None and label in shift.bias]
