"""FedA³I at the server: one estimate of the annotation noise after the warm-up, then quality-aware aggregation."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ....transforms.strict_files import JsonObject
from ...aggregation.weighting import LayerWeights, quantity_weights
from ...interface.views import Round
from ...records.round_records import RoundRecord
from ...task_names import ESTIMATE_QUALITY
from ..fedavg.server import FedAvgServer
from .estimate import QualityAnswer, QualityEstimate, estimate_quality
from .records import QualityFindings, WeightsRecord
from .settings import FedA3ISettings
from .weights import layer_coefficients, layer_weights


class FedA3IServer(FedAvgServer):
    """Annotation quality-aware aggregation (Wu et al., AAAI 2024, Sec. 3.3).

    Rounds 1..T1 are federated averaging. Then every site reports its learning difficulty in the bands inside and
    outside its contours (task ``estimate_quality``: ``inner_difficulty``, ``outer_difficulty``, ``num_estimated``,
    ``predicted_share``; nothing per case), the server tells the sites that draw larger from those that draw smaller (a
    Gaussian mixture, guarded by a test of two groups against one), and weighs sites by quality, the more the deeper the
    layer block (Eq. 5 to 7). Instead of the test (`group_decision`) quality can count by the evidence for two groups:
    w_ij = e λ(j) w̄_i + (1 − e λ(j)) w̃_i with e = 1 − p of that test.

    If the warm-up model finds nothing in most images the estimate would be noise: the warm-up goes on and the estimate
    is made again. A site that joins later counts with its quantity.
    """

    settings: FedA3ISettings

    def __init__(self, settings: FedA3ISettings) -> None:
        super().__init__(settings)
        self.estimate: QualityEstimate | None = None

    @property
    def rounds_of_averaging(self) -> int:
        """The warm-up."""
        return self.settings.warmup_rounds

    def stage(self, this_round: Round) -> str:
        """Return ``warm-up`` or ``quality-aware``."""
        del this_round
        return "warm-up" if self.estimate is None else "quality-aware"

    def before_round(self, this_round: Round) -> None:
        """Estimate the annotation noise when the warm-up is over."""
        if self.estimate is not None or this_round.number <= self.settings.warmup_rounds:
            return
        answers = {site: QualityAnswer.of(fields) for site, fields in this_round.ask(ESTIMATE_QUALITY).items()}
        if this_round.is_stopped():
            return
        share = mean_predicted_share(answers)
        extra_rounds = this_round.number - 1 - self.settings.warmup_rounds
        if share < self.settings.min_predicted_fraction and extra_rounds < self.settings.max_extra_warmup_rounds:
            this_round.warning(
                f"The warm-up model finds something in only {share:.0%} of the annotated images (expected at least "
                f"{self.settings.min_predicted_fraction:.0%}), so its prediction of the annotations would be noise: "
                "one more warm-up round."
            )
            return
        level = self.settings.group_test_level if self.settings.group_decision == "test" else 1.0
        self.estimate = estimate_quality(
            answers, seed=self.settings.seed, level=level, logarithms=self.settings.group_scale == "log"
        )
        if self.estimate.has_groups:
            this_round.info(f"Drawing larger: {list(self.estimate.larger)}; smaller: {list(self.estimate.smaller)}.")
        else:
            this_round.warning(f"No groups of sites ({self.estimate.reason}): weights by quantity.")

    def weights(self, this_round: Round) -> LayerWeights | None:
        """Return Eq. 7's matrix once there are groups, else None (quantity weights)."""
        if self.estimate is None or not self.estimate.has_groups:
            return None
        quantity = quantity_weights(this_round.num_samples)
        quality = self.estimate.quality_weights(
            quantity, balance=self.settings.balance, intra_only=self.settings.weighting == "intra"
        )
        coefficients = layer_coefficients(
            len(this_round.blocks),
            weight=self.settings.layer_weight,
            power=self.settings.layer_power,
            bias=self.settings.layer_bias,
        )
        if self.settings.group_decision == "shrink":
            coefficients = coefficients * self.estimate.evidence
        return layer_weights(quality, quantity, this_round.blocks, coefficients)

    def state(self) -> dict[str, JsonObject | None]:
        """Return the estimate as plain values."""
        return {"estimate": None if self.estimate is None else self.estimate.to_dict()}

    def restore(self, state: Mapping[str, Any], history: Sequence[RoundRecord]) -> None:
        """Take the estimate back."""
        del history
        estimate = state.get("estimate")
        self.estimate = None if estimate is None else QualityEstimate.from_dict(estimate)

    def describe(self, this_round: Round) -> JsonObject:
        """Return groups, strengths, quality weights and the matrix."""
        if self.estimate is None:
            return QualityFindings(estimate=None, weights=None).plain()
        weights, matrix = self.weights(this_round), None
        if weights is not None:
            weights = this_round.bounds.bounded(weights, this_round.num_samples)
            matrix = WeightsRecord(
                sites=weights.sites,
                blocks=weights.blocks,
                values=weights.values.tolist(),
                effective_sites=weights.effective_sites.tolist(),
            )
        return QualityFindings(estimate=self.estimate.record, weights=matrix).plain()


def mean_predicted_share(answers: Mapping[str, QualityAnswer]) -> float:
    """Return the mean over sites of the fraction of annotated images where the model finds anything; 0 without answers.

    What is beyond a share's range, from 0 to 1, counts as its end; what is no number does not count.
    """
    given = [answer.predicted_share for answer in answers.values() if answer.predicted_share is not None]
    shares = [min(max(share, 0.0), 1.0) for share in given if not math.isnan(share)]
    return sum(shares) / len(shares) if shares else 0.0
