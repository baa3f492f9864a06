"""A link of a run's course in memory: its sites are functions, and what the course says is kept."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch

from fedannot.custom.refusals import RefusalReason
from fedannot.custom.run.transport import Reply, Request

# What a site does with a request: it answers, once or oftener, or fails with a reason, which may be a text.
Site = Callable[[Request], Reply | Iterable[Reply] | RefusalReason | str]


class MemoryLink:
    """Asks the sites one after the other, in their order.

    Attributes:
        there: the sites by name; more may come, or go, between rounds.
        requests: what was sent.
        usable: by site whether each of its replies was usable.
        models: the global models that were written.
        drawn: numbers that were drawn, by round and tag.
        said: what was written to the log: ``info``, ``warning`` or ``error`` and the sentence.
        stopped: whether the run is being stopped.
    """

    def __init__(self, sites: Mapping[str, Site]) -> None:
        self.there = dict(sites)
        self.requests: list[Request] = []
        self.usable: list[tuple[str, bool]] = []
        self.models: list[dict[str, torch.Tensor]] = []
        self.drawn: dict[tuple[int, str], float] = {}
        self.said: list[tuple[str, str]] = []
        self.stopped = False

    def sites(self) -> list[str]:
        return list(self.there)

    def give(
        self, request: Request, receive: Callable[[Reply], bool], refuse: Callable[[str, RefusalReason], None]
    ) -> None:
        self.requests.append(request)
        for name, site in list(self.there.items()):
            if request.sites is not None and name not in request.sites:
                continue
            ((_, message),) = request.messages([name])
            answer = site(replace(request, message=message, own_messages={}))
            if isinstance(answer, RefusalReason | str):
                refuse(name, RefusalReason.model_validate(answer))
            else:
                for reply in [answer] if isinstance(answer, Reply) else answer:
                    self.usable.append((reply.site, receive(reply)))

    def is_stopped(self) -> bool:
        return self.stopped

    def write_model(self, params: Mapping[str, torch.Tensor]) -> None:
        self.models.append(dict(params))

    def draw(self, tag: str, value: float, round_number: int) -> None:
        self.drawn[round_number, tag] = value

    def info(self, text: str) -> None:
        self.said.append(("info", text))

    def warning(self, text: str) -> None:
        self.said.append(("warning", text))

    def error(self, text: str) -> None:
        self.said.append(("error", text))

    def sentences(self, kind: str) -> list[str]:
        return [text for of, text in self.said if of == kind]

    def tasks(self) -> list[tuple[str, int]]:
        return [(request.task, request.round_number) for request in self.requests]


class StepSite:
    """A site that moves every floating entry of the received model by a step and reports its samples.

    Args:
        name: its name.
        step: what it adds.
        num_samples: what it claims.
        scores: what it answers to ``validate``.
        fields: what else it reports of its training.
        answers: what it answers to tasks of a method's own.
    """

    def __init__(
        self,
        name: str,
        step: float = 1.0,
        num_samples: int = 10,
        scores: Mapping[str, Any] | None = None,
        fields: Mapping[str, Any] | None = None,
        answers: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.name, self.step, self.num_samples = name, step, num_samples
        self.scores = {"num_samples": 0} if scores is None else dict(scores)
        self.fields, self.answers = dict(fields or {}), dict(answers or {})

    def __call__(self, request: Request) -> Reply:
        if request.task == "train":
            return self.trained(request)
        fields = self.scores if request.task.startswith("validate") else self.answers[request.task]
        return Reply(self.name, request.round_number, fields)

    def trained(self, request: Request, **changes: Any) -> Reply:
        params = {
            name: value + self.step if value.is_floating_point() else value for name, value in request.params.items()
        }
        report = {"num_samples": self.num_samples, "num_excluded": 0, "embedded_data": False} | self.fields
        values = {"site": self.name, "round_number": request.round_number, "fields": report, "params": params}
        return Reply(**(values | changes))


def link_of(*sites: StepSite) -> MemoryLink:
    return MemoryLink({site.name: site for site in sites})


def names_of(sites: Collection[str] | None) -> list[str] | None:
    return None if sites is None else sorted(sites)
