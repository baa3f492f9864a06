"""Several tasks that stand at NVFlare's server at the same time, one for each site."""

from typing import Any

from nvflare.apis.controller_spec import ClientTask, Task


class Deliveries(list[ClientTask]):
    """The deliveries of a task, each of them once.

    A site that asks again before it has answered gets its task again. While another task stands behind it, NVFlare
    then notes the same delivery a second time. When it takes that one away, its monitor of tasks dies: no task ends any
    more, neither by an answer nor by its time.
    """

    def append(self, delivery: ClientTask) -> None:
        """Take note of a delivery that is not known."""
        if not any(delivery is known for known in self):
            super().append(delivery)


def beside_others(task: Task, *, own_data: bool) -> Task:
    """Return a task that may stand beside others, changed in place.

    Args:
        task: the task, not yet scheduled.
        own_data: whether nobody else uses its data. NVFlare then need not copy them, which it does for every task that
            is broadcast: the model would be in memory once for each site.
    """
    task.client_tasks = Deliveries()
    if own_data:
        copied: Any = task
        copied._broadcast_data = task.data
    return task
