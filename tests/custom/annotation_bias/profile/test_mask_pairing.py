"""Masks of other images: against direct sums, permuted discs, images that say nothing, a biased site."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import ndimage
from support.disc_cases import disc_case

from fedannot.custom.annotation_bias.profile.mask_pairing import (
    MaskPairing,
    PairingStatus,
    compare_masks,
    fits,
    pairing_of,
)
from fedannot.custom.annotation_bias.profile.scales import ProfileCase, scaled_case


def lesion(patient, generator, *, bias=0.0, noise=0.3, size=(64, 64)):
    """A bright ellipse somewhere in an image of texture, annotated too large by a bias."""
    centre = [generator.uniform(0.3, 0.7) * length for length in size]
    radii = generator.uniform(5, 12, len(size))
    grid = np.indices(size)
    ratio = np.sqrt(sum(((a - c) / r) ** 2 for a, c, r in zip(grid, centre, radii, strict=True)))
    distance = (ratio - 1) * radii.mean()
    image = 1.0 / (1 + np.exp(2 * distance)) + noise * ndimage.gaussian_filter(generator.normal(size=size), 1.0)
    return ProfileCase(patient, image[None].astype(np.float32), (distance <= bias).astype(np.uint8))


def lesions(seed, *, num=12, patients=None, **options):
    generator = np.random.default_rng(seed)
    return [lesion(f"p{index % (patients or num)}", generator, **options) for index in range(num)]


def exchanged(cases, which):
    """The cases, each of some with the mask of the next one of them."""
    result = list(cases)
    for index, other in zip(which, np.roll(which, -1), strict=True):
        result[index] = replace(cases[index], annotation=cases[other].annotation)
    return result


@pytest.mark.parametrize("bias", [-3.0, 0.0, 5.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_biased_site_has_the_masks_of_its_images(seed, bias):
    pairing = compare_masks(lesions(seed, bias=bias), 1)

    assert pairing.status is PairingStatus.OWN_IMAGES
    assert pairing.advantage > 4
    assert pairing.misplaced <= 0.1
    assert (pairing.patients, pairing.cases) == (12, 12)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_all_masks_listed_with_the_next_image_are_found(seed):
    pairing = compare_masks(exchanged(lesions(seed), range(12)), 1)

    assert pairing.status is PairingStatus.OF_OTHER_IMAGES
    assert pairing.lost_advantage == pytest.approx(1.0, abs=0.25)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_half_of_the_masks_are_found_and_their_fraction(seed):
    pairing = compare_masks(exchanged(lesions(seed), [1, 3, 4, 6, 8, 11]), 1)

    assert pairing.status is PairingStatus.SOME_OF_OTHER_IMAGES
    assert pairing.misplaced == pytest.approx(0.5, abs=0.17)
    assert pairing.fitting_best == pytest.approx(0.5, abs=0.17)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_noise_alone_is_no_sign_of_other_images(seed):
    """Images that show nothing: no mask fits, so none fits clearly better."""
    generator = np.random.default_rng(seed)
    cases = [replace(case, image=generator.normal(size=case.image.shape)) for case in lesions(seed)]

    pairing = compare_masks(cases, 1)

    assert pairing.status is PairingStatus.OWN_IMAGES
    assert pairing.clearly_better == 0
    assert abs(pairing.advantage) < 3


def test_masks_that_are_all_alike_are_no_sign_of_other_images():
    """One object in one place: nobody can see that masks are exchanged, and it does no harm."""
    generator = np.random.default_rng(0)
    first = disc_case("p0", 0.0, seed=0)
    cases = [
        replace(first, patient=f"p{number}", image=first.image + generator.normal(scale=0.3, size=first.image.shape))
        for number in range(12)
    ]

    assert compare_masks(exchanged(cases, range(12)), 1).status is PairingStatus.OWN_IMAGES


def test_slices_are_compared_with_other_patients_alone():
    """Three patients: some masks are not accused, all are."""
    cases = lesions(5, num=24, patients=3)

    assert compare_masks(exchanged(cases, range(0, 24, 2)), 1).status is PairingStatus.OWN_IMAGES
    assert compare_masks(exchanged(cases, range(24)), 1).status is PairingStatus.OF_OTHER_IMAGES
    assert compare_masks(cases, 1).patients == 3


@pytest.mark.parametrize("cases", [[], lesions(0, num=7), lesions(0, num=12, patients=1)])
def test_too_few_cases_say_nothing(cases):
    assert compare_masks(cases, 1).status is PairingStatus.TOO_FEW_CASES


def test_images_of_another_size_are_not_compared():
    cases = [*lesions(1, num=10), *lesions(2, num=3, size=(72, 64))]

    assert compare_masks(cases, 1) == compare_masks(cases[:10], 1)


def test_large_images_are_compared_at_a_coarse_scale():
    def large(case):
        return replace(case, image=np.kron(case.image, np.ones((1, 4, 4))), annotation=np.kron(case.annotation, ONES))

    cases = lesions(3)
    pairing = compare_masks([large(case) for case in cases], 1)

    assert pairing == compare_masks(cases, 1)


ONES = np.ones((4, 4), dtype=np.uint8)


def test_volumes_are_compared():
    cases = lesions(4, num=9, size=(24, 24, 24), noise=0.1)

    assert compare_masks(cases, 1).status is PairingStatus.OWN_IMAGES
    assert compare_masks(exchanged(cases, range(9)), 1).status is PairingStatus.OF_OTHER_IMAGES


def test_an_image_that_is_not_finite_is_refused():
    cases = lesions(0)
    cases[3].image[0, 0, 0] = np.nan

    with pytest.raises(ValueError, match="finite"):
        compare_masks(cases, 1)


def test_the_counts_are_those_of_a_table_worked_by_hand():
    """Eight patients: six fit best by 0.4, one is misplaced, one is as good as another."""
    table = np.full((8, 8), 0.1)
    np.fill_diagonal(table, 0.5)
    table[6, 6], table[6, 0] = 0.1, 0.6
    table[7, 1] = 0.5

    pairing = pairing_of(table, [f"p{number}" for number in range(8)])

    mean_6, mean_7 = (0.6 + 6 * 0.1) / 7, (0.5 + 6 * 0.1) / 7
    advantage = np.array([0.4] * 6 + [0.1 - mean_6, 0.5 - mean_7])
    most = np.array([0.4] * 6 + [0.6 - mean_6, 0.5 - mean_7])
    assert pairing.advantage == pytest.approx(advantage.mean() / (advantage.std(ddof=1) / np.sqrt(8)))
    assert pairing.lost_advantage == pytest.approx(1 - advantage.sum() / most.sum())
    assert (pairing.misplaced, pairing.clearly_better) == (1 / 8, 1 / 8)
    assert pairing.fitting_best == 7 / 8


def test_a_fit_is_that_of_direct_sums():
    """One mask and one image, by loops over levels."""
    case = lesions(7, num=1)[0]
    scaled = scaled_case(case, 1)
    image = case.image[0].astype(float)
    image = (image - image.mean()) / (image.std() + 1e-6)
    mask = case.annotation == 1
    outward, inward = (ndimage.distance_transform_edt(part) for part in (~mask, mask))
    distance = outward - inward + np.where(mask, 0.5, -0.5)
    slopes = np.array(np.gradient(ndimage.gaussian_filter(image, 0.7)))
    normal = np.array(np.gradient(ndimage.gaussian_filter(distance, 1.0)))
    normal /= np.sqrt((normal**2).sum(axis=0)) + 1e-9
    squares = (slopes * normal).sum(axis=0) ** 2
    explained, change = [], {}
    for level in range(-10, 11):
        near = np.abs(distance - level) <= 6
        inside, outside = image[near & (distance <= level)], image[near & (distance > level)]
        if abs(level) <= 6 and min(len(inside), len(outside)) >= 12:
            within = ((inside - inside.mean()) ** 2).sum() + ((outside - outside.mean()) ** 2).sum()
            together = np.concatenate([inside, outside])
            explained.append(1 - within / ((together - together.mean()) ** 2).sum())
        weight = np.clip(1 - np.abs(distance - level), 0, None)
        if (weight * (normal**2).sum(axis=0)).sum() >= 6:
            change[level] = np.sqrt((weight * squares).sum() / (weight * (normal**2).sum(axis=0)).sum())
    first, last, mean = min(change), max(change), np.mean(list(change.values()))

    def at(level):
        return change[min(max(level, first), last)] / mean

    chords = [at(level) - 0.5 * (at(level - 4) + at(level + 4)) for level in range(-6, 7) if level in change]
    assert fits([scaled])[0, 0] == pytest.approx(max(explained) + 0.3 * max(chords), rel=1e-6)


def test_an_absent_class_is_too_few():
    assert MaskPairing.absent().status is PairingStatus.TOO_FEW_CASES
