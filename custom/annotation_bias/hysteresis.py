"""What was confirmed stays confirmed, unless a later estimate contradicts it."""

import math

from .estimate import INTERVAL_DEVIATIONS
from .statuses import Evidence, EvidenceCode, Status, TestResult


def contradicts(result: TestResult, confirmed_effect: float, floor: float) -> bool:
    """Return whether a test contradicts an effect that was confirmed before.

    It does where its 90 % interval, with the error of neutral in it, lies wholly below the minimum effect on the side
    of that effect; so does every interval on the other side. What could not be tested contradicts nothing.

    Args:
        result: of the later estimate.
        confirmed_effect: the estimate less neutral that was confirmed; its sign is the side.
        floor: the minimum effect.

    Example:
        >>> later = TestResult(1.9, 0.3, 0.001, Status.SMALL)
        >>> contradicts(later, 2.2, floor=2.0), contradicts(later, 2.2, floor=2.5), contradicts(later, -2.2, floor=0.5)
        (False, True, True)
    """
    if result.status is Status.UNKNOWN:
        return False
    side = math.copysign(1.0, confirmed_effect)
    return side * result.effect + INTERVAL_DEVIATIONS * result.standard_error < floor


def standing(
    result: TestResult,
    confirmed_effect: float,
    floor: float,
    *,
    standard_error: float = math.nan,
    p_value: float = math.nan,
    code: EvidenceCode = EvidenceCode.EARLIER_AGREES,
) -> TestResult:
    """Return what is known of a parameter of which an effect was confirmed before.

    A later test that confirms by itself, or that contradicts, is all that counts. Else the effect stays: as it was, or
    where the later interval does not hold it the nearer end of that. So no correction is larger or smaller than both
    estimates bear.

    Args:
        result: of the later estimate.
        confirmed_effect: see :func:`contradicts`; NaN where nothing was confirmed.
        floor: as above.
        standard_error: of the confirmed effect, for a later estimate that could not be tested.
        p_value: as above.
        code: on what evidence it stays.
    """
    if result.is_confirmed or math.isnan(confirmed_effect) or contradicts(result, confirmed_effect, floor):
        return result
    effect = confirmed_effect
    if result.status is not Status.UNKNOWN:
        half = INTERVAL_DEVIATIONS * result.standard_error
        effect = min(max(effect, result.effect - half), result.effect + half)
        standard_error, p_value = result.standard_error, result.p_value
    stays = Evidence(code, {"effect": effect})
    return TestResult(effect, standard_error, p_value, Status.CONFIRMED, (*result.evidence, stays))
