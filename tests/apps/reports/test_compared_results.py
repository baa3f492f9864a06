"""Results per case of a comparison whose runs do not all have them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.case_rows import row

from fedannot.apps.reports import compared_results
from fedannot.apps.reports.results_file import RESULTS_FILE, ResultRow, read_results


def test_a_run_that_cannot_be_scored_is_named_and_the_others_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def results_of_run(folder: Path, federation: Path) -> list[ResultRow]:
        del federation
        if folder.name == "b-1":
            raise RuntimeError("size mismatch")
        return [row(folder.name[0], 0.5, seed=int(folder.name[2:]))]

    monkeypatch.setattr(compared_results, "results_of_run", results_of_run)
    monkeypatch.setattr(compared_results, "run_folder", lambda out, arm, seed: out / f"{arm}-{seed}")
    runs = [SimpleNamespace(arm=arm, seed=seed, task="segmentation") for arm in "ab" for seed in (0, 1)]
    comparison: Any = SimpleNamespace(runs=runs, data=None, reference="a")
    comparison.model_copy = lambda update: update
    said: list[str] = []
    found: Any = compared_results.with_case_results(tmp_path, comparison, said.append)
    assert said == ["warning: b-1 has no results per case: RuntimeError: size mismatch"]
    assert [one.run for one in read_results(tmp_path / RESULTS_FILE)] == ["a-0", "a-1", "b-0"]
    (test,) = found["case_tests"]
    assert (test.arm, test.num_cases) == ("b", 1)
