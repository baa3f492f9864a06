"""Controllers that ask sites for what they do not have; tests name them in a job's configuration."""

from collections.abc import Callable, Mapping
from typing import Any

from fedannot.custom.flare.controller import FederatedController
from fedannot.custom.flare.messages import METHOD_TASK, TASK
from fedannot.custom.run.transport import Reply, Request


class AskingTooMuchController(FederatedController):
    """Asks for a task by the name of a method's own before every training; no answer to it is usable."""

    def __init__(self, settings: Mapping[str, Any], task: str | None) -> None:
        super().__init__(settings)
        # Without a name the message says that the task is the method's own, and not which.
        self._named = {} if task is None else {TASK: task}

    def give(self, request: Request, receive: Callable[[Reply], bool], refuse: Callable[[str, str], None]) -> None:
        more = Request(METHOD_TASK, request.round_number, request.params, {**request.message, **self._named})
        super().give(more, lambda reply: False, refuse)
        super().give(request, receive, refuse)
