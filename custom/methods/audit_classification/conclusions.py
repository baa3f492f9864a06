"""What a site learns of its own labels, as a part of its audit."""

from collections.abc import Mapping
from typing import Any

from ...annotation_bias.estimate_record import ParameterRecord
from ...annotation_bias.parameters import WRONG_LABELS
from ...audit.findings import SiteAudit
from ..audit.conclusions import conclusion


def with_conclusion(audit: SiteAudit, sent: Mapping[str, Any]) -> SiteAudit:
    """Return an audit with what the federation concludes of the site's labels.

    Args:
        audit: of the site.
        sent: by the server: ``wrong_labels``, the fields of a :class:`ParameterRecord`.

    Raises:
        ValueError: if the server sent something else.
    """
    record = ParameterRecord.model_validate(sent["wrong_labels"])
    return audit.model_copy(update={"conclusions": (conclusion(WRONG_LABELS, "", record, None),)})
