"""An audit at a site: training on all parts of the patients but one, and findings that stay at the site."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import nn

from ...audit.findings import AUDIT_FOLDER, read_audit, write_audit
from ...data.datalist import TRAINING
from ...data.round_tensors import save_tensors_of_round
from ...data.site_data import LoadedCase, SiteData
from ...evaluation.inference import Inference
from ...networks.devices import params_in_main_memory
from ...seeding import derive_seed
from ...training.batches import training_batches
from ..auto.outbound import ESTIMATE_CHANNEL
from ..auto.site import reviewed_cases
from ..fedavg.site import FedAvgSite
from ..views import Answer, SiteView, Trained
from .folds import fold_of_round, parts
from .outbound import AUDIT_CASES, CONCLUDE, KEEP_JUDGE
from .settings import AuditSettings

if TYPE_CHECKING:
    from ...channel.cases import JudgedCase

# In a site's run folder: the model of each fold but the last.
JUDGES_FOLDER = "judges"


class AuditSite(FedAvgSite):
    """Trains the models that judge, keeps them, and scores its cases; findings lie in the run's folder as ``audit``."""

    settings: AuditSettings

    def train(self, network: nn.Module, site: SiteView) -> Trained:
        """Train on the patients that the round's model will not judge."""
        data = site.load(TRAINING)
        fold = fold_of_round(site.round_number, self.settings.rounds_of_fold)
        part = self._parts(data, site)
        learnt = replace(data, cases=tuple(case for case in data.cases if part.get(case.unit) != fold))
        batches = training_batches(learnt, self.settings.training, next(network.parameters()).device)
        return replace(self.train_on(batches, network, site), trained_on=learnt.units)

    def learning_rate(self, site: SiteView) -> float:
        """Every fold has a schedule of its own."""
        rounds = self.settings.rounds_of_fold
        return self.settings.training.learning_rate_at((site.round_number - 1) % rounds + 1, rounds)

    def answer(self, task: str, network: nn.Module, site: SiteView) -> Answer:
        """Answer ``keep_judge``, ``estimate_channel``, ``audit_cases`` or ``conclude``."""
        if task == KEEP_JUDGE:
            fold = fold_of_round(site.round_number - 1, self.settings.rounds_of_fold)
            folder = site.run_folder / _folder_of(fold)
            save_tensors_of_round(folder, site.round_number - 1, params_in_main_memory(network))
            return Answer({"has_kept": True})
        if task == CONCLUDE:
            return self._conclude(site)
        judges = Judges(self.settings, network, self._parts(site.load(TRAINING), site), self._kept(site))
        if task == ESTIMATE_CHANNEL:
            from ..auto.channel_report import channel_report  # noqa: PLC0415

            seed = derive_seed(site.seed, site.name, site.round_number, "channel")
            return channel_report(judges, site.load(TRAINING), reviewed_cases(site), self.settings, seed=seed)
        if task == AUDIT_CASES:
            from .case_report import case_report  # noqa: PLC0415

            return case_report(judges, site, self.settings)
        return super().answer(task, network, site)

    def _conclude(self, site: SiteView) -> Answer:
        """Add what the federation concludes to the findings."""
        # It checks what the server says with records, which no other task needs.
        from .conclusions import with_conclusions  # noqa: PLC0415

        folder = site.run_folder / AUDIT_FOLDER
        write_audit(folder, with_conclusions(read_audit(folder), site.message["conclude"], self.settings.level))
        return Answer({"has_concluded": True})

    def _parts(self, data: SiteData, site: SiteView) -> dict[str, int]:
        return parts(data.units, self.settings.folds, seed=site.seed, site=site.name)

    def _kept(self, site: SiteView) -> dict[int, dict[str, torch.Tensor]]:
        """The models of earlier folds, as far as the site has them."""
        found = {
            fold: site.kept_tensors(_folder_of(fold), site.round_number) for fold in range(self.settings.folds - 1)
        }
        return {fold: kept[1] for fold, kept in found.items() if kept is not None}


class Judges:
    """The model that has not learnt a patient judges it; what is in no part is judged by the last one.

    Args:
        settings: the job's.
        network: the received model, of the last fold.
        part: by patient the fold whose model judges.
        kept: by fold the model that was kept.
    """

    def __init__(
        self,
        settings: AuditSettings,
        network: nn.Module,
        part: dict[str, int],
        kept: dict[int, dict[str, torch.Tensor]],
    ) -> None:
        self.inference = Inference.of(settings)
        self.last, self._part = network, part
        self._networks: dict[int, nn.Module] = {}
        for fold, params in kept.items():
            self._networks[fold] = copy.deepcopy(network)
            self._networks[fold].load_state_dict(params)
        self.folds = settings.folds

    def network_of(self, case: LoadedCase) -> nn.Module:
        """Return the model that judges a case."""
        return self._networks.get(self._part.get(case.unit, self.folds), self.last)

    def __call__(self, cases: Sequence[LoadedCase]) -> "Iterator[JudgedCase]":
        """Yield the samples of cases in their order, judged."""
        from ...channel.judging import judged_samples  # noqa: PLC0415

        for case in cases:
            yield from judged_samples(self.network_of(case), [case], self.inference)

    def in_words(self) -> str:
        """Return which model judged which cases."""
        if not self._part or self.folds < 2:
            return "an early model of all sites, which has learnt these annotations in part"
        missing = sorted(set(range(self.folds - 1)) - set(self._networks))
        judged = f"{self.folds} models of all sites, each of which judges the patients that it has not learnt"
        if missing:
            judged += f"; of {len(missing)} the model was not kept here, and the last one judges in its place"
        return judged


def _folder_of(fold: int) -> str:
    return f"{JUDGES_FOLDER}/part_{fold + 1}"
