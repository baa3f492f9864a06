"""`auto`: measure how each site annotates, undo it at the site, and average federated on all data.

A site's annotations are the truth seen through a channel of few parameters: contours too large or too small by an
offset, objects left out. The federation's own model estimates them with intervals; what is established is undone in
memory, and where nothing is, the run is federated averaging.

Equations, by what they define:
    b_i, offset of a case                fedannot.custom.channel.offset.case_offset
    β, offset of a site                  fedannot.custom.channel.site_estimates.estimate_offset
    completeness                         fedannot.custom.channel.site_estimates.estimate_completeness
    slope and AUROC                      fedannot.custom.channel.self_calibration.calibrate_offset
    a, zero of the offsets               fedannot.custom.channel.anchor.choose_anchor
    what is established                  fedannot.custom.channel.established.established
    o, the model's overshoot             fedannot.custom.methods.auto.overshoot.overshoots
    M' = {x : d_M(x) ≤ −(β − a + o)}     fedannot.transforms.move_contour.MoveContour
"""

from ...interface.declaration import Method
from .outbound import LEAVES
from .settings import AutoSettings

METHOD = Method(
    "auto",
    "segmentation",
    AutoSettings,
    f"{__name__}.server:AutoServer",
    f"{__name__}.site:AutoSite",
    LEAVES,
)
