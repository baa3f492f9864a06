"""What FedA³I of version 1 left in summaries and states, as this version has it: its reasons were sentences."""

from collections.abc import Mapping
from typing import Any

# A part of each sentence, and what it says.
_REASONS = {
    "sites reported an estimate": "too_few_sites",
    "All sites report the same": "equal",
    "Gaussian mixture did not converge": "not_converged",
    "One Gaussian explains the sites": "one_is_enough",
    "One component of the mixture": "one_component",
}


def reason_of_version_1(reason: str | None) -> str | None:
    """Return the code of a reason, None of an empty one; what is a code already stays."""
    if not reason:
        return None
    return next((code for phrase, code in _REASONS.items() if phrase in reason), reason)


def estimate_of_version_1(values: Any) -> Any:
    """Return the fields of an estimate; its sentence is shown as it is."""
    reason = values.get("reason") if isinstance(values, Mapping) else None
    if not isinstance(reason, str):
        return values
    code = reason_of_version_1(reason)
    if code == reason and " " not in reason:
        return values
    return {**values, "reason": "text" if code == reason else code, "text": reason}
