"""Where data are looked for: the order of the places, what is said where nothing is found, and the embedded phantom."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedannot.custom.data.location import DATA_VARIABLE, DataLocation, locate_site_data, locate_test_data
from fedannot.custom.data.phantoms.drawing import phantom_index
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.settings import EmbeddedSettings
from fedannot.custom.data.phantoms.writer import write_phantom_site, write_phantom_test
from fedannot.transforms.errors import DataError

EMBEDDED = EmbeddedSettings(sites=2, images_per_site=1, test_images=1, seed=5)


@pytest.fixture(autouse=True)
def without_variable(monkeypatch):
    monkeypatch.delenv(DATA_VARIABLE, raising=False)


@pytest.fixture
def config(tmp_path):
    """The site's configuration folder, which says nothing of data."""
    (tmp_path / "local").mkdir()
    return tmp_path / "local"


@pytest.fixture
def run_folder(tmp_path):
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def make_federation(folder, *names):
    """Folders with a description; what stands in it does not matter for where it lies."""
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "data.yaml").touch()
    return folder


def hashes(folder):
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def test_variable_comes_before_the_configuration_and_that_before_the_setting(tmp_path, config, run_folder, monkeypatch):
    variable, setting = (make_federation(tmp_path / name, "site-1", "test") for name in ("variable", "setting"))
    (config / "data.yaml").touch()
    monkeypatch.setenv(DATA_VARIABLE, str(variable))
    places = {}
    for last in ("variable", "configuration", "setting", "embedded"):
        if last == "configuration":
            monkeypatch.delenv(DATA_VARIABLE)
        if last == "setting":
            (config / "data.yaml").unlink()
        named = "" if last == "embedded" else str(setting)
        result = locate_site_data("site-1", named, EMBEDDED, config, run_folder)
        places[last] = (result, locate_test_data(named, EMBEDDED if result.embedded else None, config, run_folder))
    assert places == {
        "variable": (DataLocation(variable / "site-1", embedded=False), variable / "test"),
        "configuration": (DataLocation(config, embedded=False), config),
        "setting": (DataLocation(setting / "site-1", embedded=False), setting / "test"),
        "embedded": (
            DataLocation(run_folder / "embedded" / "site-1", embedded=True),
            run_folder / "embedded" / "test",
        ),
    }


@pytest.mark.parametrize("place", ["variable", "configuration", "setting"])
def test_named_folder_may_be_the_site_s_own(tmp_path, config, run_folder, monkeypatch, place):
    own = config if place == "configuration" else tmp_path / "own"
    own.mkdir(exist_ok=True)
    (own / "data.yaml").touch()
    if place == "variable":
        monkeypatch.setenv(DATA_VARIABLE, str(own))
    result = locate_site_data("hospital", str(own) if place == "setting" else "", EMBEDDED, config, run_folder)
    assert result == DataLocation(own, embedded=False)


def test_site_s_folder_comes_before_a_description_beside_it(tmp_path, config, run_folder):
    federation = make_federation(tmp_path / "federation", ".", "site-1")
    assert locate_site_data("site-1", str(federation), EMBEDDED, config, run_folder).folder == federation / "site-1"
    assert locate_site_data("site-2", str(federation), EMBEDDED, config, run_folder).folder == federation


def test_empty_variable_names_nothing(tmp_path, config, run_folder, monkeypatch):
    monkeypatch.setenv(DATA_VARIABLE, "")
    federation = make_federation(tmp_path / "federation", "site-1")
    assert locate_site_data("site-1", str(federation), EMBEDDED, config, run_folder).folder == federation / "site-1"


def test_variable_without_the_site_s_data_is_an_error_and_nothing_else_is_tried(
    tmp_path, config, run_folder, monkeypatch
):
    elsewhere = make_federation(tmp_path / "elsewhere", "site-7")
    monkeypatch.setenv(DATA_VARIABLE, str(elsewhere))
    (config / "data.yaml").touch()
    with pytest.raises(DataError) as caught:
        locate_site_data("site-1", str(make_federation(tmp_path / "setting", "site-1")), EMBEDDED, config, run_folder)
    assert str(caught.value) == (
        f"Site site-1: the environment variable FEDANNOT_DATA names {elsewhere}; expected there a data.yaml or a "
        "folder 'site-1' that has one."
    )
    assert not (run_folder / "embedded").exists()


@pytest.mark.parametrize("exists", [False, True])
def test_setting_without_the_site_s_data_is_an_error(tmp_path, config, run_folder, exists):
    folder = tmp_path / "data"
    if exists:
        folder.mkdir()
    with pytest.raises(DataError) as caught:
        locate_site_data("site-1", str(folder), EMBEDDED, config, run_folder)
    assert str(caught.value) == (
        f"Site site-1: the job's setting 'data' names {folder}; expected there a data.yaml or a folder 'site-1' that "
        "has one."
    )


def test_embedded_site_is_the_one_of_the_settings_and_made_once(tmp_path, config, run_folder):
    embedded = EMBEDDED.model_copy(update={"noise": "M(25,-25,10,0.5)", "exact": True, "stratified": 0.5})
    result = locate_site_data("site-2", "", embedded, config, run_folder)
    assert result == DataLocation(run_folder / "embedded" / "site-2", embedded=True)
    write_phantom_site(
        tmp_path / "expected",
        1,
        LesionImages(noise="M(25,-25,10,0.5)", exact=True, stratified=0.5),
        num_sites=2,
        seed=5,
        num_images=1,
    )
    assert hashes(result.folder) == hashes(tmp_path / "expected")
    (result.folder / "kept").touch()
    assert locate_site_data("site-2", "", embedded, config, run_folder) == result
    assert (result.folder / "kept").exists()


@pytest.mark.parametrize("site", ["site-3", "site-0", "hospital"])
def test_site_outside_the_embedded_names_is_refused_with_where_to_name_its_data(config, run_folder, site):
    with pytest.raises(DataError) as caught:
        locate_site_data(site, "", EMBEDDED, config, run_folder)
    assert str(caught.value) == (
        f"Site {site}: no data are named (environment variable FEDANNOT_DATA, local/data.yaml or the job's setting "
        "'data'), and the embedded phantom has only site-1 to site-2."
    )
    assert list(run_folder.iterdir()) == []


def test_a_site_of_another_name_is_the_embedded_one_that_is_left_for_it(tmp_path, config, run_folder):
    run = ["hospital-10", "site-1", "hospital-9"]
    three = EMBEDDED.model_copy(update={"sites": 3})
    for site, index in {"hospital-9": 1, "hospital-10": 2, "site-1": 0}.items():
        result = locate_site_data(site, "", three, config, run_folder, run)
        write_phantom_site(tmp_path / site, index, LesionImages(), num_sites=3, seed=5, num_images=1)
        assert hashes(result.folder) == hashes(tmp_path / site)
    assert locate_site_data("site-3", "", three, config, run_folder, [*run, "site-3"]).embedded
    with pytest.raises(DataError, match=r"^Site z: .* has only site-1 to site-2 for the 3 sites of the run\.$"):
        locate_site_data("z", "", EMBEDDED, config, run_folder, ["a", "b", "z"])


@given(
    names=st.sets(st.sampled_from([*"abcdef", *(f"site-{number}" for number in range(0, 8))]), min_size=1),
    num_sites=st.integers(1, 6),
)
def test_no_two_sites_of_a_run_are_the_same_embedded_site(names, num_sites):
    of_sites = {name: phantom_index(name, num_sites, names) for name in names}
    taken = [index for index in of_sites.values() if index is not None]
    assert len(taken) == len(set(taken)) == min(len(names), num_sites)
    assert all(of_sites[f"site-{index + 1}"] == index for index in range(num_sites) if f"site-{index + 1}" in names)


def test_embedded_test_set_is_used_only_if_all_sites_are_embedded(tmp_path, config, run_folder):
    assert locate_test_data("", None, config, run_folder) is None
    assert list(run_folder.iterdir()) == []
    result = locate_test_data("", EMBEDDED, config, run_folder)
    assert result == run_folder / "embedded" / "test"
    write_phantom_test(tmp_path / "expected", LesionImages(), num_images=1, seed=5)
    assert hashes(result) == hashes(tmp_path / "expected")
    (result / "kept").touch()
    assert locate_test_data("", EMBEDDED, config, run_folder) == result
    assert (result / "kept").exists()


@pytest.mark.parametrize("embedded", [None, EMBEDDED])
def test_named_data_without_a_test_set_give_none_and_a_site_s_own_folder_is_no_test_set(
    tmp_path, config, run_folder, monkeypatch, embedded
):
    federation = make_federation(tmp_path / "federation", ".", "site-1")
    assert locate_test_data(str(federation), embedded, config, run_folder) is None
    monkeypatch.setenv(DATA_VARIABLE, str(federation))
    # The first named place decides, for the test set as for the sites.
    (config / "data.yaml").touch()
    assert locate_test_data("", embedded, config, run_folder) is None


def test_server_s_configuration_may_describe_the_test_set_or_have_it_in_a_folder(config, run_folder):
    (config / "data.yaml").touch()
    assert locate_test_data("", None, config, run_folder) == config
    make_federation(config, "test")
    assert locate_test_data("", None, config, run_folder) == config / "test"


def test_a_job_that_asks_for_data_makes_no_phantom_at_a_site_that_names_none(config, run_folder):
    with pytest.raises(DataError) as caught:
        locate_site_data("site-1", "", None, config, run_folder)
    assert str(caught.value) == (
        "Site site-1: no data are named (environment variable FEDANNOT_DATA, local/data.yaml or the job's setting "
        "'data'), and the job does not train on the embedded phantom (setting 'data_required')."
    )
    assert list(run_folder.iterdir()) == []
