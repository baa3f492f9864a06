"""What leaves a site in methods with personal parts, besides what leaves it in federated averaging."""

from ...outbound.fields import OutboundField
from ...task_names import KEEP_MODEL

OUTBOUND_FIELDS = (OutboundField("has_model", (KEEP_MODEL,), "flag"),)
