"""What has left a site of its annotators, and under which numbers: drawn once in a run, of groups that may leave."""

import random
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ...annotation_bias.annotators.from_predictions import GroupEstimate
from ...annotation_bias.estimate import Estimate
from ...annotation_bias.thresholds import THRESHOLDS
from ...data.json_record import JsonRecord, read_record, write_record
from ...data.whole_files import private_folder
from ...outbound.patient_groups import released_groups
from ...outbound.values import OutboundValues
from .annotator_fields import COUNT_ENDINGS, PLACES

# In the folder of an audit.
LEFT_FILE = "annotators_left.json"
# The operating system's generator: whoever knows the job's seed must not know who has which number.
CHANCE = secrets.SystemRandom()


class AnnotatorsLeft(JsonRecord):
    """What has left a site of its annotators in a run; the file has their names and stays at the site.

    Args:
        numbers: by name the number that the server knows an annotator by, from 1.
        fields: the fields as they were sent, None for NaN; empty where nothing may leave.
    """

    numbers: dict[str, int]
    fields: dict[str, list[float | None]]

    def sent(self) -> OutboundValues:
        """Return the fields as they are sent."""
        return {
            name: [int(value or 0) for value in values]
            if name.endswith(COUNT_ENDINGS)
            else [float("nan") if value is None else float(value) for value in values]
            for name, values in self.fields.items()
        }


def answer_of_run(folder: Path, earlier: Sequence[Path], draw: Callable[[], AnnotatorsLeft]) -> AnnotatorsLeft:
    """Return what has left the site in this run, or in the one that is continued; else draw it and keep it.

    A server that asks again, with other weights, gets what it has already. Else the difference of two answers would be
    one patient's.

    Args:
        folder: of the audit in the run's folder.
        earlier: the folders of the audit in the run that is continued.
        draw: makes the first answer.

    Raises:
        DataError: if what has left before cannot be read: nothing else may leave then.
    """
    for place in (folder, *earlier):
        left = read_record(place / LEFT_FILE, AnnotatorsLeft)
        if left is not None:
            break
    else:
        left = draw()
    private_folder(folder)
    write_record(folder / LEFT_FILE, left)
    return left


def drawn_places(names: Sequence[str], chance: random.Random) -> dict[str, int]:
    """Return by name a place from 0, drawn at random; annotators beyond the number of places have none.

    Args:
        names: of those of whom anything may leave.
        chance: draws.
    """
    chosen = chance.sample(names, min(len(names), PLACES))
    return dict(zip(chosen, chance.sample(range(PLACES), len(chosen)), strict=True))


def placed(released: Mapping[str, Estimate], places: Mapping[str, int]) -> list[Estimate]:
    """Return the estimates at their annotators' places; unknown where there is none."""
    result = [Estimate.unknown()] * PLACES
    for name, place in places.items():
        result[place] = released.get(name, Estimate.unknown())
    return result


def released_estimates(
    groups: Mapping[str, GroupEstimate], others: frozenset[str] = frozenset()
) -> dict[str, Estimate]:
    """Return the estimates of groups that may leave besides that of all patients of the site.

    Args:
        groups: by name of an annotator, or by another name of a group of cases.
        others: patients with cases in no group.
    """
    names = sorted(groups)
    minimum = THRESHOLDS.min_patients_of_annotator
    leaves = released_groups([groups[name].patients for name in names], others, minimum=minimum)
    return {
        name: groups[name].estimate
        for name, is_released in zip(names, leaves, strict=True)
        if is_released and may_leave(groups[name].estimate)
    }


def may_leave(estimate: Estimate) -> bool:
    """Return whether an estimate is known, of enough patients: those behind it may be fewer than those of its group."""
    return estimate.is_known and estimate.patients >= THRESHOLDS.min_patients_of_annotator
