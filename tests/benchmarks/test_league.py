"""The league: rows by methods in comparisons that go on, the choice of settings, and the pages made of the figures."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import plain_records
import pytest
from benchmark_tables import decoupled, fedia
from benchmark_tables.league import arms, choosing, making, running
from benchmark_tables.league.choosing import best_settings, choose_settings
from benchmark_tables.league.figures import (
    CaseDifference,
    League,
    LeagueFigures,
    Machine,
    MethodFigures,
    read_league,
    write_league,
)
from benchmark_tables.league.making import done, make_league, planned_lines, write_finished
from benchmark_tables.league.page import answer, heat_map, league_page, loss_by_noise, rivals_ahead
from benchmark_tables.league.request import LeagueRequest, chosen_methods, use_packs
from benchmark_tables.league.rows import ROWS, TUNING_ROWS, LeagueRow
from benchmark_tables.league.running import make_data
from benchmark_tables.league.runs import _beside, agreement, global_results
from benchmark_tables.league.settings import (
    MOST_TRIED,
    PUBLISHED,
    Choice,
    MethodKey,
    TriedSettings,
    choice_for,
    read_choices,
    tried_settings,
    usable_choices,
    write_choices,
)
from benchmark_tables.league.tables import figures_page
from PIL import Image
from scipy.stats import wilcoxon

from fedannot.apps.commands.bench import BenchmarkError
from fedannot.apps.reports.compared_runs import Comparison, read_comparison
from fedannot.apps.reports.results_file import write_results
from fedannot.apps.runs.arms import Arm
from fedannot.apps.runs.compare import RunsMissingError
from fedannot.apps.runs.in_process import RunError
from fedannot.apps.runs.job import Job
from fedannot.apps.runs.progress import Reported
from fedannot.apps.runs.run_share import RunShare
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.data.yaml_file import read_values
from fedannot.custom.methods import METHODS
from fedannot.custom.networks.devices import processor_name
from fedannot.custom.settings import RunSettings, SettingsError
from fedannot.transforms.errors import DataError

DOCS = Path(__file__).parents[2] / "docs" / "benchmarks"
TINY = {"rounds": 1, "network.features": [4, 4, 8, 8, 8, 4], "training.local_epochs": 1}
# Neither federated averaging nor ELR has a warm-up.
TINY |= {"min_sites": 2, "warmup_rounds": 1}
# So much that its images differ from those of federated averaging after one round, on any machine.
OF_ELR = {"early_learning_weight": 100.0}
TINY |= OF_ELR


def tiny(noise: str | None) -> LeagueRow:
    def make(folder: Path, seed: int) -> None:
        drawing = LesionImages(noise, exact=True) if noise else LesionImages()
        write_phantom_federation(folder, drawing, num_sites=2, seed=seed, images_per_site=3, test_images=2)

    return LeagueRow("tiny", "segmentation", make, TINY, "clean" if noise else "")


def request_of(out: Path, **changes: object) -> LeagueRequest:
    values = {"rows": {"clean": tiny(None), "noisy": tiny("M(25,-25,10,0.5)")}, "seeds": [0]} | changes
    return LeagueRequest(
        **({"methods": ["elr", "fedgsca", "audit", "single_site"], "out": out, "processes": 1} | values)
    )


class Made(NamedTuple):
    """A league of two rows, and what it was before the last run of the second was made."""

    out: Path
    half: League
    first: League
    runs: dict[Path, int]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The first row at once, the second share by share; reading it in between changes nothing."""
    out, pages = tmp_path_factory.mktemp("league"), tmp_path_factory.mktemp("pages")
    request = request_of(out)
    make_league(request_of(out, rows={"clean": request.rows["clean"]}), Reported(None))
    make_league(request_of(out, rows={"noisy": request.rows["noisy"]}, only=RunShare(1, 2)), Reported(None))
    first, before = read_league(out / "league.json"), times_of(out)
    write_finished(request, pages, Reported(None))
    assert times_of(out) == before
    runs = {file: file.stat().st_mtime_ns for file in out.glob("*/runs/runs/*/model.pt")}
    make_league(request, Reported(None))
    return Made(out, read_league(pages / "league.json"), first, runs)


def times_of(folder: Path) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in folder.rglob("*")}


def test_rows_are_finished_by_whoever_makes_the_last_run(made: Made) -> None:
    (clean,) = made.first.rows
    assert [method.method for method in clean.methods] == ["fedavg", "elr"]
    absent = {method.method: (method.status, method.reason) for method in clean.absent}
    assert absent == {
        "fedgsca": ("not defined", "It is for classification."),
        "audit": ("not defined", "It makes no model to compare."),
        "single_site": (
            "not defined",
            "Sites of this row keep no cases on which a model of their own is scored.",
        ),
    }
    _, noisy = made.half.rows
    assert [method.method for method in noisy.methods] == ["fedavg"]
    assert {one.method: (one.status, one.reason) for one in noisy.absent}["elr"] == (
        "unfinished",
        "0 of 1 seeds are finished.",
    )
    assert len(made.runs) == 3
    assert {file: file.stat().st_mtime_ns for file in made.runs} == made.runs
    rows = read_league(made.out / "league.json").rows
    assert [row.row for row in rows] == ["clean", "noisy"]
    for row in rows:
        reference, elr = row.methods
        assert elr.difference == pytest.approx(elr.scores[0] - reference.scores[0])
        assert (elr.standard_deviation, elr.p_seeds, reference.difference) == (None, None, None)
        assert elr.model_mb == reference.model_mb > 0
        assert elr.seconds_per_round > 0
        assert elr.cpu_seconds_per_round > 0
        assert elr.machines == reference.machines == (Machine(processor=processor_name(), torch=version("torch")),)
        assert (elr.settings, reference.settings) == ({}, {})
    assert "| `noisy` | " in (made.out / "league.md").read_text(encoding="utf-8")
    assert "## `noisy`" in (made.out / "league_figures.md").read_text(encoding="utf-8")


def test_the_league_of_finished_runs_is_the_same_and_changes_nothing(made: Made, tmp_path: Path) -> None:
    before = times_of(made.out)
    (text,) = done(request_of(made.out), Reported(None), table=tmp_path / "pages")
    assert text.startswith(f"League: {tmp_path / 'pages' / 'league.md'}")
    assert times_of(made.out) == before
    for name in ("league.json", "league.md", "league_figures.md"):
        assert (tmp_path / "pages" / name).read_bytes() == (made.out / name).read_bytes()


def test_rows_of_another_machine_stay_and_no_row_loses_results(made: Made, tmp_path: Path) -> None:
    """One machine has one row, another one the other, and a third one half of the first; rows keep their order."""
    pages, choice = tmp_path / "pages", read_league(DOCS / "league.json").choices[0]
    rows = {"lesions-clean": tiny(None), "lesions-shrink": tiny("M(25,-25,10,0.5)")}
    for machine, made_as, name in (
        ("first", "noisy", "lesions-shrink"),
        ("second", "clean", "lesions-clean"),
        ("third", "noisy", "lesions-shrink"),
    ):
        shutil.copytree(made.out / made_as, tmp_path / machine / name)
    (tmp_path / "third" / "lesions-shrink" / "runs" / "runs" / "elr-seed0" / "summary.json").unlink()
    write_choices(tmp_path / "first", [choice])
    for machine, expected in (("first", ["lesions-shrink"]), ("second", ["lesions-clean", "lesions-shrink"])):
        write_finished(request_of(tmp_path / machine, rows=rows), pages, Reported(None))
        assert [row.row for row in read_league(pages / "league.json").rows] == expected
    whole = read_league(pages / "league.json")
    assert [method.method for row in whole.rows for method in row.methods] == ["fedavg", "elr"] * 2
    assert whole.choices == (choice,)
    said: list[str] = []
    write_finished(request_of(tmp_path / "third", rows=rows), pages, Reported(lambda step: said.append(step.text)))
    assert read_league(pages / "league.json") == whole
    assert any("lesions-shrink: stays as" in text and "These runs lack elr of seed 0." in text for text in said)
    # Of other data than the row had nothing stays.
    rows["lesions-shrink"] = replace(rows["lesions-shrink"], what="other data")
    with pytest.raises(DataError, match=r"data\.json: found data of 'tiny'; expected 'other data'\. Choose another"):
        write_finished(request_of(tmp_path / "third", rows=rows), pages, Reported(None))
    (tmp_path / "third" / "lesions-shrink" / "data.json").write_text('{"what": "other data"}', encoding="utf-8")
    write_finished(request_of(tmp_path / "third", rows=rows), pages, Reported(None))
    assert [len(row.results) for row in read_league(pages / "league.json").rows] == [2, 1]


@pytest.mark.parametrize(
    ("seeds", "methods", "stays"),
    [
        ((0, 1), ("fedavg", "elr", "fedmix"), False),
        ((0, 1, 2), ("fedavg", "elr", "fedmix", "rmd"), False),
        ((3, 4, 5), ("fedavg", "elr", "fedmix"), True),
        ((0,), ("fedavg", "elr", "fedmix"), True),
        ((0, 1, 2), ("fedavg", "fedmix", "rmd", "adele"), True),
        # That one is no method any more.
        ((0, 1), ("fedavg", "elr", "fedmix", "rmd"), False),
    ],
)
def test_no_method_and_no_seed_of_a_row_is_exchanged(
    seeds: tuple[int, ...], methods: tuple[str, ...], stays: bool, tmp_path: Path
) -> None:
    """More results in all take the place of others only if they have these, too."""

    def row(seeds: tuple[int, ...], methods: tuple[str, ...], score: float) -> LeagueFigures:
        scores = (score,) * len(seeds)
        return row_of("missed", *(figures(name, score, scores=scores) for name in methods), seeds=seeds)

    write_league(League(rows=(row((0, 1), ("fedavg", "elr", "fedmix", "former"), 80.0),)), tmp_path / "league.json")
    said: list[str] = []
    later = row(seeds, methods, 70.0)
    made = making._with_rows(tmp_path, [later], (), Reported(lambda step: said.append(step.text)))
    assert made.rows[0].methods[0].mean == (80.0 if stays else 70.0)
    assert any("missed: stays as" in text for text in said) == stays


def test_runs_without_their_results_or_with_other_cases_are_refused(made: Made, tmp_path: Path) -> None:
    shutil.copytree(made.out / "clean", tmp_path / "clean")
    folder = tmp_path / "clean" / "runs" / "runs" / "elr-seed0"
    content = (folder / "results.csv").read_text(encoding="utf-8")
    (folder / "results.csv").write_text(content.replace(",case-2,", ",case-7,"), encoding="utf-8")
    with pytest.raises(DataError, match=r"elr-seed0/results\.csv: found other test cases than fedavg has"):
        write_finished(request_of(tmp_path), tmp_path / "pages", Reported(None))
    (folder / "results.json").unlink()
    with pytest.raises(DataError, match=r"elr-seed0: found no whole results\.csv; expected the results of the test"):
        write_finished(request_of(tmp_path), tmp_path / "pages", Reported(None))
    assert not (tmp_path / "pages" / "league.json").exists()


def test_runs_of_other_settings_or_data_than_the_row_has_now_are_refused(made: Made, tmp_path: Path) -> None:
    shutil.copytree(made.out / "clean", tmp_path / "clean")
    changed = replace(tiny(None), settings=TINY | {"rounds": 2})
    with pytest.raises(DataError, match=r"request\.json: found runs with .*'rounds': 1.* expected .*'rounds': 2"):
        write_finished(request_of(tmp_path, rows={"clean": changed}), tmp_path / "pages", Reported(None))
    with pytest.raises(DataError, match="found data of 'tiny'; expected 'more test images'"):
        make_data(tmp_path / "clean", replace(tiny(None), what="more test images"), [0], Reported(None))
    # A folder of an earlier version does not say what it has.
    (tmp_path / "clean" / "data.json").unlink()
    write_finished(request_of(tmp_path), tmp_path / "pages", Reported(None))
    make_data(tmp_path / "clean", tiny(None), [0], Reported(None))
    assert json.loads((tmp_path / "clean" / "data.json").read_text(encoding="utf-8")) == {"what": "tiny"}


def test_a_league_that_was_moved_goes_on_where_it_is(made: Made, tmp_path: Path) -> None:
    """It is moved here while the first one is still there, whose data are others then."""
    moved = tmp_path / "moved"
    shutil.copytree(made.out / "clean", moved / "clean")
    before = times_of(moved / "clean" / "runs" / "runs")
    make_league(request_of(moved, rows={"clean": tiny(None)}), Reported(None))
    assert times_of(moved / "clean" / "runs" / "runs") == before
    assert len(read_league(moved / "league.json").rows) == 1


def test_data_whose_maker_was_killed_are_made_again(tmp_path: Path) -> None:
    """Some rows write a federation first, and change its images then."""
    killed = [True, False]

    def make(folder: Path, seed: int) -> None:
        folder.mkdir()
        (folder / "image.png").write_text("clean")
        if killed.pop(0):
            raise KeyboardInterrupt
        (folder / "image.png").write_text(f"noisy {seed}")

    row = LeagueRow("some images", "segmentation", make)
    with pytest.raises(KeyboardInterrupt):
        make_data(tmp_path / "row", row, [3], Reported(None))
    assert make_data(tmp_path / "row", row, [3], Reported(None)) == str(tmp_path / "row" / "data" / "seed{seed}")
    assert [path.name for path in (tmp_path / "row" / "data").iterdir()] == ["seed3"]
    assert (tmp_path / "row" / "data" / "seed3" / "image.png").read_text() == "noisy 3"
    make_data(tmp_path / "row", row, [3], Reported(None))


def test_runs_of_an_earlier_version_lack_what_it_did_not_measure(made: Made, tmp_path: Path) -> None:
    shutil.copytree(made.out / "clean", tmp_path / "clean")
    for file in tmp_path.glob("clean/runs/runs/*/summary.json"):
        summary = json.loads(file.read_text(encoding="utf-8"))
        del summary["cpu_seconds"], summary["processor"]
        file.write_text(json.dumps(summary), encoding="utf-8")
    write_finished(request_of(tmp_path), tmp_path / "pages", Reported(None))
    (row,) = read_league(tmp_path / "pages" / "league.json").rows
    assert [method.cpu_seconds_per_round for method in row.methods] == [None, None]
    shutil.rmtree(tmp_path / "clean" / "data" / "seed0")
    with pytest.raises(DataError, match="seed0: found no folder; expected the data of the row's finished runs"):
        write_finished(request_of(tmp_path), tmp_path / "pages", Reported(None))
    with pytest.raises(BenchmarkError, match="found no finished run of fedavg"):
        write_finished(request_of(made.out, seeds=[1, 2]), tmp_path / "pages", Reported(None))


def test_seeds_that_all_methods_have_finished_are_a_row(made: Made, tmp_path: Path) -> None:
    """Of a second seed there is federated averaging alone; without it the first seed has no method but that one."""
    shutil.copytree(made.out / "noisy", tmp_path / "noisy")
    runs = tmp_path / "noisy" / "runs" / "runs"
    shutil.copytree(tmp_path / "noisy" / "data" / "seed0", tmp_path / "noisy" / "data" / "seed1")
    shutil.copytree(runs / "fedavg-seed0", runs / "fedavg-seed1")
    said: list[str] = []
    progress = Reported(lambda step: said.append(step.text))
    write_finished(request_of(tmp_path, seeds=[0, 1, 2]), tmp_path / "pages", progress)
    (row,) = read_league(tmp_path / "pages" / "league.json").rows
    assert (row.seeds, [method.method for method in row.methods]) == ((0,), ["fedavg", "elr"])
    assert "noisy: seed 1 is left out; it is not finished by elr." in said
    shutil.rmtree(tmp_path / "pages")
    (runs / "elr-seed0" / "summary.json").unlink()
    write_finished(request_of(tmp_path, seeds=[0, 1, 2]), tmp_path / "pages", Reported(None))
    (row,) = read_league(tmp_path / "pages" / "league.json").rows
    assert (row.seeds, [method.method for method in row.methods]) == ((0, 1), ["fedavg"])
    assert [one.reason for one in row.absent if one.method == "elr"] == ["0 of 2 seeds are finished."]


def test_a_file_of_the_first_version_is_read(made: Made, tmp_path: Path) -> None:
    content = json.loads((made.out / "league.json").read_text(encoding="utf-8"))
    assert content["version"] == 2
    # It was written without its number.
    del content["version"]
    del content["choices"]
    for row in content["rows"]:
        row.pop("agreement", None)
        for method in row["methods"]:
            for key in ("settings", "on_cases", "on_cases_of_rival", "left_empty", "cpu_seconds_per_round", "commits"):
                method.pop(key, None)
    (tmp_path / "league.json").write_text(json.dumps(content), encoding="utf-8")
    league = read_league(tmp_path / "league.json")
    assert [len(row.methods) for row in league.rows] == [2, 2]
    assert "| elr | segmentation |  | all | not known | an earlier version |" in figures_page(league)
    (tmp_path / "league.json").write_text(json.dumps(content | {"version": 3}), encoding="utf-8")
    with pytest.raises(DataError, match="version"):
        read_league(tmp_path / "league.json")


def test_tests_over_cases_are_those_of_the_files_and_agreement_that_of_the_masks(made: Made) -> None:
    out = made.out
    noisy = read_league(out / "league.json").rows[1]
    elr = noisy.of("elr")
    runs = out / "noisy" / "runs"
    dice: dict[str, list[float]] = {"fedavg": [], "elr": []}
    for line in global_results(read_comparison(runs), runs):
        dice[line.arm].append(line.dice)
    difference = np.subtract(dice["elr"], dice["fedavg"])
    assert len(difference) == noisy.num_patients == 2
    assert elr.on_cases.mean == pytest.approx(100 * difference.mean())
    assert elr.on_cases.low <= elr.on_cases.mean <= elr.on_cases.high
    assert elr.p_cases == elr.on_cases.p == pytest.approx(wilcoxon(difference).pvalue)
    # It is the best rival itself, so federated averaging alone is compared with it.
    assert elr.on_cases_of_rival is None
    assert noisy.of("fedavg").on_cases_of_rival.mean == pytest.approx(-100 * difference.mean())
    values = []
    for file in sorted((out / "noisy" / "data" / "seed0").glob("site-*/datalist.json")):
        for case in json.loads(file.read_text(encoding="utf-8"))["training"]:
            one, other = (np.asarray(Image.open(file.parent / case[key])) > 0 for key in ("label", "clean_label"))
            values.append(2 * (one & other).sum() / (one.sum() + other.sum()))
    assert noisy.agreement == pytest.approx(100 * np.mean(values))
    assert noisy.agreement < 99


def test_agreement_of_labels_is_the_fraction_of_right_ones(tmp_path: Path) -> None:
    site = tmp_path / "site-1"
    site.mkdir()
    cases = [{"image": f"{number}.png", "label": label} for number, label in enumerate((0, 1, 1, 0, 1))]
    for case, right in zip(cases, (0, 1, 0, 0), strict=False):
        case["clean_label"] = right
    (tmp_path / "federation.yaml").write_text("name: labels\nsites: [site-1]\n", encoding="utf-8")
    (site / "data.yaml").write_text(
        "pipeline: classification\nclasses: [round, oval]\nsize: [8, 8]\nchannels: 1\ndatalist: datalist.json\n",
        encoding="utf-8",
    )
    (site / "datalist.json").write_text(json.dumps({"training": cases}), encoding="utf-8")
    assert agreement(tmp_path) == 0.75
    (site / "datalist.json").write_text(json.dumps({"training": cases[4:]}), encoding="utf-8")
    assert agreement(tmp_path) is None


def failing_compare(name: str) -> object:
    """A comparison that fails with an arm, and without it has made-up scores."""

    def compare(of_arms: list[Arm], runs: Path, **_: object) -> Comparison:
        names = [arm.name for arm in of_arms]
        if name in names:
            folder = runs / "runs" / "fedavg-seed0"
            folder.mkdir(parents=True)
            (folder / "summary.json").write_text(json.dumps(plain_records.summary_values()))
            write_results(folder / "results.csv", (), {})
            (runs / "runs" / f"{name}-seed0.log").write_text("Reading.\nError: no memory\n")
            raise RunError("1 of 2 runs failed.")
        return plain_records.comparison([{"arm": one, "rounds": [{"dice": 0.5}]} for one in names])

    return compare


def test_a_method_whose_run_fails_is_named_and_the_others_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "compare", failing_compare("elr"))
    make_league(request_of(tmp_path, rows={"clean": tiny(None)}, methods=["elr"]), Reported(None))
    (row,) = read_league(tmp_path / "league.json").rows
    assert [method.method for method in row.methods] == ["fedavg"]
    assert [(method.method, method.status, method.reason) for method in row.absent] == [
        ("elr", "failed", "Error: no memory")
    ]


def test_a_plan_counts_methods_and_seeds(made: Made) -> None:
    lines = planned_lines(request_of(made.out, seeds=[0, 1, 2], rows={"clean": tiny(None)}), Reported(None))
    assert lines[0].startswith("clean: 2 methods × 3 seeds, about ")
    assert "  not defined: fedgsca: It is for classification." in lines


def test_a_plan_has_the_rows_settings(tmp_path: Path) -> None:
    """A warm-up of 12 rounds is longer than FedNoRo's job, and shorter than the row's 20 rounds."""
    row = replace(tiny(None), settings=TINY | {"rounds": 20, "warmup_rounds": 12})
    lines = planned_lines(request_of(tmp_path, methods=["fednoro"], rows={"clean": row}), Reported(None))
    assert lines[0].endswith("core hours: fedavg, fednoro")


def test_settings_are_tried_on_seeds_from_100_and_the_best_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {}

    def compare(of_arms: list[Arm], runs: Path, **given: object) -> Comparison:
        asked[runs.parent.name] = given["seeds"], {arm.name: dict(arm.overrides) for arm in of_arms}
        scores = {"elr.0": 0.5, "elr.1": 0.6, "elr.2": 0.55}
        runs_of = [{"arm": arm.name, "last_rounds": {"dice": scores.get(arm.name, 0.5)}} for arm in of_arms]
        return plain_records.comparison([one | {"seed": seed} for one in runs_of for seed in given["seeds"]])

    monkeypatch.setattr(running, "compare", compare)
    request = request_of(tmp_path, rows={"one": tiny(None)}, methods=["elr", "fedgsca"])
    record = choose_settings(request, Reported(None))
    seeds, given = asked["one"]
    assert list(seeds) == [100, 101]
    trials = enumerate(tried_settings("elr"))
    assert given == {"fedavg": {}} | {f"elr.{number}": OF_ELR | settings for number, settings in trials}
    (choice,) = read_choices(record.parent)
    assert (choice.method, choice.chosen, choice.rows, choice.seeds) == ("elr", 1, ("one",), (100, 101))
    assert choice.scores == ((50.0,), (pytest.approx(60.0),), (pytest.approx(55.0),))
    assert usable_choices(tmp_path, [0]) == (choice,)
    # Another row has a choice of its own; that of the same row is replaced.
    choose_settings(request_of(tmp_path, rows={"two": tiny(None)}, methods=["elr"]), Reported(None))
    choose_settings(request, Reported(None))
    assert [(one.rows, one.chosen) for one in read_choices(tmp_path)] == [(("one",), 1), (("two",), 1)]
    with pytest.raises(BenchmarkError, match=r"chosen on seeds \[101\]; report others"):
        usable_choices(tmp_path, [101, 102])
    write_choices(tmp_path, [choice.model_copy(update={"tried": ({}, {"prediction_momentum": 0.5})})])
    with pytest.raises(BenchmarkError, match="settings of elr were chosen among others than league_settings"):
        usable_choices(tmp_path, [0])
    content = (tmp_path / "settings.json").read_text(encoding="utf-8")
    (tmp_path / "settings.json").write_text(content.replace('"chosen": 1', '"chosen": -1'), encoding="utf-8")
    with pytest.raises(DataError, match="chosen"):
        read_choices(tmp_path)


def test_a_row_that_another_share_owes_keeps_no_other_from_being_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compare(of_arms: list[Arm], runs: Path, **given: object) -> Comparison:
        if runs.parent.name == "one":
            raise RunsMissingError(["elr.1-seed100"], [], runs)
        runs_of = [{"arm": arm.name, "last_rounds": {"dice": 0.5}} for arm in of_arms]
        return plain_records.comparison([one | {"seed": seed} for one in runs_of for seed in given["seeds"]])

    monkeypatch.setattr(running, "compare", compare)
    rows = {"one": tiny(None), "two": tiny(None)}
    record = choose_settings(request_of(tmp_path, rows=rows, methods=["elr"]), Reported(None))
    assert record == tmp_path / "settings.json"
    assert [choice.rows for choice in read_choices(tmp_path)] == [("two",)]
    alone = request_of(tmp_path / "other", rows={"one": tiny(None)}, methods=["elr"])
    assert choose_settings(alone, Reported(None)) is None
    assert not (tmp_path / "other" / "settings.json").exists()


def test_the_best_settings_have_the_highest_score_and_no_failed_run() -> None:
    scores = {("elr", 0): 60.0, ("elr", 1): 65.0, ("elr", 2): 66.0}
    (choice,) = best_settings("a", "segmentation", scores)
    assert (choice.chosen, choice.best, choice.rows) == (2, tried_settings("elr")[2], ("a",))
    del scores["elr", 2]
    (choice,) = best_settings("a", "segmentation", scores)
    assert (choice.chosen, choice.scores) == (1, ((60.0,), (65.0,), (None,)))
    (equal,) = best_settings("a", "segmentation", {("elr", number): 50.0 for number in range(3)})
    assert equal.chosen == 0


def test_a_row_has_the_settings_chosen_for_its_kind_and_else_the_published_ones(tmp_path: Path) -> None:
    def chosen(row: str, number: int, **changes: object) -> Choice:
        scores = {("elr", other): float(other == number) for other in range(3)}
        return best_settings(row, "segmentation", scores)[0].model_copy(update=changes)

    missed, contours = chosen("choice-missed", 1), chosen("choice-contours", 2)
    labels = chosen("choice-labels", 0, task="classification")
    write_choices(tmp_path, [labels, missed])
    write_choices(tmp_path, [contours])
    choices = read_choices(tmp_path)
    assert choices == (contours, missed, labels)
    assert choice_for("segmentation", "elr", "choice-missed", choices) == missed
    assert choice_for("segmentation", "elr", "choice-protocols", choices) is None
    assert choice_for("classification", "elr", "choice-labels", choices) == labels
    assert choice_for("segmentation", "fedmix", "choice-missed", choices) is None
    assert all(TUNING_ROWS[row.tuning_row].task == row.task for row in ROWS.values())
    data = make_data(tmp_path / "row", tiny(None), [0], Reported(None))
    for kind, given in (("choice-missed", missed.best), ("choice-contours", contours.best), ("choice-protocols", {})):
        row, request = replace(tiny(None), tuning_row=kind), request_of(tmp_path, methods=["elr"])
        _, arm = arms.league_arms(row, data, [0], request, choices).arms
        assert arm.overrides == OF_ELR | given


def test_tried_settings_are_few_known_and_chosen_on_other_rows() -> None:
    jobs = arms.jobs_by_method(arms.jobs_folder())
    by_name: dict[str, list[Job]] = {}
    for (_, method), folder in jobs.items():
        by_name.setdefault(method, []).append(Job.open(folder))
    tried: Mapping = read_values(DOCS.parents[1] / "tests" / "benchmarks" / "league_settings.yaml", TriedSettings)
    assert set(tried["methods"]) <= set(by_name)
    for method in tried["methods"]:
        first, *others = tried_settings(method)
        assert first == PUBLISHED.get(method, {})
        assert 1 <= len(others) <= MOST_TRIED
        for job in by_name[method]:
            for one in [first, *others]:
                job.settings_with(one)
        assert sum(len(_distinct(row, jobs, method)) for row in TUNING_ROWS.values()) > 0
    assert not set(ROWS) & set(TUNING_ROWS)
    assert not {row.what for row in ROWS.values()} & {row.what for row in TUNING_ROWS.values()}
    assert min(choosing.SEEDS) >= 100


def _distinct(row: LeagueRow, jobs: Mapping[MethodKey, Path], method: str) -> list[RunSettings]:
    """What is tried of a method on a row, if it is defined there: nothing twice, and nothing that is refused."""
    folder = jobs.get((row.task, method))
    if folder is None:
        return []
    common = arms.known_settings(jobs[row.task, "fedavg"], row.settings)
    first, *others = [common | arms.own_settings(folder, row, common) | one for one in tried_settings(method)]
    try:
        given = [Job.open(folder).settings_with(first)]
    except SettingsError:
        return []
    given += [Job.open(folder).settings_with(one) for one in others]
    assert all(one not in given[:number] for number, one in enumerate(given)), (method, row.what)
    return given


def test_settings_that_replace_a_row_s_are_named() -> None:
    row = {"rounds": 3, "warmup_rounds": 9}
    assert _beside(row, {"warmup_rounds": 4, "rounds": 3, "core_share": 0.5}) == {"warmup_rounds": 4, "core_share": 0.5}


def test_a_method_that_a_row_s_settings_do_not_allow_keeps_no_other_from_being_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FedDM reads no other loss than the cross entropy; what the file of settings has wrong is still refused."""
    row = replace(tiny(None), settings=TINY | {"training.loss": "batch_dice"})
    data = make_data(tmp_path / "row", row, choosing.SEEDS, Reported(None))
    request = request_of(tmp_path, rows={"row": row}, methods=["feddm", "elr"])
    found, _ = choosing._tried_arms(row, data, request)
    assert [arm.name for arm in found] == ["fedavg", "elr.0", "elr.1", "elr.2"]
    monkeypatch.setattr(choosing, "tried_settings", lambda method: [{}, {"early_learning_weight": -1.0}])
    with pytest.raises(SettingsError, match="early_learning_weight"):
        choosing._tried_arms(row, data, request)


def figures(method: str, mean: float, **changes: object) -> MethodFigures:
    values = {"method": method, "is_personal": False, "scores": (mean,), "mean": mean, "standard_deviation": None}
    values |= {"difference": None if method == "fedavg" else 1.0, "p_seeds": None, "p_cases": None, "slope": 0.0}
    values |= {"seconds_per_round": 1.0, "memory_mb": None, "model_mb": None, "fields": ()}
    return MethodFigures.model_validate(values | changes)


def row_of(name: str, *methods: MethodFigures, clean: str = "", **changes: object) -> LeagueFigures:
    values = {"row": name, "what": "images", "task": "segmentation", "clean": clean, "seeds": (0,), "absent": ()}
    return LeagueFigures.model_validate(values | {"methods": methods} | changes)


def on_cases(mean: float, p: float) -> CaseDifference:
    return CaseDifference(mean=mean, low=mean - 1, high=mean + 1, p=p)


def test_the_page_says_first_where_auto_is_beaten() -> None:
    clean = row_of("clean", figures("fedavg", 86.0), figures("auto", 86.5), figures("elr", 86.1))
    personal = figures("ditto", 99.0, is_personal=True, generic=(70.0,), own=(99.0,))
    noisy = row_of(
        "noisy",
        figures("fedavg", 81.0, slope=0.8),
        figures("auto", 82.0, on_cases=on_cases(1.0, 0.01), on_cases_of_rival=on_cases(-2.0, 0.03)),
        figures("elr", 84.5, fields=("offset",), on_cases=on_cases(3.0, 0.001), left_empty=(40.0,)),
        personal,
        clean="clean",
    )
    assert [method.method for method in rivals_ahead(noisy)] == ["elr"]
    league = League(rows=(clean, noisy))
    assert answer(league) == [
        "Another method is ahead of `auto` in 1 of 2 rows: `noisy`.",
        "Ahead in points: elr by 2.5 in `noisy`; 1 of 1 lead holds case by case (p < 0.05).",
        "Case by case (p < 0.05) `auto` is above FedAvg in 1 of 1 row and below it in 0.",
        "The noise costs FedAvg less than 6 points, which says nothing of robustness, in `noisy`.",
        "These are 2 rows of 1 seed, 0 cells open and 0 failed; FedAvg still moves in `noisy`.",
    ]
    page, tables = league_page(league), figures_page(league)
    assert page.split("**Answer.** ")[1].startswith("Another method is ahead of `auto`")
    assert "ditto" not in page
    of_sites = tables.split("## Models of each site")[1]
    assert "ditto" not in tables.split("## Models of each site")[0]
    assert "- elr: `offset`." in tables
    assert "| `noisy` | ditto | 70.0 | 70.0 | 99.0 | 99.0 |" in of_sites
    # A column for test images without annotation is there where any are.
    before, after = tables.split("## `noisy`")
    assert ("left empty" in before, "left empty" in after) == (False, True)
    assert answer(League(rows=(clean,)))[0] == "No method is ahead of `auto` in `clean`."


def test_sentences_are_true_of_small_leagues() -> None:
    """Ties, leads that are not tested, a reference that is best, rows without `auto`, failed and open cells."""
    tied = row_of("tied", figures("fedavg", 80.0), figures("auto", 82.0), figures("elr", 82.0))
    alone = row_of("alone", figures("fedavg", 80.0), figures("ditto", 99.0, is_personal=True))
    assert answer(League(rows=(tied, tied)))[0] == "No method is ahead of `auto` in any of 2 rows."
    # A lead that is too small to be shown, and that nobody has tested; and one of FedAvg itself, which is the best.
    near = row_of("near", figures("fedavg", 80.0), figures("auto", 82.0), figures("elr", 82.04))
    assert answer(League(rows=(near, alone)))[:2] == [
        "Another method is ahead of `auto` in 1 of 1 row that has it: `near`.",
        "Ahead in points: elr by less than 0.1 in `near`; none of it is tested case by case.",
    ]
    untested = on_cases(-3.0, 0.2)
    first = row_of(
        "first",
        figures("fedavg", 85.0),
        figures("auto", 82.0, on_cases=on_cases(-2.0, 0.001)),
        figures("elr", 83.0),
        absent=[
            {"method": "rmd", "status": "failed", "reason": "no memory"},
            {"method": "adele", "status": "unfinished", "reason": "0 of 2 seeds"},
        ],
        seeds=(0, 1),
    )
    assert answer(League(rows=(first, near)))[1:] == [
        "Ahead in points: fedavg by 3.0 in `first`, elr by less than 0.1 in `near`; "
        "1 of 1 tested lead holds case by case (p < 0.05).",
        "Case by case (p < 0.05) `auto` is above FedAvg in 0 of 1 row and below it in 1: `first`.",
        "These are 2 rows of 1–2 seeds, 1 cell open and 1 failed.",
    ]
    weak = row_of(
        "weak", figures("fedavg", 80.0), figures("auto", 82.0, on_cases_of_rival=untested), figures("elr", 84.0)
    )
    assert answer(League(rows=(weak, weak)))[1].endswith("; 0 of 2 leads hold case by case (p < 0.05).")
    assert answer(League(rows=(alone,))) == ["This is 1 row of 1 seed, 0 cells open and 0 failed."]
    # A model that is that of FedAvg, bit for bit, was compared, and has no p.
    equal = CaseDifference(mean=0.0, low=0.0, high=0.0, p=None)
    same = row_of("same", figures("fedavg", 80.0), figures("auto", 80.0, on_cases=equal))
    assert "above FedAvg in 0 of 1 row and below it in 0." in answer(League(rows=(same,)))[1]
    many = [first.model_copy(update={"row": f"row-{number}"}) for number in range(11)]
    assert answer(League(rows=tuple(many)))[2].endswith("in 0 of 11 rows and below it in 11.")


def test_chosen_settings_count_where_the_figures_are_of_them() -> None:
    choice = {
        "task": "segmentation",
        "method": "elr",
        "tried": [{}, {"a": 1}],
        "rows": ["choice-missed"],
        "seeds": [100],
    }
    choice |= {"scores": [[1.0], [2.0]], "chosen": 1}
    rows = {
        given: row_of("missed", figures("fedavg", 80.0), figures("elr", 81.0, settings=settings))
        for given, settings in (("chosen", {"a": 1}), ("published", {}), ("not known", None))
    }
    rows["other task"] = rows["chosen"].model_copy(update={"task": "classification"})
    said = {given: league_page(League(rows=(row,), choices=(choice,))) for given, row in rows.items()}
    assert "1 of 1 result is of the best of" in " ".join(said.pop("chosen").split())
    assert "0 of 1 result is of the best of at most five, 0 of the first values. Of an " in (
        " ".join(said.pop("other task").split())
    )
    assert all("all methods of papers have these first values" in " ".join(text.split()) for text in said.values())
    both = league_page(League(rows=(rows["chosen"], rows["other task"]), choices=(choice,)))
    assert "1 of 2 results are of the best of at most five" in " ".join(both.split())
    hows = {given: figures_page(League(rows=(row,), choices=(choice,))) for given, row in rows.items()}
    assert "| elr | segmentation | `choice-missed` | all | `a=1` | number 2 of 2, seeds 100 |" in hows["chosen"]
    assert "| elr | segmentation | first values | `choice-missed` | 1.0 |  |" in hows["chosen"]
    assert "| elr | segmentation | `a=1` | `choice-missed` | 2.0 | yes |" in hows["chosen"]
    of_tasks = figures_page(League(rows=(rows["chosen"], rows["other task"]), choices=(choice,)))
    assert "| elr | segmentation | `choice-missed` | all | `a=1` | number 2 of 2, seeds 100 |" in of_tasks
    assert "| elr | classification | `choice-missed` | all | `a=1` | of an earlier choice |" in of_tasks
    assert "| the job's | first values, not those that were chosen |" in hows["published"]
    assert "| `a=1` | of an earlier choice |" in hows["other task"]
    both = league_page(
        League(rows=(rows["chosen"], rows["chosen"].model_copy(update={"row": "lesions-shrink"})), choices=(choice,))
    )
    assert "1 of 2 results are of the best of at most five" in " ".join(both.split())
    not_run_again = rows["published"].model_copy(update={"row": "missed-none"})
    of_both = figures_page(League(rows=(rows["chosen"], not_run_again), choices=(choice,)))
    assert "| `choice-missed` | all others | `a=1` | number 2 of 2, seeds 100 |" in of_both
    assert "| `choice-missed` | `missed-none` | the job's | first values, not those that were chosen |" in of_both
    of_other_kind = rows["published"].model_copy(update={"row": "lesions-shrink"})
    nothing_tried = "| elr | segmentation | `choice-contours` | all | the job's | first values, nothing tried |"
    assert nothing_tried in figures_page(League(rows=(of_other_kind,), choices=(choice,)))


def test_the_pages_say_where_methods_of_a_seed_ran_on_different_machines() -> None:
    """Seeds may; a run of which nothing is known differs from none."""
    cpu, gpu = {"processor": "Some CPU", "torch": "2.13"}, {"processor": "Some GPU", "torch": "2.13"}

    def league(*of_elr: dict[str, str]) -> League:
        two = {"scores": (80.0, 80.0)}
        row = row_of("row", figures("fedavg", 80.0, machines=(cpu, gpu), **two), seeds=(0, 1))
        elr = figures("elr", 81.0, machines=of_elr, **two)
        return League(rows=(row.model_copy(update={"methods": (*row.methods, elr)}),))

    for alike in ((cpu, gpu), ({}, {}), (), ({"torch": "2.13"}, {})):
        assert "ran on different" not in league_page(league(*alike)) + figures_page(league(*alike))
    mixed = league(cpu, cpu | {"torch": "2.11"})
    assert "Methods of one seed ran on different processors or PyTorch versions in `row`." in " ".join(
        league_page(mixed).split()
    )
    assert "- Seed 1: fedavg on Some GPU with PyTorch 2.13; elr on Some CPU with PyTorch 2.11." in figures_page(mixed)


def test_the_page_says_which_rows_differ_in_more_than_their_noise() -> None:
    """Other code, other processors than the clean row's, and a phantom that is too easy."""
    one, other = {"processor": "One", "torch": "2.13"}, {"processor": "Other", "torch": "2.13"}

    def page(machine: dict[str, str], *commits: str, clean_score: float = 86.0) -> str:
        of_clean = figures("fedavg", clean_score, machines=[one])
        methods = [figures(name, 80.0, machines=[machine], commits=commits[:1]) for name in ("fedavg", "elr")]
        methods[1] = methods[1].model_copy(update={"commits": commits[1:]})
        rows = row_of("clean", of_clean, agreement=100.0), row_of("noisy", *methods, clean="clean")
        return " ".join(league_page(League(rows=rows)).split())

    assert not any(
        text in page(one, "a", "a") for text in ("other processors in", "more than one commit", "should have")
    )
    assert "FedAvg ran on other processors in the clean row of `noisy`." in page(other)
    assert "other processors in" not in page({})
    assert "Runs are of more than one commit in `noisy`." in page(one, "a", "b")
    assert "should have FedAvg between 80 and 92. It has not: `clean`." in page(one, clean_score=93.5)


def test_the_settings_of_auto_are_no_published_ones() -> None:
    row = row_of("missed", figures("fedavg", 80.0), figures("auto", 85.0, settings={}))
    assert (
        "| auto | segmentation | `choice-missed` | all | the job's | own method, trials not counted |"
        in figures_page(League(rows=(row,)))
    )
    page = " ".join(league_page(League(rows=(row,))).split())
    assert "The rules of `auto` were made on these phantoms" in page
    alone = " ".join(league_page(League(rows=(row_of("a", figures("fedavg", 80.0)),))).split())
    assert "The rules of `auto`" not in alone


def test_the_map_has_a_mark_or_a_reason_for_every_method_and_row() -> None:
    absent = [{"method": "auto", "status": "not defined", "reason": "-"}]
    absent.append({"method": "auto_classification", "status": "unfinished", "reason": "-"})
    first = row_of(
        "a",
        figures("fedavg", 80.0),
        figures("auto", 85.0, difference=5.0, on_cases=on_cases(4.0, 0.001)),
        figures("elr", 79.0, difference=-1.0, on_cases=on_cases(-1.0, 0.04)),
        # The final models and the means over rounds disagree.
        figures("fedmix", 81.0, difference=1.0, on_cases=on_cases(-3.0, 0.001)),
    )
    second = row_of(
        "b", figures("fedavg", 80.0), figures("elr", 80.5, difference=0.5, on_cases=on_cases(0.5, 0.06)), absent=absent
    )
    assert heat_map([first, second]).splitlines()[2:6] == [
        "| fedavg | 80.0 | 80.0 |",
        "| auto | **▲▲ +5.0** | open |",
        "| fedmix | · +1.0 | n/d |",
        "| elr | ▼ −1.0 | **· +0.5** |",
    ]


def test_a_method_whose_sites_receive_models_of_others_is_marked() -> None:
    row = row_of("a", figures("fedavg", 80.0), figures("feddm", 84.0, fields=("has_peer",)), figures("elr", 79.0))
    page = heat_map([row])
    assert "| feddm* | **· +1.0** |" in page
    assert "| elr | · +1.0 |" in page
    assert "*: sites receive the models of single other sites" in " ".join(page.split())
    assert "*:" not in heat_map([row_of("a", figures("fedavg", 80.0), figures("elr", 79.0))])
    fields = " ".join(figures_page(League(rows=(row,))).split())
    assert "- feddm: `has_peer`; sites receive the models of single other sites." in fields


@pytest.mark.parametrize("num_patients", [5, 6, 8])
def test_rows_with_too_few_patients_for_a_mark_are_named(num_patients: int) -> None:
    """Wilcoxon's p of patients that all differ the same way is the smallest, and Holm multiplies it by the tests."""
    smallest = wilcoxon(np.arange(1.0, num_patients + 1)).pvalue
    tests = {f"method-{number}": figures(f"method-{number}", 70.0, on_cases=on_cases(-9.0, 0.5)) for number in range(3)}
    row = row_of("a", figures("fedavg", 80.0), *tests.values(), num_patients=num_patients)
    assert row.smallest_p == pytest.approx(3 * smallest)
    named = "Too few test patients for any mark: `a`." in " ".join(heat_map([row]).split())
    assert named == (3 * smallest >= 0.05)
    assert "Too few" not in heat_map([row_of("a", *row.methods)])


@pytest.mark.parametrize(
    "volumes", [partial(fedia.volumes, fedia.MS[2]), partial(decoupled.chambers, decoupled.PROTOCOLS)]
)
def test_more_test_volumes_leave_all_others_as_they_are(
    volumes: Callable[..., Callable[[Path, int], None]], tmp_path: Path
) -> None:
    for count in (1, 2):
        volumes(test_volumes=count)(tmp_path / str(count), 0)
    few, many = (
        {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
        for folder in (tmp_path / "1", tmp_path / "2")
    )
    added = {name for name in many if name not in few}
    assert added
    assert all(name.startswith("test/") for name in added)
    assert [name for name in few if few[name] != many[name]] == ["test/datalist.json"]


def test_noise_costs_what_the_seeds_of_both_rows_say() -> None:
    clean = row_of("clean", figures("fedavg", 80.0, scores=(90.0, 80.0, 70.0)), seeds=(0, 1, 2))
    noisy = row_of("noisy", figures("fedavg", 71.0, scores=(71.0,)), seeds=(1,), clean="clean")
    assert loss_by_noise(noisy, League(rows=(clean, noisy))) == pytest.approx(9.0)
    assert loss_by_noise(noisy, League(rows=(noisy,))) is None


def test_a_row_whose_annotations_are_right_has_no_noise_that_is_weak() -> None:
    clean = row_of("clean", figures("fedavg", 80.0))
    for percent, named in ((100.0, False), (89.5, True), (None, True)):
        other = row_of("other", figures("fedavg", 79.0), clean="clean", agreement=percent)
        assert any("says nothing of robustness" in text for text in answer(League(rows=(clean, other)))) is named


def test_a_row_of_the_reference_alone_says_what_noise_costs_and_compares_nothing() -> None:
    """Its other methods are no open cells; one that failed is a result."""
    absent = [{"method": "elr", "status": "unfinished", "reason": "0 of 1 seeds"}]
    clean = row_of("clean", figures("fedavg", 90.0, slope=2.0), absent=absent)
    noisy = row_of("noisy", figures("fedavg", 80.0), figures("elr", 81.0), clean="clean")
    page, tables = league_page(League(rows=(clean, noisy))), figures_page(League(rows=(clean, noisy)))
    assert "These are 1 row" not in page
    assert "This is 1 row of 1 seed, 0 cells open and 0 failed.\n" in page
    assert "| method | `noisy` |" in page
    assert "| `clean` | images | 1 | – | – | 90.0 | – | +2.00 | – | – | – |" in page
    assert "| `noisy` | images | 1 | – | – | 80.0 | 10.0 | +0.00 | elr 81.0 | elr 81.0 | – |" in page
    assert "FedAvg was run alone, for the cost of noise, in `clean`." in " ".join(page.split())
    assert "## `clean`" in tables
    assert "## Without figures" not in tables
    failed = clean.model_copy(update={"absent": row_of("a", absent=[absent[0] | {"status": "failed"}]).absent})
    assert "These are 2 rows of 1 seed, 0 cells open and 1 failed" in answer(League(rows=(failed, noisy)))[-1]
    # Nothing else has run yet.
    assert "| method | `clean` |" in league_page(League(rows=(clean,)))


def test_sentences_of_many_rows_stay_short() -> None:
    rows = [
        row_of(
            f"row-{number}",
            figures("fedavg", 80.0, slope=1.0),
            figures("auto", 70.0, on_cases=on_cases(-9.0, 0.001)),
            figures("elr", 79.0),
            clean="row-0",
        )
        for number in range(17)
    ]
    for count in (1, 10, 14, 15, 17):
        sentences = answer(League(rows=tuple(rows[:count])))
        assert len(sentences) == 5
        assert sentences[0].startswith("Another method is ahead of `auto` in")
        assert max(sum(any(map(str.isalpha, word)) for word in text.split()) for text in sentences) <= 25


def test_the_pages_of_the_documentation_are_those_of_the_figures_beside_them() -> None:
    """`fedannot bench league --table docs/benchmarks` makes them."""
    league = read_league(DOCS / "league.json")
    assert len(league.rows) > 0
    assert (DOCS / "league.md").read_text(encoding="utf-8") == league_page(league)
    assert (DOCS / "league_figures.md").read_text(encoding="utf-8") == figures_page(league)


def test_no_two_settings_that_are_tried_have_the_same_scores_in_all_rows() -> None:
    """The job's other values may make one have no effect; it would be counted as tried."""
    tried: dict[MethodKey, list[Choice]] = {}
    for choice in read_league(DOCS / "league.json").choices:
        tried.setdefault((choice.task, choice.method), []).append(choice)
    for key, choices in tried.items():
        settings = tried_settings(key[1])
        assert all(list(choice.tried) == settings for choice in choices), key
        for one, other in combinations(range(len(settings)), 2):
            assert any(choice.scores[one] != choice.scores[other] for choice in choices), (key, one, other)


def test_every_method_has_a_job_or_makes_no_model_and_no_setting_is_unknown() -> None:
    jobs = arms.jobs_by_method(arms.jobs_folder())
    without = {(method.task, method.name) for method in METHODS} - set(jobs)
    assert {name for _, name in without} <= arms.NO_MODEL
    opened = {key: Job.open(folder) for key, folder in jobs.items()}
    for row in [*ROWS.values(), *TUNING_ROWS.values()]:
        of_task = [job for (task, _), job in opened.items() if task == row.task]
        assert set(row.settings) <= {name for job in of_task for name in job.known_names(dict(row.settings))}
    assert {row.clean for row in ROWS.values()} - {""} <= set(ROWS)


def test_labels_that_lack_lesions_are_added_to_and_all_others_change_both_ways() -> None:
    jobs = arms.jobs_by_method(arms.jobs_folder())
    for row in (ROWS["missed-none"], ROWS["missed"], TUNING_ROWS["choice-missed"], ROWS["lesions-shrink"]):
        added_to = {
            name
            for (task, name), job in jobs.items()
            if task == row.task and arms.own_settings(job, row, {}).get("direction") == "add"
        }
        assert added_to == (set() if row.what.startswith("lesions") else {"adele", "fedcorr"})


def test_wrong_names_and_absent_packs_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"There are no methods \['fedxyz'\]; the methods are: adele, audit"):
        chosen_methods("auto, fedxyz")
    monkeypatch.delenv("FEDANNOT_REAL_DATA", raising=False)
    rows = {name: ROWS[name] for name in ("lesions-clean", "annotators")}
    with pytest.raises(BenchmarkError, match="annotators are made of packs of real images; name their folder: --data"):
        use_packs(rows, None, chosen=True)
    assert list(use_packs(rows, None, chosen=False)) == ["lesions-clean"]
    with pytest.raises(BenchmarkError, match="found no folder"):
        use_packs(rows, tmp_path / "absent", chosen=True)
