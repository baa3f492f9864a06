"""Names of tasks: a server of an earlier version asks by former ones."""

import warnings

import pytest
from nvflare.apis.dxo import DXO, DataKind

from fedannot.custom import task_names
from fedannot.custom.flare.at_hand import own_name
from fedannot.custom.flare.messages import METHOD_TASK, TASK
from fedannot.custom.methods import METHODS
from fedannot.custom.task_names import FORMER_TASKS, current_task


def sent_with(name: str) -> DXO:
    dxo = DXO(DataKind.WEIGHTS, data={})
    dxo.set_meta_prop(TASK, name)
    return dxo


@pytest.mark.parametrize("former", FORMER_TASKS)
def test_a_former_name_of_a_task_is_read_and_warns(former: str) -> None:
    with pytest.warns(FutureWarning, match=f"'{former}' is called '{FORMER_TASKS[former]}' now"):
        assert own_name(METHOD_TASK, sent_with(former)) == FORMER_TASKS[former]


def test_names_of_now_are_as_they_are() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert own_name(METHOD_TASK, sent_with(task_names.KEEP_SCORES)) == task_names.KEEP_SCORES
        assert (own_name("train", sent_with("keep_judge")), current_task("anything")) == ("train", "anything")


def test_former_names_are_of_tasks_that_methods_have_and_of_none_themselves() -> None:
    tasks = {task for method in METHODS for task in method.own_tasks}
    assert set(FORMER_TASKS.values()) <= tasks
    assert not tasks & set(FORMER_TASKS)
