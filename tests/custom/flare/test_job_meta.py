"""Which sites a submitted job names."""

import json
from pathlib import Path

import pytest

from fedannot.custom.flare.kept_files import sites_of_job


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        ({"deploy_map": {"app": ["server", "site-1", "site-2"]}}, {"site-1", "site-2"}),
        ({"deploy_map": {"app_server": ["server"], "app_1": ["site-1"], "app_2": ["site-2"]}}, {"site-1", "site-2"}),
        ({"deploy_map": {"app": ["@ALL"]}}, set()),
        ({"name": "job"}, set()),
    ],
)
def test_named_sites(tmp_path: Path, meta: dict[str, object], expected: set[str]) -> None:
    file = tmp_path / "meta.json"
    file.write_text(json.dumps(meta))
    assert sites_of_job(file) == expected


def test_a_simulated_job_names_none(tmp_path: Path) -> None:
    assert sites_of_job(tmp_path / "meta.json") == set()
