"""`audit`: a short federation whose reference models predict annotations that they have not learnt, and what each site
is told.

Sites split their patients into parts. For every part a model is trained by federated averaging on the other parts, and
predicts this one. The sites report their annotation bias as in `auto`; the server finds zero, tests all sites and
parameters together, and tells each site alone what is concluded of it. What is found case by case stays at the site.

Equations, by what they define:
    parts of the patients                fedannot.custom.methods.audit.folds.parts
    β, boundary bias of a site           fedannot.custom.annotation_bias.site_estimates.estimate_offset
    annotation recall                    fedannot.custom.annotation_bias.site_estimates.estimate_completeness
    r, reference level                   fedannot.custom.annotation_bias.reference_level.choose_reference_level
    what is confirmed                    fedannot.custom.annotation_bias.significance.effect_tests
    scores of cases                      fedannot.custom.audit.auditing.audit_site
"""

from ...interface.declaration import Method
from .outbound import OUTBOUND_FIELDS
from .settings import AuditSettings

METHOD = Method(
    "audit",
    "segmentation",
    AuditSettings,
    f"{__name__}.server:AuditServer",
    f"{__name__}.site:AuditSite",
    OUTBOUND_FIELDS,
)
