import json

import numpy as np
import pytest
import torch
from PIL import Image
from support.four_channels import (
    DESCRIPTION,
    TURNED,
    channels_of,
    label_of,
    resampled_by_itk,
    save,
    write_site,
)

from fedannot.custom.data.datalist import read_datalist, write_datalist
from fedannot.custom.data.description import read_site_description
from fedannot.custom.data.description_values import description_of_values, description_values
from fedannot.custom.data.preparation import build_restoration
from fedannot.custom.data.site_data import load_site_data
from fedannot.transforms.errors import DataError


def load(folder):
    return load_site_data(folder, folder.parent / "cache", site="site-1")


def padded(volume):
    """A volume at 16³ with its border going on, in RAS, as the pipeline makes it."""
    volume = volume[::-1]
    widths = [((16 - length) // 2, 16 - length - (16 - length) // 2) for length in volume.shape]
    return np.pad(volume, widths, mode="edge")


def zscore(volume):
    return (volume - volume.mean()) / volume.std()


def test_channels_on_another_grid_are_those_that_another_program_resamples(tmp_path):
    data = load(write_site(tmp_path / "site"))
    assert (data.channels, data.excluded) == (4, ())
    for index, case in enumerate(data.cases):
        voxels = channels_of(index)
        expected = [*voxels[:3], resampled_by_itk(voxels[3], TURNED)]
        assert case.image.shape == (1, 4, 16, 16, 16)
        for channel, volume in zip(case.image[0], expected, strict=True):
            np.testing.assert_allclose(channel, padded(zscore(volume.astype("f8"))), atol=2e-5)


def test_files_of_four_axes_give_the_same_tensors_as_a_file_for_each_channel(tmp_path):
    of_files, of_one = load(write_site(tmp_path / "files")), load(write_site(tmp_path / "one", stacked=True))
    torch.testing.assert_close(of_files.images, of_one.images, atol=2e-5, rtol=0)
    assert torch.equal(of_files.labels, of_one.labels)


def test_vectors_along_the_fifth_axis_are_channels(tmp_path):
    folder = write_site(tmp_path / "site", stacked=True, count=1)
    expected = load(folder).images
    stacked = np.stack([*channels_of(0)[:3], resampled_by_itk(channels_of(0)[3], TURNED).astype("f4")], axis=-1)
    save(folder / "images" / "case_0.nii.gz", stacked[:, :, :, None])
    assert torch.equal(load(folder).images, expected)


def test_a_channel_that_covers_less_is_said(tmp_path, caplog):
    load(write_site(tmp_path / "site", count=1))
    # Slices lie at 3, 5.5, …, 15.5 mm; the FLAIR reaches from 0 to 12 mm, with half a voxel on each side.
    assert "case_0_0003.nii.gz: channel 'FLAIR' (4 of 4) covers 67 % of the voxels of case_0_0000.nii.gz" in caplog.text


@pytest.mark.parametrize("missing", [(3,), (0, 2)])
def test_a_missing_channel_is_refused_by_name_or_zeros(tmp_path, caplog, missing):
    folder = write_site(tmp_path / "site", missing=missing)
    [refused] = load(folder).excluded
    name = ("T1", "T1c", "T2", "FLAIR")[missing[0]]
    assert f"found no file for channel '{name}' ({missing[0] + 1} of 4); expected one" in refused.reason
    assert "missing_channels: zeros" in refused.reason
    (folder / "data.yaml").write_text(DESCRIPTION + "missing_channels: zeros\n")
    data = load(folder)
    assert data.excluded == ()
    filled = data.cases[0].image[0]
    assert [not bool(channel.any()) for channel in filled] == [number in missing for number in range(4)]
    whole = load(write_site(tmp_path / "whole")).cases[0].image[0]
    if 0 not in missing:
        assert torch.equal(filled[:3], whole[:3])
    assert "Site site-1: 1 of 2 cases of 'training' lack a channel, which is filled with zeros" in caplog.text


def test_zeros_stay_zeros_beside_windows(tmp_path):
    folder = write_site(tmp_path / "site", missing=(1,))
    windows = "intensity: window\nchannel_windows: [[10, 60], [0, 1], [30, 80], [40, 90]]\nmissing_channels: zeros\n"
    (folder / "data.yaml").write_text(DESCRIPTION + windows)
    image = load(folder).cases[0].image[0]
    np.testing.assert_allclose(image[0], padded((channels_of(0)[0] - 10) / 50), atol=1e-6)
    np.testing.assert_allclose(image[2], padded((channels_of(0)[2] - 30) / 50), atol=1e-6)
    assert not image[1].any()


def test_wrong_channels_are_refused_by_file_found_and_expected(tmp_path):
    folder = write_site(tmp_path / "site", count=1)
    items = json.loads((folder / "datalist.json").read_text())["training"]
    files = items[0]["image"]

    def reason(image, extra=""):
        (folder / "datalist.json").write_text(json.dumps({"training": [items[0] | {"image": image}]}))
        (folder / "data.yaml").write_text(DESCRIPTION + extra)
        with pytest.raises(DataError) as caught:
            load(folder)
        return str(caught.value)

    assert "case_0_0000.nii.gz: found an image of 3 files; expected one for each of 4 channels: T1," in reason(
        files[:3]
    )
    assert "case_0_0000.nii.gz: found 1 channel; expected 4 channels: T1, T1c, T2, FLAIR" in reason(files[0])
    lost = reason([*files[:3], "images/lost.nii.gz"], "missing_channels: zeros\n")
    assert "lost.nii.gz: found no such file; expected channel 'FLAIR' (4 of 4) of the image case_0_0000" in lost
    assert "expected a file of its own for each channel" in reason([files[0], files[0], *files[2:]])
    elsewhere = TURNED.copy()
    elsewhere[0, 3] += 500
    save(folder / "images" / "case_0_0003.nii.gz", channels_of(0)[3], elsewhere)
    assert "found channel 'FLAIR' (4 of 4) over 0% of the voxels of case_0_0000.nii.gz" in reason(files)
    save(folder / "images" / "case_0_0003.nii.gz", channels_of(0)[3], np.eye(4))
    assert "the header of case_0_0003.nii.gz says nothing of where its voxels lie" in reason(files)


def test_prepared_cases_follow_the_content_of_every_channel(tmp_path):
    folder = write_site(tmp_path / "site", count=1)
    first = load(folder).images.clone()
    save(folder / "images" / "case_0_0002.nii.gz", 3 * channels_of(0)[2] ** 2)
    second = load(folder).images
    assert torch.equal(first[:, [0, 1, 3]], second[:, [0, 1, 3]])
    assert not torch.equal(first[:, 2], second[:, 2])


def test_a_datalist_with_channels_reads_back_as_written(tmp_path):
    folder = write_site(tmp_path / "site", missing=(0,))
    before = (folder / "datalist.json").read_text()
    datalist = read_datalist(folder / "datalist.json")
    case = datalist.section("training")[0]
    assert (case.image.name, case.channels[0], case.num_missing_channels) == ("case_0_0001.nii.gz", None, 1)
    assert [file.name for file in case.files][-1] == "case_0.nii.gz"
    assert len(case.files) == 4
    write_datalist(folder / "datalist.json", datalist.cases)
    assert json.loads((folder / "datalist.json").read_text()) == json.loads(before)


@pytest.mark.parametrize("stacked", [False, True])
def test_classes_go_back_to_the_file_of_the_first_channel_by_its_foreground(tmp_path, stacked):
    folder = write_site(tmp_path / "site", stacked=stacked, count=1)
    (folder / "data.yaml").write_text(DESCRIPTION.replace("size: [16, 16, 16]\n", "") + "crop: foreground\n")
    voxels = channels_of(0)
    voxels[0][:2] = voxels[0][:, :1] = 0
    if stacked:
        save(folder / "images" / "case_0.nii.gz", np.stack([*voxels[:3], voxels[0] + 1], axis=-1))
    else:
        save(folder / "images" / "case_0_0000.nii.gz", voxels[0])
    [case] = load(folder).cases
    assert case.image.shape[2:] == (10, 9, 6)
    restore = build_restoration(read_site_description(folder))
    assert np.array_equal(restore(case.files.image, case.files.label, case.label), label_of(0))


def test_a_site_reports_the_number_of_channels_of_its_volumes_and_no_names(tmp_path):
    four = read_site_description(write_site(tmp_path / "site"))
    values = description_values(four)
    assert values[1] == 4
    assert description_of_values(values, four.classes).channels == 4
    # No numbers say that each channel has a window of its own.
    windows = {"intensity": "window", "channel_windows": ((0.0, 1.0),) * 4}
    assert description_values(four.model_copy(update=windows)) is None


def test_grey_pictures_of_named_channels_are_one_image(tmp_path):
    generator = np.random.default_rng(0)
    pixels = [generator.integers(0, 99 * (number + 1), (8, 10), dtype=np.uint8) for number in range(2)]
    for number, channel in enumerate(pixels):
        Image.fromarray(channel).save(tmp_path / f"cell_{number}.png")
    Image.fromarray(np.zeros((8, 10), np.uint8)).save(tmp_path / "label.png")
    description = "channels: [DAPI, GFP]\nsize: [8, 10]\nlabels: {0: 0, 255: 1}\nclasses: [cell]\n"
    site = tmp_path / "site"
    site.mkdir()
    for file in tmp_path.glob("*.png"):
        file.rename(site / file.name)
    (site / "data.yaml").write_text(description)
    items = [{"image": ["cell_0.png", "cell_1.png"], "label": "label.png"}]
    (site / "datalist.json").write_text(json.dumps({"training": items}))
    for channel, expected in zip(load(site).images[0], pixels, strict=True):
        np.testing.assert_allclose(channel, zscore(expected.astype("f8")), atol=1e-5)
    (site / "data.yaml").write_text(description.replace("[DAPI, GFP]", "3"))
    with pytest.raises(DataError, match="found an image of 2 files; expected one file"):
        load(site)
    Image.fromarray(np.zeros((8, 9), np.uint8)).save(site / "cell_1.png")
    (site / "data.yaml").write_text(description)
    with pytest.raises(DataError, match=r"cell_1.png: found channel 'GFP' \(2 of 2\) of 8 × 9 pixels"):
        load(site)
