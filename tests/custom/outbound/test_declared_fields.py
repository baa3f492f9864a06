"""What leaves a site in every method: the whole list, kept in a file, so that whatever is added is seen."""

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from fedannot.apps.wording.outbound_fields import reason_of
from fedannot.custom.interface.declaration import Method
from fedannot.custom.methods import METHODS
from fedannot.custom.methods.lookup import all_methods
from fedannot.custom.outbound.fields import COMMON_FIELDS, OutboundField
from fedannot.custom.outbound.registry import OutboundError, OutboundRegistry
from fedannot.custom.task_names import TRAIN

KEPT = Path(__file__).parent / "what_leaves.txt"
WRITE_AGAIN = "FEDANNOT_WRITE_WHAT_LEAVES"
EVERY = pytest.mark.parametrize("method", all_methods(), ids=lambda method: f"{method.name}-{method.task}")


def table(fields: tuple[OutboundField, ...]) -> list[str]:
    """Fields by task: what they are, the field with the number of patients behind them, and below why they leave."""
    lines = []
    for task in sorted({task for field in fields for task in field.tasks}):
        lines.append(f"  {task}")
        for field in fields:
            if task in field.tasks:
                over = f"over {field.counted_by}" if field.counted_by else "-"
                group = f"group {field.optional!r}" if field.optional else "always"
                limits = "" if field.limits is None else f"{field.limits[0]:g} to {field.limits[1]:g}"
                limits = "0 to the number of classes" if field.names_classes else limits
                length = "" if field.length is None else f"{field.length} entries"
                if field.largest_width is not None:
                    length = f"up to {field.largest_width} of each class"
                length += " and of the background" if field.has_background and length else ""
                length = length or (f"{field.per_class} entries of each class" if field.per_class > 1 else "")
                bounds = ", ".join(filter(None, (limits, length)))
                lines.append(f"    {field.name + ' ':23}{field.kind:9}{over + ' ':28}{group:27}{bounds}".rstrip())
                lines.append(f"        {reason_of(field, task)}")
    return lines


def what_leaves() -> str:
    lines = [
        "What leaves a site, by method and task: field, kind, the field with the number of patients behind it,",
        "the group that a site sends as a whole or not at all, limits; below them why it leaves.",
    ]
    lines += ["", "every method", *table(COMMON_FIELDS)]
    for method in METHODS:
        lines += ["", f"{method.name}, {method.task}", *(table(method.outbound_fields) or ["  nothing else"])]
    return "\n".join(lines) + "\n"


def test_what_leaves_is_what_a_person_has_seen() -> None:
    if os.environ.get(WRITE_AGAIN):
        KEPT.write_text(what_leaves(), encoding="utf-8")
    kept, result = KEPT.read_text(encoding="utf-8").splitlines(), what_leaves().splitlines()
    difference = "\n".join(difflib.unified_diff(kept, result, "kept", "found", lineterm=""))
    assert not difference, (
        f"What leaves a site is no longer what {KEPT.name} says. A person has to look at every changed line: is it "
        "needed, and can nobody tell a patient from it? If so, write the file again and commit it:\n"
        f"{WRITE_AGAIN}=1 pytest tests/custom/outbound/test_declared_fields.py\n\n{difference}"
    )


def complete(fields: Mapping[str, OutboundField]) -> dict[str, Any]:
    """A result with a value of its kind for every field, over eight patients."""
    of_kind = {"model": {"w": torch.zeros(1)}, "number": 0.5, "count": 8, "flag": True}
    lists = {"numbers": 0.5, "counts": 8}
    return {
        name: [1 if field.names_classes else lists[field.kind]]
        * (field.length or (2 + field.has_background) * field.per_class)
        if field.kind in lists
        else of_kind[field.kind]
        for name, field in fields.items()
    }


@EVERY
def test_complete_results_may_leave_and_can_be_used(method: Method) -> None:
    registry = OutboundRegistry(method.outbound_fields)
    assert method.own_tasks <= registry.tasks
    for task in sorted(registry.tasks):
        result = complete(registry.of_task(task))
        registry.check(task, result)
        assert registry.refusal(task, result, 2) is None


@EVERY
def test_over_too_few_patients_nothing_that_is_counted_leaves(method: Method) -> None:
    registry = OutboundRegistry(method.outbound_fields)
    for task in sorted(registry.tasks):
        fields = registry.of_task(task)
        for name in (name for name, field in fields.items() if field.counted_by):
            counter = fields[str(fields[name].counted_by)]
            few = (
                [2] * (counter.length or (2 + counter.has_background) * counter.per_class)
                if counter.kind == "counts"
                else 2
            )
            with pytest.raises(OutboundError, match=rf"Task '{task}': '{name}' is a mean over 2 cases"):
                registry.check(task, {name: complete(fields)[name], counter.name: few})


@EVERY
def test_what_another_method_sends_does_not_leave(method: Method) -> None:
    registry = OutboundRegistry(method.outbound_fields)
    for other in all_methods():
        for task in sorted(other.own_tasks | {TRAIN}):
            theirs = OutboundRegistry(other.outbound_fields).of_task(task)
            foreign = {name: theirs[name] for name in sorted(set(theirs) - set(registry.of_task(task)))}
            for name, value in complete(foreign).items():
                with pytest.raises(OutboundError, match=rf"Task '{task}' may not send \['{name}'\]"):
                    registry.check(task, {name: value})
