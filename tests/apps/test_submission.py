"""NVFlare's `job submit` rewrites a job's files; they must say the same afterwards."""

import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from nvflare.tool.job.job_cli import prepare_job_config
from pyhocon import ConfigFactory, HOCONConverter

JOBS = Path(__file__).parents[2] / "jobs"


def content(file: Path) -> Any:
    return HOCONConverter.to_json(ConfigFactory.parse_file(str(file)))


@pytest.mark.parametrize("job", sorted(path.name for path in JOBS.iterdir()))
def test_a_submitted_job_is_the_job(job: str, tmp_path: Path) -> None:
    sent = tmp_path / job
    shutil.copytree(JOBS / job, sent)
    prepare_job_config(Namespace(job_folder=str(JOBS / job), config_file=None, debug=False), ["app"], str(sent))
    rewritten = 0
    for file in (JOBS / job / "app" / "config").glob("config_fed_*.conf"):
        arrived = sent / "app" / "config" / file.name
        rewritten += arrived.read_text(encoding="utf-8") != file.read_text(encoding="utf-8")
        assert content(arrived) == content(file)
    assert rewritten == 2, "else the test shows nothing"
