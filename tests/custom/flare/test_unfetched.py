"""A message whose tensors cannot be fetched is decoded without them; one whose can, with them."""

from typing import Any

import pytest
import torch
from nvflare.app_opt.pt.decomposers import TensorDecomposer
from nvflare.fuel.utils.fobs.datum import DatumManager
from nvflare.fuel.utils.fobs.decomposers.via_downloader import EncKey, EncType

from fedannot.custom.flare.unfetched import ForbearingTensorDecomposer, Unfetched


def decoded(monkeypatch: pytest.MonkeyPatch, answer: tuple[str | None, Any]) -> Any:
    """What a tensor of a message becomes when the other end answers so."""
    monkeypatch.setattr(TensorDecomposer, "download", lambda *args, **kwargs: answer)
    decomposer = ForbearingTensorDecomposer()
    error, items = decomposer.download("site-1", "ref", 1.0, None)
    assert error is None
    manager = DatumManager(fobs_ctx={decomposer.items_key: items})
    return decomposer.recompose({EncKey.TYPE: EncType.REF, EncKey.DATA: "T0"}, manager)


def test_a_tensor_that_is_fetched_is_that_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = torch.arange(3.0)
    assert decoded(monkeypatch, (None, {"T0": tensor})) is tensor


def test_a_tensor_that_is_not_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(decoded(monkeypatch, ("error requesting data from site-1", None)), Unfetched)
