"""A whole run of FedHAC, without a break and in two parts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import JOBS, SMALL_FEDIA
from plain_records import read_summary, simulate
from support.whole_runs import assert_same_model, run_job, same_model

from fedannot.apps.reports.corrections import find_corrections
from fedannot.apps.runs.job import Job
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.methods.fedhac.settings import FedHACSettings

# Every IoU is below its line after the second round, and a model that has hardly learnt anything corrects all the same.
EAGER = {"correction_margin": -1.0, "correction_threshold": 0.5, "clean_delay": 2, "redo_delay": 3, "rounds": 5}


# Small settings that both methods have.
SMALL = {key: value for key, value in SMALL_FEDIA.items() if "." in key or key in FedHACSettings.model_fields}
SMALL |= {"weighting": "completeness"}
SHORT = {"training.local_steps": 1, "embedded.test_images": 1}

# Before the last round with prototypes the run is interrupted.
MEANS = {"prototypes": "means", "embedded.images_per_site": 4}


def kept_prototypes(folder: Path) -> list[Any]:
    """What the server remembers of the last round with prototypes: every class has one."""
    (file,) = folder.rglob("fedannot_state.pt")
    found: list[Any] = torch.load(file, weights_only=True)["method_state"]["method"]["prototypes"]
    assert [row is not None for row in found] == [True, True]
    return found


def test_a_resumed_run_corrects_by_the_same_groups_and_keeps_its_bits(tmp_path: Path) -> None:
    job = Job.open(JOBS / "fedhac").copy_with(SMALL | EAGER | SHORT | MEANS, tmp_path / "job").folder
    whole = simulate(job, tmp_path / "whole")
    assert (whole["trigger_round"], len(whole["noisy_sites"])) == (2, 1)
    assert whole["corrected_before_round"] == {"site-1": 5, "site-2": 5}
    stages = ["warm-up", *["completeness-aware"] * 3, "corrected"]
    assert [record["stage"] for record in whole["rounds"]] == stages
    made = [found.corrections for found in find_corrections(tmp_path / "whole")]
    assert {corrections.round_number for corrections in made} == {5}
    # Of the given annotations, also where others counted in their place.
    assert {case.label.split("/")[0] for corrections in made for case in corrections.cases} == {"labels"}
    parts = tmp_path / "parts"
    simulate(job, parts, overrides={"rounds": 2})
    resumed = simulate(job, parts, data=parts / "data", resume=True)
    for key in ("trigger_round", "noisy_sites", "corrected_before_round", "completeness"):
        assert resumed[key] == read_summary(tmp_path / "whole")[key]
    assert_same_model(tmp_path / "whole", parts)
    assert kept_prototypes(parts) == kept_prototypes(tmp_path / "whole")


def test_where_every_site_corrects_for_itself_without_its_own_losses_it_is_fedia(tmp_path: Path) -> None:
    """The published form of FedIA, bit for bit: both correct before the third round."""
    eager = (
        SHORT
        | {"rounds": 3, "correction_margin": -1.0, "correction_threshold": 0.5, "training.loss": "dice"}
        | {"training.dice_loss_over": "all"}
    )
    plain = {"prototype_weight": 0.0, "proximity_weight": 0.0, "schedule": "own"}
    jobs = {"fedhac": SMALL | eager | plain, "fedia": SMALL_FEDIA | eager}
    summaries = [
        simulate(Job.open(JOBS / name).copy_with(settings, tmp_path / f"{name}-job").folder, tmp_path / name)
        for name, settings in jobs.items()
    ]
    assert summaries[0]["corrected_before_round"] == {"site-1": 3, "site-2": 3}
    assert summaries[0]["corrected_before_round"] == summaries[1]["corrected_before_round"]
    assert_same_model(tmp_path / "fedhac", tmp_path / "fedia")


def test_without_its_parts_it_is_federated_averaging(tmp_path: Path) -> None:
    """With the Dice loss, bit for bit, also in the rounds after the warm-up."""
    write_phantom_federation(tmp_path / "data", LesionImages(), num_sites=2, images_per_site=3, test_images=1)
    common = {key: value for key, value in SMALL.items() if key.startswith(("network.", "training."))} | {"rounds": 3}
    common |= {"training.loss": "dice", "training.learning_rate": 0.005, "training.local_steps": 2}
    parts = {"prototype_weight": 0.0, "proximity_weight": 0.0, "weighting": "quantity", "correction": False}
    own = run_job("fedhac", common | parts | {"warmup_rounds": 1}, tmp_path / "fedhac")
    assert same_model(own, run_job("fedavg", common, tmp_path / "fedavg"))


@pytest.mark.parametrize(
    ("faults", "refused"),
    [
        ({"site-1": "huge prototypes", "site-2": "huge losses"}, {"site-1", "site-2"}),
        ({"site-1": "largest prototypes", "site-2": "no prototypes", "site-3": "wide prototypes"}, set()),
    ],
)
def test_sites_that_lie_of_losses_and_prototypes_stop_no_run(
    faulty_job: Callable[..., Path], tmp_path: Path, faults: dict[str, str], refused: set[str]
) -> None:
    """They are refused, not used or bounded; the others train on, and the model stays finite."""
    changes = MEANS | SHORT | {"rounds": 3, "warmup_rounds": 1, "embedded.completeness": [0.5, 1.0, 1.0, 1.0]}
    changes |= {"embedded.sites": 4, "embedded.test_images": 1, "min_sites": 2}
    changes |= {"influence.max_share": 0.5, "influence.max_update_ratio": 1.0}
    summary = simulate(faulty_job(faults, name="fedhac", **SMALL | changes), tmp_path / "out")
    assert {(item["site"], item["reason"]["code"]) for item in summary["refusals"]} == {
        (site, "field_out_of_range") for site in refused
    }
    assert len(summary["rounds"]) == 3
    model = torch.load(tmp_path / "out" / "model.pt", weights_only=True)["model"]
    assert all(torch.isfinite(entry).all() for entry in model.values())
    log = (tmp_path / "out" / "log.txt").read_text(encoding="utf-8")
    assert ("The prototypes of site-3 are not used" in log) is ("site-3" in faults)
