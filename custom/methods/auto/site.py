"""`auto` at a site: estimates of its own channel, and training on annotations of which that is undone."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from ....transforms.errors import DataError
from ...channel.estimate import sent
from ...data.datalist import REFERENCE, TRAINING, VALIDATION
from ...data.site_data import LoadedCase, SiteData, count_cases
from ...data.undone import UNDONE_FOLDER, Undone, latest_undone, undone_pixels, write_undone
from ...evaluation.inference import Inference
from ...interface.views import Answer, SiteView, Trained
from ...outbound.fields import MINIMUM_CASES
from ...seeding import derive_seed
from ...task_names import COMPARE_SCORES, ESTIMATE_CHANNEL, KEEP_SCORES, UNDO_CHANNEL
from ...training.batches import training_batches
from ...training.losses import DiceRecord
from ...training.objectives import Objective, training_objective
from ..fedavg.site import FedAvgSite
from .outbound import HELD_OUT_GAIN, REVIEWED_GAIN
from .settings import AutoSettings

_OF_SHADOW = (KEEP_SCORES, COMPARE_SCORES)


class AutoSite(FedAvgSite):
    """Reports how it annotates when it is asked, and trains on what is undone once it was told what to undo.

    What is undone lies in the run's folder as parameters, and is applied in memory. Where a run is continued it is
    found there.
    """

    settings: AutoSettings

    def train(self, network: nn.Module, site: SiteView) -> Trained:
        """Train on what is undone; where nothing is, this is federated averaging."""
        learnt = self._without_held_out(site)
        trained = self._train(network, learnt)
        if learnt is not site and trained.trained_on is None:
            return replace(trained, trained_on=learnt.load(TRAINING).units)
        return trained

    def _without_held_out(self, site: SiteView) -> SiteView:
        """The site without the training patients that it keeps to score models on; itself where it keeps none."""
        if not self.settings.held_out:
            return site
        # Who is never scored on held-out patients starts without scores; likewise below.
        from .shadow_scores import held_out_patients, only  # noqa: PLC0415

        def load(section: str) -> SiteData:
            data = site.load(section)
            if section != TRAINING:
                return data
            return only(data, held_out_patients(data.units, self.settings.held_out, site), inside=False)

        return replace(site, load=load)

    def _train(self, network: nn.Module, site: SiteView) -> Trained:
        found = latest_undone(self._places(site))
        if found is None:
            return super().train(network, site)
        folder, undone = found
        data, labels = site.load(TRAINING), None
        if undone.changes_anything:
            # It moves contours with MONAI, which takes 2 s that only a site with something undone pays; likewise below.
            from ...data.undone_labels import undone_labels  # noqa: PLC0415

            labels = undone_labels(undone, undone_pixels(folder, len(data.classes)), data.cases, site.locate().folder)
        batches = training_batches(data, self.settings.training, next(network.parameters()).device, labels=labels)
        return self.train_on(batches, network, site)

    def training_flags(self, site: SiteView) -> Mapping[str, Any]:
        """Say whether what was told is undone."""
        return {} if latest_undone(self._places(site)) is None else {"has_undone": True}

    def objective(self, network: nn.Module, site: SiteView, dice: DiceRecord | None) -> Objective:
        """Return the settings' objective; where objects are missing, under the probability that one is annotated."""
        found = latest_undone(self._places(site))
        if found is None or not (found[1].missing and found[1].changes_anything):
            return super().objective(network, site, dice)
        from ...data.undone_labels import completeness_of_samples  # noqa: PLC0415

        cases, folder = site.load(TRAINING).cases, site.locate().folder
        completeness = completeness_of_samples(found[1], cases, folder, self.settings.network.num_classes)
        return training_objective(self.settings.training, network, dice, completeness)

    def answer(self, task: str, network: nn.Module, site: SiteView) -> Answer:
        """Answer ``estimate_channel``, ``undo_channel`` or what the shadow check asks."""
        if task in _OF_SHADOW:
            return self._scored(task, network, site)
        site = self._without_held_out(site)
        if task == UNDO_CHANNEL:
            self._undo(network, site)
            return Answer({"has_undone": True})
        if task != ESTIMATE_CHANNEL:
            return super().answer(task, network, site)
        from ...channel.judging import judged_by  # noqa: PLC0415
        from .channel_report import channel_report  # noqa: PLC0415

        seed = derive_seed(site.seed, site.name, site.round_number, "channel")
        judge, data = judged_by(network, Inference.of(self.settings)), site.load(TRAINING)
        anew = self._with_classes_anew(data, site)
        return channel_report(judge, data, reviewed_cases(site), self.settings, seed=seed, classes_anew=anew)

    def _with_classes_anew(self, data: SiteData, site: SiteView) -> list[LoadedCase] | None:
        """The cases with the classes that objects were given before; None where none were."""
        found = latest_undone(self._places(site))
        if found is None or not any(case.relabelled_objects and not case.reverted for case in found[1].cases):
            return None
        from ...data.undone_labels import with_classes_anew  # noqa: PLC0415

        folder, undone = found
        return with_classes_anew(undone, undone_pixels(folder, len(data.classes)), data.cases, site.locate().folder)

    def _scored(self, task: str, network: nn.Module, site: SiteView) -> Answer:
        """Keep how a model scores, or say by how much this one is better than that whose scores are kept."""
        from .shadow_scores import HELD_OUT, REVIEWED, keep_scores, kept_scores, paired_gain, patient_dice  # noqa: PLC0415

        sections = {REVIEWED: reviewed_cases(site), HELD_OUT: self._held_out(site)}
        classes, inference = self.settings.network.num_classes, Inference.of(self.settings)
        dice = {
            name: patient_dice(network, data, classes, inference)
            for name, data in sections.items()
            if data is not None and len(set(data.units)) >= MINIMUM_CASES
        }
        if task == KEEP_SCORES:
            keep_scores(site.run_folder, site.round_number, dice)
            return Answer({"has_scored": bool(dice)})
        folders = (site.run_folder, *site.earlier_folders)
        before = kept_scores(folders, site.message.get("kept_round", site.round_number))
        seed = derive_seed(site.seed, site.name, "shadow")
        gains = {name: paired_gain(before.get(name, {}), dice.get(name, {}), seed=seed) for name in sections}
        return Answer(
            sent(REVIEWED_GAIN, [gains[REVIEWED]], calibrated=False)
            | sent(HELD_OUT_GAIN, [gains[HELD_OUT]], calibrated=False)
        )

    def _held_out(self, site: SiteView) -> SiteData | None:
        """The site's validation cases, else the training patients that it has kept; None without any."""
        from .shadow_scores import held_out_patients, only  # noqa: PLC0415

        if count_cases(site.locate().folder, VALIDATION):
            return _loaded(site, VALIDATION)
        data = site.load(TRAINING)
        return only(data, held_out_patients(data.units, self.settings.held_out, site), inside=True)

    def _undo(self, network: nn.Module, site: SiteView) -> None:
        told = site.message["undo"]
        offsets, overshoot = (_by_label(told[name]) for name in ("offsets", "overshoot"))
        missing, unannotated = (_by_label(told[name]) for name in ("missing", "unannotated"))
        swapped = float(told["swapped"])
        moves = [offset + overshoot.get(label, 0.0) for label, offset in offsets.items()]
        shares = (*missing.values(), *unannotated.values(), swapped)
        fits = set(overshoot) <= set(offsets) and set(missing) == set(unannotated)
        if not (all(map(math.isfinite, moves)) and all(0 <= share <= 1 for share in shares) and fits):
            raise ValueError(f"Expected finite offsets and shares from 0 to 1 to undo, but was told {site.message}.")
        from .undoing import undo_channel  # noqa: PLC0415

        before = latest_undone(self._places(site))
        undone, pixels = undo_channel(
            network,
            site.load(TRAINING),
            offsets=offsets,
            missing=missing,
            unannotated=unannotated,
            swapped=swapped,
            overshoot=overshoot,
            data_folder=site.locate().folder,
            method=self.settings.method,
            round_number=site.round_number,
            inference=Inference.of(self.settings),
            reverted=frozenset() if before is None else before[1].reverted,
        )
        write_undone(site.run_folder / UNDONE_FOLDER, undone, pixels)
        site.info(f"Undone before round {site.round_number}: {_in_words(undone)}.")

    def _places(self, site: SiteView) -> Sequence[tuple[Path, int]]:
        """Where what is undone may lie, this run's first, each with the last round that counts there."""
        own = [(site.run_folder / UNDONE_FOLDER, site.round_number)]
        last = site.continued_round
        earlier = [] if last is None else [(folder / UNDONE_FOLDER, last) for folder in site.earlier_folders]
        return own + earlier


def reviewed_cases(site: SiteView) -> SiteData | None:
    """Return a site's reviewed cases, None where there are none that can be used: the rest of an estimate goes on."""
    return _loaded(site, REFERENCE) if count_cases(site.locate().folder, REFERENCE) else None


def _loaded(site: SiteView, section: str) -> SiteData | None:
    try:
        return site.load(section)
    except DataError as error:
        site.warning(f"The {'reviewed' if section == REFERENCE else section} cases do not count: {error}")
        return None


def _by_label(told: dict[str, Any]) -> dict[int, float]:
    return {int(label): float(value) for label, value in told.items()}


def _in_words(undone: Undone) -> str:
    in_training = undone.moves_in_training
    offsets = [
        f"contours of class {label} moved by {move:+.2f}"
        + (f" (in training by {in_training[label]:+.2f})" if in_training[label] != move else "")
        for label, move in undone.moves.items()
    ]
    ignored = sum(case.ignored_objects for case in undone.cases)
    relabelled = sum(case.relabelled_objects for case in undone.cases)
    missing = [f"{ignored} unannotated objects ignored"] if undone.missing else []
    swapped = [f"{relabelled} objects given another class"] if undone.swapped else []
    return ", ".join([*offsets, *missing, *swapped]) or "nothing"
