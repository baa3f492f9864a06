"""How the course of a run reaches its sites, whatever carries the messages."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from ..refusals import RefusalReason

Params = Mapping[str, torch.Tensor]
# By the sites' names, what goes along to one of them alone.
Messages = Mapping[str, Mapping[str, Any]]

# What goes with every task in a run that continues an earlier one: its job, and the round after which it goes on.
CONTINUED_JOB = "fedannot_continued_job"
CONTINUED_ROUND = "fedannot_continued_round"


@dataclass(frozen=True)
class Reply:
    """What came back from a site.

    Attributes:
        site: its name.
        round_number: the round that it says it is of.
        fields: the result besides the model.
        params: the trained state dict; None for a task without one.
        problem: why the message cannot be used, though it came; None for one that can.
    """

    site: str
    round_number: int | None
    fields: Mapping[str, Any]
    params: Params | None = None
    problem: RefusalReason | None = None


@dataclass(frozen=True)
class Request:
    """What goes to sites.

    Attributes:
        task: what they are asked for.
        round_number: the round.
        params: the model that goes along, mostly the global one.
        message: plain values that go along.
        sites: names of those that are asked; all that are there without names.
        own_messages: what goes along to one site alone.
    """

    task: str
    round_number: int
    params: Params
    message: Mapping[str, Any]
    sites: Collection[str] | None = None
    own_messages: Messages = field(default_factory=dict)

    def messages(self, targets: Sequence[str]) -> list[tuple[Sequence[str], dict[str, object]]]:
        """Return what is sent to whom: one message for all targets, or each its own."""
        if not self.own_messages:
            return [(targets, dict(self.message))]
        return [([site], {**self.message, **self.own_messages.get(site, {})}) for site in targets]


@dataclass(frozen=True)
class RunContext:
    """What a run begins with at the server.

    Attributes:
        network: the network that is trained.
        params: its start weights.
        run_folder: the run's folder, which may be stored and handed out.
        private_folder: the server's own folder of the run, for what shows or names files and for models of one site.
        config_folder: the server's own configuration folder.
        job_id: the job.
        absent: sites that the job names and that are not there.
        start_model: file or bundle with other start weights; None for none.
        state: the state of the run that is continued; None for none.
        largest_share: largest weight of one site in a layer block; a round in which one has more does not count.
    """

    network: nn.Module
    params: dict[str, torch.Tensor]
    run_folder: Path
    private_folder: Path
    config_folder: Path
    job_id: str
    absent: tuple[str, ...] = ()
    start_model: Path | None = None
    state: Path | None = None
    largest_share: float = 1.0


class Link(Protocol):
    """What carries requests to sites and replies back, and where a run's course is seen."""

    def sites(self) -> list[str]:
        """Return the names of the sites that are there."""

    def give(
        self, request: Request, receive: Callable[[Reply], bool], refuse: Callable[[str, RefusalReason], None]
    ) -> None:
        """Send a request, and return when each site has answered, failed or run out of time.

        Args:
            request: what is sent, and to whom.
            receive: is called with every reply, perhaps from several threads, and says whether it is usable.
            refuse: is called with a site that failed, or gave no answer in time, and the reason.
        """

    def is_stopped(self) -> bool:
        """Return whether the run is being stopped."""

    def write_model(self, params: Params) -> None:
        """Write the global model."""

    def draw(self, tag: str, value: float, round_number: int) -> None:
        """Draw a number over the rounds."""

    def info(self, text: str) -> None:
        """Write a sentence to the log."""

    def warning(self, text: str) -> None:
        """Write a warning to it."""

    def error(self, text: str) -> None:
        """Write an error to it."""
