import pytest

from fedannot.apps.runs.installed import installed_jobs
from fedannot.apps.runs.job import Job, setting_names
from fedannot.apps.runs.known_settings import KnownSetting, known_settings


@pytest.mark.parametrize("name", ["fedaaai", "fedgsca", "auto", "decoupled"])
def test_all_settings_are_listed_each_with_what_is_allowed(name: str) -> None:
    job = Job.open(name)
    result = known_settings(job)
    assert [item.name for item in result] == setting_names(type(job.settings()))
    assert [item.name for item in result if not item.allowed] == []


@pytest.mark.parametrize(
    "expected",
    [
        KnownSetting("warmup_rounds", "3", "whole number ≥ 1", "rounds of federated averaging, fewer than all."),
        KnownSetting(
            "balance", "0.5", "number ≥ 0, ≤ 1", "r, the fraction of the weight that the group of larger contours gets."
        ),
        KnownSetting("training.patch", "null", "list of: whole number or null", ""),
        # Its class says nothing of it; the job's file does.
        KnownSetting("network.in_channels", "1", "whole number ≥ 1, ≤ 16", "3 for RGB images"),
        # Its class says what it means, and counts before the comment of the job's file.
        KnownSetting(
            "training.schedule",
            '"steps"',
            "constant, steps, polynomial, cosine or class with _target_",
            "how the learning rate falls in the course of all rounds: constant; steps by rounds, see "
            "learning_rate_steps; polynomial and cosine with every optimizer step, to 0 at the end of the run; or a "
            "class of torch.optim.lr_scheduler such as CosineAnnealingLR, which makes a step with every optimizer step "
            "of all rounds.",
        ),
    ],
    ids=lambda one: one.name,
)
def test_a_setting_is_described(expected: KnownSetting) -> None:
    assert expected in known_settings(Job.open(installed_jobs()["fedaaai"].folder))
