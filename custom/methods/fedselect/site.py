"""FedSelect at a site: cases are drawn by V of their losses, and V is tested on cases whose loss falls."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn

from ...components.component import Component
from ...corrections.targets import Targets
from ...data.datalist import TRAINING
from ...data.site_data import SiteData
from ...data.tensor_files import save_tensors_of_round
from ...interface.views import Answer, SiteView, Trained
from ...outbound.fields import MINIMUM_CASES
from ...seeding import derive_seed
from ...settings import TrainingSettings
from ...training.batch import Batch
from ...training.batches import training_batches
from ...training.loop import steps_of_round
from ...training.trained_slices import trained_slices
from ..fedavg.site import FedAvgSite
from .case_losses import case_losses, cases_in_use, counts_dice, sample_losses
from .drawing import drawn_cases, first_of_patients, number_of_cases, samples_of_cases
from .margins import proxy_cases, smoothed_margins
from .meta_step import Samples, scorer_gradient
from .outbound import NUM_PARAMETERS, PROXY_PATIENTS, SCORER_GRADIENT, SELECTION_WEIGHT
from .scorer import selection_weights
from .server import IS_SELECTIVE, SCORER, TRAINED_ROUND
from .settings import SelectionSettings

_FOLDER = "margins"


class FedSelectSite(FedAvgSite):
    """Trains on cases that it draws, and keeps their margins in the run's folder; no value of a case leaves the site.

    A case is an image or a volume; the slices of a drawn volume are all trained on. A server that chooses V learns from
    its mean which share of the site's cases has a loss above some value, never of which case. Of the gradient it learns
    mean losses of at least three patients.
    """

    settings: SelectionSettings

    def train(self, network: nn.Module, site: SiteView) -> Trained:
        """Train on the drawn cases, and keep the margins of all."""
        targets = self.targets(site)
        scorer, counted = _scorer(site.message), _counted_round(site.message)
        is_selective = _is_selective(site.message)
        data = cases_in_use(site.load(TRAINING), targets)
        before = case_losses(network, data, self.settings)
        scores = selection_weights(scorer, before)
        chances = scores if is_selective else torch.ones_like(scores)
        seed = derive_seed(site.seed, site.name, site.round_number, "drawn cases")
        drawn = drawn_cases(
            chances,
            [case.unit for case in data.cases],
            self.settings.case_fraction,
            seed,
            patients=max(MINIMUM_CASES, site.floor.patients),
            samples=site.floor.samples_per_step,
            counts=self._samples_of_epoch(data),
            # A server could choose V so that nearly all draws are of one patient; in simulations nobody hides.
            is_capped=not site.floor.is_none,
        )
        # With corrected labels the cases in use have them.
        labels = None if targets.labels is None else [label for case in data.cases for label in case.label]
        targets = replace(targets, labels=labels, used=self._samples(data, drawn))
        trained = self.train_on(self.batches(data, network, targets), network, site, targets)
        self._keep_margins(network, data, before, site, counted)
        fields = {}
        if (patients := len(set(data.units))) >= MINIMUM_CASES:
            fields = {SELECTION_WEIGHT: float(scores.mean()), "num_scored_patients": patients}
        return Trained(trained.outcome, fields, [data.cases[case].unit for case in drawn])

    def answer(self, task: str, network: nn.Module, site: SiteView) -> Answer:
        """Answer ``measure_scorer_gradient``: of a step on the site's first batch, tested on its proxy cases."""
        del task
        data = cases_in_use(site.load(TRAINING), self.targets(site))
        kept = self._kept(data, site)
        withheld = Answer({SCORER_GRADIENT: [float("nan")] * NUM_PARAMETERS, PROXY_PATIENTS: 0})
        if kept is None:
            return withheld
        proxy = proxy_cases(kept["smoothed"], self.settings.proxy_fraction, MINIMUM_CASES)
        patients = len({data.cases[case].unit for case in proxy})
        if patients < MINIMUM_CASES:
            return withheld
        device = next(network.parameters()).device
        batch = self._step_batch(data, device)
        gradient = scorer_gradient(
            network,
            _scorer(site.message),
            _of(batch),
            [_of(part) for part in self._plain_batches(data, self._samples(data, proxy), device)],
            patients=[data.units[number] for number in batch.samples.tolist()],
            smallest_group=MINIMUM_CASES,
            step=self._step_size(data, network, site),
            losses=partial(sample_losses, with_dice=counts_dice(self.settings)),
        )
        return Answer({SCORER_GRADIENT: gradient.tolist(), PROXY_PATIENTS: patients})

    def _step_size(self, data: SiteData, network: nn.Module, site: SiteView) -> float:
        """The learning rate with which training on so many drawn cases begins the round."""
        rate = self.learning_rate(site)
        if not isinstance(rate.training.schedule, Component):
            return rate.at(0, 1)
        drawn = range(number_of_cases(len(data.cases), self.settings.case_fraction))
        batches = self.batches(data, network, Targets(used=self._samples(data, drawn)))
        return rate.in_round(steps_of_round(rate.training, batches))[0]

    def _samples(self, data: SiteData, cases: Sequence[int]) -> torch.Tensor:
        """The samples of cases that are trained on, in the cases' order."""
        return samples_of_cases(cases, [len(case.image) for case in data.cases], self._used(data))

    def _used(self, data: SiteData) -> torch.Tensor | None:
        """Which samples are trained on at all; None for all."""
        training = self.settings.training
        takes_slices = isinstance(training, TrainingSettings) and training.patch is None
        return trained_slices(data, data.labels) if takes_slices else None

    def _samples_of_epoch(self, data: SiteData) -> list[int]:
        """How many samples or patches of each case an epoch has."""
        training, used = self.settings.training, self._used(data)
        if isinstance(training, TrainingSettings) and training.patch is not None:
            return [training.patches_per_volume] * len(data.cases)
        sizes = [len(case.image) for case in data.cases]
        return sizes if used is None else [int(of_case.sum()) for of_case in torch.split(used, sizes)]

    def _step_batch(self, data: SiteData, device: torch.device) -> Batch:
        """The sample in the middle of the first case of each of the first patients, of two groups of them at least."""
        number = max(self.settings.training.batch_size, 2 * MINIMUM_CASES)
        samples = []
        for case in first_of_patients([case.unit for case in data.cases], number):
            of_case = self._samples(data, [case])
            samples.append(of_case[len(of_case) // 2])
        changes = {"batch_size": len(samples)}
        if isinstance(self.settings.training, TrainingSettings):
            changes["patches_per_volume"] = 1
        batch, *_ = self._plain_batches(data, torch.stack(samples), device, **changes)
        return batch

    def _plain_batches(
        self, data: SiteData, samples: torch.Tensor, device: torch.device, **changes: int
    ) -> Iterator[Batch]:
        """These samples, or patches of volumes, in batches without augmentation."""
        training = self.settings.training
        without = {"augmentation": () if isinstance(training, TrainingSettings) else False}
        batches = training_batches(data, training.model_copy(update=without | changes), device, used=samples)
        return batches.epoch(torch.Generator().manual_seed(derive_seed(self.settings.seed, "scorer")))

    def _keep_margins(
        self, network: nn.Module, data: SiteData, before: torch.Tensor, site: SiteView, counted: int | None
    ) -> None:
        kept = self._kept(data, site)
        losses = case_losses(network, data, self.settings)
        name = "smoothed" if self.settings.smoothing_memory == "smoothed" else "margins"
        previous, memory = (before, None) if kept is None else (kept["losses"], kept[name])
        made = smoothed_margins(previous, losses, memory, self.settings.smoothing)
        save_tensors_of_round(
            site.run_folder / _FOLDER,
            site.round_number,
            {
                "losses": losses,
                "margins": made.margins,
                "smoothed": made.smoothed,
                "cases": [case.name for case in data.cases],
            },
            keep=self.settings.keep_rounds if counted is None else {*self.settings.keep_rounds, counted},
        )

    def _kept(self, data: SiteData, site: SiteView) -> dict[str, Any] | None:
        """Losses and margins after the training that counted last; None before the first, or where they are lost."""
        counted = _counted_round(site.message)
        if counted is None:
            return None
        result = site.kept_tensors(_FOLDER, counted)
        if result is None or result[0] != counted or result[1]["cases"] != [case.name for case in data.cases]:
            site.warning(
                f"This site's margins after round {counted} are not in {_FOLDER}, or of other cases; it begins without."
            )
            return None
        return result[1]


def _scorer(message: Mapping[str, Any]) -> torch.Tensor:
    """V's parameters, as the server sends them.

    Raises:
        ValueError: if they are no 301 finite numbers.
    """
    values = message.get(SCORER)
    are_finite = (
        isinstance(values, list | tuple)
        and len(values) == NUM_PARAMETERS
        and all(type(value) in (int, float) and math.isfinite(value) for value in values)
    )
    if not are_finite:
        raise ValueError(
            f"Expected {NUM_PARAMETERS} finite numbers of a scorer from the server, but got {values!r:.80}."
        )
    return torch.tensor(values, dtype=torch.float64)


def _counted_round(message: Mapping[str, Any]) -> int | None:
    """The round after which the site's margins count; None before the first.

    Raises:
        ValueError: if the server names no round.
    """
    value = message.get(TRAINED_ROUND)
    if value is not None and (type(value) is not int or value < 1):
        raise ValueError(f"Expected the number of a round from the server, but got {value!r:.80}.")
    return value


def _is_selective(message: Mapping[str, Any]) -> bool:
    """Whether cases are drawn by V.

    Raises:
        ValueError: if the server does not say it.
    """
    value = message.get(IS_SELECTIVE)
    if not isinstance(value, bool):
        raise ValueError(f"Expected from the server whether cases are drawn by their weights, but got {value!r:.80}.")
    return value


def _of(batch: Batch) -> Samples:
    return batch.images, batch.labels if batch.labels.ndim == 1 else batch.labels.squeeze(1)
