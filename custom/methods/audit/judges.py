"""The models of an audit at a site: which one judges which patient."""

import copy
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn

from ...data.site_data import LoadedCase
from ...evaluation.inference import Inference
from .settings import FoldsSettings

if TYPE_CHECKING:
    from ...channel.cases import JudgedCase


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
        settings: FoldsSettings,
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

    @property
    def num_judging(self) -> int:
        """Number of models that judge the patients that they have not learnt; 1 where one judges all."""
        return self.folds if self._part and self.folds > 1 else 1

    @property
    def num_absent(self) -> int:
        """How many of these were not kept here, so that the last one judges in their place."""
        return len(set(range(self.num_judging - 1)) - set(self._networks))
