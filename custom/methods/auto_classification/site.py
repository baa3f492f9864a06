"""`auto` for classification at a site: how many of its labels are wrong, and their correction."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from ....transforms.array_types import Floats, Labels
from ...annotation_bias.estimate import sent
from ...corrections.kinds import CasesRelabelled
from ...corrections.model import Corrections, Provenance
from ...data.datalist import TRAINING
from ...data.site_data import SiteData
from ...evaluation.inference import Inference
from ...interface.views import Answer, SiteView, Trained
from ...networks.hashing import model_hash
from ...records.record_lines import append_record
from ...seeding import derive_seed
from ...task_names import COMPARE_SCORES, CORRECT_LABELS, ESTIMATE_CONFUSION, KEEP_SCORES
from ..auto.scored_cases import rollback_answer, without_held_out
from ..fedavg.site import FedAvgSite
from ..fedgsca.records import SELECTION_FILE
from .outbound import CORRECTS_LABELS, NOISE_LEVEL, SUPPORT
from .settings import AutoClassificationSettings
from .treatments import TREATMENT, treatment_of

if TYPE_CHECKING:
    from .relabelling import Relabelling


class AutoClassificationSite(FedAvgSite):
    """Trains on its labels as they are, until it was asked to correct wrong ones.

    Its corrections lie in the run's folder, by round. Label files are never changed.
    """

    settings: AutoClassificationSettings

    def __init__(self, settings: AutoClassificationSettings) -> None:
        super().__init__(settings)
        treatment = treatment_of(settings)
        self._other = None if treatment is None else treatment[0].site_part(treatment[1])

    def train(self, network: nn.Module, site: SiteView) -> Trained:
        """Train on corrected labels where the site corrects them; the received model predicts them again in every
        round.

        Where a published method treats, it trains in its own way.
        """
        learnt = without_held_out(site, self.settings.held_out)
        trained = self._train(network, learnt)
        if learnt is not site and trained.trained_on is None:
            return replace(trained, trained_on=trained.outcome.units_of(learnt.load(TRAINING).units))
        return trained

    def _train(self, network: nn.Module, site: SiteView) -> Trained:
        if self._other is not None and TREATMENT in site.message:
            return self._other.train(network, site)
        stored = site.corrections.latest()
        is_correcting = stored is not None and stored.corrections.of(CasesRelabelled) is not None
        if stored is not None and is_correcting and stored.corrections.round_number < site.round_number:
            self._relabel(network, site)
        return super().train(network, site)

    def training_flags(self, site: SiteView) -> Mapping[str, Any]:
        """Say whether wrong labels are corrected; and what a published method says that treats."""
        if self._other is not None and TREATMENT in site.message:
            return {**self._other.training_flags(site), CORRECTS_LABELS: False}
        stored = site.corrections.latest()
        return {CORRECTS_LABELS: stored is not None and stored.corrections.of(CasesRelabelled) is not None}

    def answer(self, task: str, network: nn.Module, site: SiteView) -> Answer:
        """Answer ``estimate_confusion``, ``correct_labels``, ``use_given_labels`` or what the rollback check asks."""
        if task in (KEEP_SCORES, COMPARE_SCORES):
            return rollback_answer(task, network, site, self.settings.held_out, self._accuracy)
        site = without_held_out(site, self.settings.held_out)
        if task == CORRECT_LABELS:
            self._relabel(network, site)
            return Answer({CORRECTS_LABELS: True})
        if task != ESTIMATE_CONFUSION:
            site.corrections.write(self._none(network, site))
            site.info(f"From round {site.round_number} on the labels are used as they are given.")
            return Answer({CORRECTS_LABELS: False})
        # Only a site that predicts its labels pays for scipy's statistics; also below.
        from .confident_samples import estimate_noise_level, estimate_support  # noqa: PLC0415
        from .suspects import detection_record  # noqa: PLC0415

        data = site.load(TRAINING)
        probabilities, labels = self._predicted(network, data)
        share, seed = (
            self.settings.confident_fraction,
            derive_seed(site.seed, site.name, site.round_number, NOISE_LEVEL),
        )
        estimate = estimate_noise_level(probabilities, labels, data.units, share, seed=seed)
        support = estimate_support(probabilities, labels, data.units, share, seed=seed)
        noted = detection_record(data, site.round_number, noise_level=estimate.value)
        append_record(site.run_folder / SELECTION_FILE, noted)
        return Answer(sent(NOISE_LEVEL, [estimate], calibrated=True) | sent(SUPPORT, [support], calibrated=False))

    def _predicted(self, network: nn.Module, data: SiteData) -> "tuple[Floats, Labels]":
        """What the received model says of the samples, and their given labels."""
        from .predicted_classes import balanced, predicted_probabilities  # noqa: PLC0415

        said = predicted_probabilities(network, data, Inference.of(self.settings), self.settings.training)
        labels = data.labels.numpy().astype(np.int64)
        return balanced(said.numpy(), labels), labels

    def _accuracy(self, network: nn.Module, data: SiteData) -> dict[str, float]:
        from .predicted_classes import patient_accuracy  # noqa: PLC0415

        return patient_accuracy(network, data, Inference.of(self.settings))

    def _provenance(self, network: nn.Module, site: SiteView) -> Provenance:
        return Provenance.now(self.settings.method, site.round_number, model_hash(network.state_dict()))

    def _none(self, network: nn.Module, site: SiteView) -> Corrections:
        """A record that nothing is corrected any more."""
        data_folder, provenance = site.locate().folder, self._provenance(network, site)
        return Corrections(
            site=site.name, data=str(data_folder.resolve()), provenance=provenance, corrections=(), cases=()
        )

    def _relabel(self, network: nn.Module, site: SiteView) -> None:
        """Decide which labels are corrected in this round, and keep it."""
        from ..auto.protected_cases import protected_cases  # noqa: PLC0415
        from .confident_samples import confident_confusion  # noqa: PLC0415
        from .relabelling import relabel  # noqa: PLC0415
        from .suspects import detection_record, relabelled_cases  # noqa: PLC0415

        data, settings = site.load(TRAINING), self.settings
        probabilities, labels = self._predicted(network, data)
        confusion = confident_confusion(probabilities, labels, settings.confident_fraction)
        relabelling = relabel(probabilities, labels, confusion, treatment=settings.treatment, margin=settings.margin)
        noted = detection_record(data, site.round_number, noise_level=confusion.noise_level, relabelling=relabelling)
        append_record(site.run_folder / SELECTION_FILE, noted)
        corrections = relabelled_cases(
            data,
            relabelling,
            probabilities,
            data_folder=site.locate().folder,
            provenance=self._provenance(network, site),
            noise_level=confusion.noise_level,
            reverted=protected_cases(site, data),
        )
        site.corrections.write(corrections)
        self._say(relabelling, sum(case.is_active for case in corrections.cases), data, site)

    def _say(self, relabelling: "Relabelling", changed: int, data: SiteData, site: SiteView) -> None:
        site.info(
            f"Round {site.round_number}: {changed} of {len(data.cases)} labels count as another "
            f"class{'' if relabelling.transition is None else '; the loss is corrected for the other wrong ones'}."
        )
        if relabelling.mixed_up.any():
            pairs = (
                f"{data.classes[given]} that look like {data.classes[seems]}"
                for given, seems in np.argwhere(relabelling.mixed_up)
            )
            site.info(f"Labels are left alone where the model may take a class for another: {', '.join(pairs)}.")
