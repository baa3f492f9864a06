"""FedNoRo at the server: who is noisy after the warm-up, and weights by the distance of models."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...aggregation.weighting import LayerWeights
from ...interface.views import Round, WaitingModels, WeightsRule
from ...records.round_records import RoundRecord
from ...task_names import ESTIMATE_CLASS_LOSSES, ESTIMATE_QUALITY
from ..feda3i.estimate import QualityAnswer
from ..feda3i.server import mean_predicted_share
from ..fedavg.server import FedAvgServer
from .distance_weights import distance_weights, distances_to_clean
from .distillation import distillation_weight
from .noisy_sites import noisy_sites, possible_losses, warn_of_extremes
from .settings import FedNoRoSettings, NoisySitesSettings

# Goes to noisy sites alone: w of the round.
DISTILLATION = "fedannot_distillation_weight"


class FedNoRoServer(FedAvgServer):
    """Asks every site for its mean loss of each class once, after the warm-up, and divides the sites by them.

    Noisy sites, and nobody else, are told how much to learn from the global model. The models of a round wait on disk
    while any site is noisy, and a noisy one weighs the less the farther it lies from the nearest clean one. In
    segmentation the losses are FedA³I's inside and outside the contours of each class, and the warm-up goes on while
    the model finds too little. A site that joins later counts as clean.
    """

    settings: NoisySitesSettings

    def __init__(self, settings: NoisySitesSettings) -> None:
        super().__init__(settings)
        self.noisy: tuple[str, ...] | None = None
        self._losses: dict[str, list[float | None]] = {}
        self._start = 0

    @property
    def _warmup_rounds(self) -> int:
        rounds: int = self.settings.warmup_rounds  # type: ignore[attr-defined]
        return rounds

    @property
    def rounds_of_averaging(self) -> int:
        """The warm-up, unless logits are adjusted in it."""
        return 0 if self.settings.logit_adjustment else self._warmup_rounds

    def stage(self, this_round: Round) -> str:
        """Return ``warm-up`` or ``noise-robust``."""
        del this_round
        return "warm-up" if self.noisy is None else "noise-robust"

    def before_round(self, this_round: Round) -> None:
        """Look for the noisy sites when the warm-up is over."""
        if self.noisy is not None or this_round.number <= self._warmup_rounds:
            return
        losses = self._asked(this_round)
        if losses is None or this_round.is_stopped():
            return
        self._losses = {site: [None if math.isnan(value) else value for value in row] for site, row in losses.items()}
        possible = possible_losses(losses)
        self.noisy, self._start = noisy_sites(possible), this_round.number
        means = {site: [value for value in row if not math.isnan(value)] for site, row in possible.items()}
        warn_of_extremes({site: math.fsum(row) / len(row) for site, row in means.items() if row}, this_round.warning)
        if self.noisy:
            this_round.info(f"Noisy sites: {list(self.noisy)}; clean: {sorted(set(losses) - set(self.noisy))}.")
        else:
            this_round.warning("No site is noisier than the others, or too few have losses: federated averaging.")

    def _asked(self, this_round: Round) -> dict[str, list[float]] | None:
        """The sites' losses; None where the warm-up goes on."""
        if not isinstance(self.settings, FedNoRoSettings):
            answers = this_round.ask(ESTIMATE_CLASS_LOSSES)
            return {site: list(fields["class_losses"]) for site, fields in sorted(answers.items())}
        quality = {site: QualityAnswer.of(fields) for site, fields in sorted(this_round.ask(ESTIMATE_QUALITY).items())}
        share = mean_predicted_share(quality)
        extra_rounds = this_round.number - 1 - self._warmup_rounds
        if share < self.settings.min_predicted_fraction and extra_rounds < self.settings.max_extra_warmup_rounds:
            this_round.warning(
                f"The warm-up model finds something in only {share:.0%} of the annotated images (expected at least "
                f"{self.settings.min_predicted_fraction:.0%}): one more warm-up round."
            )
            return None
        return {site: [*answer.inner, *answer.outer] for site, answer in quality.items()}

    def own_messages(self, this_round: Round) -> Mapping[str, Mapping[str, object]]:
        """Return how much each noisy site learns from the global model in this round."""
        weight = distillation_weight(
            self.settings.distillation_weight, this_round.number - self._start, self.settings.distillation_rounds
        )
        return {site: {DISTILLATION: weight} for site in self.noisy or ()}

    def weights_rule(self, this_round: Round) -> WeightsRule | None:
        """Return what weighs the models by their distances, while any site is noisy."""
        kind, noisy = self.settings.model_distance, self.noisy
        if not noisy or kind == "none":
            return None

        def rule(models: WaitingModels) -> LayerWeights:
            distances = distances_to_clean(models, noisy, kind)
            samples = {site: this_round.samples_of_reports[site] for site in distances}
            return LayerWeights.same_in_all_blocks(distance_weights(samples, distances), this_round.blocks)

        return rule

    def state(self) -> dict[str, Any]:
        """Return who is noisy, and from which losses that follows, as plain values."""
        noisy = None if self.noisy is None else list(self.noisy)
        return {"noisy_sites": noisy, "class_losses": self._losses, "start": self._start}

    def restore(self, state: Mapping[str, Any], history: Sequence[RoundRecord]) -> None:
        """Take it back."""
        del history
        noisy = state.get("noisy_sites")
        self.noisy = None if noisy is None else tuple(noisy)
        self._losses, self._start = dict(state.get("class_losses", {})), state.get("start", 0)

    def describe(self, this_round: Round) -> dict[str, Any]:
        """Return who is noisy, and the losses."""
        del this_round
        return {name: value for name, value in self.state().items() if name != "start"}
