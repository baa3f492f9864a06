"""What methods share in which every site has a part of the model for itself."""

from .outbound import OUTBOUND_FIELDS

# Their half at the server: federated averaging of the shared part.
PERSONAL_SERVER = f"{__name__}.server:PersonalServer"

__all__ = ["OUTBOUND_FIELDS", "PERSONAL_SERVER"]
