"""The league: rows by methods in comparisons that go on, what is not defined, and the page made of the figures."""

from pathlib import Path

import plain_records
import pytest
from benchmark_tables import league
from benchmark_tables.league import LeagueRequest, chosen_methods, make_league, planned_lines, use_packs
from benchmark_tables.league_figures import League, LeagueFigures, MethodFigures, read_league
from benchmark_tables.league_rows import ROWS, LeagueRow
from benchmark_tables.league_tables import league_page, rivals_ahead

from fedannot.apps.commands.bench import BenchmarkError
from fedannot.apps.reports.compared_runs import Comparison
from fedannot.apps.runs.arms import Arm
from fedannot.apps.runs.in_process import RunError
from fedannot.apps.runs.job import Job
from fedannot.apps.runs.progress import Reported
from fedannot.apps.runs.run_share import RunShare
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.methods import METHODS

TINY = {"rounds": 1, "network.features": [4, 4, 8, 8, 8, 4], "training.local_epochs": 1}
# Neither federated averaging nor ELR has a warm-up.
TINY |= {"min_sites": 2, "warmup_rounds": 1}


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


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a league of two rows, the second of which has only the first of two shares."""
    folder = tmp_path_factory.mktemp("league")
    request = request_of(folder)
    make_league(request_of(folder, rows={"clean": request.rows["clean"]}), Reported(None))
    make_league(request_of(folder, rows={"noisy": request.rows["noisy"]}, only=RunShare(1, 2)), Reported(None))
    return folder


def test_rows_are_finished_by_whoever_makes_the_last_run(out: Path) -> None:
    (clean,) = read_league(out / "league.json").rows
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
    kept = {file: file.stat().st_mtime_ns for file in out.glob("*/runs/runs/*/model.pt")}
    assert len(kept) == 3
    page = make_league(request_of(out), Reported(None))
    assert {file: file.stat().st_mtime_ns for file in kept} == kept
    rows = read_league(out / "league.json").rows
    assert [row.row for row in rows] == ["clean", "noisy"]
    for row in rows:
        reference, elr = row.methods
        assert elr.difference == pytest.approx(elr.scores[0] - reference.scores[0])
        assert (elr.standard_deviation, elr.p_seeds, reference.difference) == (None, None, None)
        assert elr.model_mb == reference.model_mb > 0
        assert elr.seconds_per_round > 0
    text = page.read_text(encoding="utf-8")
    assert "| noisy | " in text
    assert "| clean | fedgsca | not defined | It is for classification. |" in text


def test_a_method_whose_run_fails_is_named_and_the_others_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(arms: list[Arm], runs: Path, **_: object) -> Comparison:
        names = [arm.name for arm in arms]
        if "elr" in names:
            (runs / "runs" / "fedavg-seed0").mkdir(parents=True)
            (runs / "runs" / "fedavg-seed0" / "summary.json").touch()
            (runs / "runs" / "elr-seed0.log").write_text("Reading.\nError: no memory\n")
            raise RunError("1 of 2 runs failed.")
        return plain_records.comparison([{"arm": name, "rounds": [{"dice": 0.5}]} for name in names])

    monkeypatch.setattr(league, "compare", fail)
    make_league(request_of(tmp_path, rows={"clean": tiny(None)}, methods=["elr"]), Reported(None))
    (row,) = read_league(tmp_path / "league.json").rows
    assert [method.method for method in row.methods] == ["fedavg"]
    assert [(method.method, method.status, method.reason) for method in row.absent] == [
        ("elr", "failed", "Error: no memory")
    ]


def test_a_plan_counts_methods_and_seeds(out: Path) -> None:
    lines = planned_lines(request_of(out, seeds=[0, 1, 2], rows={"clean": tiny(None)}), Reported(None))
    assert lines[0].startswith("clean: 2 methods × 3 seeds, about ")
    assert "  not defined: fedgsca: It is for classification." in lines


def figures(method: str, mean: float, **changes: object) -> MethodFigures:
    values = {"method": method, "is_personal": False, "scores": (mean,), "mean": mean, "standard_deviation": None}
    values |= {"difference": None if method == "fedavg" else 1.0, "p_seeds": None, "p_cases": None, "slope": 0.0}
    values |= {"seconds_per_round": 1.0, "memory_mb": None, "model_mb": None, "fields": ()}
    return MethodFigures.model_validate(values | changes)


def row_of(name: str, *methods: MethodFigures, clean: str = "") -> LeagueFigures:
    values = {"row": name, "what": "images", "task": "segmentation", "clean": clean, "seeds": (0,), "absent": ()}
    return LeagueFigures.model_validate(values | {"methods": methods})


def test_the_page_says_first_where_auto_is_beaten() -> None:
    clean = row_of("clean", figures("fedavg", 86.0), figures("auto", 86.5))
    personal = figures("ditto", 99.0, is_personal=True, generic=(70.0,), own=(99.0,))
    noisy = row_of(
        "noisy",
        figures("fedavg", 81.0, slope=0.8),
        figures("auto", 82.0),
        figures("elr", 84.5, fields=("offset",)),
        personal,
        clean="clean",
    )
    assert [method.method for method in rivals_ahead(noisy)] == ["elr"]
    page = league_page(League(rows=(clean, noisy)))
    first = page.split("\n\n")[1]
    assert first == "Another method is ahead of `auto` in 1 of 2 rows. In noisy elr is 2.5 points ahead of it."
    assert "the noise costs fedavg 5.0 points, less than 6." in page
    assert "In noisy fedavg still gains 0.8 points a round" in page
    assert "noisy (images): elr is best with 84.5 %; fedavg has 81.0 %." in page
    scores, of_sites = page.split("## Scores")[1].split("## Figures")[0], page.split("## Models of each site")[1]
    assert "ditto" not in scores
    assert "| elr | offset |" in page
    assert "| noisy | ditto | 70.0 | 70.0 | 99.0 | 99.0 |" in of_sites


def test_every_method_has_a_job_or_makes_no_model_and_no_setting_is_unknown() -> None:
    jobs = league._jobs_by_method(league.jobs_folder())
    without = {(method.task, method.name) for method in METHODS} - set(jobs)
    assert {name for _, name in without} <= league.NO_MODEL
    opened = {key: Job.open(folder) for key, folder in jobs.items()}
    for name, values in league.PUBLISHED.items():
        (job,) = (job for (_, method), job in opened.items() if method == name)
        assert set(values) <= set(job.known_names(dict(values)))
    for row in ROWS.values():
        of_task = [job for (task, _), job in opened.items() if task == row.task]
        assert set(row.settings) <= {name for job in of_task for name in job.known_names(dict(row.settings))}
    assert {row.clean for row in ROWS.values()} - {""} <= set(ROWS)


def test_wrong_names_and_absent_packs_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"There are no methods \['fedxyz'\]; the methods are: audit"):
        chosen_methods("auto, fedxyz")
    monkeypatch.delenv("FEDANNOT_REAL_DATA", raising=False)
    rows = {name: ROWS[name] for name in ("lesions-clean", "annotators")}
    with pytest.raises(BenchmarkError, match="annotators are made of packs of real images; name their folder: --data"):
        use_packs(rows, None, chosen=True)
    assert list(use_packs(rows, None, chosen=False)) == ["lesions-clean"]
    with pytest.raises(BenchmarkError, match="found no folder"):
        use_packs(rows, tmp_path / "absent", chosen=True)
