"""`audit`: a short federation whose models judge annotations that they have not learnt, and what each site is told.

Sites split their patients into parts. For every part a model is trained by federated averaging on the other parts, and
judges this one. The sites report their annotation channels as in `auto`; the server finds zero, tests all sites and
parameters together, and tells each site alone what is concluded of it. What is found case by case stays at the site.

Equations, by what they define:
    parts of the patients                fedannot.custom.methods.audit.folds.parts
    β, offset of a site                  fedannot.custom.channel.site_estimates.estimate_offset
    completeness                         fedannot.custom.channel.site_estimates.estimate_completeness
    a, zero of the offsets               fedannot.custom.channel.anchor.choose_anchor
    what is established                  fedannot.custom.channel.established.established
    scores of cases                      fedannot.custom.audit.auditing.audit_site
"""

from ...interface.declaration import Method
from .outbound import LEAVES
from .settings import AuditSettings

METHOD = Method(
    "audit",
    "segmentation",
    AuditSettings,
    f"{__name__}.server:AuditServer",
    f"{__name__}.site:AuditSite",
    LEAVES,
)
