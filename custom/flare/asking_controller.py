"""How a controller asks sites: within bounds of time, and taking note by name of those that fail."""

import time
from abc import abstractmethod
from collections.abc import Callable, Collection
from typing import Any

from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.app_common.workflows.model_controller import ModelController
from nvflare.fuel.utils import fobs

from ...transforms.errors import DataError
from ...transforms.natural_order import natural_order
from ..outbound.registry import report_refusal
from ..run.state import ResumeError
from ..settings import RunSettings, SettingsError
from .console import show_progress_alone
from .grace_period import GracePeriod
from .messages import REFUSAL_HEADER
from .unfetched import ForbearingTensorDecomposer


class RunFailedError(RuntimeError):
    """The run cannot go on; the text says why."""


class AskingController(ModelController):  # type: ignore[misc]
    """Sends sites the global model with a task, and returns when each has answered, failed or run out of time.

    Args:
        settings: the job's settings, with the bounds of time.
        persistor_id: component that holds the network and writes the model.
        task_check_period: seconds between two looks at the tasks.

    Attributes:
        refused: why sites were refused since this was last emptied, by name.
    """

    def __init__(self, settings: RunSettings, persistor_id: str, task_check_period: float) -> None:
        # A site's error must never end the run, whatever the number of sites: the controller decides what to do.
        super().__init__(persistor_id=persistor_id, ignore_result_error=True, task_check_period=task_check_period)
        # Before NVFlare's own, which ends the job when a result cannot be fetched: the first one counts.
        fobs.register(ForbearingTensorDecomposer)
        show_progress_alone()
        self.settings = settings
        self.refused: dict[str, str] = {}

    def run(self) -> None:
        """Run the rounds; what a person has to mend ends the job with its text, anything else with a traceback too."""
        try:
            self.run_rounds()
        except (DataError, ResumeError, RunFailedError, SettingsError) as error:
            self.panic(str(error))

    @abstractmethod
    def run_rounds(self) -> None:
        """Run all rounds."""

    @abstractmethod
    def model_to_send(self, round_number: int) -> FLModel:
        """Return the global model as it goes to the sites, with what goes along."""

    def ask_sites(
        self, task: str, round_number: int, sites: Collection[str] | None = None
    ) -> dict[str, dict[str, Any]]:
        """Send the global model with a task that is answered with metrics, and return the metrics by site.

        Only the named sites are asked, all of them without names; a site that is not there is passed over. Sites that
        fail, answer twice, for another round or with other than the registered fields are refused by name.
        """
        answers: dict[str, dict[str, Any]] = {}

        def receive(answer: FLModel) -> bool:
            site = answer.meta["client_name"]
            if answer.current_round != round_number:
                reason: str | None = (
                    f"its answer to {task!r} is of round {answer.current_round}, expected {round_number}"
                )
            elif site in answers:
                reason = f"it is a second answer to {task!r}"
            else:
                reason = report_refusal(task, answer.metrics or {}, self.settings.network.num_classes)
            if reason is not None:
                self.refuse(site, reason)
                return False
            answers[site] = answer.metrics
            return True

        self.give_task(task, round_number, receive, sites)
        return dict(sorted(answers.items()))

    def give_task(
        self,
        task: str,
        round_number: int,
        receive: Callable[[FLModel], bool],
        sites: Collection[str] | None = None,
    ) -> None:
        """Give sites a task, with the global model, and hand over what comes back.

        Args:
            task: the task.
            round_number: the round.
            receive: is called with every answer, and says whether it is usable.
            sites: names of those that are asked; all that are there without names.
        """
        answered: set[str] = set()
        targets = sorted((client.name for client in self.engine.get_clients()), key=natural_order)
        if sites is not None:
            targets = [name for name in targets if name in sites]
        if not targets:
            return
        grace = GracePeriod(min(self.settings.min_sites, len(targets)), self.settings.grace_period)

        def receive_and_note(result: FLModel) -> bool:
            answered.add(result.meta["client_name"])
            is_usable = receive(result)
            if is_usable:
                grace.count_usable_answer()
            return is_usable

        self.broadcast_model(
            self.model_to_send(round_number),
            task_name=task,
            targets=targets,
            min_responses=len(targets),
            timeout=self.settings.task_timeout,
            blocking=False,
            callback=receive_and_note,
        )
        bound = f"within {self.settings.task_timeout} s"
        while self.get_num_standing_tasks() and not self.abort_signal.triggered:
            if grace.is_over:
                bound = f"within {grace.seconds:.0f} s after enough others had answered"
                self.cancel_all_tasks()
            time.sleep(self._task_check_period)
        for site in targets:
            if site not in answered and site not in self.refused and not self.abort_signal.triggered:
                self.refuse(site, f"no answer to {task!r} {bound}")

    def _accept_train_result(
        self, client_name: str, result: Shareable, fl_ctx: FLContext, is_unknown_task: bool = False
    ) -> bool:
        """Note by name the sites whose executor or filter failed; the base class then drops the result."""
        accepted = bool(super()._accept_train_result(client_name, result, fl_ctx, is_unknown_task))
        if not accepted and not is_unknown_task:
            self.refuse(client_name, str(result.get_header(REFUSAL_HEADER, result.get_return_code())))
        return accepted

    def refuse(self, site: str, reason: str) -> None:
        """Take note of why a site's answer does not count; the first reason stays."""
        self.refused.setdefault(site, reason)
        self.warning(f"Refused {site}: {reason}.")
