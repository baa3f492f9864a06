"""Former names of settings and fields: read as the new ones, with one warning for each setting."""

import warnings

import pytest
from pydantic import Field, ValidationError

from fedannot.custom import former_names
from fedannot.custom.annotation_bias.parameters import ParameterKind
from fedannot.custom.former_names import current_setting, with_current_keys
from fedannot.custom.methods.auto.settings import AutoSettings
from fedannot.custom.methods.lookup import read_job_settings
from fedannot.custom.records.round_records import OpenRecord, Record, RoundRecord
from fedannot.custom.settings import RunSettings, SettingsError, read_settings
from fedannot.custom.strict_model import SettingsModel


class Block(SettingsModel):
    limit_now: float = 0.0
    kinds_now: tuple[str, ...] = ("one",)


class JobSettings(RunSettings):
    block: Block = Block()
    level_now: str = "auto"


class Part(Record):
    size_now: int


class Whole(Record):
    parts: dict[str, Part]


def test_former_values_of_a_jobs_settings_are_read() -> None:
    values = {"network": {}, "training": {}, "method": "auto", "unknown_images": "usual"}
    with pytest.warns(FutureWarning, match="unknown_images = in_domain"):
        settings = read_job_settings(values)
    assert isinstance(settings, AutoSettings)
    assert settings.unknown_images == "in_domain"


def test_settings_of_a_finished_run_are_read_without_a_warning() -> None:
    values = {"network": {}, "training": {}, "method": "auto", "unknown_images": "usual", "offset_floor": 0.75}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        settings = read_job_settings(values, of_finished_run=True)
    assert isinstance(settings, AutoSettings)
    assert (settings.unknown_images, settings.min_boundary_bias) == ("in_domain", 0.75)


def test_a_value_that_does_nothing_any_more_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(former_names, "_WARNED", set())
    values = {"network": {}, "training": {}, "method": "auto", "undo": ["offset", "overshoot"]}
    with pytest.warns(FutureWarning, match="'correct = overshoot' does nothing any more"):
        settings = read_job_settings(values)
    assert isinstance(settings, AutoSettings)
    assert settings.correct == ("offset",)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_job_settings(values, of_finished_run=True) == settings
    assert with_current_keys({"undo": ["offset", "overshoot"]}) == {"correct": ["offset"]}


def test_former_values_of_what_is_corrected_are_read_and_warn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(former_names, "_WARNED", set())
    values = {"network": {}, "training": {}, "method": "auto", "treatment": "undo", "undo": ["swapped", "missing"]}
    with pytest.warns(FutureWarning) as warned:
        settings = read_job_settings(values)
    assert isinstance(settings, AutoSettings)
    assert (settings.treatment, settings.correct) == ("correct", ("confused", "missing"))
    assert settings.corrected_kinds == (ParameterKind.CONFUSED, ParameterKind.MISSING)
    texts = [str(warning.message) for warning in warned]
    assert [part for part in ("'undo' is", "treatment = undo", "correct = swapped") for t in texts if part in t] == [
        "'undo' is",
        "treatment = undo",
        "correct = swapped",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_job_settings(values) == settings


def test_the_former_name_of_a_stage_is_read_as_the_present_one() -> None:
    record = {"version": 1, "round": 3, "stage": "undone", "evaluated_on": None, "sites": {}, "refused": {}}
    assert RoundRecord.model_validate(record | {"seconds": 1.0}).stage == "corrected"


@pytest.fixture
def renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"limit": "limit_now", "kinds": "kinds_now", "level": "level_now"}
    monkeypatch.setattr(former_names, "FORMER_SETTINGS", settings)
    monkeypatch.setattr(former_names, "FORMER_VALUES", {"kinds_now": {"uno": "one"}, "level_now": {"low": "deep"}})
    monkeypatch.setattr(former_names, "OLD_FIELD_NAMES", {"size": "size_now"})
    monkeypatch.setattr(former_names, "_WARNED", set())


def read(**values: object) -> JobSettings:
    return read_settings(JobSettings, {"network": {}, "training": {}, **values})


@pytest.mark.usefixtures("renamed")
def test_a_former_name_of_a_setting_is_read_and_warns_once() -> None:
    with pytest.warns(FutureWarning, match="'limit' is called 'limit_now' now"):
        assert read(block={"limit": 2}).block.limit_now == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(block={"limit": 3}).block.limit_now == 3


@pytest.mark.usefixtures("renamed")
def test_former_values_are_read_alone_and_in_lists() -> None:
    with pytest.warns(FutureWarning, match="kinds_now = uno"):
        assert read(block={"kinds_now": ["uno", "two"]}).block.kinds_now == ("one", "two")
    with pytest.warns(FutureWarning, match="level_now = low"):
        assert read(level="low").level_now == "deep"


@pytest.mark.usefixtures("renamed")
def test_names_of_now_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(block={"limit_now": 2}, level_now="deep").block.limit_now == 2


@pytest.mark.usefixtures("renamed")
def test_a_setting_under_both_names_is_an_error_that_names_them() -> None:
    with pytest.raises(SettingsError, match=r"settings\.conf: .*found 'limit' and 'limit_now'.*leave it out"):
        read(block={"limit": 2, "limit_now": 2})


@pytest.mark.usefixtures("renamed")
def test_a_former_name_that_is_no_setting_of_the_job_is_unknown() -> None:
    with pytest.raises(SettingsError, match="unknown key 'limit'"):
        read(limit=2)


@pytest.mark.usefixtures("renamed")
def test_a_key_of_the_command_line_is_named_as_now() -> None:
    known = ["rounds", "block.limit_now"]
    assert current_setting("block.limit", known) == "block.limit_now"
    assert current_setting("limit", known) == "limit"
    assert current_setting("rounds", known) == "rounds"


@pytest.mark.usefixtures("renamed")
def test_settings_of_a_state_are_compared_under_the_names_of_now() -> None:
    kept = {"level": "low", "block": {"limit": 2, "kinds": ["uno"]}, "rounds": 3}
    assert with_current_keys(kept) == {
        "level_now": "deep",
        "block": {"limit_now": 2, "kinds_now": ["one"]},
        "rounds": 3,
    }


@pytest.mark.usefixtures("renamed")
def test_former_names_of_fields_are_read_at_any_depth_and_never_written() -> None:
    read_as = Whole.model_validate({"parts": {"a": {"size": 1}, "size": {"size_now": 2}}})
    assert read_as.plain() == {"parts": {"a": {"size_now": 1}, "size": {"size_now": 2}}}
    with pytest.raises(ValidationError, match="'size' and 'size_now'"):
        Part.model_validate({"size": 1, "size_now": 1})


@pytest.mark.usefixtures("renamed")
def test_a_record_that_has_a_field_of_the_former_name_keeps_it() -> None:
    class Both(Record):
        size: int
        size_now: int = 0

    assert Both.model_validate({"size": 1, "size_now": 2}).plain() == {"size": 1, "size_now": 2}


@pytest.mark.usefixtures("renamed")
def test_what_a_method_added_is_found_under_its_former_name() -> None:
    class Open(OpenRecord):
        round: int = Field(ge=0)

    record = Open.of({"round": 1}, {"size": 3})
    assert record.added(Part) == Part(size_now=3)
