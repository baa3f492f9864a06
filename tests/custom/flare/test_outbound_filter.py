"""The filter at a site's exit, on the messages that the executors send."""

import pytest
import torch
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply

from fedannot.custom.flare.at_hand import note_task, registry_at_hand, task_at_hand
from fedannot.custom.flare.messages import METHOD_TASK
from fedannot.custom.flare.outbound_filter import OutboundFilter
from fedannot.custom.methods.lookup import read_job_settings
from fedannot.custom.outbound.registry import OutboundError

META = {"num_samples": 8, "num_excluded": 0, "embedded_data": True, "train_loss": 0.5, "num_patients": 4}
ESTIMATE = {
    "num_samples": 8,
    "num_annotated": 8,
    "num_estimated": [8],
    "inner_difficulty": [0.5],
    "outer_difficulty": [1.5],
    "predicted_share": 1.0,
}
SCORES = {
    "num_samples": 3,
    "num_patients": 3,
    "dice": [0.5],
    "num_class_patients": [3],
    "num_class_cases": [3],
    "left_empty": [float("nan")],
    "num_empty_patients": [0],
    "hd95": [float("nan")],
    "num_distance_patients": [1],
    "num_defined": [1],
}


def context(task, method="feda3i", job_task="segmentation", named=None):
    """A task's context as the executor of a job of the method leaves it; `named` is NVFlare's name of the task."""
    made = FLContext()
    common = task in ("train", "validate", "validate_classes", "dump")
    made.set_prop(FLContextKey.TASK_NAME, named or (task if common else METHOD_TASK), private=True, sticky=False)
    note_task(task, read_job_settings({"task": job_task, "method": method}), made)
    return made


def sent(task, dxo_or_reply, *of_job):
    shareable = dxo_or_reply if isinstance(dxo_or_reply, Shareable) else dxo_or_reply.to_shareable()
    return shareable, OutboundFilter().process(shareable, context(task, *of_job))


def model(**meta):
    return DXO(DataKind.WEIGHTS, data={"w": torch.ones(2)}, meta=META | meta)


def test_trained_model_passes_unchanged():
    shareable, passed = sent("train", model())
    assert passed is shareable
    dxo = from_shareable(passed)
    assert torch.equal(dxo.data["w"], torch.ones(2))
    assert dxo.meta == META


def test_fields_of_the_framework_pass():
    sent("train", model(params_type="FULL"))


@pytest.mark.parametrize(
    ("task", "data"),
    [
        ("estimate_quality", ESTIMATE),
        ("validate", SCORES),
        ("validate", {"num_samples": 1}),
        ("validate", {"num_samples": 0}),
    ],
)
def test_metrics_pass(task, data):
    shareable, passed = sent(task, DXO(DataKind.METRICS, data=data))
    assert passed is shareable


@pytest.mark.parametrize(
    ("task", "dxo", "message"),
    [
        ("train", model(file_names=["a.png"]), r"Task 'train' may not send \['file_names'\]"),
        ("train", model(num_patients=2), r"'train_loss' is a mean over 2 cases; at least 3 are needed"),
        (
            "train",
            DXO(DataKind.WEIGHTS, data={"w": [1.0]}, meta=META),
            r"field 'params' must be a state dict, but is dict",
        ),
        (
            "estimate_quality",
            DXO(DataKind.METRICS, data=ESTIMATE | {"inner_per_case": [0.1]}),
            r"Task 'estimate_quality' may not send \['inner_per_case'\]",
        ),
        (
            "estimate_quality",
            DXO(DataKind.METRICS, data=ESTIMATE | {"num_annotated": 2}),
            r"'predicted_share' is a mean over 2 cases; at least 3 are needed",
        ),
        (
            "validate",
            DXO(DataKind.METRICS, data={"num_samples": 3}, meta={"site_note": "x"}),
            r"Task 'validate' may not send \['site_note'\]",
        ),
        (
            "validate",
            DXO(DataKind.METRICS, data=SCORES | {"left_empty": [0.5], "num_empty_patients": [2]}),
            r"'left_empty' is a mean over 2 cases; at least 3 are needed",
        ),
        ("validate", DXO(DataKind.WEIGHTS, data={"w": torch.ones(1)}), r"Task 'validate' may not send \['params'\]"),
        ("dump", DXO(DataKind.METRICS, data={"num_samples": 3}), r"Task 'dump' may not send \['DXO'\] without"),
    ],
)
def test_what_is_not_registered_is_held_back(task, dxo, message):
    with pytest.raises(OutboundError, match=message):
        sent(task, dxo)


@pytest.mark.parametrize("kind", [DataKind.WEIGHT_DIFF, DataKind.STATISTICS, DataKind.COLLECTION])
def test_data_of_another_kind_are_held_back(kind):
    with pytest.raises(OutboundError, match=rf"Task 'train' may not send data of kind .*{kind.name}"):
        sent("train", DXO(kind, data={"w": torch.ones(1)}, meta=META))


@pytest.mark.parametrize("code", [ReturnCode.EXECUTION_EXCEPTION, ReturnCode.TASK_ABORTED, ReturnCode.TASK_UNKNOWN])
def test_replies_without_a_result_pass(code):
    reply, passed = sent("train", make_reply(code))
    assert passed is reply
    assert passed.get_return_code() == code


SELECTOR = {"selector_means": [0.2, 2.0], "selector_variances": [0.1, 0.4], "selector_priors": [0.8, 0.2]}


@pytest.mark.parametrize(
    ("method", "job_task", "fields"),
    [
        ("fedia", "segmentation", {"has_corrected": True}),
        ("fedgsca", "classification", {"noise_level": 0.25}),
        ("fedgsca", "classification", SELECTOR | {"selector_patients": [5, 3]}),
    ],
)
@pytest.mark.parametrize(
    "job", [("fedavg", "segmentation"), ("fedia", "segmentation"), ("fedgsca", "classification")], ids="-".join
)
def test_a_methods_own_field_leaves_in_its_jobs_alone(method, job_task, fields, job):
    if job == (method, job_task):
        sent("train", model(**fields), *job)
    else:
        with pytest.raises(OutboundError, match=r"Task 'train' may not send \['(has_corrected|noise|selector)"):
            sent("train", model(**fields), *job)


def test_a_methods_own_task_has_no_result_in_the_jobs_of_another():
    with pytest.raises(OutboundError, match=r"Task 'estimate_quality' may not send \["):
        sent("estimate_quality", DXO(DataKind.METRICS, data=ESTIMATE), "fedia")


def test_the_task_at_hand_counts_where_nvflare_names_none_of_its_own():
    """Else an executor could answer a training as something that may send more."""
    assert task_at_hand(context("estimate_quality")) == "estimate_quality"
    assert task_at_hand(context("estimate_quality", named="train")) == "train"
    with pytest.raises(OutboundError, match=r"Task 'train' may not send \["):
        OutboundFilter().process(
            DXO(DataKind.METRICS, data=ESTIMATE).to_shareable(), context("estimate_quality", named="train")
        )


def test_without_an_executors_word_only_what_every_method_sends_leaves():
    bare = FLContext()
    bare.set_prop(FLContextKey.TASK_NAME, "train", private=True, sticky=False)
    assert registry_at_hand(bare).tasks == {"train", "validate", "validate_classes"}
    shareable = model().to_shareable()
    assert OutboundFilter().process(shareable, bare) is shareable
    with pytest.raises(OutboundError, match=r"Task 'train' may not send \['has_corrected'\]"):
        OutboundFilter().process(model(has_corrected=True).to_shareable(), bare)
    bare.set_prop(FLContextKey.TASK_NAME, METHOD_TASK, private=True, sticky=False)
    with pytest.raises(OutboundError, match=rf"Task '{METHOD_TASK}' may not send \["):
        OutboundFilter().process(DXO(DataKind.METRICS, data={"num_samples": 3}).to_shareable(), bare)
