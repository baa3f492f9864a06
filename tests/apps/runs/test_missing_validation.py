"""Methods with models of the sites' own say before a run where nothing can be scored."""

import json
from pathlib import Path

import pytest

from fedannot.apps.runs.missing_validation import without_validation
from fedannot.custom.methods.ditto.settings import DittoSettings
from fedannot.custom.methods.fedavg.settings import FedAvgSettings


@pytest.fixture
def federation(tmp_path: Path) -> Path:
    for site in ("site-1", "site-2"):
        (tmp_path / site).mkdir()
        (tmp_path / site / "data.yaml").write_text(
            "channels: 1\nsize: [8, 8]\nclasses: [lesion]\nlabels: {0: 0, 1: 1}\n", encoding="utf-8"
        )
        lists = {"training": [], "validation": [{"image": "a.png", "label": "b.png"}]}
        if site == "site-1":
            del lists["validation"]
        (tmp_path / site / "datalist.json").write_text(json.dumps(lists), encoding="utf-8")
    return tmp_path


def test_sites_without_validation_cases_are_named(federation: Path) -> None:
    sites = ("site-1", "site-2")
    said = without_validation(DittoSettings(), federation, sites)
    assert said is not None
    assert said.startswith("warning: without a list 'validation' in the datalist: site-1. ")
    assert "--validation 0.2 of `fedannot data import`" in said
    alone = without_validation(DittoSettings(), federation, ("site-1",))
    assert alone is not None
    assert "all sites." in alone
    assert without_validation(DittoSettings(), federation, ("site-2",)) is None
    assert without_validation(FedAvgSettings(), federation, sites) is None
