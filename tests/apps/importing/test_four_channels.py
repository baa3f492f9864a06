"""Four channels in three layouts: nnU-Net's files, a datalist of files of four axes, and a flat folder."""

import json
import shutil

import nibabel
import pytest
import torch
from support.four_channels import DESCRIPTION, NAMES, label_of, write_site

from fedannot.apps import simulate
from fedannot.apps.checking.checking import check_folder
from fedannot.apps.functions.data import import_found
from fedannot.apps.importing.find import Named, find_datasets
from fedannot.apps.importing.nnunet_export import export_nnunet
from fedannot.apps.importing.options import ImportOptions
from fedannot.custom.data.description import read_site_description
from fedannot.custom.data.site_data import load_site_data

COUNT = 5


def as_nnunet(folder, files):
    raw = folder / "Dataset501_Heads"
    shutil.copytree(files / "images", raw / "imagesTr")
    shutil.copytree(files / "labels", raw / "labelsTr")
    content = {"channel_names": dict(enumerate(NAMES)), "labels": {"background": 0, "a": 1}, "file_ending": ".nii.gz"}
    (raw / "dataset.json").write_text(json.dumps(content))
    return Named(named=[f"nnunet={raw}"])


def as_decathlon(folder, files):
    del files
    site = write_site(folder / "Task01", stacked=True, count=COUNT)
    content = json.loads((site / "datalist.json").read_text())
    content |= {"name": "Heads", "modality": dict(enumerate(NAMES)), "labels": {"0": "background", "1": "a"}}
    (site / "dataset.json").write_text(json.dumps(content))
    return Named(datalist=site / "dataset.json")


def as_folders(folder, files):
    del folder
    return Named(images=files / "images", labels=files / "labels", classes=("a",))


LAYOUTS = (as_nnunet, as_decathlon, as_folders)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_site(tmp_path_factory.mktemp("files") / "site", count=COUNT)


def imported(wanted, out, **keys):
    options = ImportOptions(keys={"size": (16, 16, 16)} | keys, classes=wanted.classes)
    return import_found(find_datasets(wanted), out, sites="2", test=0.2, options=options).report


def tensors(federation):
    """The images of all cases by their names, as the network sees them."""
    sites = [(site, "training") for site in ("site-1", "site-2")] + [("test", "testing")]
    result = {}
    for site, section in sites:
        data = load_site_data(federation / site, federation.parent / "cache", site=site, section=section)
        assert data.excluded == ()
        result |= {case.name.split(".")[0].removesuffix("_0000"): case.image for case in data.cases}
    return result


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_tensors(tmp_path, files, layout):
    expected = load_site_data(files, tmp_path / "cache", site="site")
    imported(layout(tmp_path, files), tmp_path / "mine")
    result = tensors(tmp_path / "mine")
    assert sorted(result) == [f"case_{index}" for index in range(COUNT)]
    for case in expected.cases:
        name = case.name.removesuffix("_0000.nii.gz")
        torch.testing.assert_close(result[name], case.image, atol=2e-5, rtol=0)
    description = read_site_description(tmp_path / "mine" / "site-1")
    assert description.channels == (4 if layout is as_folders else NAMES)


def test_a_note_says_how_many_channels_were_found_and_they_can_be_named(tmp_path, files):
    report = imported(as_folders(tmp_path, files), tmp_path / "mine", channels=NAMES)
    assert any(note.startswith("Channels: 4 of each image, in files") for note in report.notes)
    assert read_site_description(tmp_path / "mine" / "site-1").channel_names == NAMES
    stacked = write_site(tmp_path / "stacked", stacked=True, count=1)
    [dataset] = find_datasets(Named(images=stacked / "images", labels=stacked / "labels"))
    assert dataset.channels == 4
    assert dataset.notes[0].startswith("Channels: 4 of each image, in one file")


def test_a_missing_channel_is_refused_by_name_or_zeros(tmp_path, files):
    shutil.copytree(files, tmp_path / "site")
    (tmp_path / "site" / "images" / "case_2_0001.nii.gz").unlink()
    wanted = as_folders(tmp_path, tmp_path / "site")
    report = imported(wanted, tmp_path / "refused", channels=NAMES)
    [refused] = report.left_out
    assert "case_2_0000.nii.gz: found no file for channel 'T1c' (2 of 4); expected one" in str(refused)
    report = imported(wanted, tmp_path / "filled", channels=NAMES, missing_channels="zeros")
    assert report.left_out == ()
    assert any(
        "1 of 5 images lack one (case_2 for one), which is zeros: channel 'T1c' (2" in one for one in report.notes
    )
    image = tensors(tmp_path / "filled")["case_2"][0]
    assert [bool(channel.any()) for channel in image] == [True, False, True, True]


def test_numbers_of_frames_are_no_channels(tmp_path, files):
    """Masks that have the numbers of their images."""
    for number in range(2):
        (tmp_path / "labels").mkdir(exist_ok=True)
        nibabel.save(nibabel.Nifti1Image(label_of(0), None), tmp_path / "labels" / f"case_0_{number:04d}.nii.gz")
    (tmp_path / "images").mkdir()
    for number in range(2):
        shutil.copy(files / "images" / f"case_0_{number:04d}.nii.gz", tmp_path / "images")
    [dataset] = find_datasets(Named(images=tmp_path / "images", labels=tmp_path / "labels"))
    assert [case.channels for case in dataset.cases] == [(), ()]


def test_the_check_names_channels_that_say_less(tmp_path):
    site = write_site(tmp_path / "site", missing=(1,))
    voxels = nibabel.load(site / "images" / "case_1_0002.nii.gz")
    nibabel.save(nibabel.Nifti1Image(0 * voxels.get_fdata(), voxels.affine), site / "images" / "case_1_0002.nii.gz")
    [report] = check_folder(site).sites
    found = {(finding.kind, finding.files): finding.found for finding in report.findings}
    assert "found no file for channel 'T1c' (2 of 4)" in found["unreadable-image", ("images/case_0_0000.nii.gz",)]
    assert "channel 'T2' (3 of 4); the model sees zeros" in found["empty-channel", ("images/case_1_0000.nii.gz",)]
    assert "channel 'FLAIR' (4 of 4) 67%" in found["partly-covered", ("images/case_1_0000.nii.gz",)]
    (site / "data.yaml").write_text(DESCRIPTION + "missing_channels: zeros\n")
    [report] = check_folder(site).sites
    found = {finding.kind: (finding.files, finding.found) for finding in report.findings}
    assert found["missing-channels"][0] == ("images/case_0_0000.nii.gz",)
    assert "1 of 2 cases without a channel, which is zeros: channel 'T1c' (2 of 4) in 1" in found["missing-channels"][1]


def test_an_export_to_nnunet_reads_back_with_every_channel_on_one_grid(tmp_path, files):
    imported(as_folders(tmp_path, files), tmp_path / "mine", channels=NAMES)
    export_nnunet(tmp_path / "mine", tmp_path / "Dataset502_Back")
    [dataset] = find_datasets(Named(named=[f"nnunet={tmp_path / 'Dataset502_Back'}"]))
    assert dataset.channels == NAMES
    shapes = {nibabel.load(file).shape for case in dataset.cases for file in case.channels}
    assert shapes == {label_of(0).shape}


def test_two_rounds_of_federated_averaging(tmp_path, files):
    slices = ImportOptions(keys={"size": (32, 32), "channels": NAMES}, pipeline="volume_slices")
    import_found(find_datasets(as_folders(tmp_path, files)), tmp_path / "mine", sites="2", test=0.2, options=slices)
    small = {"rounds": 2, "network.features": [4, 4, 4, 4, 4, 4], "training.local_epochs": 1}
    small |= {"training.augmentation": ["flip", "rotation", "noise"]}
    run = simulate("fedavg", tmp_path / "out", data=tmp_path / "mine", changes=small)
    assert (sorted(run.summary.sites), run.summary.rounds_finished) == (["site-1", "site-2"], 2)
    weights = torch.load(tmp_path / "out" / "model.pt", weights_only=True)["model"]["conv_0.conv_0.conv.weight"]
    assert weights.shape[1] == 4
