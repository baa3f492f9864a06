"""What a crop cuts off, on volumes of 512 × 512 with a body of known extent; and that resizing cuts nothing off."""

import nibabel
import numpy as np
import pytest

from fedannot.apps.importing.options import ImportOptions
from fedannot.apps.importing.plan import SiteChoice
from fedannot.apps.importing.source import SourceCase, SourceDataset
from fedannot.apps.importing.writing import write_imported_federation
from fedannot.custom.data.description import read_site_description
from fedannot.custom.data.preparation import build_preparation, build_restoration
from fedannot.custom.data.site_data import load_site_data
from fedannot.transforms.errors import DataError

SIDE, DEPTH = 512, 3
# Half axes of the body, and what is annotated: bars 8 voxels wide, from its left to its right end.
HALF_ROWS, HALF_COLUMNS = 220, 160


def body_volume(folder, number, *, columns=(96, 416), rows=(250, 258)):
    """A body of known extent in the middle, and a bar across it."""
    i, j = np.ogrid[:SIDE, :SIDE]
    inside = ((i - 256) / HALF_ROWS) ** 2 + ((j - 256) / HALF_COLUMNS) ** 2 <= 1
    image = np.repeat(np.where(inside, 100, -900)[..., None], DEPTH, axis=2).astype(np.int16)
    image[number, 0, 0] += 1
    mask = np.zeros(image.shape, np.uint8)
    mask[rows[0] : rows[1], columns[0] : columns[1]] = 1
    files = folder / f"image_{number}.nii.gz", folder / f"mask_{number}.nii.gz"
    for file, voxels in zip(files, (image, mask), strict=True):
        nibabel.save(nibabel.Nifti1Image(voxels, np.eye(4)), file)
    return SourceCase(*files)


def dataset(*cases):
    return SourceDataset("bodies", "segmentation", volumes=True, cases=cases)


def import_to(out, cases, *, allowed=0.05, **keys):
    options = ImportOptions("volume_slices", {"size": (256, 256)} | keys, allowed_cut=allowed)
    return write_imported_federation([dataset(*cases)], out, SiteChoice(1), options, test_share=0.0)


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bodies")
    # Of the first bar the middle 256 of 320 columns are kept, of the second, all of 100.
    return body_volume(folder, 0), body_volume(folder, 1, columns=(200, 300))


def test_what_the_crop_cuts_off_is_said_and_refused_above_a_twentieth(cases, tmp_path):
    share = 64 / (320 + 100)
    with pytest.raises(DataError) as caught:
        import_to(tmp_path / "out", cases)
    assert str(caught.value) == (
        f"Import: the crop to 256 × 256 cuts off {share:.1%} of the annotated voxels, of 1 of 2 cases more than 5%, "
        "most of mask_0.nii.gz: 20.0%; expected at most 5% in all. Take --fit resize, which cuts nothing off, a larger "
        "--size, or --crop foreground; or allow it with --allow-cut 0.16."
    )
    assert not (tmp_path / "out").exists()
    report = import_to(tmp_path / "out", cases, allowed=0.16)
    assert report.notes == (str(caught.value).partition("; ")[0].replace("Import: ", "Cut off: ") + ".",)


def test_a_little_is_cut_off_with_a_word(tmp_path):
    case = body_volume(tmp_path, 0, columns=(120, 384))
    report = import_to(tmp_path / "out", [case])
    assert report.notes == (
        "Cut off: the crop to 256 × 256 cuts off 3.0% of the annotated voxels, of 0 of 1 cases more than 5%, most of "
        "mask_0.nii.gz: 3.0%.",
    )


@pytest.mark.parametrize("fit", ["resize", "pad"])
def test_what_is_resized_is_cut_nowhere_and_comes_back(cases, tmp_path, fit):
    report = import_to(tmp_path / "out", cases, fit=fit)
    assert report.notes == ()
    site = tmp_path / "out" / "site-1"
    description = read_site_description(site)
    assert description.fit == fit
    restore, prepare = build_restoration(description), build_preparation(description)
    for case in load_site_data(site, tmp_path / "cache", site="site-1").cases:
        mask = np.asarray(nibabel.load(case.files.label).dataobj)
        # A bar of 8 × 320 voxels is one of 4 × 160 at half the size.
        assert int(case.label.sum()) * 4 == int(mask.sum())
        np.testing.assert_array_equal(restore(case.files.image, case.files.label, case.label), mask)
        assert prepare(case.files).spacing == pytest.approx((2.0, 2.0))


def test_a_body_larger_than_the_crop_by_closed_form(tmp_path):
    """Of an ellipse of half axes 220 and 160 a crop of 256 × 256 keeps the middle; resized it keeps its proportions."""
    case = body_volume(tmp_path, 0)
    image = np.asarray(nibabel.load(case.image).dataobj)
    nibabel.save(nibabel.Nifti1Image((image > 0).astype(np.uint8), np.eye(4)), case.label)
    rows = (np.arange(-128, 128)) / HALF_ROWS
    kept = np.minimum(2 * HALF_COLUMNS * np.sqrt(1 - rows**2), 256).sum() / (np.pi * HALF_ROWS * HALF_COLUMNS)
    with pytest.raises(DataError, match=rf"cuts off {1 - kept:.1%} of the annotated") as caught:
        import_to(tmp_path / "out", [case])
    assert "--fit resize" in str(caught.value)
    import_to(tmp_path / "out", [case], fit="resize")
    (loaded,) = load_site_data(tmp_path / "out" / "site-1", tmp_path / "cache", site="site-1").cases
    area = float(loaded.label[0].sum()) * 4
    assert area == pytest.approx(np.pi * HALF_ROWS * HALF_COLUMNS, rel=0.004)


def test_the_crop_to_the_foreground_is_named_as_what_cuts(tmp_path):
    case = body_volume(tmp_path, 0, columns=(10, 410))
    with pytest.raises(DataError, match=r"the crop to the foreground cuts off 21\.[0-9]% .* Take --crop centre, and"):
        import_to(tmp_path / "out", [case], fit="resize", crop="foreground")
