"""Site protocols: their notation, and masks drawn by them against hand-made cases."""

import json

import numpy as np
import pytest
import torch

from fedannot.transforms.noise.disc_morphology import closed, dilated, eroded, opened
from fedannot.transforms.noise.follow_protocol import FollowProtocol, FollowProtocold, SiteProtocolParams
from fedannot.transforms.noise.site_protocol import SiteProtocol


def chamber(shape=(256, 256)):
    """A box with a thin vein to the right and a narrow notch from the left."""
    mask = np.zeros(shape, dtype=np.uint8)
    mask[80:180, 60:160] = 1
    mask[120:124, 160:220] = 1
    mask[128:132, 60:100] = 0
    return mask


# --- notation


@pytest.mark.parametrize(
    ("text", "protocol"),
    [
        ("0", SiteProtocol()),
        ("C", SiteProtocol("C", None, None, 4, 0.25)),
        ("D(10)", SiteProtocol("D", 10, None, 4, 0.25)),
        (" C ( 2.5 , 6, 3, 0.5 ) ", SiteProtocol("C", 2.5, 6, 3, 0.5)),
    ],
)
def test_a_protocol_is_read_and_written(text, protocol):
    assert SiteProtocol.parse(text) == protocol
    assert SiteProtocol.parse(str(protocol)) == protocol


def test_the_sites_of_a_federation():
    kinds = [protocol.kind for protocol in SiteProtocol.parse_sites("0-0-C(3,4)-D")]
    assert kinds == ["none", "none", "C", "D"]


@pytest.mark.parametrize(
    ("text", "shape", "radii"),
    [
        ("C", (256, 256), (3, 4)),
        ("C", (512, 128), (3, 4)),
        ("D", (512, 512, 9), (6, 8)),
        ("C", (64, 64), (1, 1)),
        ("C", (16, 64), (1, 1)),
        ("C(3,4)", (32, 32), (0.375, 0.5)),
        ("D(20)", (32, 32), (2.5, 1)),
        ("C(0,8)", (64, 64), (0, 2)),
    ],
)
def test_discs_scale_with_the_mask_and_those_that_nobody_gave_are_one_pixel_at_least(text, shape, radii):
    discs = SiteProtocol.parse(text).discs(shape)
    assert (discs.systematic, discs.random) == pytest.approx(radii)


@pytest.mark.parametrize("kind", ["C", "D"])
def test_a_protocol_without_lengths_changes_small_masks(kind):
    mask = np.zeros((40, 36), dtype=np.uint8)
    mask[10:20, 10:20] = mask[10:20, 22:30] = 1
    mask[14, 21] = 1
    assert (FollowProtocol(SiteProtocol(kind)).set_random_state(seed=0)(mask) != mask).any()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("E", "Found the protocol 'E'; expected 0 \\(none\\), C"),
        ("C(3", "Found the protocol 'C\\(3'"),
        ("C(a)", "Found the protocol 'C\\(a\\)'; expected"),
        ("C()", "expected 0 \\(none\\)"),
        ("C(1,2,3,0.4,5)", "expected 0 \\(none\\)"),
        ("C(inf)", "radius=inf"),
        ("D(3,nan)", "random_radius=nan"),
        ("C(257)", "Expected 0 to 256 pixels at 256×256, but got radius=257"),
        ("D(3,99999)", "random_radius=99999"),
        ("C(3,4,2.5)", "whole number of squares of at least 0, but got 2.5"),
        ("C(3,4,4,0)", "share from above 0 to 1, but got square_share=0"),
    ],
)
def test_what_is_no_protocol(text, reason):
    with pytest.raises(ValueError, match=reason):
        SiteProtocol.parse(text)


# --- the systematic part


def test_the_systematic_part_of_c_is_an_opening_and_that_of_d_a_closing():
    mask = chamber()
    by_c = FollowProtocol(SiteProtocol("C"), systematic_only=True)(mask)
    by_d = FollowProtocol(SiteProtocol("D"), systematic_only=True)(mask)
    assert np.array_equal(by_c != 0, opened(mask != 0, 3.0))
    assert np.array_equal(by_d != 0, closed(mask != 0, 3.0))
    # The vein is gone, the notch is filled.
    assert not by_c[:, 170:].any()
    assert by_d[128:132, 66:94].all()


def test_lengths_go_with_the_image():
    small = np.zeros((128, 128), dtype=np.uint8)
    small[40:90, 30:80] = 1
    small[60:62, 80:110] = 1
    drawn = FollowProtocol(SiteProtocol("C", radius=5), systematic_only=True)(small)
    assert np.array_equal(drawn != 0, opened(small != 0, 2.5))


def test_every_label_is_drawn_by_itself_and_the_larger_value_covers_the_smaller():
    mask = np.zeros((256, 256), dtype=np.uint8)
    mask[100:150, 100:150] = 1
    mask[100:150, 154:200] = 2
    mask[120:124, 150:154] = 2
    drawn = FollowProtocol(SiteProtocol("D", radius=6), systematic_only=True)(mask)
    one, two = closed(mask == 1, 6.0), closed(mask == 2, 6.0)
    assert np.array_equal(drawn == 2, two)
    assert np.array_equal(drawn == 1, one & ~two)


# --- the random part


def test_random_erosion_is_inside_squares_on_the_boundary_and_nowhere_else():
    mask = chamber()
    transform = FollowProtocol(SiteProtocol("C")).set_random_state(seed=1)
    params = transform.make_params(mask)
    drawn = np.asarray(transform.apply_transform(mask, params)) != 0
    systematic = opened(mask != 0, 3.0)
    inside = np.zeros(mask.shape, dtype=bool)
    # The longer side of what the opening left is 100 px.
    assert params.side.tolist() == [25] * 4
    for row, column in params.centre:
        assert systematic[row, column]
        assert not systematic[row - 1 : row + 2, column - 1 : column + 2].all()
        inside[row - 12 : row + 13, column - 12 : column + 13] = True
    assert np.array_equal(drawn[~inside], systematic[~inside])
    assert np.array_equal(drawn[inside], eroded(systematic, 4.0)[inside])
    assert drawn.sum() < systematic.sum()


def test_random_dilation_adds_pixels_near_the_boundary():
    mask = chamber()
    transform = FollowProtocol(SiteProtocol("D")).set_random_state(seed=1)
    drawn = np.asarray(transform(mask)) != 0
    systematic = closed(mask != 0, 3.0)
    assert np.all(systematic <= drawn)
    assert np.all(drawn <= dilated(systematic, 4.0))
    assert drawn.sum() > systematic.sum()


def test_every_object_of_a_slice_has_its_squares():
    mask = np.zeros((256, 256, 3), dtype=np.uint8)
    mask[20:60, 20:60, 0] = 1
    mask[120:200, 120:180, 0] = 1
    mask[50:90, 50:90, 2] = 2
    params = FollowProtocol(SiteProtocol("C", num_squares=3)).set_random_state(seed=0).make_params(mask)
    assert params.slice_index.tolist() == [0] * 6 + [2] * 3
    assert params.label.tolist() == [1] * 6 + [2] * 3
    assert params.side.tolist() == [10] * 3 + [20] * 3 + [10] * 3


def test_a_volume_is_drawn_slice_by_slice():
    volume = np.stack([chamber(), np.zeros((256, 256), dtype=np.uint8), np.roll(chamber(), 20, axis=0)], axis=-1)
    drawn = FollowProtocol(SiteProtocol("D"), systematic_only=True)(volume)
    for index in range(3):
        alone = FollowProtocol(SiteProtocol("D"), systematic_only=True)(volume[..., index])
        assert np.array_equal(np.asarray(drawn)[..., index], alone)


# --- contract of a random transform


def test_parameters_replay_the_bits_also_from_json():
    mask = chamber()
    transform = FollowProtocol(SiteProtocol("C")).set_random_state(seed=4)
    params = transform.make_params(mask)
    again = SiteProtocolParams.from_dict(json.loads(json.dumps(params.to_dict())))
    drawn = FollowProtocol(SiteProtocol("C")).set_random_state(seed=4)(mask)
    assert np.array_equal(transform.apply_transform(mask, again), drawn)
    other = FollowProtocol(SiteProtocol("C")).set_random_state(seed=5)(mask)
    assert not np.array_equal(other, drawn)


def test_parameters_of_another_shape_are_refused():
    transform = FollowProtocol(SiteProtocol("C"))
    params = transform.make_params(chamber())
    with pytest.raises(ValueError, match=r"expected the shape \(256, 256\), found \(64, 64\)"):
        transform.apply_transform(np.ones((64, 64), dtype=np.uint8), params)


@pytest.mark.parametrize("kind", ["none", "C", "D"])
@pytest.mark.parametrize("value", [0, 1])
def test_empty_and_full_masks_stay(kind, value):
    mask = np.full((64, 64), value, dtype=np.uint8)
    assert np.array_equal(FollowProtocol(SiteProtocol(kind, radius=20))(mask), mask)


def test_without_a_protocol_a_mask_stays_and_the_input_always_does():
    mask = chamber()
    before = mask.copy()
    assert np.array_equal(FollowProtocol(SiteProtocol())(mask), mask)
    FollowProtocol(SiteProtocol("D"))(mask)
    assert np.array_equal(mask, before)


def test_type_and_dtype_stay():
    mask = torch.from_numpy(chamber()).to(torch.int16)
    drawn = FollowProtocol(SiteProtocol("C"))(mask)
    assert isinstance(drawn, torch.Tensor)
    assert drawn.dtype == torch.int16


def test_the_dictionary_version_takes_a_channel_axis():
    mask = chamber()
    transform = FollowProtocold("label", SiteProtocol("C")).set_random_state(seed=2)
    drawn = transform({"label": mask[None], "image": 1})
    # One after the other, as a pipeline draws them.
    plain = FollowProtocol(SiteProtocol("C"))
    plain.set_random_state(state=np.random.RandomState(2))
    assert drawn["image"] == 1
    assert np.array_equal(drawn["label"][0], plain(mask))
