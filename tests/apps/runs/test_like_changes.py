"""What gives an arm the settings of another job that a comparison holds alike."""

from pathlib import Path
from typing import Any

import pytest

from fedannot.apps.runs.arm_differences import UnfairComparisonError
from fedannot.apps.runs.arms import Arm, plan
from fedannot.apps.runs.fairness import held_values
from fedannot.apps.runs.job import Job
from fedannot.apps.runs.like_changes import like_changes
from fedannot.custom.components.merging import merged

JOBS = Path(__file__).parents[3] / "jobs"
FEDAVG, FEDA3I, FEDIA = JOBS / "fedavg", JOBS / "fedaaai", JOBS / "fedia"
UNET = {"network._target_": "UNet", "network.channels": [4, 8], "network.strides": [2]}


def like(arm: Arm, model: Arm, overrides: dict[str, Any] | None = None, of_set: dict[str, Any] | None = None) -> Any:
    """An arm with the settings of another one, as a comparison plans it."""
    planned = plan([arm, model], overrides or {})
    of_model = planned[1].job.settings_with(planned[1].overrides)
    changes = like_changes(of_model, planned[0], of_set or {}, name=model.name, data_given=False)
    return planned[0].job.settings_with(merged(of_set or {}, changes, planned[0].overrides))


@pytest.mark.parametrize("job", ["auto", "fedaaai", "fedcurv", "decoupled_server"])
def test_like_gives_an_arm_everything_that_is_held_alike(job: str) -> None:
    model = Job.open(FEDIA).settings()
    made = like(Arm("a", JOBS / job), Arm("fedia", FEDIA))
    expected = held_values(model, data_given=False)
    if job == "decoupled_server":
        # Its loss is its own.
        expected["training.loss"] = "ce"
    assert held_values(made, data_given=False) == expected
    assert made.method == Job.open(JOBS / job).settings().method


def test_what_is_set_counts_more_than_like() -> None:
    own = {"training.learning_rate": 0.1}
    made = like(Arm("a", FEDAVG, own), Arm("fedia", FEDIA), {"rounds": 30}, {"training.batch_size": 2})
    assert (made.rounds, made.training.learning_rate, made.training.loss) == (30, 0.1, "batch_dice")
    # Not of the set, which goes before.
    assert made.training.batch_size == 4


def test_like_gives_a_class_and_cannot_take_one_back(tmp_path: Path) -> None:
    named = Job.open(FEDAVG).copy_with(UNET, tmp_path / "named").folder
    made = like(Arm("a", FEDA3I), Arm("named", named))
    assert made.network.component.arguments["channels"] == [4, 8]
    with pytest.raises(UnfairComparisonError, match="--like b: its network is that of the settings, but a names a cla"):
        like(Arm("a", named), Arm("b", FEDA3I))
