"""The models of an audit at a site: which one predicts which patient."""

import copy
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn

from ...data.site_data import LoadedCase
from ...evaluation.inference import Inference
from .settings import FoldsSettings

if TYPE_CHECKING:
    from ...annotation_bias.cases import PredictedCase


class ReferenceModels:
    """The model that has not learnt a patient predicts it; what is in no part is predicted by the last one.

    Args:
        settings: the job's.
        network: the received model, of the last fold.
        part: by patient the fold whose model predicts.
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
        """Return the reference model a case."""
        return self._networks.get(self._part.get(case.unit, self.folds), self.last)

    def __call__(self, cases: Sequence[LoadedCase]) -> "Iterator[PredictedCase]":
        """Yield the samples of cases in their order, predicted."""
        from ...annotation_bias.predicted_samples import predicted_samples  # noqa: PLC0415

        for case in cases:
            yield from predicted_samples(self.network_of(case), [case], self.inference)

    @property
    def num_models(self) -> int:
        """Number of reference models, each for the patients that it has not learnt; 1 where one predicts all."""
        return self.folds if self._part and self.folds > 1 else 1

    @property
    def num_absent(self) -> int:
        """How many of these were not kept here, so that the last one predicts in their place."""
        return len(set(range(self.num_models - 1)) - set(self._networks))
