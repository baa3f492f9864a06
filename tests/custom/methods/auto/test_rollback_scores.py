"""Scores of two models on patients that neither has learnt: who is held out, and the paired difference."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from fedannot.custom.data.site_data import LoadedCase, SiteData
from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.interface.views import SiteView
from fedannot.custom.methods.auto import rollback_scores
from fedannot.custom.methods.auto.rollback_scores import (
    held_out_patients,
    keep_scores,
    kept_scores,
    only,
    paired_gain,
    patient_dice,
)

UNITS = tuple(f"patient-{index // 2}" for index in range(40))


def site_of(tmp_path: Path, seed: int = 0) -> SiteView:
    return cast(SiteView, SimpleNamespace(name="site-1", seed=seed, locate=lambda: SimpleNamespace(folder=tmp_path)))


@pytest.fixture(autouse=True)
def without_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollback_scores, "count_cases", lambda *_: 0)


def test_whole_patients_are_held_out_the_same_ones_in_every_task(tmp_path: Path) -> None:
    chosen = held_out_patients(UNITS, 0.25, site_of(tmp_path))
    assert len(chosen) == 5
    assert chosen <= set(UNITS)
    assert chosen == held_out_patients(UNITS[::-1], 0.25, site_of(tmp_path))
    assert chosen != held_out_patients(UNITS, 0.25, site_of(tmp_path, seed=1))


def test_never_too_few_are_held_out_or_left(tmp_path: Path) -> None:
    assert len(held_out_patients(UNITS, 0.01, site_of(tmp_path))) == 3
    assert len(held_out_patients(UNITS[:12], 0.1, site_of(tmp_path))) == 3
    assert not held_out_patients(UNITS[:10], 0.5, site_of(tmp_path))
    assert not held_out_patients(UNITS, 0.0, site_of(tmp_path))


def test_a_site_with_validation_cases_keeps_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollback_scores, "count_cases", lambda *_: 4)
    assert not held_out_patients(UNITS, 0.25, site_of(tmp_path))


def case_of(unit: str, mask: torch.Tensor) -> LoadedCase:
    # The image is what the model finds.
    result = torch.zeros_like(mask)
    result[..., :2] = 1
    return LoadedCase(unit, unit, result.float()[None, None], mask[None].to(torch.uint8), None, None)


def mask_of(columns: int) -> torch.Tensor:
    mask = torch.zeros(4, 4)
    mask[:, :columns] = 1
    return mask


class Echo(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.somewhere = torch.nn.Parameter(torch.zeros(1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.cat((0.5 - images, images - 0.5), dim=1)


def data_of(*cases: LoadedCase) -> SiteData:
    return SiteData("site-1", cases, cast(Any, None), ())


def test_a_patients_dice_is_the_mean_over_its_annotated_cases() -> None:
    """Two of four columns are found: Dice 1 of 2 columns, 2/3 of 4, 2/3 of 1; nothing annotated says nothing."""
    data = data_of(
        case_of("one", mask_of(2)), case_of("one", mask_of(4)), case_of("two", mask_of(1)), case_of("none", mask_of(0))
    )
    assert patient_dice(Echo(), data, 1, Inference(2)) == {
        "one": pytest.approx((1 + 2 / 3) / 2),
        "two": pytest.approx(2 / 3),
    }


def test_some_patients_or_all_others() -> None:
    data = data_of(*(case_of(unit, mask_of(2)) for unit in ("a", "b", "a")))
    assert [case.unit for case in only(data, frozenset("a"), inside=True).cases] == ["a", "a"]
    assert [case.unit for case in only(data, frozenset("a"), inside=False).cases] == ["b"]
    assert only(data, frozenset(), inside=False) is data
    assert not only(data, frozenset(), inside=True).cases
    assert replace(data, cases=()) == only(data, frozenset(), inside=True)


def test_the_gain_is_of_the_same_patients() -> None:
    gain = paired_gain({"a": 0.5, "b": 0.2, "c": 0.9}, {"a": 0.6, "b": 0.5, "d": 0.0}, seed=0)
    assert (gain.patients, gain.value) == (2, pytest.approx(0.2))
    assert (gain.low, gain.high) == (pytest.approx(0.1), pytest.approx(0.3))
    assert not paired_gain({}, {"a": 1.0}, seed=0).is_known


def test_scores_of_another_round_do_not_count(tmp_path: Path) -> None:
    keep_scores(tmp_path, 6, {"reviewed": {"a": 0.5}})
    assert kept_scores([tmp_path / "elsewhere", tmp_path], 6) == {"reviewed": {"a": 0.5}}
    assert kept_scores([tmp_path], 7) == {}
