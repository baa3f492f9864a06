"""`auto` at a site: estimates of its own channel, and training on annotations of which that is undone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from ...data.datalist import REFERENCE, TRAINING
from ...data.site_data import SiteData, count_cases
from ...data.undone import UNDONE_FOLDER, Undone, ignored_pixels, latest_undone, write_undone
from ...data.undone_labels import undone_labels
from ...evaluation.inference import Inference
from ...seeding import derive_seed
from ...training.batches import training_batches
from ..fedavg.site import FedAvgSite
from ..views import Answer, SiteView, Trained
from .channel_report import channel_report
from .outbound import UNDO_CHANNEL
from .settings import AutoSettings
from .undoing import undo_channel


class AutoSite(FedAvgSite):
    """Reports how it annotates when it is asked, and trains on what is undone once it was told what to undo.

    What is undone lies in the run's folder as parameters, and is applied in memory. Where a run is continued it is
    found there.
    """

    settings: AutoSettings

    def train(self, network: nn.Module, site: SiteView) -> Trained:
        """Train, and say whether what was told is undone; where nothing is, this is federated averaging."""
        found = latest_undone(self._places(site))
        if found is None:
            return super().train(network, site)
        folder, undone = found
        data = site.load(TRAINING)
        if not undone.changes_anything:
            trained = self.train_on(self.batches(data, network), network, site)
        else:
            labels = undone_labels(undone, ignored_pixels(folder), data.cases, site.locate().folder)
            device = next(network.parameters()).device
            batches = training_batches(data, self.settings.training, device, labels=labels)
            trained = self.train_on(batches, network, site)
        return Trained(trained.outcome, fields={"has_undone": True})

    def answer(self, task: str, network: nn.Module, site: SiteView) -> Answer:
        """Answer ``estimate_channel`` or ``undo_channel``."""
        if task == UNDO_CHANNEL:
            self._undo(network, site)
            return Answer({"has_undone": True})
        seed = derive_seed(site.seed, site.name, site.round_number, "channel")
        return channel_report(network, site.load(TRAINING), self._reviewed(site), self.settings, seed=seed)

    def _reviewed(self, site: SiteView) -> SiteData | None:
        return site.load(REFERENCE) if count_cases(site.locate().folder, REFERENCE) else None

    def _undo(self, network: nn.Module, site: SiteView) -> None:
        told: dict[str, dict[str, float]] = site.message["undo"]
        before = latest_undone(self._places(site))
        undone, ignored = undo_channel(
            network,
            site.load(TRAINING),
            offsets=_by_label(told["offsets"]),
            missing=_by_label(told["missing"]),
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


def _by_label(told: dict[str, Any]) -> dict[int, float]:
    return {int(label): float(value) for label, value in told.items()}


def _in_words(undone: Undone) -> str:
    offsets = [f"contours of class {label} moved by {-offset:+.2f}" for label, offset in undone.offsets.items()]
    count = sum(case.ignored_objects for case in undone.cases)
    return ", ".join([*offsets, *([f"{count} unannotated objects ignored"] if undone.missing else [])]) or "nothing"
