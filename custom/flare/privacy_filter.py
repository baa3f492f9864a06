"""The filters with which a site makes what it sends differentially private, whatever the job says."""

import math
import os
from collections.abc import Mapping
from typing import Any

import torch
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.filter import Filter
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.app_constant import AppConstants

from ..methods import METHODS
from ..outbound.fields import MINIMUM_CASES, OutboundField
from ..outbound.noise_source import RandomBytes
from ..outbound.private_statistics import SampleValues, noise_deviations, private_report
from ..outbound.private_updates import is_finite_update, privatised
from ..outbound.registry import OutboundError
from ..task_names import TRAIN
from .at_hand import is_quantised, registry_at_hand, task_at_hand
from .messages import FIELDS_WITHOUT_MODEL, NOISY_FIELDS, RECEIVED_MODEL, SAMPLE_VALUES, WITHHELD_FIELDS
from .privacy_ledger import PrivacyBudget


class PrivacyFilter(Filter):  # type: ignore[misc]
    """Cuts a trained model's update to a length, adds Gaussian noise, and keeps account of what that spends.

    Whether a site sends an update does not follow from its data. An update that is not finite, and a training that
    fails once the site's data are loaded, count as a zero update: it leaves with noise, with the same fields, and is
    paid for. The site's log alone says so. A validation that fails is answered as one whose scores are withheld.

    Nothing else that is computed over patients leaves the site exactly: losses, noise level, sample selector and scores
    are not sent, nor are quality statistics, unless a :class:`StatisticsPrivacyFilter` before or after this one gives
    them noise. Entries of the model that are no floating numbers are replaced by the received ones. Numbers of samples
    and patients and flags are sent as they are, see `docs/privacy.md`.

    The account is of the site, over all its jobs, in ``fedannot_privacy.json`` of its workspace. With a result the
    server gets ε and δ of all that the site has sent, which say nothing about the data: ε of the site's taking part, by
    its updates, and ε of a patient, by updates and statistics together.

    Args:
        clip_norm: longest update, over all floating entries together.
        noise_multiplier: standard deviation of the noise in every entry, by that length.
        delta: δ for which ε is stated.
        max_epsilon: a patient's ε, by updates and statistics together, beyond which no update is sent any more; None
            for no bound.

    Raises:
        ValueError: if an argument is out of range.
    """

    def __init__(
        self, clip_norm: float, noise_multiplier: float, delta: float = 1e-5, max_epsilon: float | None = None
    ) -> None:
        super().__init__()
        self.budget = PrivacyBudget("updates", noise_multiplier, delta, max_epsilon)
        if not 0 < clip_norm < math.inf:
            raise ValueError(f"Expected a finite clip_norm above 0, but got {clip_norm}.")
        self.clip_norm = clip_norm
        self.random_bytes: RandomBytes = os.urandom

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """Make the update of a training private, and take out what else is computed over patients.

        Raises:
            OutboundError: if the received model is not known, not finite or of another network, or the budget does not
                suffice; nothing is sent then.
        """
        task = task_at_hand(fl_ctx)
        if (failed := _without_model(shareable, task, fl_ctx)) is not None:
            self.log_warning(
                fl_ctx,
                f"Privacy: the task {task!r} failed; what leaves does not say so, and an update counts as zero.",
                fire_event=False,
            )
            shareable = failed
        if shareable.get_return_code() != ReturnCode.OK:
            return shareable
        dxo = from_shareable(shareable)
        _check_kind(dxo, task)
        _withhold(dxo, task, fl_ctx)
        if task == TRAIN:
            self._make_private(dxo, fl_ctx)
        return dxo.update_shareable(shareable)

    def _make_private(self, dxo: DXO, fl_ctx: FLContext) -> None:
        reference = fl_ctx.get_prop(RECEIVED_MODEL)
        if is_quantised(fl_ctx):
            raise OutboundError(
                "The update is quantised already, so that noise would not be what is accounted for; expected this "
                "filter before the job's OutboundFilter."
            )
        if reference is None:
            raise OutboundError("The received model is not known, so that the update cannot be made private.")
        try:
            params = privatised(
                dxo.data,
                reference,
                clip_norm=self.clip_norm,
                noise_multiplier=self.budget.noise_multiplier,
                random_bytes=self.random_bytes,
            )
        except ValueError as error:
            raise OutboundError(f"The update cannot be made private: {error}") from error
        spent, delta = self.budget.spend(fl_ctx), self.budget.delta
        if not is_finite_update(dxo.data, reference):
            self.log_warning(fl_ctx, "Privacy: the update is not finite, and counts as zero.", fire_event=False)
        dxo.data = params
        dxo.meta["privacy_epsilon"], dxo.meta["privacy_delta"] = spent.epsilon, delta
        dxo.meta["patient_epsilon"] = spent.patient_epsilon
        self.log_info(
            fl_ctx,
            f"Privacy: {spent.results} updates. Epsilon at delta {delta:g}: {spent.epsilon:.3g} of the site's taking "
            f"part, {spent.patient_epsilon:.3g} of a patient by updates and statistics together.",
        )


class StatisticsPrivacyFilter(Filter):  # type: ignore[misc]
    """Adds Gaussian noise to quality statistics whose samples it knows, and withholds the others.

    Statistics are the registered fields that are computed over patients. Those whose samples have a bound get noise,
    see :mod:`fedannot.custom.outbound.private_statistics`: methods declare it, for learning difficulties and numbers of
    lesions, say. What training says (losses, noise level, sample selector) depends on every patient through the trained
    model, and a distance of validation has no bound: these stay at the site with all scores. Numbers of samples and
    patients are sent as they are.

    The account is kept beside that of :class:`PrivacyFilter` and goes to the server with the next update.

    Args:
        noise_multiplier: standard deviation of the noise, by how much one patient can change the statistics.
        delta: δ for which ε is stated.
        max_epsilon: a patient's ε, by updates and statistics together, beyond which no statistics are sent any more;
            None for no bound.
        largest: bounds of a sample's value by fields' names, in place of those that methods declare; larger values
            count as so large.

    Raises:
        ValueError: if an argument is out of range.
    """

    def __init__(
        self,
        noise_multiplier: float,
        delta: float = 1e-5,
        max_epsilon: float | None = None,
        largest: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__()
        self.budget = PrivacyBudget("statistics", noise_multiplier, delta, max_epsilon)
        self.largest = dict(largest or {})
        if wrong := {name: bound for name, bound in self.largest.items() if not 0 < bound < math.inf}:
            raise ValueError(f"Expected finite bounds above 0 in 'largest', but got {wrong}.")
        self.random_bytes: RandomBytes = os.urandom

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """Make the statistics of a result private.

        Raises:
            OutboundError: if they cannot be, or the budget does not suffice; nothing is sent then.
        """
        task = task_at_hand(fl_ctx)
        if task == TRAIN:
            return self._with_spent(shareable, fl_ctx)
        if (failed := _without_model(shareable, task, fl_ctx)) is not None:
            self.log_warning(
                fl_ctx, f"Privacy: the task {task!r} failed; what leaves does not say so.", fire_event=False
            )
            shareable = failed
        if shareable.get_return_code() != ReturnCode.OK:
            return shareable
        dxo = from_shareable(shareable)
        _check_kind(dxo, task)
        dxo.data = dict(dxo.data) | (fl_ctx.get_prop(WITHHELD_FIELDS) or {})
        fl_ctx.set_prop(NOISY_FIELDS, self._add_noise(dxo, fl_ctx), private=True, sticky=False)
        _withhold(dxo, task, fl_ctx)
        return dxo.update_shareable(shareable)

    def _with_spent(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """Add what statistics have spent to a training's answer, and take out what has no noise."""
        spent = {"statistics_epsilon": self.budget.spent(fl_ctx).epsilon, "statistics_delta": self.budget.delta}
        if (fields := fl_ctx.get_prop(FIELDS_WITHOUT_MODEL)) is not None:
            # A filter of updates that comes after this one sends them if the training has failed.
            fl_ctx.set_prop(FIELDS_WITHOUT_MODEL, fields | spent, private=True, sticky=False)
        if shareable.get_return_code() != ReturnCode.OK:
            return shareable
        dxo = from_shareable(shareable)
        _check_kind(dxo, TRAIN)
        dxo.meta |= spent
        _withhold(dxo, TRAIN, fl_ctx)
        return dxo.update_shareable(shareable)

    def _add_noise(self, dxo: DXO, fl_ctx: FLContext) -> dict[str, Any]:
        """Give noise to the fields of a result whose samples are known, and return these fields."""
        samples: Mapping[str, SampleValues] = fl_ctx.get_prop(SAMPLE_VALUES) or {}
        bounds = self._bounds(task_at_hand(fl_ctx), fl_ctx)
        fields = registry_at_hand(fl_ctx).of_task(task_at_hand(fl_ctx))
        given = dict(dxo.data) | _only_private(fields, samples, dxo.data)
        known = {name: samples[name] for name in bounds if name in samples and name in given}
        if not known:
            return {}
        multiplier = self.budget.noise_multiplier
        try:
            report = private_report(given, known, bounds, noise_multiplier=multiplier, random_bytes=self.random_bytes)
            deviations = noise_deviations(given, known, bounds, noise_multiplier=multiplier)
        except ValueError as error:
            raise OutboundError(f"The statistics cannot be made private: {error}") from error
        spent, delta = self.budget.spend(fl_ctx), self.budget.delta
        noise_of = {field.noise_of: name for name, field in fields.items() if field.noise_of is not None}
        report |= {noise_of[name]: of for name, of in deviations.items() if name in noise_of}
        dxo.data = report
        self.log_info(
            fl_ctx,
            f"Privacy: {spent.results} statistics. Epsilon at delta {delta:g} of a patient: {spent.epsilon:.3g} by "
            f"statistics alone, {spent.patient_epsilon:.3g} by updates and statistics together.",
        )
        return {name: report[name] for name in (*known, *noise_of.values()) if name in report}

    def _bounds(self, task: str, fl_ctx: FLContext) -> dict[str, float]:
        """The bounds of samples' values of a task's statistics: the site's own, else those that are declared."""
        registry = registry_at_hand(fl_ctx)
        fields = registry.of_task(task)
        # Of other packages' methods the one at hand alone: no other is imported here.
        declared = {field for method in METHODS for field in method.outbound_fields} | set(registry.fields)
        bounded = {field.name for field in declared if field.sample_bound is not None}
        if unknown := sorted(set(self.largest) - bounded):
            raise OutboundError(f"The filter has bounds for {unknown}, which no method declares as private statistics.")
        return {
            name: float(self.largest.get(name, field.sample_bound))
            for name, field in fields.items()
            if field.sample_bound is not None
        }


def _only_private(
    fields: Mapping[str, OutboundField], samples: Mapping[str, SampleValues], data: Mapping[str, Any]
) -> dict[str, Any]:
    """Entries of the fields that a site sends with noise alone: NaN where too few patients are behind one, else 0."""
    result = {}
    for name, field in fields.items():
        counts = None if field.counted_by is None else data.get(field.counted_by)
        if field.only_private and name in samples and counts is not None:
            entries = samples[name].values.shape[1]
            of_parts = counts if isinstance(counts, list) else [counts]
            per_entry = [count for count in of_parts for _ in range(entries // len(of_parts))]
            result[name] = [math.nan if count < MINIMUM_CASES else 0.0 for count in per_entry]
    return result


def _without_model(reply: Shareable, task: str, fl_ctx: FLContext) -> Shareable | None:
    """What leaves in place of a failed training or validation: the received model, and what is known without a model.

    None where the task has not failed, was stopped, or failed before these fields were known.
    """
    fields = fl_ctx.get_prop(FIELDS_WITHOUT_MODEL)
    if reply.get_return_code() != ReturnCode.EXECUTION_EXCEPTION or fields is None:
        return None
    if task == TRAIN:
        received = {name: torch.as_tensor(value) for name, value in fl_ctx.get_prop(RECEIVED_MODEL).items()}
        answer = DXO(DataKind.WEIGHTS, data=received, meta=dict(fields))
    else:
        answer = DXO(DataKind.METRICS, data=dict(fields))
    shareable = answer.to_shareable()
    shareable.set_header(AppConstants.CURRENT_ROUND, reply.get_header(AppConstants.CURRENT_ROUND))
    return shareable


def _check_kind(dxo: DXO, task: str) -> None:
    if dxo.data_kind != (DataKind.WEIGHTS if task == TRAIN else DataKind.METRICS):
        raise OutboundError(f"The task {task!r} may not send data of kind {dxo.data_kind!r}.")


def _withhold(dxo: DXO, task: str, fl_ctx: FLContext) -> None:
    """Take out what is computed over patients and has no noise, and leave it for another filter of the result."""
    noisy = fl_ctx.get_prop(NOISY_FIELDS) or {}
    registry = registry_at_hand(fl_ctx)
    withheld: dict[str, Any] = {}
    for part in ("data", "meta"):
        fields = getattr(dxo, part)
        if part == "data" and dxo.data_kind == DataKind.WEIGHTS:
            continue
        left = registry.without_counted(
            task, fields, {name for name, value in noisy.items() if fields.get(name) is value}
        )
        withheld |= {name: value for name, value in fields.items() if left.get(name) is not value}
        setattr(dxo, part, left)
    fl_ctx.set_prop(WITHHELD_FIELDS, withheld, private=True, sticky=False)
