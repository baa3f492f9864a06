"""What the server concludes from the sites' lesion counts, and how models weigh by it; FedHAC shares it."""

from collections.abc import Mapping

from ...aggregation.weighting import LayerWeights, completed_weights, quantity_weights
from ...interface.views import Round
from ...records.round_records import SiteReport
from ..fedavg.settings import WarmupSettings
from .completeness import Completeness, completeness_weights


def warmup_goes_on(this_round: Round, estimates: Mapping[str, Completeness], settings: WarmupSettings) -> bool:
    """Return whether estimates after the warm-up say too little, and another round of it is allowed.

    They do where no site has one, or the model finds no lesion at most of the sites. The log says why.

    Args:
        this_round: the round before whose training they were made.
        estimates: of the sites with enough patients.
        settings: the length of the warm-up, and of its extension.
    """
    blind = [site for site, estimate in estimates.items() if not estimate.is_estimable]
    extra_rounds = this_round.number - 1 - settings.warmup_rounds
    says_nothing = not estimates or 2 * len(blind) > len(estimates)
    if not says_nothing or extra_rounds >= settings.max_extra_warmup_rounds:
        return False
    if blind:
        this_round.warning(f"The warm-up model finds no lesion at {blind}: one more warm-up round.")
    else:
        this_round.warning("No site has an estimate: one more warm-up round.")
    return True


def known_dice_losses(reports: Mapping[str, SiteReport]) -> dict[str, float]:
    """Return the Dice losses of the sites that sent one."""
    # None stands for NaN: nothing is annotated, and the loss without an annotation is 1.
    return {
        site: 1.0 if report.dice_loss is None else report.dice_loss
        for site, report in reports.items()
        if report.has_dice_loss
    }


def weights_of_losses(
    this_round: Round, completeness: Mapping[str, Completeness], known_losses: Mapping[str, float] | None = None
) -> LayerWeights:
    """Return the weights softmax(â_k / ℓ_k) of a round (Eq. 4) by the losses of its reports.

    A site without an estimate or a loss keeps its quantity weight, and the others divide the rest.

    Args:
        this_round: the round, with the reports.
        completeness: of the sites that have an estimate.
        known_losses: ℓ of the sites that have one; None for their Dice losses.
    """
    known = known_dice_losses(this_round.reports) if known_losses is None else known_losses
    losses = {site: loss for site, loss in known.items() if site in completeness}
    quantity = quantity_weights(this_round.samples_of_reports)
    weights = completeness_weights({site: completeness[site].value for site in losses}, losses) if losses else {}
    return LayerWeights.same_in_all_blocks(completed_weights(weights, quantity), this_round.blocks)


def log_estimates(this_round: Round, estimates: Mapping[str, Completeness]) -> None:
    """Write estimates to the log, with their intervals where there are any."""
    for site, estimate in estimates.items():
        _log(this_round, site, estimate)


def log_missing_estimates(this_round: Round, estimates: Mapping[str, Completeness]) -> None:
    """Write to the log which sites have none."""
    for site in sorted(set(this_round.num_samples) - set(estimates)):
        this_round.warning(f"{site} has no estimate of its completeness and is weighed by its number of samples.")


def _log(this_round: Round, site: str, estimate: Completeness) -> None:
    counted = f"{estimate.num_annotated} lesions annotated, {estimate.num_predicted} predicted"
    if not estimate.is_estimable:
        this_round.info(f"Completeness of {site}: not estimable (no lesion predicted), taken as 1; {counted}.")
    elif (known := estimate.assessment) is None:
        this_round.info(f"Completeness of {site}: {estimate.value:.2f}; {counted}.")
    else:
        this_round.info(
            f"Completeness of {site}: {known.value:.2f} ({known.low:.2f} to {known.high:.2f}); {counted}; "
            f"the model finds {known.recall:.2f} of the annotated ones, {known.precision:.2f} of their "
            "predicted voxels are annotated."
        )
