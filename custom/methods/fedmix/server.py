"""FedMix's aggregation at the server."""

from ...aggregation.weighting import LayerWeights
from ...interface.views import Round, WaitingModels, WeightsRule
from ..fedavg.server import FedAvgServer
from .settings import FedMixSettings
from .weights import loss_weights


class FedMixServer(FedAvgServer):
    """Weighs sites by the Dice loss of their training in the round, which they report with their models.

    Models wait on disk until all losses are there. A site without a loss weighs by its number of samples: its
    patients are too few for a mean to leave it, or nothing is annotated there.
    """

    settings: FedMixSettings

    def stage(self, this_round: Round) -> str:
        """Return ``loss-weighted``, or ``federated averaging`` where losses do not count."""
        return "loss-weighted" if self.settings.loss_weight else super().stage(this_round)

    def weights_rule(self, this_round: Round) -> WeightsRule | None:
        """Return what weighs the sites by their losses; None where losses do not count."""
        if not self.settings.loss_weight:
            return None

        def rule(models: WaitingModels) -> LayerWeights:
            del models
            losses = {
                site: report.dice_loss for site, report in this_round.reports.items() if report.dice_loss is not None
            }
            weights = loss_weights(
                this_round.samples_of_reports, losses, self.settings.loss_weight, self.settings.loss_exponent
            )
            return LayerWeights.same_in_all_blocks(weights, this_round.blocks)

        return rule
