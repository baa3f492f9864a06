"""Pictures with many objects: how many there are, that none touch, and that each site has a look of its own."""

import numpy as np
from benchmark_tables.fedia import MS, pictures
from benchmark_tables.many_objects import LOOKS, SIDE, ManyObjects, many_objects
from PIL import Image

from fedannot.custom.data.manifest import read_manifest
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.transforms.connected_lesions import label_lesions


def test_objects_are_many_and_apart():
    for seed in range(5):
        image, mask = many_objects(np.random.default_rng(seed), LOOKS[0])
        assert image.shape == mask.shape == (SIDE, SIDE)
        assert 20 <= label_lesions(mask)[1] <= 40
        assert image[mask].mean() > image[~mask].mean() + 1
        again = many_objects(np.random.default_rng(seed), LOOKS[0])
        assert np.array_equal(again[0], image)


def test_sites_have_looks_of_their_own_and_all_labels_are_right(tmp_path):
    write_phantom_federation(tmp_path / "data", ManyObjects(), seed=3, images_per_site=2, test_images=4)
    contrasts = []
    for site in ("site-1", "site-2", "site-3", "site-4"):
        image, label = (
            np.asarray(Image.open(tmp_path / "data" / site / kind / "picture_001.png"), dtype=float)
            for kind in ("images", "labels")
        )
        contrasts.append(image[label > 0].mean() - image[label == 0].mean())
    assert np.argsort(contrasts).tolist() == np.argsort([look.contrast for look in LOOKS]).tolist()


def test_of_a_row_with_missing_objects_each_site_annotates_its_share(tmp_path):
    pictures(MS[2])(tmp_path / "seed0", 0)
    for site, share in zip(("site-1", "site-4"), (0.2, 0.8), strict=True):
        missing = read_manifest(tmp_path / "seed0" / site).missing_lesions
        assert abs(missing.num_kept / missing.num_lesions - share) < 0.02
