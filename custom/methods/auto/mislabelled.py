"""Sites most of whose objects have the label of another class: what else can be known of them and of others."""

import math
from collections.abc import Collection
from dataclasses import replace

from ...annotation_bias.estimate import Estimate
from ...annotation_bias.parameters import CONFUSED_OBJECTS, ParameterKey
from ...annotation_bias.significance import Criterion
from ...annotation_bias.statuses import Evidence, EvidenceCode, Status, TestResult
from .thresholds import THRESHOLDS


def without_mislabelled(
    findings: dict[str, dict[ParameterKey, TestResult]], relabelled_sites: Collection[str]
) -> dict[str, dict[ParameterKey, TestResult]]:
    """Set boundary bias and missed fraction to “cannot tell” where most objects are confirmed to have a wrong class.

    What is left of a class by its labels are then the objects that the model takes for the wrong one.

    Args:
        findings: by site and parameter.
        relabelled_sites: sites where the rest is of annotations in which such objects were given another class.
    """
    return {
        site: {
            key: _untested(result)
            if key != CONFUSED_OBJECTS
            and site not in relabelled_sites
            and _most_are_confused(found.get(CONFUSED_OBJECTS))
            else result
            for key, result in found.items()
        }
        for site, found in findings.items()
    }


def _untested(result: TestResult) -> TestResult:
    why = (Evidence(EvidenceCode.MISLABELLED),)
    return replace(result, status=Status.UNKNOWN, p_value=math.nan, evidence=why)


def looks_mislabelled(own: Estimate, least: Estimate | None) -> bool:
    """Return whether most of a site's objects look mislabelled, so that it is no reference for others.

    Counted is what exceeds the confused fraction of the best site.

    Args:
        own: the site's fraction of objects that look like another class.
        least: that of the best site, None where none is known.
    """
    is_known = least is not None and own.is_known and Criterion(0.0, 0.0).doubt(own) is None
    return least is not None and is_known and own.low - least.value > THRESHOLDS.most_objects


def _most_are_confused(result: TestResult | None) -> bool:
    return result is not None and result.is_confirmed and result.effect > THRESHOLDS.most_objects
