"""Updates in fewer bits against hand cases and sums by NumPy; messages that are none are refused."""

import numpy as np
import pytest
import torch

from fedannot.custom.aggregation.quantised_updates import (
    SCALES,
    QuantisedUpdate,
    message_refusal,
    quantised,
    quantised_names,
)
from fedannot.custom.refusals import RefusalCode

# A kernel of two output channels, a matrix, and what is sent as it is: vectors, running statistics, a counter, what is
# not trained.
TRAINED = ("conv.weight", "conv.bias", "head.weight")
SHAPES = {
    "conv.weight": (2, 3, 2),
    "conv.bias": (2,),
    "head.weight": (4, 5),
    "norm.running_var": (2,),
    "fisher": (3, 3),
}


def model(seed, **entries):
    generator = torch.Generator().manual_seed(seed)
    drawn = {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
    return {**drawn, "norm.num_batches_tracked": torch.tensor(2**40 + seed), **entries}


RECEIVED = model(0)


def received_as(sent, reference=RECEIVED):
    return QuantisedUpdate(sent, reference, TRAINED)


def test_a_hand_case_of_int8():
    """Of [1.27, -0.5, 0.004] a step is 0.01: 127, -50 and 0 steps (of 0.4), of which 0.4 steps are left."""
    zeros, trained = {"w": torch.zeros(2, 3)}, {"w": torch.tensor([[1.27, -0.5, 0.004], [0.0, 0.0, 0.0]])}
    update = quantised(trained, zeros, "int8", ["w"])
    assert update.sent["w"].tolist() == [[127, -50, 0], [0, 0, 0]]
    assert update.sent["w"].dtype == torch.int8
    assert update.sent[SCALES].tolist() == pytest.approx([0.01, 0.0])
    assert update.residual["w"][0].tolist() == pytest.approx([0.0, 0.0, 0.004], abs=1e-7)
    back = QuantisedUpdate(update.sent, zeros, ["w"])["w"]
    assert back.flatten().tolist() == pytest.approx([1.27, -0.5, 0, 0, 0, 0], abs=1e-6)
    # 0.004 is sent once three rounds have left it: 0.012 is one step.
    again = quantised(trained, zeros, "int8", ["w"], {"w": torch.tensor([[0, 0, 0.008], [0, 0, 0]])})
    assert again.sent["w"][0].tolist() == [127, -50, 1]


def test_kernels_and_matrices_that_are_trained_are_rounded_and_nothing_else():
    assert quantised_names(RECEIVED, TRAINED) == ("conv.weight", "head.weight")
    trained = model(1)
    for precision in ("bf16", "int8"):
        update = quantised(trained, RECEIVED, precision, TRAINED)
        back = received_as(update.sent)
        assert list(back) == list(RECEIVED)
        for name, value in trained.items():
            assert back[name].dtype == value.dtype
            if name not in ("conv.weight", "head.weight"):
                assert torch.equal(back[name], value)
        assert set(update.residual) == {"conv.weight", "head.weight"}
        assert message_refusal(update.sent, RECEIVED, precision, TRAINED) is None


def test_errors_are_within_half_a_step_and_half_a_unit_in_the_last_place():
    trained = model(1)
    for name in ("conv.weight", "head.weight"):
        change = trained[name].double().numpy() - RECEIVED[name].double().numpy()
        axes = tuple(range(1, change.ndim))
        step = np.abs(change).max(axis=axes, keepdims=True) / 127
        int8 = received_as(quantised(trained, RECEIVED, "int8", TRAINED).sent)[name].double().numpy()
        assert (np.abs(int8 - trained[name].numpy()) <= step / 2 + 1e-6).all()
        assert np.abs(int8 - trained[name].numpy()).max() > step.min() / 8
        bf16 = received_as(quantised(trained, RECEIVED, "bf16", TRAINED).sent)[name].double().numpy()
        assert (np.abs(bf16 - trained[name].numpy()) <= np.abs(change) * 2.0**-8 + 1e-6).all()


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_over_rounds_what_is_sent_is_the_sum_of_the_changes_but_for_the_last_residual(precision):
    residual, total, arrived = None, np.zeros((2, 3, 2)), np.zeros((2, 3, 2))
    without_feedback = np.zeros((2, 3, 2))
    # The same small change in each round beside a large one, which decides the step.
    change = torch.full((2, 3, 2), 0.003)
    change[:, 0, 0] = 1.0
    for _ in range(20):
        trained = {**RECEIVED, "conv.weight": RECEIVED["conv.weight"] + change}
        update = quantised(trained, RECEIVED, precision, TRAINED, residual)
        total += (trained["conv.weight"].double() - RECEIVED["conv.weight"].double()).numpy()
        at_server = received_as(update.sent)["conv.weight"]
        arrived += (at_server.double() - RECEIVED["conv.weight"].double()).numpy()
        alone = received_as(quantised(trained, RECEIVED, precision, TRAINED).sent)["conv.weight"]
        without_feedback += (alone.double() - RECEIVED["conv.weight"].double()).numpy()
        residual = update.residual
    # Half a step of int8, or of bf16's eight bits, and twenty roundings of the received model's numbers.
    step = 1.01 / 127 if precision == "int8" else 1.01 * 2.0**-7
    assert np.abs(total - arrived).max() <= step / 2 + 20 * 2.0**-23
    assert np.abs(total - arrived - residual["conv.weight"].numpy()).max() <= 20 * 2.0**-23
    if precision == "int8":
        assert np.abs(total - without_feedback).max() > 5 * step


def test_an_unchanged_model_comes_back_as_it_was():
    for precision in ("bf16", "int8"):
        update = quantised(RECEIVED, RECEIVED, precision, TRAINED)
        back = received_as(update.sent)
        assert all(torch.equal(back[name], value) for name, value in RECEIVED.items())
        assert not any(value.any() for value in update.residual.values())


def test_entries_without_elements_and_changes_below_normal_numbers_have_no_step():
    zeros = {"none": torch.zeros(0, 4), "no columns": torch.zeros(3, 0), "tiny": torch.zeros(1, 2)}
    trained = zeros | {"tiny": torch.tensor([[1e-44, 0.0]])}
    update = quantised(trained, zeros, "int8", list(zeros))
    assert update.sent[SCALES].tolist() == [0.0] * 4
    assert not update.sent["tiny"].any()
    assert message_refusal(update.sent, zeros, "int8", list(zeros)) is None
    assert torch.equal(update.residual["tiny"], trained["tiny"])


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 3.4e38])
@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_an_update_that_is_not_finite_is_refused_at_the_server_and_leaves_no_residual(precision, wrong):
    trained = model(1)
    trained["head.weight"][1, 2] = wrong
    update = quantised(trained, RECEIVED, precision, TRAINED)
    back = received_as(update.sent)["head.weight"]
    if wrong == 3.4e38 and precision == "int8":
        # Finite, and far beyond what a model may have: as in full precision the average refuses it.
        assert float(back.abs().max()) == pytest.approx(3.4e38)
        return
    assert update.residual == {}
    refusal = message_refusal(update.sent, RECEIVED, precision, TRAINED)
    assert not torch.isfinite(back).all()
    assert precision == "bf16" or (refusal.code, refusal.values) == (RefusalCode.NOT_FINITE, {"entry": "head.weight"})


def test_models_of_half_precision_are_rounded_once():
    received = {"w": torch.full((1, 2), 2.0, dtype=torch.bfloat16)}
    trained = {"w": torch.tensor([[2.5, 2.0]], dtype=torch.bfloat16)}
    back = QuantisedUpdate(quantised(trained, received, "int8", ["w"]).sent, received, ["w"])["w"]
    assert torch.equal(back, trained["w"])


def test_models_of_other_networks_are_no_update():
    with pytest.raises(ValueError, match="entries of the same names and shapes"):
        quantised({"w": torch.zeros(2, 1)}, {"w": torch.zeros(1, 2)}, "int8", ["w"])


def test_messages_that_are_no_update_are_refused_before_anything_is_made_of_them():
    sent = quantised(model(1), RECEIVED, "int8", TRAINED).sent
    scales, weight = sent[SCALES], sent["conv.weight"]
    # Shapes without memory of their own: made into numbers they would be 4 TB.
    bomb = torch.zeros(1, dtype=torch.int8).expand(2**20, 2**20)
    attacks = {
        "no scales": ({SCALES: None}, RefusalCode.ENTRIES_MISSING, SCALES),
        "no entry": ({"conv.bias": None}, RefusalCode.ENTRIES_MISSING, "conv.bias"),
        "another": ({"conv.more": weight}, RefusalCode.ENTRIES_UNEXPECTED, "conv.more"),
        "no name": ({("a", 1): weight}, RefusalCode.ENTRIES_UNEXPECTED, "('a', 1)"),
        "full precision": ({"conv.weight": weight.float()}, RefusalCode.OTHER_TYPE, "conv.weight"),
        "other precision": ({"conv.weight": weight.bfloat16()}, RefusalCode.OTHER_TYPE, "conv.weight"),
        "whole scales": ({SCALES: scales.long()}, RefusalCode.OTHER_TYPE, SCALES),
        "wide scales": ({SCALES: scales.double()}, RefusalCode.OTHER_TYPE, SCALES),
        "fewer scales": ({SCALES: scales[1:]}, RefusalCode.OTHER_SHAPE, SCALES),
        "bomb": ({"head.weight": bomb}, RefusalCode.OTHER_SHAPE, "head.weight"),
        "no tensor": ({"head.weight": [1, 2]}, RefusalCode.NO_TENSOR, "head.weight"),
        "infinite": ({SCALES: scales.clone().fill_(torch.inf)}, RefusalCode.NOT_FINITE, "conv.weight"),
        "undefined": (
            {SCALES: torch.cat([scales[:-1], torch.tensor([torch.nan])])},
            RefusalCode.NOT_FINITE,
            "head.weight",
        ),
    }
    for name, (changes, code, entry) in attacks.items():
        message = {key: value for key, value in {**sent, **changes}.items() if value is not None}
        refusal = message_refusal(message, RECEIVED, "int8", TRAINED)
        assert (name, refusal.code, refusal.values["entry"]) == (name, code, entry)
    negative = message_refusal({**sent, SCALES: -scales}, RECEIVED, "int8", TRAINED)
    assert (negative.code, negative.values["field"]) == (RefusalCode.FIELD_OUT_OF_RANGE, SCALES)
    # Of other precisions.
    assert message_refusal(sent, RECEIVED, "bf16", TRAINED).code is RefusalCode.ENTRIES_UNEXPECTED
    assert message_refusal(model(1), RECEIVED, "bf16", TRAINED).code is RefusalCode.OTHER_TYPE
