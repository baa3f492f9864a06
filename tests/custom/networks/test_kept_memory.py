"""Memory that a backward pass needs, against what a small product keeps."""

import torch

from fedannot.custom.networks.kept_memory import kept_tensors


def test_inputs_and_results_count_once_and_parameters_do_not() -> None:
    weight, images = torch.ones(4, requires_grad=True), torch.ones(4)
    with kept_tensors([weight]) as kept:
        # Both factors are kept of the product, the product of its square; a view is the same memory.
        product = weight * images
        (product.square().sum() + product.view(2, 2).square().sum()).backward()  # type: ignore[no-untyped-call]
    assert kept.nbytes == 2 * 4 * 4
