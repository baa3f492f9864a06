"""The same numbers as the reference implementation, on real images; both are read from beside the packs of images."""

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import nibabel
import numpy as np
import pytest
from PIL import Image

from fedannot.custom.annotation_bias.profile.alignment import align
from fedannot.custom.annotation_bias.profile.curves import case_curve, site_curve
from fedannot.custom.annotation_bias.profile.interval import half_width, standard_error
from fedannot.custom.annotation_bias.profile.scales import moved_mask

PACKS = Path(os.environ.get("FEDANNOT_REAL_DATA", "nowhere"))
REFERENCE = PACKS.parent / "reference" / "boundary_profile.py"

pytestmark = pytest.mark.skipif(not REFERENCE.is_file(), reason="needs FEDANNOT_REAL_DATA and the reference beside it")
BIASES = (3.0, -2.0, 0.0, 1.0, -3.5)


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("boundary_profile_reference", REFERENCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def breast_cases():
    """Ultrasound images at a quarter of their size."""
    for file in sorted((PACKS / "busi-breast-us" / "seg" / "images").glob("*.png"))[::4]:
        image = np.asarray(Image.open(file).convert("L").resize((96, 96)), dtype=np.float32)[None]
        label = Image.open(file.parents[1] / "labels" / file.name).resize((96, 96), Image.Resampling.NEAREST)
        yield image, np.asarray(label) > 0, None, None


def hippocampus_cases():
    """Volumes with two classes, of which the first one's curve is taken."""
    for file in sorted((PACKS / "hippocampus-msd" / "images").glob("*.nii.gz"))[:10]:
        image = nibabel.load(file).get_fdata(dtype=np.float32)[None]
        mask = np.asarray(nibabel.load(file.parents[1] / "labels" / file.name).dataobj)
        yield image, mask == 1, mask == 2, (1.0, 1.0, 2.0)


@pytest.mark.parametrize("cases", [breast_cases, hippocampus_cases])
def test_curves_biases_and_errors_are_those_of_the_reference(reference, cases):
    sites = [[] for _ in BIASES]
    for number, (image, mask, other, spacing) in enumerate(cases()):
        moved = moved_mask(mask, -BIASES[number % len(BIASES)], spacing)
        if other is not None:
            moved &= ~other
        ours = case_curve(image, moved, other=other, spacing=spacing)
        theirs = reference.case_curve(image, moved, other=other, spacing=spacing)
        assert (ours is None) == (theirs is None)
        if ours is None:
            continue
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
        sites[number % len(BIASES)].append(ours)

    ours = align(np.stack([site_curve(curves) for curves in sites]))
    theirs = reference.align(np.stack([reference.site_curve(curves) for curves in sites]))

    # The reference has zero where a single chord is largest.
    np.testing.assert_allclose(ours.biases + ours.origin, theirs["bias"], atol=0.05)
    np.testing.assert_allclose(ours.prominence, theirs["prominence"], atol=0.02)
    np.testing.assert_allclose(ours.correlations, theirs["correlation"], atol=0.02)
    patients = [str(number) for number in range(len(sites[0]))]
    error, low, high = reference.interval(sites[0], patients, theirs["others"][0], theirs["bias"][0])
    own_error = standard_error(sites[0], patients, ours.templates[0], seed=0)
    assert own_error == pytest.approx(error, abs=0.05)
    assert 2 * half_width(own_error, len(patients), is_alone=False) == pytest.approx(high - low, abs=0.2)
