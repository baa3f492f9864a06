"""Cases of the rows that change them: masks by object, thick slices, other scanners."""

import numpy as np
import pytest
from PIL import Image
from profile_rows import KnownCase, by_object, in_thick_slices, row_sites, true_bias
from simulated_scanners import another_scanner, scanners_of_sites, with_scanners

from fedannot.custom.annotation_bias.profile.scales import ProfileCase
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation


def disc(centre, radius, shape=(64, 64)):
    return np.hypot(*(np.indices(shape) - np.reshape(centre, (2, 1, 1)))) <= radius


def test_each_object_is_a_case_whose_neighbours_are_of_another_class():
    classes = (disc((16, 16), 8) | disc((45, 45), 10)).astype(np.uint8)
    case = ProfileCase("p", np.zeros((1, 64, 64), np.float32), classes, None)
    sites = by_object({f"site-{number}": [KnownCase(case, classes)] for number in range(1, 5)}, 0)
    for cases in sites.values():
        assert len(cases) == 2
        first, second = (known.case.annotation for known in cases)
        assert np.array_equal(first == 1, second == 2)
        assert np.array_equal(first == 2, second == 1)
        assert np.array_equal(cases[0].clean == 1, disc((16, 16), 8))
    # M(2,-1.5,0.5,0.5) from half: two sites each draw larger and smaller, by 1 to 2 and 0.75 to 1.5 pixels on average.
    biases = sorted(true_bias(cases, 1) for cases in sites.values())
    assert biases == pytest.approx([-1.5, -0.75, 1.0, 2.0], abs=0.8)


def test_three_slices_become_one():
    classes = np.zeros((4, 4, 7), np.uint8)
    classes[1, 1, :2], classes[2, 2, 2:4] = 1, 2
    image = np.arange(4 * 4 * 7, dtype=np.float32).reshape(1, 4, 4, 7)
    sites = in_thick_slices({"a": [KnownCase(ProfileCase("p", image, classes, (1.0, 1.0, 1.0)), classes)]}, 0)
    (known,) = sites["a"]
    assert known.case.spacing == (1.0, 1.0, 3.0)
    assert np.array_equal(known.case.image[0, 0, 0], [1.0, 4.0])
    # Two slices of three have class 1 in the first slab; class 2 has one of three in both.
    assert np.argwhere(known.case.annotation).tolist() == [[1, 1, 0]]
    assert np.array_equal(known.clean, known.case.annotation)
    (known,) = in_thick_slices(sites, 0, axis=1)["a"]
    assert known.case.image.shape == (1, 4, 2, 1)
    assert known.case.spacing == (1.0, 3.0, 3.0)


@pytest.mark.parametrize("pixel", [1.0, 8.0])
@pytest.mark.parametrize("kind", ["bias field", "blur 1 px", "gamma 0.6", "noise 0.3", "sharpened", "inverted"])
def test_a_scanner_changes_an_image_and_keeps_its_mean_and_deviation(kind, pixel):
    generator = np.random.default_rng(0)
    image = generator.standard_normal((1, 1, 48, 64)).astype(np.float32)
    changed = another_scanner(kind, image, generator, pixel)
    assert changed.shape == image.shape
    assert changed.mean() == pytest.approx(image.mean(), abs=1e-4)
    assert changed.std() == pytest.approx(image.std(), rel=1e-3)
    assert not np.allclose(changed, image, atol=0.01)


def test_every_site_has_a_scanner_of_its_own_and_its_masks_stay(tmp_path):
    def make(folder, seed):
        write_phantom_federation(folder, LesionImages(), num_sites=2, seed=seed, images_per_site=1, test_images=1)

    make(tmp_path / "before", 3)
    with_scanners(make)(tmp_path / "after", 3)
    scanners = scanners_of_sites(2, 3)
    assert "inverted" in scanners[0]
    assert "inverted" not in scanners[1]
    for kind in ("images", "labels"):
        pairs = [
            [np.asarray(Image.open(tmp_path / name / site / kind / "lesion_001.png"), float).ravel() for name in names]
            for site in ("site-1", "site-2")
            for names in [("before", "after")]
        ]
        correlations = [np.corrcoef(*pair)[0, 1] for pair in pairs]
        if kind == "images":
            assert correlations[0] < -0.5
            assert correlations[1] > 0.5
        else:
            assert correlations == pytest.approx([1.0, 1.0])


def test_volumes_of_lesions_are_whole_and_thick():
    for sites in row_sites("thick-lesions", 100):
        assert list(sites) == ["site-1", "site-2", "site-3", "site-4"]
        case = sites["site-1"][0].case
        assert case.image.shape == (1, 64, 64, 12)
        assert case.spacing == (1.5, 1.5, 4.5)
