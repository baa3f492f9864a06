"""How complete a site's annotations are, and when it is time to correct them (FedIA, Sec. 2.2 to 2.4)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np

# Mean Dice losses below this count as this: a site without any loss would have a weight of infinity over infinity.
_SMALLEST_LOSS = 1e-6


@dataclass(frozen=True)
class Assessment:
    """A site's completeness with its interval, by a model that may be fit as a reference or not.

    Attributes:
        value: fraction of the lesions that the site annotates, counted among those that the model predicts with
            confidence.
        low: lower end of its 90 % interval over patients.
        high: upper end.
        recall: fraction of the annotated lesions that the model finds.
        precision: fraction of their predicted voxels that are annotated.
    """

    value: float
    low: float
    high: float
    recall: float
    precision: float


@dataclass(frozen=True)
class Completeness:
    """A site's estimated completeness â_k.

    Attributes:
        value: the estimate, from 0 to 1; 1 where it cannot be made.
        num_annotated: connected lesions in the site's annotations, Σ c^n.
        num_predicted: connected lesions in the warm-up model's predictions, Σ c^p.
        assessment: its interval; None where the site does not send it.
    """

    value: float
    num_annotated: int
    num_predicted: int
    assessment: Assessment | None = None

    def is_confirmed(self, floor: float) -> bool:
        """Return whether the interval ends below one by more than a floor; never without an interval."""
        return self.assessment is not None and self.assessment.high < 1 - floor

    def is_predicted_well(self, least_recall: float, least_precision: float) -> bool:
        """Return whether the model sees annotated lesions well enough to say which are missing."""
        assessment = self.assessment
        return assessment is not None and assessment.recall >= least_recall and assessment.precision >= least_precision

    @property
    def is_estimable(self) -> bool:
        """Whether the model predicts any lesion; where it does not, the value is 1 and says nothing."""
        return self.num_predicted > 0

    @classmethod
    def of_counts(cls, num_annotated: int, num_predicted: int) -> "Completeness":
        """Return â = min(1, Σ c^n / Σ c^p) (Eq. 3), 1 where nothing is predicted.

        Raises:
            ValueError: if a count is negative.
        """
        if num_annotated < 0 or num_predicted < 0:
            raise ValueError(f"Expected counts from 0 up, but got {num_annotated=}, {num_predicted=}.")
        value = min(1.0, num_annotated / num_predicted) if num_predicted else 1.0
        return cls(value, num_annotated, num_predicted)

    @classmethod
    def of_matches(cls, num_annotated: int, num_predicted: int, num_matched: int) -> "Completeness":
        """Return the fraction of the predicted lesions that are annotated; 1 where nothing is predicted.

        Annotator and model are taken as two independent searches for the same lesions (capture and recapture; Lincoln
        and Petersen): of c lesions the one marks c^n, the other finds c^p, m of them are the same, c ≈ c^n c^p / m, and
        so c^n / c ≈ m / c^p. Lesions that the model misses cancel out, while they push Eq. 3 upwards.

        Raises:
            ValueError: if a count is negative, or more lesions match than are predicted.
        """
        if not 0 <= num_matched <= num_predicted:
            raise ValueError(f"Expected from 0 to {num_predicted} lesions that match, but got {num_matched=}.")
        value = num_matched / num_predicted if num_predicted else 1.0
        return replace(cls.of_counts(num_annotated, num_predicted), value=value)


def as_lists(estimates: Mapping[str, Completeness]) -> dict[str, list[Any]]:
    """Return estimates by site as plain values for a state file; what nobody says is not there."""
    return {
        site: [value for value in astuple(estimate) if value is not None]
        for site, estimate in sorted(estimates.items())
    }


def of_lists(values: Mapping[str, Sequence[Any]]) -> dict[str, Completeness]:
    """Return the estimates that :func:`as_lists` returned as plain values."""
    return {
        site: Completeness(*of_site[:3], *(Assessment(*assessment) for assessment in of_site[3:]))
        for site, of_site in values.items()
    }


@dataclass(frozen=True)
class IouLine:
    """The line through a site's IoU in the warm-up, IoU̅(t) = l t + b (FedIA, Eq. 6).

    Attributes:
        slope: l, per round.
        intercept: b.
    """

    slope: float
    intercept: float

    @classmethod
    def fit(cls, values: Sequence[float]) -> "IouLine":
        """Fit a line to the IoU of the rounds 1, 2, … by least squares (Eq. 6); through one value it is level.

        Args:
            values: IoU of every round of the warm-up; NaN where the site has none, such rounds do not count.

        Raises:
            ValueError: if there is no value.
        """
        known = [(index + 1, value) for index, value in enumerate(values) if not math.isnan(value)]
        if not known:
            raise ValueError("Expected the IoU of at least one round of the warm-up, but there is none.")
        if len(known) == 1:
            return cls(0.0, known[0][1])
        rounds, ious = np.array(known).T
        slope, intercept = np.polyfit(rounds, ious, 1)
        return cls(float(slope), float(intercept))

    def at(self, round_number: int) -> float:
        """Return what the line gives for a round."""
        return self.slope * round_number + self.intercept

    def asks_for_correction(self, round_number: int, iou: float, margin: float) -> bool:
        """Return whether the IoU has fallen below the line by more than the margin λ (Eq. 7); never without an IoU."""
        return self.at(round_number) - iou > margin


def iou_of_dice_loss(dice_loss: float) -> float:
    """Return the IoU that goes with a mean Dice loss ℓ: Dice = 1 − ℓ, IoU = Dice / (2 − Dice) = (1 − ℓ) / (1 + ℓ).

    Raises:
        ValueError: if the loss is outside 0..1; NaN gives NaN.
    """
    if not (math.isnan(dice_loss) or 0 <= dice_loss <= 1):
        raise ValueError(f"Expected a Dice loss from 0 to 1, but got {dice_loss}.")
    return iou_of_loss(dice_loss)


def iou_of_loss(loss: float) -> float:
    """Return (1 − ℓ) / (1 + ℓ) of a loss from 0 up, which is no IoU above 1; NaN gives NaN."""
    return (1 - loss) / (1 + loss)


def completeness_weights(completeness: Mapping[str, float], dice_loss: Mapping[str, float]) -> dict[str, float]:
    """Return the sites' weights softmax(â_k / ℓ_k) (FedIA, Eq. 4 and 5), in sorted order of the sites.

    Computed with the largest exponent subtracted, so that no exponential overflows. A loss of 0 counts as 1e-6: such a
    site takes all the weight from sites with an ordinary loss, and shares it with others of its kind and completeness.

    Args:
        completeness: â_k of every site, from 0 to 1.
        dice_loss: mean Dice loss ℓ_k of every site's round, from 0 up.

    Raises:
        ValueError: if there is no site, the two are of different sites, or a value is negative or not finite.
    """
    if not completeness or set(completeness) != set(dice_loss):
        raise ValueError(
            f"Expected a completeness and a loss of the same sites, but got {sorted(completeness)} and "
            f"{sorted(dice_loss)}."
        )
    for what, values in (("completeness", completeness), ("loss", dice_loss)):
        if wrong := {site: value for site, value in values.items() if not (math.isfinite(value) and value >= 0)}:
            raise ValueError(f"Expected finite values of {what} from 0 up, but found {wrong}.")
    sites = sorted(completeness)
    exponents = np.array([completeness[site] / max(dice_loss[site], _SMALLEST_LOSS) for site in sites])
    shares = np.exp(exponents - exponents.max())
    return dict(zip(sites, (shares / shares.sum()).tolist(), strict=True))
