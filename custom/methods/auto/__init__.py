"""`auto`: measure how each site annotates, correct it at the site, and average federated on all data.

Few parameters describe how a site's annotations differ from the truth: boundary bias, missed objects, confused classes.
The federation's own model estimates them with intervals. What is confirmed is corrected in memory; if nothing is, the
run is federated averaging.

Equations, by what they define:
    b_i, boundary bias of a case         fedannot.custom.annotation_bias.boundary_bias.case_offset
    β, boundary bias of a site           fedannot.custom.annotation_bias.site_estimates.estimate_offset
    annotation recall                    fedannot.custom.annotation_bias.site_estimates.estimate_completeness
    slope and AUROC                      fedannot.custom.annotation_bias.error_injection.calibrate_offset
    r, reference level                   fedannot.custom.annotation_bias.reference_level.choose_reference_level
    what is confirmed                    fedannot.custom.annotation_bias.significance.effect_tests
    M' = {x : d_M(x) ≤ −(β − r)}         fedannot.transforms.move_contour.MoveContour
"""

from ...annotation_gaps import AnnotationGap
from ...interface.declaration import Method
from .outbound import OUTBOUND_FIELDS
from .settings import AutoSettings

METHOD = Method(
    "auto",
    "segmentation",
    AutoSettings,
    f"{__name__}.server:AutoServer",
    f"{__name__}.site:AutoSite",
    OUTBOUND_FIELDS,
    supports=frozenset({AnnotationGap.IGNORED_PIXELS}),
)
