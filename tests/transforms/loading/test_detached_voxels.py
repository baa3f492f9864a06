"""A header may name files for its voxels, and they may not lead out of its folder."""

from pathlib import Path

import numpy as np
import pytest

from fedannot.transforms.errors import DataError
from fedannot.transforms.loading.other_volumes import read_other_volume

NRRD = (
    "NRRD0004\ntype: uchar\ndimension: 3\nspace: left-posterior-superior\nsizes: 2 2 2\n"
    "space directions: (1,0,0) (0,1,0) (0,0,1)\nspace origin: (0,0,0)\nencoding: raw\n{}\n"
)
META = (
    "ObjectType = Image\nNDims = 3\nDimSize = 2 2 2\nElementType = MET_UCHAR\nElementSpacing = 1 1 1\n"
    "ElementDataFile = {}\n"
)


@pytest.mark.parametrize(
    ("name", "header", "place"),
    [
        ("a.nhdr", NRRD.format("data file: {}"), "{secret}"),
        ("a.nhdr", NRRD.format("datafile: {}"), "../secret.raw"),
        ("a.nrrd", NRRD.format("Data File: {}"), "sub/../../secret.raw"),
        ("a.nhdr", NRRD.format("data file: LIST\n{}"), "../secret.raw"),
        ("a.mhd", META, "{secret}"),
        ("a.mha", META, "../secret.raw"),
        ("a.mhd", META.replace("{}", "LIST\n{}"), "../secret.raw"),
    ],
)
def test_voxels_out_of_the_folder_are_refused(name: str, header: str, place: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.raw"
    secret.write_bytes(bytes(range(8)))
    (tmp_path / "images" / "sub").mkdir(parents=True)
    file = tmp_path / "images" / name
    file.write_text(header.format(place.format(secret=secret)))
    with pytest.raises(DataError, match=r"a header whose voxels lie in .*secret\.raw.*expected a file below"):
        read_other_volume(file)


@pytest.mark.parametrize(("name", "header"), [("a.nhdr", NRRD.format("data file: {}")), ("a.mhd", META)])
@pytest.mark.parametrize("place", ["a.raw", "sub/../a.raw", "{folder}/a.raw"])
def test_voxels_in_the_folder_are_read(name: str, header: str, place: str, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.raw").write_bytes(bytes(range(8)))
    (tmp_path / name).write_text(header.format(place.format(folder=tmp_path)))
    voxels, _, _ = read_other_volume(tmp_path / name)
    assert np.array_equal(voxels.ravel(order="F"), np.arange(8))


def test_a_header_without_an_end_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.nrrd"
    file.write_text("NRRD0004\n" + "# nothing\n" * 2**17)
    with pytest.raises(DataError, match="a header without an end"):
        read_other_volume(file)
