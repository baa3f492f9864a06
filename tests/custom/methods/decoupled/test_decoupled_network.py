"""The networks of decoupled predictions: what W may depend on, codes and their divergence, what is shared."""

import numpy as np
import pytest
import torch
from torch.distributions import Normal, kl_divergence

from fedannot.custom.methods.decoupled.network import (
    AdaptationNetwork,
    Gaussian,
    LocalModel,
    build_decoupled_network,
    log_local_probabilities,
)
from fedannot.custom.networks.building import assign_blocks, layer_blocks

SMALL = {"features": (4, 4, 8, 8, 8, 4), "encoder_features": (4, 8), "latent": 3}
FORMS = ("latent", "published", "feature", "image", "fixed")


def network(**changes):
    return build_decoupled_network(**(SMALL | changes)).eval()


def adaptation(form, *, seed=0, num_outputs=2, spatial_dims=2):
    torch.manual_seed(seed)
    return AdaptationNetwork(
        form, num_outputs=num_outputs, latent=3, features=4, in_channels=1, spatial_dims=spatial_dims
    )


def inputs(seed=0, *, size=(16, 16), batch=2):
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(batch, 1, *size, generator=generator),
        torch.randn(batch, 4, *size, generator=generator),
        torch.randn(batch, 3, generator=generator),
    )


# --- codes


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


# --- the shared network


@pytest.mark.parametrize(("spatial_dims", "size"), [(2, (16, 32)), (3, (16, 16, 32))])
def test_global_logits_have_a_channel_for_each_class_and_the_background(spatial_dims, size):
    shared = network(spatial_dims=spatial_dims, num_classes=2)
    assert shared(torch.randn(2, 1, *size)).shape == (2, 3, *size)


def test_the_code_changes_the_global_prediction_as_soon_as_it_is_trained():
    shared, (images, _, code) = network(), inputs()
    features = shared.unet(images)
    assert features.shape == (2, 4, 16, 16)
    assert torch.equal(shared(images), shared.segment(features, shared.prior(images).mean))
    assert torch.equal(shared.segment(features, code), shared.segment(features, -code))
    optimizer = torch.optim.SGD(shared.parameters(), lr=0.1)
    shared.segment(features, code).square().mean().backward()
    optimizer.step()
    features = shared.unet(images)
    assert not torch.allclose(shared.segment(features, code), shared.segment(features, -code))


def test_the_posterior_sees_the_annotation_and_the_prior_does_not():
    shared, (images, _, _) = network(), inputs()
    labels = torch.zeros(2, 1, 16, 16, dtype=torch.uint8)
    labels[:, :, 4:12, 4:12] = 1
    empty, annotated = (shared.encode_annotated(images, label) for label in (torch.zeros_like(labels), labels))
    assert not torch.allclose(empty.mean, annotated.mean)
    assert empty.mean.shape == empty.log_variance.shape == (2, 3)


def test_every_entry_belongs_to_a_block():
    shared = network()
    blocks = layer_blocks(shared)
    assert blocks[:2] == ("posterior", "prior")
    assert blocks[-1] == "head"
    assert set(assign_blocks(shared.state_dict(), blocks).values()) == set(blocks)


def test_start_weights_follow_from_the_seed_and_leave_the_global_state():
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    one, same, other = (build_decoupled_network(**SMALL, seed=seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["head.0.weight"], other["head.0.weight"])
    assert not torch.equal(one["prior.last.weight"], other["prior.last.weight"])


# --- W


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("num_outputs", [2, 3])
def test_columns_sum_to_one(form, num_outputs):
    flips = adaptation(form, num_outputs=num_outputs)(*inputs())
    assert flips.shape[:3] == (2, num_outputs, num_outputs)
    torch.testing.assert_close(flips.sum(dim=1), torch.ones_like(flips[:, 0]))
    assert bool((flips > 0).all())


@pytest.mark.parametrize("form", FORMS)
def test_volumes_have_matrices_too(form):
    flips = adaptation(form, spatial_dims=3)(*inputs(size=(8, 8, 4)))
    assert flips.expand(-1, -1, -1, 8, 8, 4).shape == (2, 2, 2, 8, 8, 4)


def spread_over(flips, dims):
    return float((flips - flips.mean(dim=dims, keepdim=True)).abs().max().detach())


def test_the_latent_form_changes_with_the_code_and_not_with_the_place():
    """As decided, against what the published form does; see the next test."""
    network, (images, features, _) = adaptation("latent"), inputs(batch=300)
    codes = torch.randn(300, 3, generator=torch.Generator().manual_seed(1))
    flips = network(images, features, codes)
    assert flips.shape[3:] == (1, 1)
    assert spread_over(flips, 0) > 0.02
    assert torch.equal(network(images[:1], features[:1], codes[:1]), network(-images[:1], -features[:1], codes[:1]))


def test_the_published_form_takes_the_size_of_the_code_away():
    """Instance normalisation divides by what is the same at every pixel; what is left comes from the padded border."""
    images, features, code = inputs(batch=50, size=(64, 64))
    changes = {}
    for form in ("latent", "published"):
        network = adaptation(form)
        with torch.no_grad():
            small, large = (network(images, features, factor * code) for factor in (10.0, 1000.0))
        changes[form] = float((small - large).abs().max())
    assert changes["latent"] > 0.3
    assert changes["published"] < 0.01


def test_the_feature_form_sees_the_map_and_does_not_train_it():
    network, (images, features, code) = adaptation("feature"), inputs()
    features.requires_grad_()
    code.requires_grad_()
    flips = network(images, features, code)
    assert spread_over(flips, (3, 4)) > 0.01
    flips.square().sum().backward()
    assert features.grad is None
    assert float(code.grad.abs().sum()) > 0


def test_the_image_form_sees_the_image_and_the_fixed_one_nothing():
    images, features, code = inputs()
    by_image, fixed = adaptation("image"), adaptation("fixed")
    assert torch.equal(by_image(images, features, code), by_image(images, -features, -code))
    assert not torch.allclose(by_image(images, features, code), by_image(images.flip(-1), features, code))
    assert torch.equal(fixed(images, features, code), torch.full((2, 2, 2, 1, 1), 0.5))


# --- the local prediction


def test_local_probabilities_by_hand():
    """W = [[0.9, 0.4], [0.1, 0.6]] and p = (0.25, 0.75): W p = (0.225 + 0.3, 0.025 + 0.45)."""
    flips = torch.tensor([[0.9, 0.4], [0.1, 0.6]]).reshape(1, 2, 2, 1, 1)
    log_global = torch.tensor([0.25, 0.75]).log().reshape(1, 2, 1, 1).expand(-1, -1, 2, 3)
    local = log_local_probabilities(log_global, flips).exp()
    assert local.shape == (1, 2, 2, 3)
    torch.testing.assert_close(local[0, :, 1, 2], torch.tensor([0.525, 0.475]))


def test_local_probabilities_are_a_matrix_product_at_every_pixel():
    generator = torch.Generator().manual_seed(0)
    flips = torch.rand(2, 3, 3, 4, 5, generator=generator)
    flips = flips / flips.sum(dim=1, keepdim=True)
    log_global = torch.randn(2, 3, 4, 5, generator=generator).log_softmax(1)
    expected = np.einsum("bijhw,bjhw->bihw", flips.numpy(), log_global.exp().numpy())
    np.testing.assert_allclose(log_local_probabilities(log_global, flips).exp().numpy(), expected, rtol=1e-5)


def test_the_local_model_gives_the_logarithm_of_w_p_with_the_priors_mean():
    shared, own, (images, _, _) = network(), adaptation("feature").eval(), inputs()
    local = LocalModel(shared, own)(images)
    features, code = shared.unet(images), shared.prior(images).mean
    flips = own(images, features, code)
    expected = torch.einsum("bijhw,bjhw->bihw", flips, shared(images).softmax(1))
    torch.testing.assert_close(local.softmax(1), expected)
    torch.testing.assert_close(local.exp(), expected)
