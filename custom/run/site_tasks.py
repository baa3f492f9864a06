"""What a site does when it is asked, whatever carries the messages: training, validation, a method's own tasks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from ..data.datalist import TRAINING
from ..interface.declaration import Method
from ..interface.method import SiteMethod
from ..interface.views import SiteView
from ..networks.devices import params_in_main_memory
from ..outbound.private_statistics import SampleValues
from ..outbound.registry import OutboundRegistry
from ..outbound.reports import (
    class_validation_report,
    data_report,
    precision_report,
    training_report,
    validated_cases,
    validation_report,
)
from ..outbound.values import OutboundValues
from ..task_names import TRAIN, VALIDATE, VALIDATE_CLASSES

# Takes fields of an answer before the network is used.
Note = Callable[[Mapping[str, Any]], None]


class UnknownTaskError(ValueError):
    """The job's method has no such task."""


@dataclass(frozen=True)
class TaskResult:
    """What a task is answered with.

    Attributes:
        fields: registered fields besides the model.
        params: the trained state dict in main memory; None for a task without one.
        samples: what statistics among the fields are made of; stays at the site.
    """

    fields: Mapping[str, Any]
    params: dict[str, torch.Tensor] | None = None
    samples: Mapping[str, SampleValues] = field(default_factory=dict)


def do_task(
    declared: Method,
    method: SiteMethod,
    task: str,
    network: nn.Module,
    site: SiteView,
    note: Note | None = None,
) -> TaskResult:
    """Do a task with the received network.

    Args:
        declared: the job's method.
        method: its half at sites.
        task: the task by its own name.
        network: the network with the received weights, where it computes.
        site: the site in this task.
        note: takes :func:`fields_without_model`, if there are any, before the network is used.

    Raises:
        UnknownTaskError: if neither all methods nor this one have the task.
        DataError: if the site's data cannot be used, or an update would be of too few patients or samples.
        TrainingStopped: if the run is being stopped.
    """
    method.before_task(site)
    if task == TRAIN and not site.floor.is_none:
        # Before the time of a training is spent; what was trained on is known after it.
        site.floor.check_patients(site.load(TRAINING).units)
    known = fields_without_model(declared, method, task, site)
    if note is not None and known is not None:
        note(known)
    if task == TRAIN:
        return _train(declared, method, network, site, known or {})
    if task == VALIDATE and declared.task == "segmentation":
        model = method.model_in_use(network, site)
        return TaskResult(validation_report(model, site.validation_data(), method.settings))
    if task == VALIDATE_CLASSES and declared.task == "classification":
        model = method.model_in_use(network, site)
        return TaskResult(class_validation_report(model, site.validation_data(), method.settings))
    if task in declared.own_tasks:
        answer = method.answer(task, network, site)
        fields = OutboundRegistry(declared.outbound_fields).without_small(task, answer.fields)
        return TaskResult(fields, samples=answer.samples)
    raise UnknownTaskError(f"Task {task!r} is not known to the method {declared.name!r} for {declared.task}.")


def fields_without_model(declared: Method, method: SiteMethod, task: str, site: SiteView) -> OutboundValues | None:
    """Return the fields of an answer that follow neither from the received model nor from what it is used for.

    They are what a site whose updates are private sends of a training or validation besides its update, so that nothing
    in the answer says how these went. None for a method's own tasks.

    Args:
        declared: the job's method.
        method: its half at sites.
        task: the task by its own name.
        site: the site in this task.

    Raises:
        DataError: if the site's data cannot be used.
    """
    if task == TRAIN:
        report = data_report(site.load(TRAINING), embedded=site.locate().embedded)
        return report | dict(method.training_flags(site))
    if task == {"segmentation": VALIDATE, "classification": VALIDATE_CLASSES}[declared.task]:
        return validated_cases(site.validation_data())
    return None


def _train(
    declared: Method, method: SiteMethod, network: nn.Module, site: SiteView, known: Mapping[str, Any]
) -> TaskResult:
    trained = method.train(network, site)
    outcome = trained.outcome
    site.info(f"Round {site.round_number}: loss {outcome.mean_loss:.4f} after {outcome.steps} steps.")
    data, trained_on = site.load(TRAINING), trained.trained_on
    exactly = outcome.units_of(data.units) if trained_on is None else trained_on
    if not site.floor.is_none:
        site.floor.check_update(outcome, method.settings.training, exactly)
    if method.settings.training.local_steps is not None:
        # A number of steps may be over some of the samples alone.
        trained_on = exactly
    report = training_report(data, outcome, embedded=site.locate().embedded, trained_on=trained_on)
    report |= precision_report(method.settings.training.precision, next(network.parameters()).device)
    fields = OutboundRegistry(declared.outbound_fields).without_small(
        TRAIN, report | dict(known) | dict(trained.fields)
    )
    return TaskResult(fields, params_in_main_memory(network))
