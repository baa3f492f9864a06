"""What a site's local steps add up to, by which models of sites with more and fewer steps are compared."""

from collections.abc import Mapping

import torch

from ...aggregation.streaming_average import StreamingAverage
from ...interface.views import Round
from ...settings import ClassifierTrainingSettings, TrainingSettings
from ...training.schedules import LearningRate

# The number of optimizer steps of a round's training, which leaves the site where drift is corrected.
NUM_STEPS = "num_steps"


def summed_rates(rate: LearningRate, steps: int) -> float:
    """Return Σ η over the steps of a round.

    Args:
        rate: the learning rate of the round.
        steps: of the round.
    """
    return sum(rate.in_round(steps)) if rate.changes_in_round else steps * rate.at(0, steps)


def accumulated_steps(training: TrainingSettings | ClassifierTrainingSettings, rate: LearningRate, steps: int) -> float:
    """Return ‖a‖₁ of FedNova (Wang et al., NeurIPS 2020): how many gradients the steps of a round add up to.

    With τ plain steps it is τ. With momentum ρ it is (τ − ρ (1 − ρ^τ) / (1 − ρ)) / (1 − ρ), with FedProx's μ and the
    learning rate η it is (1 − (1 − η μ)^τ) / (η μ). There is no formula for other optimizers than ``sgd``: τ counts.

    Args:
        training: optimizer, momentum and μ.
        rate: the learning rate of the round, η that of its first step.
        steps: τ.

    Example:
        >>> training = TrainingSettings(optimizer="sgd", momentum=0.9)
        >>> round(accumulated_steps(training, LearningRate(training, 1, 1), steps=3), 2)
        5.61
    """
    if training.optimizer != "sgd":
        return float(steps)
    if momentum := training.momentum:
        return (steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum)
    shrinking = rate.at(0, steps) * training.proximal_weight
    return (1 - (1 - shrinking) ** steps) / shrinking if shrinking else float(steps)


def reported_steps(this_round: Round, training: TrainingSettings | ClassifierTrainingSettings) -> dict[str, int]:
    """Return the numbers of local steps, by the sites whose models make up the round's, sorted.

    A site counts with no other number than the settings' `local_steps`, or with no more than an epoch of single samples
    has. One that reports none counts with the most steps that another one reports, with which its model weighs least.

    Args:
        this_round: with the sites' reports.
        training: how sites train.
    """
    reported = {}
    for site, report in sorted(this_round.reports.items()):
        said = report.named(NUM_STEPS)
        reported[site] = said and _possible_steps(said, training, report.num_samples)
        if said and said != reported[site]:
            this_round.warning(
                f"{site} reported {said} local steps, which the settings and its {report.num_samples} samples do not "
                f"allow, and counts with {reported[site]}."
            )
    most = max((steps for steps in reported.values() if steps), default=1)
    if silent := [site for site, steps in reported.items() if not steps]:
        this_round.warning(f"{', '.join(silent)} reported no number of local steps, and counts with {most}.")
    return {site: steps or most for site, steps in reported.items()}


def _possible_steps(said: int, training: TrainingSettings | ClassifierTrainingSettings, num_samples: int) -> int:
    if training.local_steps is not None:
        return training.local_steps
    patches = 1
    if isinstance(training, TrainingSettings) and training.patch is not None:
        patches = training.patches_per_volume
    return min(said, training.local_epochs * num_samples * patches)


def shares_of(this_round: Round) -> dict[str, float]:
    """Return what each site counts in the round's average; the same in all layer blocks."""
    assert this_round.weighed is not None
    return dict(zip(this_round.weighed.sites, this_round.weighed.values[:, 0].tolist(), strict=True))


def scaled_mean(
    this_round: Round, shares: Mapping[str, float], scales: Mapping[str, float]
) -> tuple[Mapping[str, torch.Tensor], float]:
    """Return the mean of the sites' trained parameters with weights p_k / s_k, and Σ_k p_k / s_k.

    With one scale it is the round's average, with all its bits; else the models are read once more.

    Args:
        this_round: with the average by p, and the models.
        shares: p by site.
        scales: s by site, above 0.
    """
    if len(set(scales.values())) == 1:
        return this_round.average, 1 / next(iter(scales.values()))
    weights = {site: share / scales[site] for site, share in sorted(shares.items())}
    total = sum(weights.values())
    reference = {name: this_round.params[name] for name in sorted(this_round.trained)}
    mean = StreamingAverage(reference, dict.fromkeys(reference, "all"))
    assert this_round.models is not None
    for site, weight in weights.items():
        mean.add(site, this_round.models.params(site), {"all": weight / total}, num_samples=1)
    return mean.result(), total
