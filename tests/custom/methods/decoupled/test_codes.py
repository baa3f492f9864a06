"""Latent codes: their divergence and moments against PyTorch and closed forms."""

import numpy as np
import torch
from torch.distributions import Normal, kl_divergence

from fedannot.custom.methods.decoupled.codes import Gaussian, spread


def test_divergence_is_pytorchs():
    generator = torch.Generator().manual_seed(0)
    one, other = (
        Gaussian(torch.randn(4, 3, generator=generator), torch.randn(4, 3, generator=generator)) for _ in range(2)
    )
    normal = [Normal(gaussian.mean, (0.5 * gaussian.log_variance).exp()) for gaussian in (one, other)]
    torch.testing.assert_close(one.divergence_from(other), kl_divergence(*normal).sum(dim=1))
    assert torch.equal(one.divergence_from(one), torch.zeros(4))


def test_samples_have_the_moments_and_pass_gradients_to_mean_and_variance():
    mean = torch.tensor([[1.0, -2.0]], requires_grad=True)
    log_variance = torch.tensor([[0.0, np.log(4.0)]], dtype=torch.float32, requires_grad=True)
    gaussian = Gaussian(mean.expand(20_000, -1), log_variance.expand(20_000, -1))
    drawn = gaussian.sample(torch.Generator().manual_seed(0))
    torch.testing.assert_close(drawn.mean(0), torch.tensor([1.0, -2.0]), atol=0.05, rtol=0)
    torch.testing.assert_close(drawn.std(0), torch.tensor([1.0, 2.0]), atol=0.05, rtol=0)
    drawn.square().mean(0).sum().backward()
    # E z² = μ² + σ², so that d/dμ = 2 μ and d/d(log σ²) = σ².
    torch.testing.assert_close(mean.grad, torch.tensor([[2.0, -4.0]]), atol=0.1, rtol=0)
    torch.testing.assert_close(log_variance.grad, torch.tensor([[1.0, 4.0]]), atol=0.15, rtol=0)


def test_the_same_generator_draws_the_same_codes():
    gaussian = Gaussian(torch.zeros(2, 3), torch.zeros(2, 3))
    first, second = (gaussian.sample(torch.Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(first, second)


def test_a_code_is_the_same_at_every_pixel():
    code, like = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.zeros(2, 5, 3, 4)
    everywhere = spread(code, like)
    assert everywhere.shape == (2, 2, 3, 4)
    assert torch.equal(everywhere[1, 0], torch.full((3, 4), 3.0))
    assert torch.equal(spread(code, like, of_length_one=True), code.reshape(2, 2, 1, 1))
