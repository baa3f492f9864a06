"""Where the federation of one site lies that is audited alone."""

from pathlib import Path

import pytest

from fedannot.apps.audit.running import _federation
from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.transforms.errors import DataError


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_phantom_federation(tmp_path / "data", LesionImages(), num_sites=2, seed=103, images_per_site=1, test_images=1)
    return tmp_path / "data"


def test_a_federation_is_taken_as_it_is(data: Path, tmp_path: Path) -> None:
    assert _federation(data, tmp_path / "out") == data
    assert not (tmp_path / "out-federation").exists()


def test_one_site_is_a_federation_of_its_own_without_a_copy(data: Path, tmp_path: Path) -> None:
    folder = _federation(data / "site-1", tmp_path / "out")
    assert read_federation(folder).sites == ("site-1",)
    assert (folder / "site-1").resolve() == data / "site-1"


def test_another_site_of_the_same_name_takes_the_place_of_the_first(data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "site-1"
    other.parent.mkdir()
    (data / "site-2").rename(other)
    _federation(data / "site-1", tmp_path / "out")
    folder = _federation(other, tmp_path / "out")
    assert (folder / "site-1").resolve() == other
    # Gone data leave a link that leads nowhere.
    other.rename(other.with_name("site-3"))
    assert (_federation(data / "site-1", tmp_path / "out") / "site-1").resolve() == data / "site-1"


def test_a_persons_own_folder_of_that_name_is_not_written_to(data: Path, tmp_path: Path) -> None:
    own = data.rename(tmp_path / "out-federation")
    before = {file: file.read_bytes() for file in own.rglob("*") if file.is_file()}
    with pytest.raises(DataError, match="found other files"):
        _federation(own / "site-1", tmp_path / "out")
    assert {file: file.read_bytes() for file in own.rglob("*") if file.is_file()} == before


def test_a_folder_whose_name_is_no_sites_is_named(data: Path, tmp_path: Path) -> None:
    odd = (data / "site-1").rename(data / "my site")
    with pytest.raises(DataError, match=r"my site: the folder's name cannot be a site's: .*site names are letters"):
        _federation(odd, tmp_path / "out")


def test_a_folder_of_neither_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"found neither federation\.yaml nor data\.yaml"):
        _federation(tmp_path, tmp_path / "out")
