import json
from functools import partial
from pathlib import Path

import plain_records
import pytest
from PIL import Image
from test_runs import tags_of

from fedannot.apps import Arm, compare, cross_validate, read_compared
from fedannot.apps.runs.job import JobError


def compared(folder: Path) -> Path:
    """Write a comparison of two arms over two seeds, without its runs."""
    dice = {("fedavg", 0): 0.70, ("fedavg", 1): 0.72, ("fedaaai", 0): 0.75, ("fedaaai", 1): 0.76}
    runs = [
        {"arm": arm, "seed": seed, "method": arm, "last_rounds": {"dice": score}, "seconds": 9.0}
        for (arm, seed), score in dice.items()
    ]
    paired = {"arm": "fedaaai", "reference": "fedavg", "differences": [0.05, 0.04], "mean": 0.045}
    paired |= {"standard_deviation": 0.007, "p_value": 0.07}
    values = plain_records.comparison(runs, seeds=(0, 1), paired=[paired]).plain()
    folder.mkdir()
    (folder / "comparison.json").write_text(json.dumps(values), encoding="utf-8")
    Image.new("RGB", (4, 4)).save(folder / "comparison.png")
    return folder


def test_a_notebook_shows_the_runs_and_the_differences(tmp_path: Path) -> None:
    result = read_compared(compared(tmp_path / "out"))
    assert str(result) == "fedaaai - fedavg: +4.5 ± 0.7 Dice points (seeds: +5.0, +4.0), paired t-test p = 0.070"
    assert result.differences["fedaaai"].mean == 0.045
    html = result._repr_html_()
    counts = tags_of(html)
    assert (counts["tr"], counts["img"]) == (5, 1)
    assert '<td class="number">75.0</td>' in html


def test_arms_are_names_or_arms_and_two_at_least(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"at least two jobs to compare, but got \['fedavg'\]"):
        compare([Arm("fedavg", Path("fedavg"))], tmp_path / "out")
    with pytest.raises(JobError, match="did you mean 'fedavg'"):
        compare(["fedavg", Arm("other", Path("fedavgg"), {"rounds": 3})], tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("seeds", [0, [], [0, 1, 1]])
def test_every_seed_counts_once(seeds: int | list[int], tmp_path: Path) -> None:
    for run in (compare, partial(cross_validate, data="x", folds=2)):
        with pytest.raises(JobError, match=r"a seed at least, and each once, but got \[(0, 1, 1)?\]"):
            run(["fedavg", "fedaaai"], tmp_path / "out", seeds=seeds)
    assert not (tmp_path / "out").exists()
