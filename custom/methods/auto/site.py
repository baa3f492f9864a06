"""`auto` at a site: estimates of its own channel, and training on annotations of which that is undone."""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from ....transforms.errors import DataError
from ...data.datalist import REFERENCE, TRAINING
from ...data.round_tensors import save_tensors_of_round
from ...data.site_data import SiteData, count_cases
from ...data.undone import UNDONE_FOLDER, Undone, ignored_pixels, latest_undone, write_undone
from ...evaluation.inference import Inference
from ...networks.devices import params_in_main_memory
from ...seeding import derive_seed
from ...training.batches import training_batches
from ...training.losses import DiceRecord
from ...training.objectives import Objective, training_objective
from ..fedavg.site import FedAvgSite
from ..views import Answer, SiteView, Trained
from .outbound import ESTIMATE_CHANNEL, UNDO_CHANNEL
from .own_share import without_own_share
from .settings import AutoSettings
from .treatments import treatment_of

# In a site's run folder: what it sent of the last rounds, where its share is to be taken out again.
OWN_FOLDER = "own_models"


class AutoSite(FedAvgSite):
    """Reports how it annotates when it is asked, and trains on what is undone once it was told what to undo.

    What is undone lies in the run's folder as parameters, and is applied in memory. Where a run is continued it is
    found there.
    """

    settings: AutoSettings

    def __init__(self, settings: AutoSettings) -> None:
        super().__init__(settings)
        treatment = treatment_of(settings)
        self._other = None if treatment is None else treatment[0].site_half(treatment[1])

    def before_task(self, site: SiteView) -> None:
        """Do what a published method does that is the treatment."""
        if self._other is not None:
            self._other.before_task(site)

    def labels_in_use(self, section: str, site: SiteView) -> Mapping[Path, Path]:
        """Return what a published method has corrected that is the treatment."""
        return {} if self._other is None else self._other.labels_in_use(section, site)

    def train(self, network: nn.Module, site: SiteView) -> Trained:
        """Train, and say whether what was told is undone; where nothing is, this is federated averaging."""
        trained = self._train(network, site) if self._other is None else self._other.train(network, site)
        if self.settings.judge == "without_own":
            params = params_in_main_memory(network)
            save_tensors_of_round(site.run_folder / OWN_FOLDER, site.round_number, params, self.settings.keep_rounds)
        return trained

    def _train(self, network: nn.Module, site: SiteView) -> Trained:
        found = latest_undone(self._places(site))
        if found is None:
            return super().train(network, site)
        folder, undone = found
        data, labels = site.load(TRAINING), None
        if undone.changes_anything:
            # It moves contours with MONAI, which takes 2 s that only a site with something undone pays; likewise below.
            from ...data.undone_labels import undone_labels  # noqa: PLC0415

            labels = undone_labels(undone, ignored_pixels(folder), data.cases, site.locate().folder)
        batches = training_batches(data, self.settings.training, next(network.parameters()).device, labels=labels)
        return replace(self.train_on(batches, network, site), fields={"has_undone": True})

    def objective(self, network: nn.Module, site: SiteView, dice: DiceRecord | None) -> Objective:
        """Return the settings' objective; where objects are missing, under the probability that one is annotated."""
        found = None if self._other is not None else latest_undone(self._places(site))
        if found is None or not (found[1].missing and found[1].changes_anything):
            return super().objective(network, site, dice)
        from ...data.undone_labels import completeness_of_samples  # noqa: PLC0415

        cases, folder = site.load(TRAINING).cases, site.locate().folder
        completeness = completeness_of_samples(found[1], cases, folder, self.settings.network.num_classes)
        return training_objective(self.settings.training, network, dice, completeness)

    def answer(self, task: str, network: nn.Module, site: SiteView) -> Answer:
        """Answer ``estimate_channel`` or ``undo_channel``, or a task of the treatment."""
        if task not in (ESTIMATE_CHANNEL, UNDO_CHANNEL) and self._other is not None:
            return self._other.answer(task, network, site)
        if task == UNDO_CHANNEL:
            self._undo(network, site)
            return Answer({"has_undone": True})
        from ...channel.judging import judged_by  # noqa: PLC0415
        from .channel_report import channel_report  # noqa: PLC0415

        seed = derive_seed(site.seed, site.name, site.round_number, "channel")
        judge = judged_by(self.judging_model(network, site), Inference.of(self.settings))
        return channel_report(judge, site.load(TRAINING), reviewed_cases(site), self.settings, seed=seed)

    def judging_model(self, network: nn.Module, site: SiteView) -> nn.Module:
        """Return what judges annotations: the received model, less the site's own share where the settings ask.

        The model stays as it is where the site had no part in the last round, or was alone in it.
        """
        if self.settings.judge == "global":
            return network
        kept, total = site.kept_tensors(OWN_FOLDER, site.round_number - 1), site.message.get("samples_of_round", 0)
        num_samples = site.load(TRAINING).num_samples
        if kept is None or kept[0] != site.round_number - 1 or not total > num_samples:
            site.info("The received model judges as it is: the site has no share in the last round, or all of it.")
            return network
        judging = copy.deepcopy(network)
        judging.load_state_dict(without_own_share(network.state_dict(), kept[1], num_samples / total))
        return judging

    def _undo(self, network: nn.Module, site: SiteView) -> None:
        offsets, missing = (_by_label(site.message["undo"][name]) for name in ("offsets", "missing"))
        if not (all(map(math.isfinite, offsets.values())) and all(0 <= share <= 1 for share in missing.values())):
            raise ValueError(f"Expected finite offsets and shares from 0 to 1 to undo, but was told {site.message}.")
        from .undoing import undo_channel  # noqa: PLC0415

        before = latest_undone(self._places(site))
        undone, ignored = undo_channel(
            network,
            site.load(TRAINING),
            offsets=offsets,
            missing=missing,
            data_folder=site.locate().folder,
            method=self.settings.method,
            round_number=site.round_number,
            inference=Inference.of(self.settings),
            reverted=frozenset() if before is None else before[1].reverted,
        )
        write_undone(site.run_folder / UNDONE_FOLDER, undone, ignored)
        site.info(f"Undone before round {site.round_number}: {_in_words(undone)}.")

    def _places(self, site: SiteView) -> Sequence[tuple[Path, int]]:
        """Where what is undone may lie, this run's first, each with the last round that counts there."""
        own = [(site.run_folder / UNDONE_FOLDER, site.round_number)]
        last = site.continued_round
        earlier = [] if last is None else [(folder / UNDONE_FOLDER, last) for folder in site.earlier_folders]
        return own + earlier


def reviewed_cases(site: SiteView) -> SiteData | None:
    """Return a site's reviewed cases, None where there are none that can be used: the rest of an estimate goes on."""
    if not count_cases(site.locate().folder, REFERENCE):
        return None
    try:
        return site.load(REFERENCE)
    except DataError as error:
        site.warning(f"The reviewed cases do not count: {error}")
        return None


def _by_label(told: dict[str, Any]) -> dict[int, float]:
    return {int(label): float(value) for label, value in told.items()}


def _in_words(undone: Undone) -> str:
    offsets = [f"contours of class {label} moved by {-offset:+.2f}" for label, offset in undone.offsets.items()]
    count = sum(case.ignored_objects for case in undone.cases)
    return ", ".join([*offsets, *([f"{count} unannotated objects ignored"] if undone.missing else [])]) or "nothing"
