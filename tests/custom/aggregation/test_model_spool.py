"""Models that wait on disk come back whole, in the order of the sites' names, and leave nothing behind."""

import pytest
import torch

from fedannot.custom.aggregation.model_spool import ModelSpool


def test_models_come_back_in_the_order_of_the_names_whatever_the_order_of_arrival(tmp_path):
    spool = ModelSpool(tmp_path / "waiting")
    sent = {}
    for site in ("site-2", "site-10", "../strange/name", "site-1"):
        sent[site] = {"w": torch.randn(3, 2), "counter": torch.tensor(len(site))}
        spool.put(site, sent[site], len(site))
        assert site in spool
    back = list(spool.models())
    assert [(site, samples) for site, _, samples in back] == [(site, len(site)) for site in sorted(sent)]
    for site, params, _ in back:
        assert all(torch.equal(params[name], sent[site][name]) for name in sent[site])
    assert list(tmp_path.rglob("*.pt")) == []


def test_a_folder_of_an_interrupted_round_is_emptied_and_removed(tmp_path):
    folder = tmp_path / "waiting"
    ModelSpool(folder).put("site-1", {"w": torch.zeros(1)}, 1)
    spool = ModelSpool(folder)
    assert "site-1" not in spool
    assert list(spool.models()) == []
    spool.remove()
    assert not folder.exists()


def test_two_models_of_a_site_are_refused(tmp_path):
    spool = ModelSpool(tmp_path / "waiting")
    spool.put("site-1", {"w": torch.zeros(1)}, 1)
    with pytest.raises(ValueError, match="site-1 was added twice"):
        spool.put("site-1", {"w": torch.zeros(1)}, 1)
