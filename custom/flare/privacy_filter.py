"""The filter with which a site makes its updates differentially private, whatever the job says."""

import secrets
from pathlib import Path

import torch
from nvflare.apis.dxo import DataKind, from_shareable
from nvflare.apis.filter import Filter
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable

from ..data.json_record import JsonRecord, read_record, write_record
from ..outbound import TRAIN, OutboundError
from ..privacy import privatised, spent_epsilon
from ..seeding import derive_seed
from .messages import RECEIVED_MODEL

LEDGER_FILE = "fedannot_privacy.json"


class PrivacyLedger(JsonRecord):
    """What a site has spent in all its jobs.

    Attributes:
        updates: number of updates that were sent.
        mu_squared: Σ 1/σ² over them.
    """

    updates: int = 0
    mu_squared: float = 0.0


class PrivacyFilter(Filter):  # type: ignore[misc]
    """Cuts a trained model's update to a length, adds Gaussian noise, and keeps account of what that spends.

    The account is of the site, over all its jobs, in ``fedannot_privacy.json`` of its workspace. With a result the
    server gets ε and δ of all that the site has sent, which say nothing about the data. The guarantee is about the
    update alone: the numbers that go with it (:mod:`fedannot.custom.outbound`) are sent as they are. Corrections,
    estimates and scores are other tasks and are not touched.

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
        if (
            clip_norm <= 0
            or noise_multiplier <= 0
            or not 0 < delta < 1
            or (max_epsilon is not None and max_epsilon <= 0)
        ):
            raise ValueError(
                "Expected clip_norm, noise_multiplier and max_epsilon above 0 and delta between 0 and 1, but got "
                f"{clip_norm=}, {noise_multiplier=}, {max_epsilon=}, {delta=}."
            )
        self.clip_norm = clip_norm
        self.noise_multiplier = noise_multiplier
        self.delta = delta
        self.max_epsilon = max_epsilon
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
        file = Path(fl_ctx.get_engine().get_workspace().get_root_dir()) / LEDGER_FILE
        ledger = read_record(file, PrivacyLedger) or PrivacyLedger()
        mu_squared = ledger.mu_squared + self.noise_multiplier**-2
        epsilon = spent_epsilon(mu_squared, self.delta)
        if self.max_epsilon is not None and epsilon > self.max_epsilon:
            raise OutboundError(
                f"One more update would spend epsilon {epsilon:.3g} at delta {self.delta:g}; the bound is "
                f"{self.max_epsilon:g}, and {ledger.updates} updates were sent."
            )
        seed = secrets.randbits(63)
        if self.seed is not None:
            seed = derive_seed(self.seed, fl_ctx.get_identity_name(), ledger.updates, "privacy")
        # First the account: an update that is lost on the way has been spent all the same.
        write_record(file, PrivacyLedger(updates=ledger.updates + 1, mu_squared=mu_squared))
        dxo.data = privatised(
            dxo.data,
            reference,
            clip_norm=self.clip_norm,
            noise_multiplier=self.noise_multiplier,
            generator=torch.Generator().manual_seed(seed),
        )
        dxo.meta["privacy_epsilon"], dxo.meta["privacy_delta"] = epsilon, self.delta
        self.log_info(fl_ctx, f"Privacy: {ledger.updates + 1} updates, epsilon {epsilon:.3g} at delta {self.delta:g}.")
        return dxo.update_shareable(shareable)
