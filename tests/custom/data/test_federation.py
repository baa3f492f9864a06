import pytest

from fedannot.custom.data.description import ImageDescription, write_site_description
from fedannot.custom.data.federation import FederationDescription, read_federation, write_federation
from fedannot.transforms.errors import DataError

SITE = ImageDescription(channels=3, size=(64, 48), labels={0: 0, 85: 1, 170: 2}, classes=("lesion", "cyst"))


@pytest.mark.parametrize("task", ["segmentation", "classification"])
def test_descriptions_read_back_as_written(tmp_path, task):
    (tmp_path / "a").mkdir()
    write_site_description(tmp_path / "a", SITE)
    federation = FederationDescription(name="x", task=task, sites=("a",), noise="M(1,-1,1,0.5)", made="by hand")
    write_federation(tmp_path, federation)
    assert read_federation(tmp_path) == federation


def test_a_federation_that_does_not_say_so_is_for_segmentation(tmp_path):
    (tmp_path / "a").mkdir()
    write_site_description(tmp_path / "a", SITE)
    (tmp_path / "federation.yaml").write_text("name: x\nsites: [a]\n")
    assert read_federation(tmp_path).task == "segmentation"


def test_sites_without_a_folder_are_named(tmp_path):
    write_federation(tmp_path, FederationDescription(name="x", sites=("a", "b")))
    with pytest.raises(DataError, match=r"federation\.yaml: key 'sites' names a, b; expected a folder"):
        read_federation(tmp_path)


@pytest.mark.parametrize("name", ["test", "../x", "a/b", "", ".", "..", "-x", "a b"])
def test_a_site_may_not_be_called_test_or_be_a_path(tmp_path, name):
    (tmp_path / "federation.yaml").write_text(f"name: x\nsites: ['{name}']\n")
    with pytest.raises(DataError, match=r"federation\.yaml: key 'sites' .*site names are letters"):
        read_federation(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x\nsites: [a, a]\n", "federation.yaml: key 'sites' .*must differ"),
        ("name: x\nsites: []\n", "federation.yaml: key 'sites' .*at least 1"),
        ("name: x\nsites: [a]\ntask: detection\n", "federation.yaml: key 'task' is 'detection': .*'segmentation'"),
        ("sites: [a]\n", "federation.yaml: missing key 'name'"),
    ],
)
def test_wrong_federations_name_file_and_key(tmp_path, text, message):
    (tmp_path / "federation.yaml").write_text(text)
    with pytest.raises(DataError, match=message):
        read_federation(tmp_path)
