"""What leaves a site in FedDM, in addition to federated averaging: that it has received a model."""

from ...outbound.fields import OutboundField
from ...task_names import KEEP_PEER_MODEL

OUTBOUND_FIELDS = (OutboundField("has_peer", (KEEP_PEER_MODEL,), "flag"),)
