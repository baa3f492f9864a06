"""Results per case of a comparison whose runs do not all have them."""

from pathlib import Path

import plain_records
import pytest
from support.case_rows import row

from fedannot.apps.reports import compared_results
from fedannot.apps.reports.comparison import case_differences_in_words
from fedannot.apps.reports.result_rows import ResultRow
from fedannot.apps.reports.results_file import RESULTS_FILE, read_description, read_results, write_results
from fedannot.custom.run.summary_record import FinalModel

LAST, BEST = FinalModel(kind="last", rounds=(4,)), FinalModel(kind="best", rounds=(2,))


def test_a_run_that_cannot_be_scored_is_named_and_the_others_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def results_of_run(folder: Path, federation: Path) -> list[ResultRow]:
        del federation
        if folder.name == "b-1":
            raise RuntimeError("size mismatch")
        folder.mkdir()
        rows = [row(folder.name[0], 0.5, seed=int(folder.name[2:]))]
        write_results(folder / RESULTS_FILE, rows, {"as it was called": BEST if folder.name == "a-1" else LAST})
        return read_results(folder / RESULTS_FILE)

    monkeypatch.setattr(compared_results, "results_of_run", results_of_run)
    monkeypatch.setattr(compared_results, "run_folder", lambda out, arm, seed: out / f"{arm}-{seed}")
    comparison = plain_records.comparison(
        [{"arm": arm, "seed": seed} for arm in "ab" for seed in (0, 1)], reference="a"
    )
    said: list[str] = []
    found = compared_results.with_case_results(tmp_path, comparison, said.append)
    assert said == ["warning: b-1 has no results per case: RuntimeError: size mismatch"]
    assert [one.run for one in read_results(tmp_path / RESULTS_FILE)] == ["a-0", "a-1", "b-0"]
    (test,) = found.case_tests or ()
    assert (test.arm, test.num_cases) == ("b", 1)
    # Which model each run's results are of, in the file beside the table, in the comparison and in words.
    assert read_description(tmp_path / RESULTS_FILE).models == {"a-0": LAST, "a-1": BEST, "b-0": LAST}
    assert [run.case_model for run in found.runs] == [LAST, BEST, LAST, None]
    assert case_differences_in_words(found)[0] == (
        "Case by case: the models of the last round, or the models of the rounds that are the best by the sites' "
        "validation, on the server's test set."
    )
