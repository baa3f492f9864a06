"""A site that lies about itself expels no other site, and what it gets by it has bounds."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from plain_records import simulate
from support.whole_runs import assert_same_model


def without_first_site(data: Path) -> None:
    federation = data / "federation.yaml"
    federation.write_text(federation.read_text(encoding="utf-8").replace("- site-1\n", ""))


@pytest.fixture(scope="module")
def honest(small_job_in: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of two rounds in which no site lies, its data in it."""
    folder = tmp_path_factory.mktemp("honest")
    simulate(small_job_in(folder, "fedavg", rounds=2), folder / "out")
    return folder / "out"


def test_a_site_that_answers_first_and_claims_everything_expels_nobody(
    small_job: Callable[..., Path], faulty_job: Callable[..., Path], tmp_path: Path
) -> None:
    """It is refused; the model is that of the others."""
    lying = simulate(faulty_job({"site-1": "claims everything"}, rounds=2), tmp_path / "lying")
    assert {refusal["site"] for refusal in lying["refusals"]} == {"site-1"}
    assert lying["refusals"][0]["reason"] == {
        "code": "samples_out_of_range",
        "values": {"samples": "16777216", "largest": 4194304},
    }
    assert set(lying["sites"]) == {"site-2", "site-3", "site-4"}
    without_first_site(tmp_path / "lying" / "data")
    simulate(small_job("fedavg", rounds=2), tmp_path / "without", data=tmp_path / "lying" / "data")
    assert_same_model(tmp_path / "lying", tmp_path / "without")


def test_a_later_claim_counts_up_to_the_first(honest: Path, faulty_job: Callable[..., Path], tmp_path: Path) -> None:
    lying = faulty_job({"site-1": "claims more later"}, rounds=2)
    summary = simulate(lying, tmp_path / "lying", data=honest / "data")
    assert summary["refusals"] == []
    assert summary["sites"]["site-1"]["num_samples"] == 4
    assert_same_model(honest, tmp_path / "lying")
    log = (tmp_path / "lying" / "log.txt").read_text(encoding="utf-8")
    assert "site-1 claims 100000 samples and claimed 4 at first" in log


def test_a_run_that_goes_on_remembers_what_was_claimed_first(
    honest: Path, small_job: Callable[..., Path], faulty_job: Callable[..., Path], tmp_path: Path
) -> None:
    data = honest / "data"
    simulate(small_job("fedavg", rounds=1), tmp_path / "lying", data=data)
    lying = faulty_job({"site-1": "claims more later"}, rounds=2)
    simulate(lying, tmp_path / "lying", data=data, resume=True)
    assert_same_model(honest, tmp_path / "lying")


def test_bounds_of_shares_that_nobody_meets_change_no_bit(
    honest: Path, small_job: Callable[..., Path], tmp_path: Path
) -> None:
    loose = {"influence.max_share": 0.5, "influence.max_quality_ratio": 3.0}
    job = small_job("fedavg", rounds=2)
    summary = simulate(job, tmp_path / "with", data=honest / "data", overrides=loose)
    assert summary["bounded"] == []
    assert_same_model(honest, tmp_path / "with")


def test_a_false_estimate_moves_weights_within_their_ratio_to_those_by_quantity(
    faulty_job: Callable[..., Path], tmp_path: Path
) -> None:
    """Alone in its group it would have half of the last block; of four equal sites 1.5 times a quarter is left."""

    def last_block(name: str, **changes: Any) -> dict[str, float]:
        job = faulty_job({"site-1": "false estimate"}, name="fedaaai", rounds=3, group_test_level=1.0, **changes)
        data = None if name == "free" else tmp_path / "free" / "data"
        weights = simulate(job, tmp_path / name, data=data)["weights"]
        return {site: row[-1] for site, row in zip(weights["sites"], weights["values"], strict=True)}

    assert last_block("free")["site-1"] == pytest.approx(0.5)
    bounded = last_block("bounded", influence__max_quality_ratio=1.5)
    assert 0.25 < bounded["site-1"] < 0.375 + 1e-9
    assert all(1 / 6 - 1e-9 <= share <= 0.375 + 1e-9 for share in bounded.values())
    assert sum(bounded.values()) == pytest.approx(1.0)
