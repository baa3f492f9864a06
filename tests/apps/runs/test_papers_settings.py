"""The effective settings of every published set, compared with tables of the papers in `tests/papers`.

A table has a line for each value: section of the paper, line of its text, a few of its words. What the paper leaves
open is listed with the reason. Nothing of a set, and nothing of a published method, may be in no table.
"""

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from fedannot.apps.runs.job import Job
from fedannot.apps.runs.setting_origins import effective_settings
from fedannot.apps.runs.settings_files import SettingsFile
from fedannot.custom.aggregation.settings import AggregationSettings, InfluenceSettings
from fedannot.custom.methods.fedavg.settings import ClassificationSettings, FedAvgSettings
from fedannot.custom.settings import RunSettings

JOBS = Path(__file__).parents[3] / "jobs"
TABLES = {
    file.stem: yaml.safe_load(file.read_text(encoding="utf-8"))
    for file in sorted(Path(__file__).parents[2].glob("papers/*.yaml"))
}
# Of baselines that a paper compares with, every set beside the paper's own method.
OWN_JOBS = {"feda3i": "fedaaai", "fedia": "fedia", "fedgsca": "fedgsca", "decoupled": "decoupled_server"}
CASES = [
    (paper, job, name) for paper, table in TABLES.items() for job, names in table["sets"].items() for name in names
]


class Effective(NamedTuple):
    """A set of settings as a run has it.

    Attributes:
        values: every setting by its dotted key, and every requirement of the data as ``requires.KEY``.
        own: the keys that the set itself gives.
        settings: the checked settings.
    """

    values: dict[str, Any]
    own: set[str]
    settings: RunSettings


@cache
def effective(job_name: str, name: str) -> Effective:
    job = Job(JOBS / job_name)
    read = SettingsFile.read(job, name)
    requires = {
        f"requires.{key}": value for key, value in read.requires.model_dump(mode="json").items() if value is not None
    }
    values = {setting.name: setting.value for setting in effective_settings(job, name)}
    return Effective(values | requires, {*read.values, *requires}, job.settings_with(read.values))


def entries_of(paper: str, job: str, name: str, *, needs_data: bool) -> dict[str, dict[str, Any]]:
    """What the paper's table says of a set, by key; one value for each."""
    table, found = TABLES[paper], {}
    for entry in [*table["published"], *table["decided"]]:
        if job in entry.get("jobs", table["sets"]) and name in entry.get("sets", [name]):
            if entry.get("data") and not needs_data:
                continue
            assert entry["key"] not in found, f"{paper}: {entry['key']} is there twice for {job} {name}"
            found[entry["key"]] = entry
    return found


@pytest.mark.parametrize(("paper", "job", "name"), CASES)
def test_effective_settings_are_those_of_the_paper(paper: str, job: str, name: str) -> None:
    values, own, settings = effective(job, name)
    entries = entries_of(paper, job, name, needs_data="requires.sites" in values)
    assert {key: values.get(key, "no such setting") for key in entries} == {
        key: entry["value"] for key, entry in entries.items()
    }
    assert own <= set(entries), "the set gives what is in no table"
    # Of a published method every setting is in the table, so that no improvement of the house stays on unseen.
    base = ClassificationSettings if isinstance(settings, ClassificationSettings) else FedAvgSettings
    of_method = set(type(settings).model_fields) - set(base.model_fields)
    if job == OWN_JOBS[paper]:
        assert of_method <= set(entries), "the method has settings that are in no table"
    assert settings.influence == InfluenceSettings()
    assert settings.aggregation == AggregationSettings()
    assert (settings.recipe, settings.final_model, settings.validate_every) == ("demo", "last", None)


@pytest.mark.parametrize("paper", TABLES)
def test_every_value_names_its_place_in_the_paper(paper: str) -> None:
    table = TABLES[paper]
    assert table["text"] == f"{paper}.txt"
    for entry in table["published"]:
        assert set(entry) <= {"key", "value", "section", "line", "words", "jobs", "sets", "data"}
        assert entry["line"] > 0
        assert entry["section"]
        # A few words, no more.
        assert 0 < len(entry["words"].split()) <= 6
    for entry in table["decided"]:
        assert set(entry) <= {"key", "value", "why", "jobs", "sets", "data"}
        assert entry["why"]
    named = {name for names in table["sets"].values() for name in names}
    for entry in [*table["published"], *table["decided"]]:
        assert set(entry.get("jobs", [])) <= set(table["sets"])
        assert set(entry.get("sets", [])) <= named


# Own methods, and those of further papers.
OF_OTHER_PAPERS = ("audit", "auto", "fedcorr", "fedhac", "fedselect")


def test_every_published_set_is_in_a_table() -> None:
    """Other sets are those of methods that no paper of the four compares with, and parts of a published method."""
    shipped = {(file.parent.parent.name, file.stem) for job in JOBS.iterdir() for file in job.glob("settings/*.conf")}
    others = {(job, name) for job, name in shipped if job.startswith(OF_OTHER_PAPERS) or name == "published-method"}
    assert shipped - others == {(job, name) for _, job, name in CASES}


@pytest.mark.parametrize("paper", TABLES)
def test_arms_of_a_paper_train_alike(paper: str) -> None:
    """Baselines have the network, the training and the rounds of the paper's own method on the same data."""
    own = OWN_JOBS[paper]
    for job, name in ((job, name) for job, names in TABLES[paper]["sets"].items() for name in names if job != own):
        left, right = effective(own, name).values, effective(job, name).values
        shared = [
            key
            for key in sorted(left.keys() & right.keys())
            if key.startswith(("network.", "training.", "requires.")) or key in ("rounds", "scored_rounds")
        ]
        assert [key for key in shared if left[key] != right[key]] == [], (job, name)
