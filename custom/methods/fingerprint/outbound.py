"""What leaves a site for a fingerprint, besides what leaves it in federated averaging: means over its cases."""

from ...outbound.fields import OutboundField
from ...planning.lengths import AXES, INTENSITY_BINS
from ...task_names import FINGERPRINT

# Logarithms of millimetres and of numbers of voxels, and their squares.
_SPACING, _EXTENT = 7.0, 12.0


def _means(name: str, limits: tuple[float, float], length: int | None = None) -> OutboundField:
    return OutboundField(
        name, (FINGERPRINT,), "numbers", counted_by="num_patients", optional=FINGERPRINT, length=length, limits=limits
    )


OUTBOUND_FIELDS = (
    OutboundField("num_samples", (FINGERPRINT,), "count"),
    OutboundField("num_patients", (FINGERPRINT,), "count", optional=FINGERPRINT),
    _means("spacing_known", (0.0, 1.0), 1),
    _means("spacing_means", (-_SPACING, _SPACING), AXES),
    _means("spacing_squares", (0.0, _SPACING**2), AXES),
    _means("extent_means", (0.0, _EXTENT), AXES),
    _means("extent_squares", (0.0, _EXTENT**2), AXES),
    _means("class_fractions", (0.0, 1.0)),
    _means("class_presence", (0.0, 1.0)),
    _means("foreground", (0.0, 1.0), INTENSITY_BINS),
)
