"""FedGSCA at a site: it selects the samples to train on, and fits its sample selector."""

import shlex
from pathlib import Path

import numpy as np
from torch import nn

from ....transforms.array_types import Floats, Labels
from ...corrections.model import Provenance
from ...corrections.targets import AS_GIVEN, Targets, active_targets
from ...data.datalist import TRAINING
from ...data.json_record import JsonRecord, read_record, write_record
from ...data.site_data import SiteData
from ...data.whole_files import private_folder
from ...evaluation.inference import Inference
from ...interface.views import SiteView, Trained
from ...networks.hashing import model_hash
from ...records.record_lines import append_record
from ...training.losses import DiceRecord, build_loss
from ...training.objectives import Objective, SupervisedObjective
from ..auto.protected_cases import protected_cases
from ..fedavg.site import FedAvgSite
from .credal_loss import CredalLoss, scheduled_beta
from .label_detection import detection_record, doubted_cases
from .label_selection import Selection, sample_losses, select_samples
from .records import SELECTION_FILE
from .sample_selector import SampleSelector
from .selection_report import selection_report
from .server import SELECTOR
from .settings import FedGSCASettings

# Where a site keeps its own selectors, for the ablation without a global one: a file for each round, as a round may be
# done once more after a restart.
_SELECTOR_FOLDER = "sample_selectors"


class _OwnSelector(JsonRecord):
    means: tuple[float, float]
    variances: tuple[float, float]
    priors: tuple[float, float]


class FedGSCASite(FedAvgSite):
    """Trains on samples whose labels look right, or have a pseudo-label, and reports its sample selector.

    Which cases are suspect stays at the site, in the run's folder.
    """

    settings: FedGSCASettings

    def train(self, network: nn.Module, site: SiteView) -> Trained:
        """One pass of the received model says which samples to train on; one of the trained model fits the selector.

        The selector may be fitted to what the received model said as well; then there is one pass. In the warm-up all
        samples are trained on.
        """
        settings = self.settings
        if site.round_number <= settings.warmup_rounds:
            return super().train(network, site)
        data, inference = site.load(TRAINING), Inference.of(settings)
        labels = data.labels.numpy().astype(np.int64)
        selector = self._selector(site)
        probabilities = inference.class_probabilities(network, data.cases).numpy()
        selection = self._select(probabilities, labels, selector)
        self._note(data, selection, probabilities, network, site)
        trained = super().train(network, site)
        if settings.selector_losses == "trained":
            probabilities = inference.class_probabilities(network, data.cases).numpy()
        losses = sample_losses(probabilities, labels, settings.sample_loss)
        fitted = self._fit(selector, losses, site)
        shared = fitted if settings.selector == "global" else None
        report = selection_report(data, selection, shared, losses)
        if shared is not None and "selector_means" not in report:
            site.info(f"Round {site.round_number}: too few patients for the sample selector to leave the site.")
        return Trained(trained.outcome, report, trained.outcome.units_of(data.units))

    def _select(self, probabilities: Floats, labels: Labels, selector: SampleSelector | None) -> Selection:
        settings = self.settings
        is_adaptive = settings.pseudo_labels == "adaptive"
        return select_samples(
            probabilities,
            labels,
            selector,
            smallest_noise_level=settings.smallest_noise_level,
            threshold=settings.initial_threshold if is_adaptive else settings.fixed_threshold,
            adaptive=is_adaptive,
            sample_loss=settings.sample_loss,
            confident_doubts=settings.confident_doubts,
        )

    def targets(self, site: SiteView) -> Targets:
        """Return the selected samples with their labels or pseudo-labels; without a selection all as they are given."""
        stored = site.corrections.latest()
        if stored is None or stored.corrections.round_number != site.round_number:
            return AS_GIVEN
        return active_targets(stored, site.load(TRAINING), site.locate().folder)

    def objective(
        self, network: nn.Module, site: SiteView, dice: DiceRecord | None, targets: Targets = AS_GIVEN
    ) -> Objective:
        """Return the loss of the round; in the warm-up federated averaging's."""
        if site.round_number <= self.settings.warmup_rounds:
            return super().objective(network, site, dice, targets)
        return SupervisedObjective(_loss_of(self.settings, site.round_number) or build_loss(self.settings.training))

    def _fit(self, selector: SampleSelector | None, losses: Floats, site: SiteView) -> SampleSelector | None:
        """Fit the selector to losses, from the received one; None where the mixture collapses."""
        start = selector or (SampleSelector.start(losses) if len(losses) > 1 else None)
        fitted = None if start is None else start.fitted(losses)
        if fitted is None:
            site.warning(f"Round {site.round_number}: the mixture of losses collapsed; there is no new selector.")
        elif self.settings.selector == "own":
            file = _selector_file(site.run_folder, site.round_number)
            private_folder(file.parent)
            write_record(file, _OwnSelector(means=fitted.means, variances=fitted.variances, priors=fitted.priors))
        return fitted

    def _selector(self, site: SiteView) -> SampleSelector | None:
        """The global selector that came with the task, or the site's own, of this run or the one that is continued."""
        if self.settings.selector == "global":
            return SampleSelector.of_lists(**site.message[SELECTOR]) if SELECTOR in site.message else None
        folders = (site.run_folder, *site.earlier_folders)
        for number in range(site.round_number - 1, self.settings.warmup_rounds, -1):
            for folder in folders:
                own = read_record(_selector_file(folder, number), _OwnSelector)
                if own is not None:
                    return SampleSelector(own.means, own.variances, own.priors)
        return None

    def _note(
        self, data: SiteData, selection: Selection, probabilities: Floats, network: nn.Module, site: SiteView
    ) -> None:
        """Keep as corrections, and for evaluation, which labels do not look right."""
        append_record(site.run_folder / SELECTION_FILE, detection_record(data, selection, site.round_number))
        provenance = Provenance.now(self.settings.method, site.round_number, model_hash(network.state_dict()))
        corrections = doubted_cases(
            data,
            selection,
            probabilities,
            data_folder=site.locate().folder,
            provenance=provenance,
            reverted=protected_cases(site, data),
        )
        site.corrections.write(corrections)
        site.info(
            f"Round {site.round_number}: {len(corrections.cases)} of {len(data.cases)} labels do not look right; which "
            f"ones: fedannot suspects {shlex.quote(str(site.run_folder.absolute()))}"
        )


def _selector_file(run: Path, round_number: int) -> Path:
    return run / _SELECTOR_FOLDER / f"round_{round_number}.json"


def _loss_of(settings: FedGSCASettings, round_number: int) -> nn.Module | None:
    """The loss of a round, None for cross entropy."""
    if settings.loss == "ce":
        return None
    beta = scheduled_beta(
        settings.beta_schedule,
        settings.beta_start,
        settings.beta_end,
        round_number - settings.warmup_rounds,
        settings.rounds - settings.warmup_rounds,
    )
    return CredalLoss(settings.relaxation, beta, uniform=settings.loss == "ucl")
