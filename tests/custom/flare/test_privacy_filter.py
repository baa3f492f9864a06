"""A site's filters for privacy: what leaves for every task, in every order in a scope, and what is held back."""

import itertools
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.filter import Filter
from nvflare.apis.fl_constant import FilterKey, FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import ReservedHeaderKey, Shareable, make_reply
from nvflare.apis.utils.task_utils import apply_filters
from nvflare.app_common.app_constant import AppConstants
from nvflare.private.privacy_manager import Scope

from fedannot.custom.annotation_bias.noisy_fields import OFFSET_DIFFERENCE, OFFSET_MEAN, noise_of
from fedannot.custom.flare.at_hand import note_fields, note_task
from fedannot.custom.flare.messages import METHOD_TASK, RECEIVED_MODEL, REFUSAL_HEADER, SAMPLE_VALUES
from fedannot.custom.flare.outbound_filter import OutboundFilter
from fedannot.custom.flare.privacy_filter import PrivacyFilter, StatisticsPrivacyFilter
from fedannot.custom.flare.privacy_ledger import LEDGER_FILE
from fedannot.custom.flare.task_process import SiteContext
from fedannot.custom.methods.auto.answers import BiasReport
from fedannot.custom.methods.lookup import find_method, read_job_settings
from fedannot.custom.outbound.private_statistics import SampleValues
from fedannot.custom.outbound.private_updates import spent_epsilon
from fedannot.custom.outbound.registry import OutboundError, OutboundRegistry
from fedannot.custom.refusals import RefusalCode
from fedannot.custom.task_names import (
    CORRECT_ANNOTATIONS,
    ESTIMATE_ANNOTATION_BIAS,
    ESTIMATE_COMPLETENESS,
    ESTIMATE_QUALITY,
    KEEP_MODEL,
    TRAIN,
    VALIDATE,
    VALIDATE_CLASSES,
)

RECEIVED = {"w": torch.ones(300), "n.num_batches_tracked": torch.tensor(40)}
TRAINED = {"w": torch.full((300,), 1.5), "n.num_batches_tracked": torch.tensor(47)}
UNITS = [f"patient {number}" for number in range(8)]
COUNTS = {"num_samples": 8, "num_excluded": 0, "embedded_data": True}
LOSSES: dict[str, Any] = {"train_loss": 0.5, "num_patients": 8, "dice_loss": 0.25, "num_dice_patients": 8}
SELECTOR: dict[str, Any] = {
    **{"selector_means": [0.25, 2.0], "selector_variances": [0.5, 0.5], "selector_priors": [0.5, 0.5]},
    **{"selector_patients": [4, 4], "noise_level": 0.125},
}
# What goes with a trained model, by method: what is over patients, and a flag that is not.
OF_TRAINING: dict[str, dict[str, Any]] = {
    "fedavg": COUNTS | LOSSES,
    "fedia": COUNTS | LOSSES | {"has_corrected": False},
    "fedgsca": COUNTS | LOSSES | SELECTOR,
}
LEFT_OF_TRAINING = {"fedavg": COUNTS, "fedia": COUNTS | {"has_corrected": False}, "fedgsca": COUNTS}
QUALITY: dict[str, Any] = {
    **{"num_samples": 8, "num_annotated": 8, "num_estimated": [8], "predicted_share": 0.875},
    **{"inner_difficulty": [0.5], "outer_difficulty": [1.0]},
}
LESIONS: dict[str, Any] = {
    **{"num_samples": 8, "num_patients": 8},
    **{"num_annotated_lesions": 40, "num_predicted_lesions": 48, "num_matched_lesions": 32},
}
SCORES: dict[str, Any] = {
    **{"num_samples": 8, "num_patients": 8, "num_class_patients": [8], "num_distance_patients": [8]},
    **{"num_class_cases": [5], "left_empty": [0.5], "num_empty_patients": [3]},
    **{"dice": [0.75], "hd95": [4.0], "num_defined": [5]},
}
CLASSES: dict[str, Any] = {
    **{"num_samples": 8, "num_patients": 8, "num_class_patients": [4, 4]},
    **{"num_correct": [3, 3], "num_labelled": [4, 4], "num_predicted": [4, 4]},
}
RESULTS = {
    ESTIMATE_QUALITY: QUALITY,
    ESTIMATE_COMPLETENESS: LESIONS,
    VALIDATE: SCORES,
    VALIDATE_CLASSES: CLASSES,
    CORRECT_ANNOTATIONS: {"has_corrected": True},
    KEEP_MODEL: {"has_model": True},
}
# Whose job a task is of.
METHOD_OF = {
    ESTIMATE_QUALITY: "feda3i",
    ESTIMATE_COMPLETENESS: "fedia",
    CORRECT_ANNOTATIONS: "fedia",
    KEEP_MODEL: "decoupled",
    ESTIMATE_ANNOTATION_BIAS: "auto",
}


def task_of_job(task: str, method: str) -> str:
    return "classification" if task == VALIDATE_CLASSES or method == "fedgsca" else "segmentation"


def registry(task: str, method: str = "fedavg") -> OutboundRegistry:
    method = METHOD_OF.get(task, method)
    return OutboundRegistry(find_method(task_of_job(task, method), method).outbound_fields)


def mean(values: Sequence[float]) -> SampleValues:
    return SampleValues.of(values, UNITS, is_mean=True)


def total(number: int) -> SampleValues:
    return SampleValues.of([number / 8] * 8, UNITS, is_mean=False)


SAMPLES = {
    ESTIMATE_QUALITY: {
        "inner_difficulty": mean([0.5] * 8),
        "outer_difficulty": mean([1.0] * 8),
        "predicted_share": mean([1.0] * 7 + [0.0]),
    },
    ESTIMATE_COMPLETENESS: {name: total(LESIONS[name]) for name in LESIONS if name.endswith("_lesions")},
}


def context(workspace: Path, task: str, method: str = "fedavg") -> FLContext:
    """What a site's filters find in the context of a task."""
    for needed in ("startup", "local"):
        (workspace / needed).mkdir(exist_ok=True)
    made = SiteContext("site-1", "job", str(workspace)).context()
    method = METHOD_OF.get(task, method)
    named = METHOD_TASK if task in METHOD_OF else task
    made.set_prop(FLContextKey.TASK_NAME, named, private=True, sticky=False)
    note_task(task, read_job_settings({"task": task_of_job(task, method), "method": method}), made)
    made.set_prop(RECEIVED_MODEL, RECEIVED, private=True, sticky=False)
    made.set_prop(SAMPLE_VALUES, SAMPLES.get(task, {}), private=True, sticky=False)
    return made


def result(task: str, method: str = "fedavg", **changes: Any) -> Shareable:
    if task == TRAIN:
        return DXO(DataKind.WEIGHTS, data=dict(TRAINED), meta=OF_TRAINING[method] | changes).to_shareable()
    return DXO(DataKind.METRICS, data=RESULTS[task] | changes).to_shareable()


def updates(**changes: Any) -> PrivacyFilter:
    made = PrivacyFilter(**{"clip_norm": 1.0, "noise_multiplier": 2.0} | changes)
    made.random_bytes = np.random.default_rng(1).bytes
    return made


def statistics(**changes: Any) -> StatisticsPrivacyFilter:
    made = StatisticsPrivacyFilter(**{"noise_multiplier": 4.0} | changes)
    made.random_bytes = np.random.default_rng(2).bytes
    return made


def sent(workspace: Path, task: str, *filters: Filter, reply: Shareable | None = None, method: str = "fedavg") -> DXO:
    """What leaves with these filters in the scope of the site and the outbound filter in the job."""
    scope, made = Scope(), context(workspace, task, method)
    for each in filters:
        scope.add_task_result_filter(each, FilterKey.OUT)
    made.set_prop(FLContextKey.SCOPE_OBJECT, scope, private=True, sticky=False)
    named = made.get_prop(FLContextKey.TASK_NAME)
    of_job = {named + FilterKey.DELIMITER + FilterKey.OUT: [OutboundFilter()]}
    given = result(task, method) if reply is None else reply
    dxo: DXO = from_shareable(apply_filters(Scope.TASK_RESULT_FILTERS_NAME, given, made, of_job, named, FilterKey.OUT))
    return dxo


def spent(workspace: Path) -> tuple[int, int]:
    """How many updates and statistics are in the ledger."""
    file = workspace / LEDGER_FILE
    if not file.is_file():
        return 0, 0
    ledger = json.loads(file.read_text(encoding="utf-8"))
    return ledger["updates"]["results"], ledger["statistics"]["results"]


ORDERS = list(itertools.permutations([OutboundFilter, updates, statistics]))


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: "-".join(make.__name__ for make in order))
@pytest.mark.parametrize("method", OF_TRAINING)
def test_in_every_order_an_update_has_noise_and_nothing_else_of_training_leaves(
    tmp_path: Path, order: Sequence[Any], method: str
) -> None:
    """What a method declares over patients is withheld like what all methods send, without a word about it here."""
    dxo = sent(tmp_path, TRAIN, *(make() for make in order), method=method)
    noise = dxo.data["w"] - RECEIVED["w"]
    # σ C = 2, and an update of length 1 in 300 entries.
    assert float(noise.std()) == pytest.approx(2.0, abs=5 * 2.0 / math.sqrt(600))
    assert dxo.data["n.num_batches_tracked"] == 40
    accounts = {"privacy_epsilon": spent_epsilon(0.25, 1e-5), "privacy_delta": 1e-5}
    accounts |= {"patient_epsilon": spent_epsilon(1.0, 1e-5), "statistics_epsilon": 0.0, "statistics_delta": 1e-5}
    assert dxo.meta == LEFT_OF_TRAINING[method] | accounts
    assert spent(tmp_path) == (1, 0)


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: "-".join(make.__name__ for make in order))
@pytest.mark.parametrize("task", [ESTIMATE_QUALITY, ESTIMATE_COMPLETENESS])
def test_in_every_order_statistics_leave_with_noise(tmp_path: Path, order: Sequence[Any], task: str) -> None:
    dxo = sent(tmp_path, task, *(make() for make in order))
    assert set(dxo.data) == set(RESULTS[task])
    assert registry(task).refusal(task, dxo.data, 1) is None
    changed = {name for name in SAMPLES[task] if dxo.data[name] != RESULTS[task][name]}
    assert changed == set(SAMPLES[task])
    assert {name: dxo.data[name] for name in set(dxo.data) - changed} == {
        name: value for name, value in RESULTS[task].items() if name not in changed
    }
    assert spent(tmp_path) == (0, 1)


@pytest.mark.parametrize("order", [*ORDERS, (updates,), (statistics,), (updates, updates), (statistics, statistics)])
@pytest.mark.parametrize("task", [VALIDATE, VALIDATE_CLASSES])
def test_no_score_leaves(tmp_path: Path, order: Sequence[Any], task: str) -> None:
    dxo = sent(tmp_path, task, *(make() for make in order))
    assert dxo.data == {"num_samples": 8}
    assert registry(task).refusal(task, dxo.data, len(CLASSES["num_correct"])) is None
    assert spent(tmp_path) == (0, 0)


@pytest.mark.parametrize("order", [*ORDERS, (updates,), (statistics,)])
@pytest.mark.parametrize("task", [CORRECT_ANNOTATIONS, KEEP_MODEL])
def test_flags_leave_as_they_are(tmp_path: Path, order: Sequence[Any], task: str) -> None:
    assert sent(tmp_path, task, *(make() for make in order)).data == RESULTS[task]
    assert spent(tmp_path) == (0, 0)


def test_with_private_updates_alone_no_estimate_leaves_and_the_server_can_do_without(tmp_path: Path) -> None:
    quality = sent(tmp_path, ESTIMATE_QUALITY, updates())
    assert registry(ESTIMATE_QUALITY).refusal(ESTIMATE_QUALITY, quality.data, 1) is None
    assert all(map(math.isnan, quality.data.pop("inner_difficulty") + quality.data.pop("outer_difficulty")))
    assert quality.data == {"num_samples": 8, "num_annotated": 8, "num_estimated": [8]}
    assert sent(tmp_path, ESTIMATE_COMPLETENESS, updates()).data == {"num_samples": 8}
    assert spent(tmp_path) == (0, 0)


@pytest.mark.parametrize("order", [(updates,), (OutboundFilter, updates)])
def test_with_private_updates_alone_no_number_leaves_of_patients_in_whom_a_model_finds_something(
    tmp_path: Path, order: Sequence[Any]
) -> None:
    """Made weights would ask by it about one patient. Numbers that follow from the annotations alone stay."""
    made = context(tmp_path, ESTIMATE_ANNOTATION_BIAS)
    reply = filtered(made, DXO(DataKind.METRICS, data=bias_estimate([8, 7])).to_shareable(), *(m() for m in order))
    data = from_shareable(OutboundFilter().process(reply, made)).data
    counts = {name: value for name, value in data.items() if name.endswith("_patients")}
    assert counts.pop("annotated_patients") == [8, 7]
    assert counts.pop("num_patients") == 8
    assert len(counts) == 6
    assert {number for value in counts.values() for number in value} == {0}
    outbound_fields = OutboundRegistry(find_method("segmentation", "auto").outbound_fields)
    assert outbound_fields.refusal(ESTIMATE_ANNOTATION_BIAS, data, 2) is None
    answer = BiasReport.of(data)
    assert [item.patients for item in answer.offset] == [0, 0]


@pytest.mark.parametrize("method", OF_TRAINING)
def test_with_private_updates_alone_no_loss_or_selector_leaves(tmp_path: Path, method: str) -> None:
    dxo = sent(tmp_path, TRAIN, updates(), method=method)
    assert set(dxo.meta) == {*LEFT_OF_TRAINING[method], "privacy_epsilon", "privacy_delta", "patient_epsilon"}


@pytest.mark.parametrize("method", OF_TRAINING)
def test_with_private_statistics_alone_the_model_leaves_as_it_is(tmp_path: Path, method: str) -> None:
    dxo = sent(tmp_path, TRAIN, statistics(), method=method)
    assert all(torch.equal(dxo.data[name], TRAINED[name]) for name in TRAINED)
    assert set(dxo.meta) == {*LEFT_OF_TRAINING[method], "statistics_epsilon", "statistics_delta"}


def test_what_is_hidden_in_the_meta_of_a_result_is_withheld(tmp_path: Path) -> None:
    reply = DXO(DataKind.METRICS, data={"num_samples": 8}, meta={"dice": [0.75], "num_patients": 8}).to_shareable()
    dxo = sent(tmp_path, VALIDATE, updates(), reply=reply)
    assert (dxo.data, dxo.meta) == ({"num_samples": 8}, {})


def test_values_that_another_filter_has_changed_since_are_withheld(tmp_path: Path) -> None:
    """Noise counts only for the very values that have it."""

    class Other(Filter):  # type: ignore[misc]
        def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
            del fl_ctx
            dxo = from_shareable(shareable)
            dxo.data["inner_difficulty"] = [0.5]
            return dxo.update_shareable(shareable)

    dxo = sent(tmp_path, ESTIMATE_QUALITY, statistics(), Other(), updates())
    assert math.isnan(dxo.data["inner_difficulty"][0])
    assert not math.isnan(dxo.data["outer_difficulty"][0])


def bias_estimate(patients: Sequence[int]) -> dict[str, Any]:
    """An answer of `auto` for two classes, with as many patients behind the offset of each."""
    values = [1.5 if count >= 3 else math.nan for count in patients]
    numbers = ("offset", "edge_offset", "reference_offset", "reviewed_offset", "completeness")
    endings = {"": values, "_low": values, "_high": values}
    answer: dict[str, Any] = {name + ending: of for name in numbers for ending, of in endings.items()}
    answer |= {f"{name}_patients": list(patients) for name in numbers}
    answer |= {f"{name}_{of}": values for name in ("offset", "completeness") for of in ("slope", "auroc")}
    answer |= {f"completeness{ending}": [0.5 * value for value in values] for ending in endings}
    answer |= {f"swapped{ending}": [0.3] for ending in ("", "_low", "_high", "_slope", "_auroc")}
    answer |= {"swapped_patients": [8], "exchanged_part": [1.0]}
    answer |= {"image_means": [0.0] * 19, "image_deviations": [1.0] * 19, "pixel_size": 1.0}
    return answer | {"num_samples": 8, "num_patients": 8, "annotated_patients": list(patients)}


@pytest.mark.parametrize(
    "order", [(statistics,), (statistics, updates), (updates, statistics), (OutboundFilter, statistics)]
)
def test_a_channel_leaves_as_a_mean_with_noise_and_its_interval_knows_the_noise(
    tmp_path: Path, order: Sequence[Any]
) -> None:
    """The median, and what cannot be given noise, stays; of the second class there are too few patients."""
    offsets = np.column_stack([np.linspace(1.5, 2.5, 8), [0.0, 0.0, *[math.nan] * 6]])
    pairs = np.column_stack([np.diff(offsets[:, 0])[::2], [0.0, *[math.nan] * 3]])
    samples = {
        OFFSET_MEAN: SampleValues.of(offsets, UNITS, is_mean=True, is_signed=True),
        OFFSET_DIFFERENCE: SampleValues.of(pairs, range(4), is_mean=True),
    }
    made = context(tmp_path, ESTIMATE_ANNOTATION_BIAS)
    made.set_prop(SAMPLE_VALUES, samples, private=True, sticky=False)
    reply = DXO(DataKind.METRICS, data=bias_estimate([8, 2])).to_shareable()
    for make in order:
        reply = make(noise_multiplier=0.05).process(reply, made) if make is statistics else make().process(reply, made)
    OutboundFilter().process(reply, made)
    data = from_shareable(reply).data
    outbound_fields = OutboundRegistry(find_method("segmentation", "auto").outbound_fields)
    assert outbound_fields.refusal(ESTIMATE_ANNOTATION_BIAS, data, 2) is None
    withheld = ("offset", "offset_slope", "image_means", "swapped", "swapped_auroc", "exchanged_part")
    assert all(map(math.isnan, [data["pixel_size"], *(value for name in withheld for value in data[name])]))
    # σ √2 · 16 / 8, a bit more for rounding.
    deviation = 0.05 * math.sqrt(2) * 16 / 8
    assert data[noise_of(OFFSET_MEAN)] == [pytest.approx(deviation, rel=1e-5), pytest.approx(math.nan, nan_ok=True)]
    assert data[OFFSET_MEAN][0] == pytest.approx(2.0, abs=4 * deviation)
    assert data[OFFSET_MEAN][0] != 2.0
    assert math.isnan(data[OFFSET_MEAN][1])
    answer = BiasReport.of(data)
    assert answer.offset[0].high - answer.offset[0].low > 2 * 1.6 * deviation
    assert answer.offset[0].auroc > 0.9
    assert not answer.offset[1].is_known
    assert not answer.images.is_known
    assert spent(tmp_path) == (0, 1)


def test_an_estimate_whose_samples_are_not_known_is_withheld(tmp_path: Path) -> None:
    made = context(tmp_path, ESTIMATE_QUALITY)
    made.set_prop(SAMPLE_VALUES, {}, private=True, sticky=False)
    data = from_shareable(statistics().process(result(ESTIMATE_QUALITY), made)).data
    assert math.isnan(data["inner_difficulty"][0])
    assert "predicted_share" not in data
    assert spent(tmp_path) == (0, 0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_an_update_that_is_not_finite_leaves_as_zero_with_noise_and_is_paid_for(tmp_path: Path, value: float) -> None:
    trained = {**TRAINED, "w": TRAINED["w"].clone()}
    trained["w"][7] = value
    replies = {
        name: DXO(DataKind.WEIGHTS, data=dict(params), meta=dict(OF_TRAINING["fedavg"])).to_shareable()
        for name, params in (("not finite", trained), ("zero", RECEIVED))
    }
    left = {}
    for name, reply in replies.items():
        (tmp_path / name).mkdir()
        left[name] = sent(tmp_path / name, TRAIN, updates(), reply=reply)
        assert spent(tmp_path / name) == (1, 0)
    assert left["not finite"].meta == left["zero"].meta
    assert all(torch.equal(left["not finite"].data[name], left["zero"].data[name]) for name in RECEIVED)


def failure(code: str = ReturnCode.EXECUTION_EXCEPTION) -> Shareable:
    reply = make_reply(code)
    reply.set_header(REFUSAL_HEADER, RefusalCode.TASK_FAILED)
    reply.set_header(AppConstants.CURRENT_ROUND, 4)
    return reply


def filtered(made: FLContext, reply: Shareable, *filters: Filter) -> Shareable:
    for each in filters:
        reply = each.process(reply, made)
    return reply


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: "-".join(make.__name__ for make in order))
def test_a_failed_training_leaves_in_every_order_like_one_that_did_not_fail(
    tmp_path: Path, order: Sequence[Any]
) -> None:
    """The same fields, headers and accounts as an update of length zero, and the same bits with the same noise."""
    left = {}
    for name in ("failed", "zero"):
        (tmp_path / name).mkdir()
        made = context(tmp_path / name, TRAIN, "fedia")
        note_fields(LEFT_OF_TRAINING["fedia"], made)
        reply = failure()
        if name == "zero":
            reply = DXO(DataKind.WEIGHTS, data=dict(RECEIVED), meta=dict(OF_TRAINING["fedia"])).to_shareable()
            reply.set_header(AppConstants.CURRENT_ROUND, 4)
        left[name] = filtered(made, reply, *(make() for make in order), OutboundFilter())
        assert spent(tmp_path / name) == (1, 0)
    failed, zero = left["failed"], left["zero"]
    assert failed.get(ReservedHeaderKey.HEADERS) == zero.get(ReservedHeaderKey.HEADERS)
    assert set(failed) == set(zero)
    assert from_shareable(failed).meta == from_shareable(zero).meta
    for name, tensor in from_shareable(zero).data.items():
        assert torch.equal(from_shareable(failed).data[name], tensor)


@pytest.mark.parametrize("order", [*ORDERS, (updates,), (statistics,)])
@pytest.mark.parametrize("task", [VALIDATE, VALIDATE_CLASSES])
def test_a_failed_validation_leaves_like_one_that_did_not_fail(tmp_path: Path, order: Sequence[Any], task: str) -> None:
    made = context(tmp_path, task)
    note_fields({"num_samples": 8}, made)
    left = filtered(made, failure(), *(make() for make in order), OutboundFilter())
    assert left.get_return_code() == ReturnCode.OK
    assert from_shareable(left).data == {"num_samples": 8}


@pytest.mark.parametrize("make", [updates, statistics])
@pytest.mark.parametrize(
    ("code", "fields"), [(ReturnCode.TASK_ABORTED, COUNTS), (ReturnCode.EXECUTION_EXCEPTION, None)]
)
def test_a_task_that_was_stopped_or_failed_before_the_data_were_loaded_is_refused(
    tmp_path: Path, make: Any, code: str, fields: Any
) -> None:
    made = context(tmp_path, TRAIN)
    note_fields(fields, made)
    assert make().process(failure(code), made).get_return_code() == code
    assert spent(tmp_path) == (0, 0)


def test_without_private_updates_a_failed_training_is_a_refusal(tmp_path: Path) -> None:
    made = context(tmp_path, TRAIN)
    note_fields(COUNTS, made)
    assert statistics().process(failure(), made).get_header(REFUSAL_HEADER) == RefusalCode.TASK_FAILED


@pytest.mark.parametrize("trained", [RECEIVED, TRAINED])
def test_a_received_model_that_is_not_finite_is_refused_whatever_was_trained(
    tmp_path: Path, trained: dict[str, torch.Tensor]
) -> None:
    made = context(tmp_path, TRAIN)
    made.set_prop(RECEIVED_MODEL, RECEIVED | {"w": torch.full((300,), math.inf)}, private=True, sticky=False)
    reply = DXO(DataKind.WEIGHTS, data=dict(trained), meta=dict(COUNTS)).to_shareable()
    with pytest.raises(OutboundError, match="Expected a finite received model, but its 'w' is not"):
        updates().process(reply, made)
    assert spent(tmp_path) == (0, 0)


def test_statistics_of_which_one_sample_is_not_finite_leave_with_noise_and_are_paid_for(tmp_path: Path) -> None:
    made = context(tmp_path, ESTIMATE_QUALITY)
    values = mean([0.5] * 7 + [math.inf])
    made.set_prop(SAMPLE_VALUES, SAMPLES[ESTIMATE_QUALITY] | {"inner_difficulty": values}, private=True, sticky=False)
    reply = result(ESTIMATE_QUALITY, inner_difficulty=[math.inf])
    data = from_shareable(filtered(made, reply, statistics(), OutboundFilter())).data
    assert 0 <= data["inner_difficulty"][0] <= 2
    assert spent(tmp_path) == (0, 1)


def test_an_update_of_another_network_is_not_sent_and_spends_nothing(tmp_path: Path) -> None:
    reply = DXO(DataKind.WEIGHTS, data={"v": torch.ones(300)}, meta=dict(COUNTS)).to_shareable()
    with pytest.raises(OutboundError, match="Expected entries of the same names and shapes"):
        updates().process(reply, context(tmp_path, TRAIN))
    assert spent(tmp_path) == (0, 0)


def test_an_update_without_the_received_model_is_not_sent(tmp_path: Path) -> None:
    made = context(tmp_path, TRAIN)
    made.set_prop(RECEIVED_MODEL, None, private=True, sticky=False)
    with pytest.raises(OutboundError, match="The received model is not known"):
        updates().process(result(TRAIN), made)


@pytest.mark.parametrize("make", [updates, statistics])
@pytest.mark.parametrize(
    ("task", "kind"), [(TRAIN, DataKind.METRICS), (TRAIN, DataKind.WEIGHT_DIFF), (VALIDATE, DataKind.WEIGHTS)]
)
def test_data_of_another_kind_are_not_sent(tmp_path: Path, make: Any, task: str, kind: str) -> None:
    """A model that is sent for another task would leave as it is."""
    reply = DXO(kind, data=dict(TRAINED)).to_shareable()
    with pytest.raises(OutboundError, match=f"The task '{task}' may not send data of kind"):
        make().process(reply, context(tmp_path, task))


@pytest.mark.parametrize("make", [updates, statistics])
@pytest.mark.parametrize("task", [TRAIN, VALIDATE])
def test_replies_without_a_result_pass(tmp_path: Path, make: Any, task: str) -> None:
    reply = make_reply(ReturnCode.EXECUTION_EXCEPTION)
    assert make().process(reply, context(tmp_path, task)) is reply
    assert spent(tmp_path) == (0, 0)


def test_beyond_the_bound_of_a_patient_nothing_of_either_kind_is_sent(tmp_path: Path) -> None:
    """An update with σ = 2 is μ² = 1 of a patient, an estimate with σ = 4 a sixteenth."""
    bound = spent_epsilon(1.1, 1e-5)
    filters = updates(max_epsilon=bound), statistics(max_epsilon=bound)
    sent(tmp_path, TRAIN, *filters)
    quality = sent(tmp_path, ESTIMATE_QUALITY, *filters)
    assert not math.isnan(quality.data["inner_difficulty"][0])
    for task in (TRAIN, ESTIMATE_QUALITY):
        with pytest.raises(OutboundError, match="of a patient, by updates and statistics together; the bound"):
            sent(tmp_path, task, *filters)
    assert sent(tmp_path, VALIDATE, *filters).data == {"num_samples": 8}
    assert spent(tmp_path) == (1, 1)


@pytest.mark.parametrize("make", [updates, statistics])
def test_no_filter_takes_a_seed(make: Any) -> None:
    with pytest.raises(TypeError, match="seed"):
        make(seed=1)


@pytest.mark.parametrize(
    ("task", "name", "make"),
    [
        (TRAIN, "w", lambda: PrivacyFilter(clip_norm=1.0, noise_multiplier=2.0)),
        # Of so little noise that nothing is cut to its bounds.
        (ESTIMATE_QUALITY, "outer_difficulty", lambda: StatisticsPrivacyFilter(noise_multiplier=0.1)),
    ],
)
def test_equal_bytes_give_equal_noise_and_the_systems_do_not(tmp_path: Path, task: str, name: str, make: Any) -> None:
    def values(seed: int | None) -> tuple[float, ...]:
        made = make()
        assert made.random_bytes is os.urandom
        if seed is not None:
            made.random_bytes = np.random.default_rng(seed).bytes
        return tuple(np.array(sent(tmp_path, task, made).data[name]).tolist())

    assert values(3) == values(3)
    assert values(3) != values(3 + 2**32)
    assert len({values(None) for _ in range(6)}) > 1


@pytest.mark.parametrize("clip_norm", [0.0, -1.0, math.nan, math.inf])
def test_lengths_out_of_range(clip_norm: float) -> None:
    with pytest.raises(ValueError, match="Expected a finite clip_norm above 0"):
        updates(clip_norm=clip_norm)


@pytest.mark.parametrize(
    "bounds",
    [
        {"largest": {"inner_difficulty": math.nan}},
        {"largest": {"inner_difficulty": 0.0}},
        {"largest": {"num_lesions": -1}},
    ],
)
def test_bounds_out_of_range(bounds: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Expected finite bounds above 0"):
        statistics(**bounds)
