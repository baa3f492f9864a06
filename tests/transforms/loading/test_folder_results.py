"""What a bundle says of probabilities agrees with its labels, also where rounding makes classes equal."""

import math

import pytest
import torch

from fedannot.transforms.loading.folder_results import class_probabilities


def test_probabilities_are_those_of_the_logits() -> None:
    result = class_probabilities(torch.tensor([[0.0], [math.log(3.0)], [math.log(4.0)]]))
    assert result.dtype == torch.float32
    assert result[:, 0].tolist() == pytest.approx([0.125, 0.375, 0.5])


@pytest.mark.parametrize(
    "logits", [(0.0, 1e-9), (50.0, 50.00001), (-1e-9, 0.0, 0.0), (-3.0, 1e-10, 2e-10), (0.0, 200.0), (7.0, 7.0)]
)
def test_the_largest_probability_is_that_of_the_largest_logit(logits: tuple[float, ...]) -> None:
    values = torch.tensor(logits, dtype=torch.float32)[:, None]
    result = class_probabilities(values)
    assert result.argmax(dim=0).item() == values.argmax(dim=0).item()
    assert result.sum().item() == pytest.approx(1, abs=1e-6)
