"""The personal part of decoupled predictions: what W may depend on, and the local prediction."""

import numpy as np
import pytest
import torch
from small_networks import adaptation, inputs, network

from fedannot.custom.methods.decoupled.adaptation import LocalModel, log_local_probabilities

FORMS = ("latent", "published", "feature", "image", "fixed")


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
    latent, (images, features, _) = adaptation("latent"), inputs(batch=300)
    codes = torch.randn(300, 3, generator=torch.Generator().manual_seed(1))
    flips = latent(images, features, codes)
    assert flips.shape[3:] == (1, 1)
    assert spread_over(flips, 0) > 0.02
    assert torch.equal(latent(images[:1], features[:1], codes[:1]), latent(-images[:1], -features[:1], codes[:1]))


def test_the_published_form_takes_the_size_of_the_code_away():
    """Instance normalisation divides by what is the same at every pixel; what is left comes from the padded border."""
    images, features, code = inputs(batch=50, size=(64, 64))
    changes = {}
    for form in ("latent", "published"):
        own = adaptation(form)
        with torch.no_grad():
            small, large = (own(images, features, factor * code) for factor in (10.0, 1000.0))
        changes[form] = float((small - large).abs().max())
    assert changes["latent"] > 0.3
    assert changes["published"] < 0.01


def test_the_feature_form_sees_the_map_and_does_not_train_it():
    own, (images, features, code) = adaptation("feature"), inputs()
    features.requires_grad_()
    code.requires_grad_()
    flips = own(images, features, code)
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


def test_a_sampled_code_is_drawn_from_the_prior_by_the_image_alone():
    shared, images = network(test_code="sampled"), inputs(size=(16, 16), batch=400)[0]
    prior = shared.prior(images)
    codes = shared.code(images)
    noise = (codes - prior.mean) / (0.5 * prior.log_variance).exp()
    # 1200 draws of N(0, 1): four standard errors.
    assert abs(noise.mean().item()) < 0.12
    assert abs(noise.std().item() - 1) < 0.09
    assert len(noise.unique()) > 1190
    # Again, and in any batch, the same.
    torch.testing.assert_close(shared.code(images), codes, rtol=0, atol=0)
    torch.testing.assert_close(shared.code(images[7:8]), codes[7:8])
    local = LocalModel(shared, adaptation("published").eval())(images[:2])
    flips = adaptation("published").eval()(images[:2], shared.unet(images[:2]), codes[:2])
    expected = torch.einsum("bijhw,bjhw->bihw", flips, shared(images[:2]).softmax(1))
    torch.testing.assert_close(local.exp(), expected)


def test_the_code_of_a_prediction_is_the_priors_mean_unless_told_otherwise():
    shared, images = network(), inputs()[0]
    torch.testing.assert_close(shared.code(images), shared.prior(images).mean, rtol=0, atol=0)


def test_the_local_model_gives_the_logarithm_of_w_p_with_the_priors_mean():
    shared, own, (images, _, _) = network(), adaptation("feature").eval(), inputs()
    local = LocalModel(shared, own)(images)
    features, code = shared.unet(images), shared.prior(images).mean
    flips = own(images, features, code)
    expected = torch.einsum("bijhw,bjhw->bihw", flips, shared(images).softmax(1))
    torch.testing.assert_close(local.softmax(1), expected)
    torch.testing.assert_close(local.exp(), expected)
