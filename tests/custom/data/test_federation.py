import pytest

from fedannot.custom.data.federation import (
    FederationDescription,
    SiteDescription,
    read_federation,
    read_site_description,
    write_federation,
    write_site_description,
)
from fedannot.transforms.errors import DataError

SITE = SiteDescription(channels=3, size=(64, 48), labels={0: 0, 85: 1, 170: 2}, classes=("lesion", "cyst"))


def test_descriptions_read_back_as_written(tmp_path):
    write_site_description(tmp_path, SITE)
    assert read_site_description(tmp_path) == SITE
    (tmp_path / "a").mkdir()
    write_site_description(tmp_path / "a", SITE)
    federation = FederationDescription(name="x", sites=("a",), noise="M(1,-1,1,0.5)", made="by hand")
    write_federation(tmp_path, federation)
    assert read_federation(tmp_path) == federation


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"data\.yaml: found nothing; expected the keys pipeline, channels"),
        ("channels: [1", r"data\.yaml: is not YAML"),
        ("chanels: 1", r"data\.yaml: unknown key 'chanels' = 1; did you mean 'channels'"),
        ("channels: 2", r"data\.yaml: key 'channels' is 2: .*1 or 3"),
        ("channels: 1", r"data\.yaml: missing key 'size'"),
        (
            "channels: 1\nsize: [8, 8]\nlabels: {255: 1}\nclasses: [lesion]",
            r"data\.yaml: .*'labels' leads to the classes \[1\], expected 0 .*\[0, 1\]",
        ),
        ("channels: 1\nsize: [0, 8]\nlabels: {0: 0, 255: 1}\nclasses: [lesion]", r"key 'size\.0' is 0: .*greater than"),
    ],
)
def test_wrong_descriptions_name_file_key_found_and_allowed(tmp_path, text, message):
    (tmp_path / "data.yaml").write_text(text)
    with pytest.raises(DataError, match=message):
        read_site_description(tmp_path)


def test_sites_without_a_folder_are_named(tmp_path):
    write_federation(tmp_path, FederationDescription(name="x", sites=("a", "b")))
    with pytest.raises(DataError, match=r"federation\.yaml: key 'sites' names a, b; expected a folder"):
        read_federation(tmp_path)


def test_a_site_may_not_be_called_test_or_be_a_path(tmp_path):
    for name in ("test", "../x"):
        (tmp_path / "federation.yaml").write_text(f"name: x\nsites: ['{name}']\n")
        with pytest.raises(DataError, match=r"federation\.yaml: key 'sites' .*site names are letters"):
            read_federation(tmp_path)
