"""What a person names as arms and settings of arms, and what is refused before anything runs."""

from pathlib import Path

import pytest

from fedannot.apps.runs.arms import Arm, parse_arms, plan
from fedannot.apps.runs.job import JobError

JOBS = Path(__file__).parents[3] / "jobs"
FEDAVG, FEDA3I = JOBS / "fedavg", JOBS / "fedaaai"


def test_settings_of_all_and_of_one():
    arms, common = parse_arms(
        [str(FEDAVG), f"short={FEDA3I}", str(FEDA3I)],
        ["rounds=12", "short:warmup_rounds=2", " fedaaai : training.batch_size = 8 "],
    )
    assert arms == [
        Arm("fedavg", FEDAVG),
        Arm("short", FEDA3I, {"warmup_rounds": 2}),
        Arm("fedaaai", FEDA3I, {"training.batch_size": 8}),
    ]
    assert common == {"rounds": 12}


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("C:/data", "C:/data"),
        ("/a=b:c", "/a=b:c"),
        ('{"a": 1}', {"a": 1}),
        ("M(25,-25,10,0.2)", "M(25,-25,10,0.2)"),
    ],
)
def test_values_may_have_colons(value, read):
    arms, common = parse_arms([str(FEDAVG)], [f"data={value}", f"fedavg:start_model={value}"])
    assert common == {"data": read}
    assert arms[0].overrides == {"start_model": read}


def test_a_setting_without_a_name_is_reported():
    with pytest.raises(JobError, match="expected the name of a setting after fedavg:"):
        parse_arms(["jobs/fedavg"], ["fedavg:=3"])


def test_a_setting_of_an_unknown_arm_names_the_arms():
    text = r"--set fedaai:rounds=2: there is no arm 'fedaai'; did you mean 'fedaaai'\? Arms: fedavg, fedaaai; "
    with pytest.raises(JobError, match=text):
        parse_arms([str(FEDAVG), str(FEDA3I)], ["fedaai:rounds=2"])


@pytest.mark.parametrize("jobs", [[str(FEDAVG), str(FEDAVG)], ["a=jobs/fedavg", "a=jobs/fedaaai"]])
def test_names_must_differ(jobs):
    with pytest.raises(JobError, match=r"Expected jobs of different names.*NAME=JOB gives a job another name"):
        parse_arms(jobs, [])


@pytest.mark.parametrize("text", ["a/b=jobs/fedavg", "=jobs/fedavg", "a=", "a:b=jobs/fedavg"])
def test_what_is_no_name(text):
    with pytest.raises(JobError, match=r"Expected a job's folder, or NAME=FOLDER with a name of letters"):
        parse_arms([text], [])


def test_a_folder_with_an_equals_sign_is_a_folder(tmp_path):
    folder = tmp_path / "rounds=12"
    folder.mkdir()
    assert parse_arms([str(folder)], [])[0] == [Arm("rounds=12", folder)]


def test_jobs_of_different_tasks_are_refused_by_name():
    arms = [Arm("a", FEDAVG), Arm("b", FEDA3I), Arm("c", JOBS / "fedgsca")]
    text = f"^{FEDAVG} is for segmentation and {JOBS / 'fedgsca'} for classification: expected jobs of one task"
    with pytest.raises(JobError, match=text):
        plan(arms, {})


def test_a_swarm_is_refused():
    with pytest.raises(JobError, match=r"decoupled: its sites talk to each other.*nvflare simulator"):
        plan([Arm("a", FEDAVG), Arm("b", JOBS / "decoupled")], {})


def test_settings_that_nobody_knows_are_refused_with_the_nearest():
    arms = [Arm("a", FEDAVG), Arm("b", FEDA3I, {"balanse": 0.3})]
    with pytest.raises(JobError, match=r"^No job has the settings \['roundz'\]; did you mean 'rounds'\?$"):
        plan(arms[:1], {"roundz": 3})
    with pytest.raises(JobError, match=r"^b: the job .* has no settings \['balanse'\]; did you mean 'balance'\?$"):
        plan(arms, {})


def test_what_all_share_reaches_those_that_have_it_and_an_arms_own_counts_more():
    arms = [Arm("a", FEDAVG), Arm("b", FEDA3I), Arm("c", FEDA3I, {"balance": 0.3})]
    planned = plan(arms, {"rounds": 5, "balance": 0.7})
    assert [arm.overrides for arm in planned] == [
        {"rounds": 5},
        {"rounds": 5, "balance": 0.7},
        {"rounds": 5, "balance": 0.3},
    ]


def test_an_arm_of_another_method_has_that_methods_settings():
    arms = [Arm("fedavg", JOBS / "fedavg"), Arm("other", JOBS / "fedavg", {"method": "feda3i", "balance": 0.4})]
    planned = plan(arms, {"warmup_rounds": 2})
    assert planned[0].overrides == {}
    assert planned[1].overrides == {"method": "feda3i", "balance": 0.4, "warmup_rounds": 2}
    with pytest.raises(JobError, match=r"other: the job .* has no settings \['curvature_weight'\]"):
        plan([arms[0], Arm("other", JOBS / "fedavg", {"method": "feda3i", "curvature_weight": 1.0})], {})


def test_the_reference_keeps_rounds_of_its_own_beside_those_that_arms_branch_from():
    reference = Arm("fedavg", FEDAVG, {"keep_rounds": [4, 2]})
    planned = plan([reference, Arm("fedaaai", FEDA3I, {}, 3)], {})
    assert planned[0].overrides["keep_rounds"] == [2, 3, 4]
