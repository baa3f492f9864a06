"""Missing lesions against hand-counted masks and a flood fill written for the test."""

import itertools
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from monai.data import MetaTensor

from fedannot.transforms.connected_lesions import label_lesions
from fedannot.transforms.noise.missing_lesions import DropLesions, DropLesionsd, MissingLesionsParams, num_kept


def row_of_lesions(count, *, label=1):
    """A volume with lesions of 2 × 2 × 1 voxels in a row, one voxel apart."""
    mask = np.zeros((2, 3 * max(count, 1), 3), dtype=np.uint8)
    for index in range(count):
        mask[:, 3 * index : 3 * index + 2, 1] = label
    return mask


def flood_fill_count(mask):
    """Components with corners as neighbours, by a search from voxel to voxel."""
    waiting = {tuple(place) for place in np.argwhere(mask != 0)}
    count = 0
    while waiting:
        count += 1
        front = [waiting.pop()]
        while front:
            place = front.pop()
            for step in itertools.product((-1, 0, 1), repeat=mask.ndim):
                neighbour = tuple(np.add(place, step))
                if neighbour in waiting:
                    waiting.remove(neighbour)
                    front.append(neighbour)
    return count


@settings(deadline=None, max_examples=60)
@given(
    hnp.arrays(np.uint8, hnp.array_shapes(min_dims=2, max_dims=3, min_side=1, max_side=7), elements=st.integers(0, 1))
)
def test_components_are_those_of_a_flood_fill(mask):
    numbers, count = label_lesions(mask)
    assert count == flood_fill_count(mask)
    assert np.array_equal(numbers != 0, mask != 0)
    assert all(flood_fill_count(numbers == number) == 1 for number in range(1, count + 1))


def test_voxels_that_touch_by_a_corner_are_one_lesion():
    volume = np.zeros((3, 3, 3), dtype=np.uint8)
    volume[0, 0, 0] = volume[1, 1, 1] = 1
    assert label_lesions(volume)[1] == 1
    # In the slices by themselves they would be two.
    assert [label_lesions(volume[..., index])[1] for index in range(3)] == [1, 1, 0]


@pytest.mark.parametrize(
    ("lesions", "completeness", "kept"),
    [
        (10, 0.4, 4),
        (10, 1.0, 10),
        (10, 0.0, 0),
        (0, 0.5, 0),
        (3, 0.1, 1),  # 0.3 would be none
        (3, 0.5, 2),  # 1.5, halves up
        (5, 0.5, 3),  # 2.5, where Python's round gives 2
        (7, 0.3, 2),  # 2.1
        (50, 0.29, 15),  # 14.5, which is 14.499999999999998 in binary
    ],
)
def test_number_of_lesions_that_stay(lesions, completeness, kept):
    assert num_kept(lesions, completeness) == kept
    incomplete = DropLesions(completeness).set_random_state(seed=1)(row_of_lesions(lesions))
    assert flood_fill_count(incomplete) == kept


@settings(deadline=None, max_examples=60)
@given(
    hnp.arrays(np.uint8, (6, 7, 4), elements=st.integers(0, 2)),
    st.floats(0, 1),
    st.integers(0, 2**32 - 1),
)
def test_lesions_stay_whole_or_go_whole_and_none_appears(mask, completeness, seed):
    incomplete = DropLesions(completeness).set_random_state(seed=seed)(mask)
    kept = 0
    for label in (1, 2):
        numbers, count = label_lesions(mask == label)
        for number in range(1, count + 1):
            values = set(incomplete[numbers == number].tolist())
            assert values in ({0}, {label})
            kept += values == {label}
    assert not incomplete[mask == 0].any()
    assert kept == num_kept(sum(label_lesions(mask == label)[1] for label in (1, 2)), completeness)


def test_every_lesion_goes_as_often_as_any_other():
    mask = row_of_lesions(5)
    drop = DropLesions(0.4).set_random_state(seed=0)
    kept = np.mean([drop(mask)[0, ::3, 1] for _ in range(2000)], axis=0)
    # Two of five; the standard deviation of a share over 2,000 draws is 0.011.
    assert np.abs(kept - 0.4).max() < 0.04


def test_replay_gives_the_same_mask_and_survives_json():
    mask = row_of_lesions(9, label=2)
    mask[:, 0:2, 1] = 1
    drop = DropLesions(0.5).set_random_state(seed=3)
    params = drop.make_params(mask)
    again = MissingLesionsParams.from_dict(json.loads(json.dumps(params.to_dict())))
    first = drop.apply_transform(mask, params)
    assert np.array_equal(first, DropLesions(0.9).apply_transform(mask, again))
    assert np.array_equal(first, DropLesions(0.5).set_random_state(seed=3)(mask))
    assert params.label.tolist() == [1] + [2] * 8
    assert params.kept.sum() == 5


@pytest.mark.parametrize("other", [row_of_lesions(4), row_of_lesions(5, label=2), row_of_lesions(5)[:1]])
def test_parameters_of_another_mask_are_refused(other):
    params = DropLesions(0.5).set_random_state(seed=0).make_params(row_of_lesions(5))
    with pytest.raises(
        ValueError, match=r"The parameters were drawn for another mask: expected the shape \(2, 15, 3\)"
    ):
        DropLesions(0.5).apply_transform(other, params)


@pytest.mark.parametrize("completeness", [-0.1, 1.1, float("nan")])
def test_completeness_out_of_range_is_refused(completeness):
    with pytest.raises(ValueError, match=r"Expected a completeness from 0 to 1, but got completeness="):
        DropLesions(completeness)


def test_masks_that_are_none_are_refused():
    with pytest.raises(ValueError, match=r"found values such as 0\.5"):
        DropLesions(0.5)(np.full((4, 4), 0.5))
    with pytest.raises(ValueError, match=r"Expected a mask of shape \(H, W\) or \(H, W, D\), found \(4,\)"):
        DropLesions(0.5)(np.zeros(4))
    with pytest.raises(ValueError, match=r"Expected a mask of shape \(H, W\) or \(H, W, D\), found \(4,\)"):
        label_lesions(np.zeros(4))


def test_type_metadata_and_input_are_kept():
    affine = torch.diag(torch.tensor([1.0, 1.0, 5.0, 1.0], dtype=torch.float64))
    mask = MetaTensor(torch.from_numpy(row_of_lesions(4)), affine=affine)
    before = mask.clone()
    incomplete = DropLesions(0.5).set_random_state(seed=0)(mask)
    assert isinstance(incomplete, MetaTensor)
    assert incomplete.dtype == torch.uint8
    assert torch.equal(incomplete.affine, affine)
    assert torch.equal(mask, before)


def test_dictionary_version_takes_a_channel_and_names_the_key():
    mask = row_of_lesions(6)
    data = {"image": 1, "label": mask[None], "second": mask[None]}
    drop = DropLesionsd(("label", "second"), 0.5).set_random_state(seed=4)
    result = drop(data)
    assert result["label"].shape == (1, *mask.shape)
    assert [flood_fill_count(result[key][0]) for key in ("label", "second")] == [3, 3]
    assert result["image"] == 1
    assert np.array_equal(data["label"][0], mask)
    again = DropLesionsd(("label", "second"), 0.5).set_random_state(seed=4)(data)
    assert all(np.array_equal(result[key], again[key]) for key in ("label", "second"))
    with pytest.raises(ValueError, match=r"Missing lesions of 'label': expected one channel"):
        DropLesionsd("label", 0.5)({"label": np.zeros((2, 4, 4, 4), dtype=np.uint8)})
