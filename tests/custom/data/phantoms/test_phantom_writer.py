"""Phantom federations on disk: the same bits whoever writes them, of every drawing."""

import hashlib
import json
import subprocess
import sys

import pytest

from fedannot.custom.data.datalist import read_datalist
from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.phantoms.cells import Cells
from fedannot.custom.data.phantoms.chambers import Chambers
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.lesion_volumes import LesionVolumes
from fedannot.custom.data.phantoms.writer import write_phantom_federation, write_phantom_site, write_phantom_test
from fedannot.transforms.errors import DataError

IMPERFECT = {
    "lesions2d": LesionImages("M(25,-25,10,0.5)", exact=True, stratified=0.5),
    "lesions3d": LesionVolumes((0.2, 0.5, 1.0)),
    "chambers3d": Chambers("0-C(12,8)-D(12,8)"),
    "cells2d": Cells("0-S50-C100"),
}


def hashes(folder):
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


@pytest.fixture(scope="module", params=IMPERFECT.values(), ids=IMPERFECT)
def drawing(request):
    return request.param


@pytest.fixture(scope="module")
def federation(drawing, tmp_path_factory):
    out = tmp_path_factory.mktemp("phantom") / "federation"
    write_phantom_federation(out, drawing, num_sites=3, seed=3, images_per_site=3, test_images=2)
    return out


def test_a_site_written_alone_and_later_is_the_same_bit_for_bit(drawing, federation, tmp_path):
    write_phantom_site(tmp_path / "own", 1, drawing, num_sites=3, seed=3, num_images=3)
    assert hashes(tmp_path / "own") == hashes(federation / "site-2")
    write_phantom_test(tmp_path / "test", drawing, seed=3, num_images=2)
    assert hashes(tmp_path / "test") == hashes(federation / "test")


def test_writing_again_gives_the_same_bits(drawing, federation, tmp_path):
    write_phantom_federation(tmp_path / "again", drawing, num_sites=3, seed=3, images_per_site=3, test_images=2)
    assert hashes(tmp_path / "again") == hashes(federation)


def test_no_two_images_are_alike_and_another_seed_gives_others(drawing, federation, tmp_path):
    images = [digest for name, digest in hashes(federation).items() if "/images/" in name]
    own_validation = 3 * 6 if drawing.task == "chambers3d" else 0
    assert len(images) == len(set(images)) == 3 * 3 + own_validation + 2
    write_phantom_site(tmp_path / "site", 0, drawing, num_sites=3, seed=4, num_images=3)
    write_phantom_test(tmp_path / "test", drawing, seed=4, num_images=2)
    assert not set(hashes(tmp_path / "site").values()) & set(images)
    assert not set(hashes(tmp_path / "test").values()) & set(images)


def test_more_test_images_leave_the_first_ones_as_they_are(drawing, federation, tmp_path):
    write_phantom_test(tmp_path / "more", drawing, seed=3, num_images=3)
    few, more = hashes(federation / "test"), hashes(tmp_path / "more")
    kept = [name for name in few if name.split("/")[0] in ("images", "labels")]
    assert kept
    assert all(more[name] == few[name] for name in kept)


def test_the_description_names_the_task_and_what_is_wrong(drawing, federation):
    described = read_federation(federation)
    assert described.name == f"phantom-{drawing.task}"
    assert described.sites == ("site-1", "site-2", "site-3")
    assert described.task == ("classification" if drawing.task == "cells2d" else "segmentation")
    expected = {
        "lesions2d": ("M(25,-25,10,0.5)", ", exact count, stratified from 0.5"),
        "lesions3d": ("completeness 0.2,0.5,1", ""),
        "chambers3d": ("protocols 0-C(12,8)-D(12,8)", ""),
        "cells2d": ("labels 0-S50-C100", ""),
    }
    noise, options = expected[drawing.task]
    assert (described.noise, described.made) == (noise, f"phantom {drawing.task}{options}, seed 3")


def test_the_test_set_has_a_list_of_its_own_and_no_label_beside(federation):
    assert list(json.loads((federation / "test" / "datalist.json").read_text(encoding="utf-8"))) == ["testing"]
    cases = read_datalist(federation / "test" / "datalist.json").section("testing")
    assert [case.clean_label for case in cases] == [None, None]


def test_sites_may_have_different_numbers_of_images(tmp_path):
    write_phantom_federation(tmp_path / "out", LesionImages(), num_sites=2, images_per_site=(1, 3), test_images=1)
    counts = [
        len(read_datalist(tmp_path / "out" / site / "datalist.json").section("training"))
        for site in ("site-1", "site-2")
    ]
    assert counts == [1, 3]


@pytest.mark.parametrize("name", ["num_sites", "images_per_site", "test_images"])
def test_a_federation_without_sites_or_images_is_refused(drawing, name, tmp_path):
    counts = {"num_sites": 3, "images_per_site": 1, "test_images": 1} | {name: 0}
    with pytest.raises(DataError, match=f"Phantom: found {name}=0, expected at least 1"):
        write_phantom_federation(tmp_path / "out", drawing, **counts)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("index", [-1, 3])
def test_a_site_that_the_federation_does_not_have_is_refused(drawing, index, tmp_path):
    with pytest.raises(DataError, match=f"found site_index={index}, expected 0 to 2"):
        write_phantom_site(tmp_path / "site", index, drawing, num_sites=3)
    assert not (tmp_path / "site").exists()


def test_a_folder_with_files_is_refused_and_stays(drawing, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(DataError, match="full: found a folder with files in it; expected an empty or absent"):
        write_phantom_federation(tmp_path / "full", drawing, num_sites=3)
    assert [file.name for file in tmp_path.rglob("*")] == ["full", "x"]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (LesionImages("M(1,2)"), r"M\(1,2\)"),
        (LesionVolumes((0.5, 1.0)), r"found 2 values for 3 sites; expected one for each"),
        (LesionVolumes((0.5, 1.0, 1.5)), r"found \[1\.5\]; expected shares from 0 to 1"),
        (Chambers("0-C"), r"Protocols 0-C: found 2 entries for 3 sites; expected 1 or all"),
        (Chambers("E"), r"Found the protocol 'E'; expected 0"),
        (Cells("S10-S10"), r"2 entries for 3 sites"),
        (Cells("M(25,-25,10,0.2)"), r"expected 0, or S, P or C"),
    ],
)
def test_an_imperfection_that_cannot_be_made_is_refused_and_leaves_nothing(wrong, reason, tmp_path):
    with pytest.raises(DataError, match=reason):
        write_phantom_federation(tmp_path / "out", wrong, num_sites=3, images_per_site=1, test_images=1)
    assert list(tmp_path.iterdir()) == []


def test_right_labels_need_neither_monai_nor_torch(tmp_path):
    code = (
        "import sys; from pathlib import Path\n"
        "from fedannot.custom.data.phantoms.choice import DRAWINGS\n"
        "from fedannot.custom.data.phantoms.writer import write_phantom_site\n"
        "for task in ('lesions2d', 'cells2d'):\n"
        f"    write_phantom_site(Path({str(tmp_path)!r}) / task, 0, DRAWINGS[task](), num_sites=1, num_images=1)\n"
        "assert not {'monai', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
