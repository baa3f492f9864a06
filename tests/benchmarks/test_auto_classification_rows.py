"""Rows of `auto` for classification: what is compared, and that all begin with the same rounds."""

from pathlib import Path

from benchmark_tables.auto_classification import ARMS, ROWS

from fedannot.apps.runs.job import Job

JOBS = Path(__file__).parents[2] / "jobs"


def test_rows_and_arms() -> None:
    assert list(ROWS) == ["s40", "s50", "p20", "c20", "mixed", "clean", "s10"]
    assert [arm.name for arm in ARMS] == ["fedavg", "fedgsca-own", "auto"]
    assert all(row.arms == ARMS for row in ROWS.values())


def test_arms_branch_after_the_warm_up_that_their_settings_say() -> None:
    for arm in ARMS[1:]:
        settings = Job.open(JOBS / arm.job).settings_with(dict(arm.overrides))
        assert settings.model_dump()["warmup_rounds"] == arm.shared_rounds


def test_the_job_sends_what_all_jobs_with_a_server_send() -> None:
    ours, theirs = (JOBS / name / "app" / "config" for name in ("auto_classification", "fedavg_classification"))
    for name in ("config_fed_server.conf", "config_fed_client.conf"):
        assert (ours / name).read_bytes() == (theirs / name).read_bytes()
