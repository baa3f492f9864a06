"""The shared network of decoupled predictions: what the code does there, its blocks, its start weights."""

import pytest
import torch
from small_networks import SMALL, inputs, network

from fedannot.custom.methods.decoupled.network import build_decoupled_network
from fedannot.custom.networks.building import assign_blocks, layer_blocks


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
