"""Whole audits of class labels: wrong ones come first at every site, and a resumed run finds the same."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from conftest import JOBS
from plain_records import read_summary, simulate
from scipy import stats
from support.audit_runs import assert_no_case_at_the_server, findings

from fedannot.apps.audit.running import run_audit
from fedannot.apps.runs.job import Job
from fedannot.custom.data.datalist import TRAINING, read_datalist
from fedannot.custom.data.description import read_site_description
from fedannot.custom.data.phantoms.cells import Cells
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.run.state import STATE_FILE

# Few rounds with many steps: a model that has hardly learnt anything finds nothing.
SMALL = {"rounds": 10, "folds": 2, "keep_rounds": [7]}
SITES = ("site-1", "site-2")


def federation(folder: Path) -> Path:
    write_phantom_federation(folder, Cells("S40"), num_sites=2, seed=104, images_per_site=300, test_images=8)
    return folder


def wrong_labels(data: Path, site: str) -> Mapping[str, tuple[str, str]]:
    """By image the given and the true class, where they differ."""
    description = read_site_description(data / site)
    classes, cases = description.classes, read_datalist(data / site / description.datalist).section(TRAINING)
    return {
        str(case.image.relative_to(data / site)): (classes[case.label], classes[case.clean_label])
        for case in cases
        if isinstance(case.label, int) and isinstance(case.clean_label, int) and case.label != case.clean_label
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit with two parts of the patients; job and data lie beside the output."""
    folder = tmp_path_factory.mktemp("audit")
    federation(folder / "data")
    job = Job.open(JOBS / "audit_classification").copy_with(SMALL, folder / "job")
    simulate(job.folder, folder / "whole", data=folder / "data")
    return folder


def test_wrong_labels_come_first_at_every_site(whole: Path) -> None:
    result = findings(whole / "whole")
    assert sorted(result) == list(SITES)
    for site in SITES:
        wrong, cases = wrong_labels(whole / "data", site), result[site]["cases"]
        assert 100 <= len(wrong) <= 140
        is_wrong = np.array([case["image"] in wrong for case in cases])
        ranks = stats.mannwhitneyu(-np.flatnonzero(is_wrong), -np.flatnonzero(~is_wrong)).statistic
        assert ranks / (is_wrong.sum() * (~is_wrong).sum()) > 0.85
        assert is_wrong[:30].mean() > 0.85
        first = [case for case in cases[:30] if case["image"] in wrong]
        named = [tuple(case["findings"][0]["classes"]) == wrong[case["image"]] for case in first]
        assert np.mean(named) > 0.5


def test_every_site_receives_what_the_server_concludes_of_it(whole: Path) -> None:
    summary, result = read_summary(whole / "whole"), findings(whole / "whole")
    assert summary["audit"]["informed"] == list(SITES)
    for site in SITES:
        (conclusion,) = result[site]["conclusions"]
        assert conclusion["estimate"] == summary["noise_levels"][site]["estimate"]
        assert conclusion["patients"] == summary["noise_levels"][site]["patients"]
        assert conclusion["status"] == summary["noise_levels"][site]["status"]
        assert conclusion["estimate"] > 0.2


def test_nothing_of_a_case_is_in_what_the_server_has(whole: Path) -> None:
    assert_no_case_at_the_server(whole / "whole", 300)


def test_a_run_resumed_in_the_second_part_finds_the_same(whole: Path, tmp_path: Path) -> None:
    again = shutil.copytree(whole / "whole", tmp_path / "again")
    state = again / "run" / "server" / "simulate_job" / STATE_FILE
    shutil.copyfile(state.with_name("fedannot_state_round_7.pt"), state)
    simulate(whole / "job", again, data=whole / "data", resume=True)
    assert findings(again / "run") == findings(whole / "whole")


def test_one_site_alone_with_labels_is_audited_by_this_job(whole: Path, tmp_path: Path) -> None:
    overrides = {"rounds": 1, "training.local_epochs": 1}
    summary = run_audit(tmp_path / "out", jobs=JOBS, data=whole / "data" / "site-1", overrides=overrides)
    assert (summary.method, summary.task) == ("audit_classification", "classification")
    assert list(findings(tmp_path / "out")) == ["site-1"]
