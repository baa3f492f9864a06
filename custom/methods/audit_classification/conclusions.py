"""What a site is told of its own labels, as a part of its audit."""

from collections.abc import Mapping
from typing import Any

from ...audit.findings import SiteAudit
from ...channel.estimate_record import ParameterRecord
from ...channel.parameters import WRONG_LABELS
from ..audit.conclusions import conclusion


def with_conclusion(audit: SiteAudit, told: Mapping[str, Any]) -> SiteAudit:
    """Return an audit with what the federation concludes of the site's labels.

    Args:
        audit: of the site.
        told: by the server: ``wrong_labels``, the fields of a :class:`ParameterRecord`.

    Raises:
        ValueError: if the server told something else.
    """
    record = ParameterRecord.model_validate(told["wrong_labels"])
    return audit.model_copy(update={"conclusions": (conclusion(WRONG_LABELS, "", record, None),)})
