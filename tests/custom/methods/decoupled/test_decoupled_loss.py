"""The losses of decoupled predictions against their formulas."""

import math

import numpy as np
import pytest
import torch

from fedannot.custom.methods.decoupled.adaptation import AdaptationNetwork
from fedannot.custom.methods.decoupled.loss import DecoupledLoss, likelihood_loss, mean_trace, noise_robust_loss
from fedannot.custom.methods.decoupled.network import build_decoupled_network


def logits_and_labels(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(2, 3, 4, 5, generator=generator).log_softmax(1),
        torch.randint(3, (2, 1, 4, 5), generator=generator, dtype=torch.uint8),
    )


@pytest.mark.parametrize("exponent", [0.3, 0.7, 1.0])
def test_noise_robust_loss_by_its_formula(exponent):
    log_p, labels = logits_and_labels()
    p = log_p.exp().numpy()
    of_label = [p[b, labels[b, 0, row, column], row, column] for b, row, column in np.ndindex(2, 4, 5)]
    expected = np.mean([(1 - value**exponent) / exponent for value in of_label])
    assert float(noise_robust_loss(log_p, labels, exponent)) == pytest.approx(expected, rel=1e-5)


def test_noise_robust_loss_lies_between_cross_entropy_and_absolute_error():
    log_p, labels = logits_and_labels()
    cross_entropy = torch.nn.functional.nll_loss(log_p, labels[:, 0].long())
    assert float(noise_robust_loss(log_p, labels, 1e-5)) == pytest.approx(float(cross_entropy), rel=1e-4)
    p_of_label = log_p.exp().gather(1, labels.long())
    assert float(noise_robust_loss(log_p, labels, 1.0)) == pytest.approx(float((1 - p_of_label).mean()), rel=1e-5)


def test_a_pixel_that_is_surely_wrong_pulls_with_a_bounded_force():
    """Of a label with next to no probability the cross entropy has no bound; this loss has 1/q."""
    log_p = torch.tensor([[0.0, -50.0]]).reshape(1, 2, 1, 1)
    labels = torch.ones(1, 1, 1, 1, dtype=torch.uint8)
    assert float(noise_robust_loss(log_p, labels, 0.7)) == pytest.approx(1 / 0.7)


def test_ignored_pixels_count_in_neither_loss():
    log_p, labels = logits_and_labels()
    partly = labels.clone()
    partly[:, :, 1:] = 255
    for loss in (likelihood_loss, lambda p, y: noise_robust_loss(p, y, 0.7)):
        assert float(loss(log_p, partly)) == pytest.approx(float(loss(log_p[:, :, :1], labels[:, :, :1])), rel=1e-6)
        assert float(loss(log_p, torch.full_like(labels, 255))) == 0.0
    assert torch.equal(likelihood_loss(log_p, labels), torch.nn.functional.nll_loss(log_p, labels[:, 0].long()))
    of_label = log_p.gather(1, labels.long())
    assert torch.equal(noise_robust_loss(log_p, labels, 0.7), -torch.expm1(0.7 * of_label).mean() / 0.7)


def test_trace_by_hand():
    """Pixels with traces 1.5 and 1.1, once per pixel, whatever the number of samples."""
    flips = torch.tensor([[[0.9, 0.4], [0.1, 0.6]], [[0.5, 0.4], [0.5, 0.6]]]).permute(1, 2, 0).reshape(1, 2, 2, 1, 2)
    assert float(mean_trace(flips)) == pytest.approx(1.3)
    assert float(mean_trace(flips.expand(4, -1, -1, -1, -1))) == pytest.approx(1.3)
    assert float(mean_trace(torch.eye(3).reshape(1, 3, 3, 1, 1))) == 3.0


@pytest.fixture
def parts():
    torch.manual_seed(0)
    shared = build_decoupled_network(features=(4, 4, 8, 8, 8, 4), encoder_features=(4, 8), latent=3)
    adaptation = AdaptationNetwork("feature", num_outputs=2, latent=3, features=4, in_channels=1, spatial_dims=2)
    images = torch.randn(3, 1, 16, 16)
    labels = (torch.rand(3, 1, 16, 16) > 0.5).to(torch.uint8)
    return shared.eval(), adaptation, images, labels


def by_formula(parts, *, is_warmup, alpha, beta, q):
    """Eq. 7 and 8 with numpy, from the same draw of the code."""
    shared, adaptation, images, labels = parts
    prior, posterior = shared.prior(images), shared.encode_annotated(images, labels)
    code = posterior.sample(torch.Generator().manual_seed(7))
    features = shared.unet(images)
    p = shared.segment(features, code).softmax(1).detach().numpy()
    flips = adaptation(images, features, code).detach().numpy()
    target = labels[:, 0].numpy().astype(int)

    def of_label(values):
        return np.take_along_axis(values, target[:, None], axis=1)

    ratio = posterior.log_variance - prior.log_variance
    kl = 0.5 * (ratio.exp() + (posterior.mean - prior.mean) ** 2 / prior.log_variance.exp() - 1 - ratio).sum(1).mean()
    trace = np.mean(flips[:, 0, 0] + flips[:, 1, 1])
    if is_warmup:
        return -np.mean(np.log(of_label(p))) + beta * kl.item() - trace
    local = np.einsum("bijhw,bjhw->bihw", flips, p)
    robust = np.mean((1 - of_label(p) ** q) / q)
    return -np.mean(np.log(of_label(local))) + robust + alpha * trace + beta * kl.item()


@pytest.mark.parametrize("is_warmup", [True, False])
@pytest.mark.parametrize(("alpha", "beta", "q"), [(0.01, 0.01, 0.7), (0.5, 2.0, 0.3)])
def test_the_whole_loss_by_its_formula(parts, is_warmup, alpha, beta, q):
    loss = DecoupledLoss(is_warmup=is_warmup, trace_weight=alpha, divergence_weight=beta, exponent=q)
    result = loss(*parts, torch.Generator().manual_seed(7))
    assert float(result) == pytest.approx(by_formula(parts, is_warmup=is_warmup, alpha=alpha, beta=beta, q=q), rel=1e-4)


def test_every_part_is_trained_where_it_should_be(parts):
    shared, adaptation, *_ = parts
    for is_warmup in (True, False):
        for module in (shared, adaptation):
            module.zero_grad(set_to_none=True)
        DecoupledLoss(is_warmup=is_warmup)(*parts, torch.Generator().manual_seed(7)).backward()
        silent = [name for name, parameter in shared.named_parameters() if parameter.grad is None]
        assert silent == []
        assert all(parameter.grad is not None for parameter in adaptation.parameters())


@pytest.mark.parametrize("is_warmup", [True, False])
def test_with_ignored_pixels_the_whole_loss_and_its_gradients_are_finite(parts, is_warmup):
    shared, adaptation, images, labels = parts
    ignored = labels.clone()
    ignored[..., :4] = 255
    ignored[0] = 255
    result = DecoupledLoss(is_warmup=is_warmup)(shared, adaptation, images, ignored, torch.Generator().manual_seed(7))
    result.backward()
    assert torch.isfinite(result)
    assert all(torch.isfinite(parameter.grad).all() for parameter in shared.parameters())


def test_the_warm_up_brings_w_to_the_identity(parts):
    shared, adaptation, *_ = parts
    optimizer = torch.optim.Adam(adaptation.parameters(), lr=0.05)
    loss, generator = DecoupledLoss(is_warmup=True), torch.Generator().manual_seed(7)
    before = None
    for _ in range(60):
        optimizer.zero_grad()
        value = loss(*parts, generator)
        before = float(value) if before is None else before
        value.backward()
        optimizer.step()
    images = parts[2]
    flips = adaptation(images, shared.unet(images), shared.prior(images).mean)
    assert float(mean_trace(flips)) > 1.9
    # The cross entropy stayed as it was; the trace rose from about 1 to nearly 2.
    assert math.isclose(before - float(value), 1.0, abs_tol=0.2)
