"""The filters with which a site makes what it sends differentially private, whatever the job says."""

import secrets

import numpy as np
import torch
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.filter import Filter
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable

from ..outbound import OUTBOUND_FIELDS, TRAIN, OutboundError
from ..privacy import privatised
from ..private_statistics import SampleValues, private_report
from ..seeding import derive_seed
from .messages import RECEIVED_MODEL, SAMPLE_VALUES
from .privacy_ledger import PrivacyBudget


class PrivacyFilter(Filter):  # type: ignore[misc]
    """Cuts a trained model's update to a length, adds Gaussian noise, and keeps account of what that spends.

    The account is of the site, over all its jobs, in ``fedannot_privacy.json`` of its workspace. With a result the
    server gets ε and δ of all that the site has sent, which say nothing about the data. The guarantee is about the
    update alone: for the numbers that go with it see :class:`StatisticsPrivacyFilter`.

    Args:
        clip_norm: longest update, over all floating entries together.
        noise_multiplier: standard deviation of the noise in every entry, by that length.
        delta: δ for which ε is stated.
        max_epsilon: ε beyond which nothing is sent any more; None for no bound.
        seed: of the noise, for research; whoever knows it can take the noise away. None takes one from the system.

    Raises:
        ValueError: if an argument is out of range.
    """

    def __init__(
        self,
        clip_norm: float,
        noise_multiplier: float,
        delta: float = 1e-5,
        max_epsilon: float | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self.budget = PrivacyBudget("updates", noise_multiplier, delta, max_epsilon)
        if clip_norm <= 0:
            raise ValueError(f"Expected clip_norm above 0, but got {clip_norm}.")
        self.clip_norm = clip_norm
        self.seed = seed

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """Make the update of a training private; other results pass.

        Raises:
            OutboundError: if the received model is not known, or the budget does not suffice; nothing is sent then.
        """
        if shareable.get_return_code() != ReturnCode.OK or fl_ctx.get_prop(FLContextKey.TASK_NAME) != TRAIN:
            return shareable
        dxo = from_shareable(shareable)
        if dxo.data_kind != DataKind.WEIGHTS:
            raise OutboundError(f"A training may not send data of kind {dxo.data_kind!r}.")
        reference = fl_ctx.get_prop(RECEIVED_MODEL)
        if reference is None:
            raise OutboundError("The received model is not known, so that the update cannot be made private.")
        earlier, epsilon = self.budget.spend(fl_ctx)
        seed = _noise_seed(self.seed, fl_ctx, earlier, "privacy")
        dxo.data = privatised(
            dxo.data,
            reference,
            clip_norm=self.clip_norm,
            noise_multiplier=self.budget.noise_multiplier,
            generator=torch.Generator().manual_seed(seed),
        )
        delta = self.budget.delta
        dxo.meta["privacy_epsilon"], dxo.meta["privacy_delta"] = epsilon, delta
        self.log_info(fl_ctx, f"Privacy: {earlier + 1} updates, epsilon {epsilon:.3g} at delta {delta:g}.")
        return dxo.update_shareable(shareable)


class StatisticsPrivacyFilter(Filter):  # type: ignore[misc]
    """Adds Gaussian noise to quality statistics whose samples it knows, and withholds the others.

    Statistics are the registered fields that are computed over patients. FedA³I's learning difficulties and FedIA's
    numbers of lesions get noise, see :mod:`fedannot.custom.private_statistics`. What training says (losses, noise
    level, sample selector) depends on every patient through the trained model, and a distance of validation has no
    bound: these are optional, and stay at the site with all scores. Numbers of samples and patients are sent as they
    are.

    The account is kept beside that of :class:`PrivacyFilter` and goes to the server with the next update.

    Args:
        noise_multiplier: standard deviation of the noise, by how much one patient can change the statistics.
        delta: δ for which ε is stated.
        max_epsilon: ε beyond which no statistics are sent any more; None for no bound.
        largest_difficulty: bound of a sample's learning difficulty in a band; larger ones count as so large.
        largest_lesions: bound of the number of lesions in a case, likewise.
        seed: of the noise, for research; whoever knows it can take the noise away. None takes one from the system.

    Raises:
        ValueError: if an argument is out of range.
    """

    def __init__(
        self,
        noise_multiplier: float,
        delta: float = 1e-5,
        max_epsilon: float | None = None,
        largest_difficulty: float = 2.0,
        largest_lesions: int = 20,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self.budget = PrivacyBudget("statistics", noise_multiplier, delta, max_epsilon)
        if largest_difficulty <= 0 or largest_lesions <= 0:
            raise ValueError(f"Expected bounds above 0, but got {largest_difficulty=}, {largest_lesions=}.")
        self.largest = dict.fromkeys(("inner_difficulty", "outer_difficulty"), float(largest_difficulty)) | {
            "predicted_share": 1.0,
            "num_annotated_lesions": float(largest_lesions),
            "num_predicted_lesions": float(largest_lesions),
            "num_matched_lesions": float(largest_lesions),
        }
        self.seed = seed

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """Make the statistics of a result private.

        Raises:
            OutboundError: if they cannot be, or the budget does not suffice; nothing is sent then.
        """
        if shareable.get_return_code() != ReturnCode.OK:
            return shareable
        task = fl_ctx.get_prop(FLContextKey.TASK_NAME)
        dxo = from_shareable(shareable)
        samples = fl_ctx.get_prop(SAMPLE_VALUES) or {}
        self._withhold_unknown(dxo, task, samples)
        if task == TRAIN:
            dxo.meta["statistics_epsilon"] = self.budget.spent(fl_ctx)[1]
            dxo.meta["statistics_delta"] = self.budget.delta
        elif dxo.data_kind == DataKind.METRICS and set(samples) & set(dxo.data):
            self._add_noise(dxo, samples, fl_ctx)
        return dxo.update_shareable(shareable)

    def _withhold_unknown(self, dxo: DXO, task: str, samples: dict[str, SampleValues]) -> None:
        """Take out the statistics that noise cannot be given to, with all fields of their groups."""
        fields = dxo.data if dxo.data_kind == DataKind.METRICS else dxo.meta
        registered = [field for field in OUTBOUND_FIELDS if task in field.tasks and field.kind != "model"]
        unknown = [field for field in registered if field.counted_by and field.name in set(fields) - set(samples)]
        if needed := [field.name for field in unknown if not field.optional]:
            raise OutboundError(f"Nothing is known of the samples behind {needed}, which cannot be made private.")
        groups = {field.optional for field in unknown}
        for field in registered:
            if field.optional in groups:
                fields.pop(field.name, None)

    def _add_noise(self, dxo: DXO, samples: dict[str, SampleValues], fl_ctx: FLContext) -> None:
        earlier, epsilon = self.budget.spend(fl_ctx)
        seed = _noise_seed(self.seed, fl_ctx, earlier, "statistics")
        dxo.data = private_report(
            dxo.data,
            samples,
            self.largest,
            noise_multiplier=self.budget.noise_multiplier,
            rng=np.random.default_rng(seed),
        )
        self.log_info(
            fl_ctx, f"Privacy: {earlier + 1} statistics, epsilon {epsilon:.3g} at delta {self.budget.delta:g}."
        )


def _noise_seed(seed: int | None, fl_ctx: FLContext, number: int, purpose: str) -> int:
    """A seed for a result's noise: from the system, or for research from a known one."""
    return secrets.randbits(63) if seed is None else derive_seed(seed, fl_ctx.get_identity_name(), number, purpose)
