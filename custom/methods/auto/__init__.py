"""`auto`: measure how each site annotates, correct it at the site, and average federated on all data.

A site's annotations are the truth seen through a channel of few parameters: contours too large or too small by an
offset, objects left out. The federation's own model estimates them with intervals; what is confirmed is corrected in
memory, and where nothing is, the run is federated averaging.

Equations, by what they define:
    b_i, offset of a case                fedannot.custom.annotation_bias.boundary_bias.case_offset
    β, offset of a site                  fedannot.custom.annotation_bias.site_estimates.estimate_offset
    completeness                         fedannot.custom.annotation_bias.site_estimates.estimate_completeness
    slope and AUROC                      fedannot.custom.annotation_bias.error_injection.calibrate_offset
    a, zero of the offsets               fedannot.custom.annotation_bias.reference_level.choose_reference_level
    what is confirmed                    fedannot.custom.annotation_bias.significance.confirmed
    M' = {x : d_M(x) ≤ −(β − a)}         fedannot.transforms.move_contour.MoveContour
"""

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
)
