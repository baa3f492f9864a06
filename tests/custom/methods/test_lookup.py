"""Which method a job names: one of fedannot's own, or one that another installed package has."""

import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from fedannot.apps.runs.job import Job
from fedannot.custom.interface.declaration import Method
from fedannot.custom.methods import METHODS, lookup
from fedannot.custom.methods.fedavg.averaging_settings import (
    ClassificationAveragingSettings,
    SegmentationAveragingSettings,
)
from fedannot.custom.methods.lookup import all_methods, find_method, method_names, method_of, read_job_settings
from fedannot.custom.settings import SettingsError

JOBS = Path(__file__).parents[3] / "jobs"

OWN = [(method.task, method.name) for method in METHODS]

# What the module of another package may hold; its entry point names the method and the object.
OTHERS = """
from fedannot.custom.interface.declaration import Method
from fedannot.custom.methods.fedavg.settings import ClassificationSettings, FedAvgSettings

HALVES = "fedannot.custom.methods.fedavg.server:FedAvgServer", "fedannot.custom.methods.fedavg.site:FedAvgSite"

class MedianSettings(FedAvgSettings):
    method: str = "median"
    trimmed: int = 1

MEDIAN = Method("median", "segmentation", MedianSettings, *HALVES)
BOTH = (MEDIAN, Method("median", "classification", ClassificationSettings, *HALVES))
FEDAVG = Method("fedavg", "segmentation", MedianSettings, *HALVES)
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Install a package with these entry points: name of the method, and its value."""

    def forget() -> None:
        lookup._entry_points.cache_clear()
        lookup._installed.cache_clear()

    def install(**values: str) -> None:
        found = [EntryPoint(name, value, lookup.ENTRY_POINTS) for name, value in values.items()]
        monkeypatch.setattr(lookup, "entry_points", lambda group: found if group == "fedannot.methods" else [])
        forget()

    (tmp_path / "other_methods.py").write_text(OTHERS)
    (tmp_path / "broken_methods.py").write_text("import no_such_package_at_all\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield install
    forget()
    for name in ("other_methods", "broken_methods"):
        sys.modules.pop(name, None)


def test_methods_have_their_own_names_and_are_the_defaults_of_their_settings() -> None:
    assert len(set(OWN)) == len(OWN)
    for method in METHODS:
        settings = method.settings()  # type: ignore[call-arg]
        assert (settings.task, settings.method) == (method.task, method.name)
        assert method_of(settings) is find_method(method.task, method.name) is method


def test_an_unknown_method_is_named_with_the_file_and_those_of_its_task() -> None:
    with pytest.raises(SettingsError) as caught:
        find_method("classification", "feda3i", "jobs/mine/settings.conf")
    assert str(caught.value) == (
        "jobs/mine/settings.conf: key 'method' is 'feda3i'; allowed for classification: audit_classification, "
        "auto_classification, elr, fedavg, fedcorr, fedfixer, fedgp, fedgsca, fednoro, fedrobust, "
        "fedselect."
    )


@pytest.mark.parametrize("values", [{}, {"method": 3}, {"method": None}])
def test_settings_name_their_method(values: dict[str, object]) -> None:
    with pytest.raises(
        SettingsError, match=r"^file: key 'method' is .*; allowed for segmentation: adele, audit, auto, decoupled, "
    ):
        read_job_settings(values, "file")


REMOVED = pytest.mark.parametrize(
    ("key", "value", "advice"),
    [("treatment", "feda3i", "jobs/fedaaai"), ("treatment", "fedia", "jobs/fedia"), ("judge", "without_own", "remove")],
)


@REMOVED
def test_a_value_that_has_gone_is_refused_with_what_to_do(key: str, value: str, advice: str) -> None:
    gone = f"key '{key}' is '{value}', which earlier versions had. "
    with pytest.raises(SettingsError, match=f"^file: {gone}.*{advice}"):
        read_job_settings({"method": "auto", key: value}, "file")
    # So is a change of a job on the command line.
    with pytest.raises(SettingsError, match=f"{gone}.*{advice}"):
        Job.open(JOBS / "auto").settings_with({key: value})


@REMOVED
def test_the_settings_of_a_finished_run_are_read_all_the_same(key: str, value: str, advice: str) -> None:
    del advice
    values = {"method": "auto", "rounds": 20}
    same = values | ({"treatment": "none"} if key == "treatment" else {})
    assert read_job_settings(values | {key: value}, of_finished_run=True) == read_job_settings(same)


def test_a_setting_that_has_gone_may_have_the_value_whose_effect_is_left() -> None:
    assert read_job_settings({"method": "auto", "judge": "global"}) == read_job_settings({"method": "auto"})
    with pytest.raises(SettingsError, match="unknown key 'judge' = 'local'"):
        read_job_settings({"method": "auto", "judge": "local"})


def test_an_unknown_task_is_named_with_those_that_there_are() -> None:
    with pytest.raises(SettingsError, match=r"^file: key 'task' is 'x'; allowed: segmentation, classification\.$"):
        read_job_settings({"task": "x", "method": "fedavg"}, "file")


def test_one_name_has_the_settings_of_its_task() -> None:
    assert type(read_job_settings({"method": "fedavg"})) is SegmentationAveragingSettings
    assert type(read_job_settings({"task": "classification", "method": "fedavg"})) is ClassificationAveragingSettings


def test_another_packages_method_is_found_with_its_settings(installed: Callable[..., None]) -> None:
    installed(median="other_methods:MEDIAN")
    settings = read_job_settings({"method": "median", "trimmed": 2})
    assert settings.model_dump()["trimmed"] == 2
    assert method_of(settings).name == "median"
    assert all_methods()[:-1] == list(METHODS)
    assert all_methods()[-1] == method_of(settings)
    assert method_names("segmentation")[-1] == "median"


def test_its_package_is_imported_when_the_method_is_asked_for(installed: Callable[..., None]) -> None:
    installed(median="other_methods:MEDIAN")
    assert "median" in method_names("segmentation")
    find_method("segmentation", "fedavg")
    assert "other_methods" not in sys.modules
    find_method("segmentation", "median")
    assert "other_methods" in sys.modules


def test_an_entry_point_may_give_a_method_for_each_task(installed: Callable[..., None]) -> None:
    installed(median="other_methods:BOTH")
    result = {task: find_method(task, "median") for task in lookup.TASKS}
    assert {task: method.task for task, method in result.items()} == {task: task for task in lookup.TASKS}


def test_a_method_for_the_other_task_alone_is_none_of_this_one(installed: Callable[..., None]) -> None:
    installed(median="other_methods:MEDIAN")
    with pytest.raises(SettingsError, match="key 'method' is 'median'; allowed for classification: "):
        find_method("classification", "median")


def test_a_name_of_fedannots_own_never_leads_to_another_package(installed: Callable[..., None]) -> None:
    """It would decide in another's job what leaves a site."""
    installed(fedavg="other_methods:FEDAVG")
    assert find_method("segmentation", "fedavg").settings is SegmentationAveragingSettings
    assert [(method.task, method.name) for method in all_methods()] == OWN
    assert method_names("segmentation").count("fedavg") == 1
    assert "other_methods" not in sys.modules


def test_nor_does_an_own_name_that_is_of_the_other_task(installed: Callable[..., None]) -> None:
    installed(feda3i="other_methods:FEDAVG")
    with pytest.raises(
        SettingsError,
        match="key 'method' is 'feda3i'; allowed for classification: audit_class",
    ):
        find_method("classification", "feda3i")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("broken_methods:METHOD", "ModuleNotFoundError: No module named 'no_such_package_at_all'"),
        ("no_such_module:METHOD", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("other_methods:MISSING", "AttributeError: .*MISSING"),
        ("other_methods:MedianSettings", "TypeError: .*"),
    ],
)
def test_a_package_that_cannot_be_used_is_named_with_the_reason(
    installed: Callable[..., None], value: str, reason: str
) -> None:
    installed(median=value)
    expected = f"^The method 'median' is of another package, '{value}', which cannot be used: {reason}"
    for look in (lambda: find_method("segmentation", "median"), all_methods):
        with pytest.raises(SettingsError, match=expected):
            look()


@pytest.mark.parametrize(
    ("value", "shown"),
    [("other_methods:HALVES", "'fedannot.custom"), ("other_methods:FEDAVG", "Method\\(name='fedavg'")],
)
def test_what_is_no_method_of_its_name_is_refused(installed: Callable[..., None], value: str, shown: str) -> None:
    installed(median=value)
    with pytest.raises(SettingsError) as caught:
        find_method("segmentation", "median")
    assert f"The entry point '{value}' of the group 'fedannot.methods' gives " in str(caught.value)
    assert shown.replace("\\", "") in str(caught.value)
    assert str(caught.value).endswith("expected a fedannot.custom.interface.declaration.Method of the name 'median'.")


def test_a_broken_package_is_no_trouble_to_jobs_of_other_methods(installed: Callable[..., None]) -> None:
    installed(median="broken_methods:METHOD")
    assert isinstance(find_method("segmentation", "fedia"), Method)
    assert method_of(read_job_settings({"method": "fedavg"})) in METHODS


@pytest.mark.parametrize("method", ["fedselect", "fedcorr"])
def test_both_tasks_predict_as_often_where_a_method_is_the_same_for_them(method: str) -> None:
    """With other bases of the settings of segmentation, whose own answer of 0 would come first."""
    predicted = {
        task: find_method(task, method).settings().training_predictions for task in ("segmentation", "classification")
    }
    expected = {"fedselect": 2 * 100, "fedcorr": 5 * 2 + 1}[method]
    assert predicted == dict.fromkeys(predicted, expected)


def test_plain_averaging_of_segmentations_predicts_no_training_case() -> None:
    assert find_method("segmentation", "fedavg").settings().training_predictions == 0
