"""`auto` for classification at a site: how many of its labels are wrong, and their undoing."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from ....transforms.array_types import Floats, Labels
from ...channel.estimate import sent
from ...data.datalist import TRAINING
from ...data.json_record import write_record
from ...data.label_suspicions import SELECTION_FILE, SUSPICIONS_FILE
from ...data.site_data import SiteData
from ...evaluation.inference import Inference
from ...interface.views import Answer, SiteView, Trained
from ...records.record_lines import append_record
from ...seeding import derive_seed
from ...task_names import ESTIMATE_CONFUSION, UNDO_CONFUSION
from ...training.batches import training_batches
from ...training.corrected_loss import ForwardCorrected
from ...training.losses import DiceRecord
from ...training.objectives import Objective, SupervisedObjective
from ..fedavg.site import FedAvgSite
from .outbound import NOISE_LEVEL, SUPPORT, UNDOES
from .settings import AutoClassificationSettings
from .treatments import TREATMENT, treatment_of
from .undone_labels import UndoneLabels, adopt_undone, latest_undone, write_undone

if TYPE_CHECKING:
    from .undoing import Undoing


class AutoClassificationSite(FedAvgSite):
    """Trains on its labels as they are, until it was told to undo what is wrong with them.

    What it undoes lies in the run's folder, by round. Label files are never changed.
    """

    settings: AutoClassificationSettings

    def __init__(self, settings: AutoClassificationSettings) -> None:
        super().__init__(settings)
        treatment = treatment_of(settings)
        self._other = None if treatment is None else treatment[0].site_half(treatment[1])

    def before_task(self, site: SiteView) -> None:
        """Take over what the continued run had undone by then."""
        if site.continued_round is None:
            return
        earlier = adopt_undone(site.earlier_folders, site.run_folder, site.continued_round)
        if earlier is not None:
            site.info(f"What {earlier} undid of the labels is undone.")

    def train(self, network: nn.Module, site: SiteView) -> Trained:
        """Train without wrong labels where they are undone; the received model judges them in every round anew.

        Where a published method treats, it trains in its own way.
        """
        if self._other is not None and TREATMENT in site.message:
            return self._other.train(network, site)
        undone = latest_undone(site.run_folder, site.round_number)
        if undone is None or not undone.undoes:
            return super().train(network, site)
        if undone.round_number < site.round_number:
            undone = self._undo(network, site)
        data = site.load(TRAINING)
        labels = undone.labels(data, site.locate().folder)
        batches = training_batches(data, self.settings.training, next(network.parameters()).device, labels=labels)
        return self.train_on(batches, network, site)

    def training_flags(self, site: SiteView) -> Mapping[str, Any]:
        """Say whether wrong labels are undone; and what a published method says that treats."""
        if self._other is not None and TREATMENT in site.message:
            return {**self._other.training_flags(site), UNDOES: False}
        undone = latest_undone(site.run_folder, site.round_number)
        return {UNDOES: undone is not None and undone.undoes}

    def objective(self, network: nn.Module, site: SiteView, dice: DiceRecord | None) -> Objective:
        """Return the cross entropy, corrected where that is part of what is undone."""
        undone = latest_undone(site.run_folder, site.round_number)
        if undone is None or undone.transition is None:
            return super().objective(network, site, dice)
        loss = ForwardCorrected(torch.tensor(undone.transition, dtype=torch.float64))
        return SupervisedObjective(loss.to(next(network.parameters()).device))

    def answer(self, task: str, network: nn.Module, site: SiteView) -> Answer:
        """Answer ``estimate_confusion``, ``undo_confusion`` or ``use_given_labels``."""
        if task == UNDO_CONFUSION:
            self._undo(network, site)
            return Answer({UNDOES: True})
        if task != ESTIMATE_CONFUSION:
            write_undone(site.run_folder, UndoneLabels(round_number=site.round_number, noise_level=0.0, undoes=False))
            site.info(f"From round {site.round_number} on the labels are used as they are given.")
            return Answer({UNDOES: False})
        # Only a site that judges its labels pays for scipy's statistics; likewise below.
        from .sure_samples import estimate_noise_level, estimate_support  # noqa: PLC0415
        from .suspects import detection_record  # noqa: PLC0415

        data = site.load(TRAINING)
        probabilities, labels = self._judged(network, data)
        share, seed = self.settings.surest, derive_seed(site.seed, site.name, site.round_number, NOISE_LEVEL)
        estimate = estimate_noise_level(probabilities, labels, data.units, share, seed=seed)
        support = estimate_support(probabilities, labels, data.units, share, seed=seed)
        noted = detection_record(data, site.round_number, noise_level=estimate.value)
        append_record(site.run_folder / SELECTION_FILE, noted)
        return Answer(sent(NOISE_LEVEL, [estimate], calibrated=True) | sent(SUPPORT, [support], calibrated=False))

    def _judged(self, network: nn.Module, data: SiteData) -> "tuple[Floats, Labels]":
        """What the received model says of the samples, and their given labels."""
        from .judgement import balanced, judged_probabilities  # noqa: PLC0415

        said = judged_probabilities(network, data, Inference.of(self.settings), self.settings.training)
        labels = data.labels.numpy().astype(np.int64)
        return balanced(said.numpy(), labels), labels

    def _undo(self, network: nn.Module, site: SiteView) -> UndoneLabels:
        """Decide what is undone in this round, and keep it."""
        from .sure_samples import sure_confusion  # noqa: PLC0415
        from .undoing import undo  # noqa: PLC0415

        data, settings = site.load(TRAINING), self.settings
        probabilities, labels = self._judged(network, data)
        confusion = sure_confusion(probabilities, labels, settings.surest)
        undoing = undo(probabilities, labels, confusion, treatment=settings.treatment, margin=settings.margin)
        record = UndoneLabels.of(
            undoing,
            data,
            site.locate().folder,
            round_number=site.round_number,
            noise_level=confusion.noise_level,
        )
        write_undone(site.run_folder, record)
        self._note(data, undoing, probabilities, record.noise_level, site)
        site.info(
            f"Round {site.round_number}: {len(record.changed)} of {len(labels)} labels count as another class"
            f"{'' if undoing.transition is None else '; the loss is corrected for the other wrong ones'}."
        )
        if undoing.mixed_up.any():
            pairs = (
                f"{data.classes[given]} that look like {data.classes[seems]}"
                for given, seems in np.argwhere(undoing.mixed_up)
            )
            site.info(f"Labels are left alone where the model may take a class for another: {', '.join(pairs)}.")
        return record

    def _note(
        self, data: SiteData, undoing: "Undoing", probabilities: "Floats", noise_level: float, site: SiteView
    ) -> None:
        """Keep for the site's data manager, and for evaluation, which labels are changed."""
        from .suspects import detection_record, suspicions  # noqa: PLC0415

        noted = detection_record(data, site.round_number, noise_level=noise_level, undoing=undoing)
        append_record(site.run_folder / SELECTION_FILE, noted)
        found = suspicions(
            data,
            undoing,
            probabilities,
            data_folder=site.locate().folder,
            method=self.settings.method,
            round_number=site.round_number,
            noise_level=noise_level,
        )
        write_record(site.run_folder / SUSPICIONS_FILE, found)
