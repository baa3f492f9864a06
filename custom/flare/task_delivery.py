"""Tasks at NVFlare's server: several at once, one for each site, and how long it waits for the last answers."""

import time
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


class GracePeriod:
    """Begins with the k-th usable answer, and is over some seconds later.

    Args:
        enough: k, the number of usable answers without which a round does not count.
        seconds: how long the others have from then on; None for as long as their task may take.
    """

    def __init__(self, enough: int, seconds: float | None) -> None:
        self.seconds = seconds
        self._missing = enough
        self._began: float | None = None

    def count_usable_answer(self) -> None:
        """Take note of one more usable answer."""
        self._missing -= 1
        if self._missing <= 0 and self._began is None:
            self._began = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether the sites that have not answered have had their time."""
        if self.seconds is None or self._began is None:
            return False
        return time.monotonic() - self._began >= self.seconds
