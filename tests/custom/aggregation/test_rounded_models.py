"""The global model in fewer bits: rounding by its bits, what is left over the rounds, and messages without an error."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fedannot.custom.aggregation.rounded_models import (
    message_of_model,
    model_of_message,
    model_refusal,
    rounded_model,
)
from fedannot.custom.refusals import RefusalCode

Params = dict[str, torch.Tensor]

NETWORK = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.Conv2d(3, 2, 1))
TRAINED = [name for name, _ in NETWORK.named_parameters()]
MODEL: Params = {name: value.detach().clone() for name, value in NETWORK.state_dict().items()}
# Of a network with bfloat16 of its own.
OWN: Params = {"kernel": torch.ones(2, 2).bfloat16(), "bias": torch.ones(2).bfloat16()}
KERNELS = ["0.weight", "2.weight"]


def nearest_even(values: np.ndarray) -> np.ndarray:
    """Round float32 to 8 bits of a significand by its bits: add half a unit, or a bit less where the last bit is 0."""
    bits = values.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16
    return rounded.astype(np.uint32).view(np.float32)


def test_kernels_are_rounded_to_nearest_even_and_nothing_else_is() -> None:
    params = MODEL | {"0.weight": torch.randn(3, 2, 3, 3, generator=torch.Generator().manual_seed(1))}
    # Halfway between two numbers of bfloat16: to the even one, down and up.
    params["0.weight"].view(-1)[:2] = torch.tensor([1 + 2**-8, 1 + 3 * 2**-8])
    params |= {"0.double": torch.ones(2, 2).double() / 3, "0.variate": torch.ones(2, 2) / 3}
    rounded = rounded_model(params, [*TRAINED, "0.double"])
    assert sorted(rounded.residual) == KERNELS
    for name, value in params.items():
        if name in KERNELS:
            assert np.array_equal(rounded.params[name].numpy(), nearest_even(value.numpy()))
            assert torch.equal(rounded.params[name].double() + rounded.residual[name].double(), value.double())
        else:
            assert rounded.params[name] is value
    assert rounded.params["0.weight"].view(-1)[:2].tolist() == [1, 1 + 2**-6]


def test_changes_too_small_for_a_rounded_model_add_up_over_the_rounds() -> None:
    """x_T is the start plus what all rounds learnt; without the residual no step would ever be left."""
    step = 2.0**-12
    start: Params = {"w": torch.full((1, 1), 1.0)}
    model = rounded_model(start, ["w"])
    without = dict(start)
    for number in range(1, 65):
        average = {"w": model.params["w"] + step}
        model = rounded_model(average, ["w"], model.residual)
        without = rounded_model({"w": without["w"] + step}, ["w"]).params
        assert float(model.params["w"] + model.residual["w"]) == 1 + number * step
    assert float(without["w"]) == 1
    assert abs(float(model.params["w"]) - (1 + 64 * step)) <= 2**-8


def test_the_largest_numbers_stay_finite() -> None:
    largest = torch.full((1, 1), torch.finfo(torch.float32).max)
    rounded = rounded_model({"w": largest}, ["w"], {"w": largest})
    assert float(rounded.params["w"]) == torch.finfo(torch.bfloat16).max
    assert bool(rounded.residual["w"].isfinite().all())


def test_a_message_gives_every_model_back_bit_for_bit() -> None:
    """Also one that was never rounded, and numbers that no model has."""
    odd = torch.tensor([[-0.0, torch.inf], [1e-42, 1.0]])
    for params in (
        MODEL,
        rounded_model(MODEL, TRAINED).params,
        {"odd": odd, "nan": torch.full((1, 1), torch.nan)},
        OWN,
    ):
        back = model_of_message(message_of_model(params), params)
        assert list(back) == list(params)
        for name, value in params.items():
            assert back[name].dtype == value.dtype
            assert torch.equal(back[name].reshape(-1).view(torch.uint8), value.reshape(-1).view(torch.uint8))
    rounded = message_of_model(rounded_model(MODEL, TRAINED).params)
    assert [name for name, value in rounded.items() if value.dtype == torch.bfloat16] == KERNELS
    assert not [name for name, value in message_of_model(MODEL).items() if value.dtype == torch.bfloat16]


Change = Callable[[Params], dict[str, Any]]


@pytest.mark.parametrize(
    ("change", "code", "entry"),
    [
        (lambda sent: sent | {"0.weight": sent["0.weight"].half()}, RefusalCode.OTHER_TYPE, "0.weight"),
        (lambda sent: sent | {"0.weight": sent["0.weight"].double()}, RefusalCode.OTHER_TYPE, "0.weight"),
        (lambda sent: sent | {"0.weight": sent["0.weight"].float().to_sparse()}, RefusalCode.OTHER_TYPE, "0.weight"),
        (lambda sent: sent | {"0.bias": sent["0.bias"].bfloat16()}, RefusalCode.OTHER_TYPE, "0.bias"),
        (
            lambda sent: sent | {"1.num_batches_tracked": torch.tensor(1.5, dtype=torch.bfloat16)},
            RefusalCode.OTHER_TYPE,
            "1.num_batches_tracked",
        ),
        (lambda sent: sent | {"0.weight": torch.zeros(3, 2, 3, 4)}, RefusalCode.OTHER_SHAPE, "0.weight"),
        (lambda sent: sent | {"0.weight": torch.zeros(1).expand(10**9)}, RefusalCode.OTHER_SHAPE, "0.weight"),
        (lambda sent: sent | {"0.weight": [0.0]}, RefusalCode.NO_TENSOR, "0.weight"),
        (lambda sent: sent | {"another": torch.zeros(1)}, RefusalCode.ENTRIES_UNEXPECTED, "another"),
        (lambda sent: {n: v for n, v in sent.items() if n != "2.weight"}, RefusalCode.ENTRIES_MISSING, "2.weight"),
    ],
)
def test_a_message_of_another_network_or_type_is_refused(change: Change, code: RefusalCode, entry: str) -> None:
    sent = message_of_model(rounded_model(MODEL, TRAINED).params)
    assert model_refusal(sent, MODEL) is None
    reason = model_refusal(change(sent), MODEL)
    assert reason is not None
    assert (reason.code, reason.values["entry"]) == (code, entry)
