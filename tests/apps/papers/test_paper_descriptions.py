"""The described tables: which there are, that they can be run, and that their figures stand in the papers."""

import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.paper_tables import without_arm

from fedannot.apps.papers.data import phantom_of
from fedannot.apps.papers.reading import NamedTable, PaperError, find_table, known_tables, restricted
from fedannot.apps.papers.records import Figure, Paper, PaperTable
from fedannot.apps.papers.running import TableRequest, group_arms
from fedannot.apps.runs.installed import find_job
from fedannot.apps.runs.job import parse_hocon
from fedannot.apps.runs.settings_files import Requirements, _comparable
from fedannot.custom.data.noise.choice import class_noise_of_sites
from fedannot.custom.data.yaml_file import validated
from fedannot.transforms.errors import DataError

# Beside the folder of real images, where a workplace has them.
PAPERS = Path(os.environ.get("FEDANNOT_REAL_DATA", "nowhere")).parent / "papers"
NUMBERS = re.compile(r"\d+(?:\.\d+)?")


def test_every_result_table_of_the_papers_is_described() -> None:
    """Tables of settings, symbols and misdiagnoses are none: FedA³I 1, FedGSCA 1 to 3."""
    assert set(known_tables()) == {
        *(f"decoupled-table{number}" for number in ("1", "2", "S1", "S2")),
        *(f"feda3i-table{number}" for number in (2, 3)),
        *(f"fedgsca-table{number}" for number in range(4, 12)),
        *(f"fedia-table{number}" for number in (1, 2, 3)),
    }


def published() -> Mapping[tuple[str, str], Any]:
    """Some figures, copied by hand from the papers' own tables."""
    return {
        ("feda3i-table2", "FedA3I"): ("breast-ne", "dice", 74.35, 1.90),
        ("feda3i-table3", "IntraGW"): ("skin-ns", "dice", 67.45, 1.55),
        ("fedia-table1", "FedIA"): ("ms-m3", "dice", 56.53, None),
        ("fedia-table2", "CAC"): ("ms-m3", "dice", 37.74, None),
        ("fedia-table3", "T20"): ("lung-m1", "dice", 54.78, None),
        ("fedgsca-table4", "FedGSCA"): ("kvasir-S50", "f1", 77.39, 0.23),
        ("fedgsca-table5", "FedGP"): ("kvasir-C20", "precision", 85.77, 0.38),
        ("fedgsca-table6", "FedAvg"): ("kvasir-0-P20-P20-P40", "recall", 78.29, 0.38),
        ("fedgsca-table7", "FedAvg"): ("kvasir-0-S40-P20-C20", "f1", 75.16, 0.54),
        ("fedgsca-table8", "FedFixer"): ("odir-0-S20-S20-S40", "f1", 81.03, 0.31),
        ("fedgsca-table9", "FedNoRo"): ("odir-S10-S20-P10-P20", "precision", 86.05, 0.45),
        ("fedgsca-table10", "FedGSCA"): ("chaoyang", "recall", 76.14, 0.20),
        ("fedgsca-table11", "cosine-0.35"): ("odir-0-S10-P10-C10", "precision", 88.51, None),
        ("decoupled-table1", "Ditto"): ("left-atrium", "own", 0.781, 0.070),
        ("decoupled-table2", "Swarm"): ("left-atrium", "generic", 0.843, 0.044),
        ("decoupled-tableS1", "alpha-0.1"): ("left-atrium", "centre D", 0.634, 0.094),
        ("decoupled-tableS2", "q-0.3"): ("left-atrium", "centre C", 0.869, 0.037),
    }


@pytest.mark.parametrize(("table", "row"), published())
def test_figures_stand_in_the_right_columns(table: str, row: str) -> None:
    condition, metric, mean, spread = published()[table, row]
    of_table = known_tables()[table].table
    rows = [one for one in of_table.rows if one.name == row]
    assert Figure(mean=mean, spread=spread) in [of_table.figure(one, condition, metric) for one in rows]


@pytest.mark.skipif(not PAPERS.is_dir(), reason="the papers' texts are no part of the repository")
@pytest.mark.parametrize("name", sorted(known_tables()))
def test_published_figures_stand_in_the_line_that_is_named(name: str) -> None:
    lines = (PAPERS / f"{name.partition('-')[0]}.txt").read_text(encoding="utf-8").split("\n")
    for row in known_tables()[name].table.rows:
        if row.line is None:
            continue
        printed = [float(number) for number in NUMBERS.findall(lines[row.line - 1])]
        wanted = [value for figure in row.figures for value in (figure.mean, figure.spread) if value is not None]
        places = range(len(printed) - len(wanted) + 1)
        assert any(printed[place : place + len(wanted)] == wanted for place in places), (row.name, row.line)
        for minutes in row.minutes_to_best.values():
            assert f"{minutes} minutes" in lines[(row.minutes_line or 0) - 1]


def sets_of_all_tables() -> set[tuple[str, str, str]]:
    """Name of a table, key of its condition, and the job of its last row, the paper's method; each pair once."""
    found = {}
    for name, named in known_tables().items():
        *_, job = (row.arm.job for row in named.table.rows if row.arm is not None)
        found |= {(name.partition("-")[0], key, job): name for key in named.conditions}
    return {(name, key, job) for (_, key, job), name in found.items()}


def test_published_sets_accept_the_federations_that_are_made() -> None:
    """Sites, size, fit and noise, which a run with the set would refuse otherwise."""

    @cache
    def required(job: str, settings: str) -> Requirements:
        file = find_job(job) / "settings" / f"{settings}.conf"
        return Requirements.model_validate(parse_hocon(file)["requires"])

    for name, key, job in sets_of_all_tables():
        named = known_tables()[name]
        condition, data = named.condition(key), named.paper.data[named.condition(key).data]
        requires = required(job, condition.settings)
        assert condition.noise is None or _comparable(condition.noise) in requires.noises, (key, job)
        assert list(requires.size or ()) == data.keys["size"]
        assert requires.fit in (None, data.keys.get("fit"))
        assert requires.sites == (4 if data.sites == "2-per-source" else int(data.sites.partition("-")[0]))


def test_noises_fit_the_sites_and_the_generated_images() -> None:
    for named in known_tables().values():
        for key in named.conditions:
            condition, data = named.condition(key), named.paper.data[named.condition(key).data]
            assert phantom_of(data, condition).task == data.phantom
            if condition.noise is not None and condition.noise.startswith("labels"):
                class_noise_of_sites(condition.noise.removeprefix("labels "), int(data.sites))


def arms_of(name: str, condition: str, *, small: bool) -> dict[str, Any]:
    """How the rows of a table's first group are run."""
    named = known_tables()[name]
    return group_arms(
        TableRequest(named, Path("out"), None if small else Path("data"), small), condition, named.table.groups[0]
    )


def test_rows_share_the_published_warm_up() -> None:
    arms = arms_of("fedia-table3", "lung-m0", small=False)
    assert {name: arm.shared_rounds for name, arm in arms.items()} == {
        "FedAvg": 0,
        **{f"T{rounds}": rounds for rounds in (10, 20, 30, 40)},
    }
    assert arms["T30"].overrides == {"warmup_rounds": 30}
    # Rows that are added later branch from the run that is there.
    assert arms["FedAvg"].overrides == {"keep_rounds": [10, 20, 30, 40]}


def test_rows_of_other_methods_have_the_papers_values_by_data_set() -> None:
    ms, lung = (arms_of("fedia-table1", key, small=False) for key in ("ms-m0", "lung-m0"))
    assert ms["ADELE"].overrides == {
        "method": "adele", "slope_change": 0.8, "correction_threshold": 0.8, "direction": "add"
    }  # fmt: skip
    assert lung["ADELE"].overrides == ms["ADELE"].overrides | {"slope_change": 0.9}
    assert lung["FedCorr"].overrides == ms["FedCorr"].overrides
    assert arms_of("fedia-table1", "lung-m0", small=True)["ADELE"].overrides["slope_change"] == 0.9
    # A small run has fewer rounds than the published stages.
    assert arms_of("fedgsca-table4", "kvasir-S40", small=True)["FedCorr"].overrides["finetuning_rounds"] == 1


def test_small_rows_keep_what_the_published_set_says_of_the_method() -> None:
    arms = arms_of("fedia-table2", "ms-m3", small=True)
    assert arms["FedIA"].overrides["weighting"] == "completeness"
    assert arms["FedIA"].overrides["correction_margin"] == 0.03
    assert arms["ACAG"].overrides["correction"] is False
    assert arms["FedIA"].overrides["network.features"] == [4, 4, 8, 8, 8, 4]
    assert arms["FedIA"].shared_rounds == arms["FedIA"].overrides["warmup_rounds"] == 2
    assert "warmup_rounds" not in arms["FedAvg"].overrides


def test_some_rows_and_conditions_are_run_with_their_reference() -> None:
    some = restricted(find_table("FEDA3I-Table2"), ["NR-Dice", "skin-ns"])
    assert some.rows == {"FedAvg", "NR-Dice"}
    assert some.conditions == ("skin-ns",)
    assert restricted(some, []).conditions == ("skin-ns",)


@pytest.mark.parametrize(
    ("table", "only", "said"),
    [
        (find_table("feda3i-table2"), "FedA3", "did you mean 'FedA3I'"),
        (without_arm("fedgsca-table7", "FedProx"), "FedProx", "FedProx is not implemented here"),
    ],
)
def test_what_cannot_be_run_is_refused_by_name(table: NamedTable, only: str, said: str) -> None:
    with pytest.raises(PaperError, match=re.escape(said)):
        restricted(table, [only])


def test_fedprox_is_federated_averaging_with_a_weight() -> None:
    """In every table that has it; the others have no row without an arm."""
    rows = [row for named in known_tables().values() for row in named.table.rows]
    assert all(row.arm is not None for row in rows)
    arms = [row.arm for row in rows if row.name == "FedProx"]
    assert [arm and arm.changes for arm in arms] == [{"training.proximal_weight": 0.01}] * 9


def paper(**changes: Any) -> dict[str, Any]:
    """A file of tables, with changes of its only row and table."""
    row = {"name": "FedAvg", "arm": {"job": "fedavg"}, "figures": ["63.85 ± 2.41"], "line": 3}
    row |= {key: value for key, value in changes.items() if key in row}
    table = {"number": "2", "title": "t", "section": "1", "metrics": ["dice"], "seeds": 1, "conditions": ["skin-ns"]}
    table |= {key: value for key, value in changes.items() if key in table}
    named: NamedTable = known_tables()["feda3i-table2"]
    return {
        "title": "m",
        "citation": "c",
        "data": {"skin": named.paper.data["skin"].model_dump()},
        "conditions": {"skin-ns": named.condition("skin-ns").model_dump() | changes.get("condition", {})},
        "tables": [table | {"groups": [{"rows": [row]}]}],
    }


def test_a_file_of_tables_is_read() -> None:
    read = validated(paper(), Paper, "mine.yaml")
    assert [figure for row in read.tables[0].rows for figure in row.figures] == [Figure(mean=63.85, spread=2.41)]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"figures": ["63.85 +- 2.41"]}, "expected a figure such as"),
        ({"figures": [1.0, 2.0]}, "found 2 figures, expected 1"),
        ({"figures": ["1.0 ± 0.1", 2.0], "metrics": ["f1", "recall"]}, "a standard deviation of every figure"),
        ({"line": None}, "expected figures and their line together"),
        ({"arm": {"job": "fedavgg"}}, "found the job 'fedavgg'"),
        ({"arm": {"job": "fedavg", "data_changes": {"skins": {}}}}, "found 'skins' as a data set of table 2"),
        ({"arm": None}, "expected first a row that shares no warm-up"),
        ({"arm": {"job": "fedavg", "shares_warmup": True}}, "expected first a row that shares no warm-up"),
        ({"conditions": ["skin"]}, "found 'skin' as a condition of table 2"),
        ({"condition": {"data": "liver"}}, "found 'liver' as the data set of skin-ns"),
        ({"condition": {"noise": "M(20)"}}, "M(20)"),
        ({"metrics": ["accuracy"]}, "metrics"),
    ],
)
def test_a_wrong_file_of_tables_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=re.escape(said)):
        validated(paper(**changes), Paper, "mine.yaml")


def test_figures_are_by_condition_and_then_by_metric() -> None:
    table: PaperTable = known_tables()["fedgsca-table4"].table
    row = next(row for row in table.rows if row.name == "FedAvg")
    assert [table.figure(row, "kvasir-S50", metric) for metric in table.metrics] == list(row.figures[3:])
