"""Which figures of a site's annotators leave it, under numbers that the site draws for the run."""

import random
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...annotation_bias.annotators.from_predictions import GroupEstimate, GroupEstimates
from ...annotation_bias.annotators.records import AnnotatorsAudit
from ...annotation_bias.estimate import Estimate, sent
from ...annotation_bias.given_annotations import GivenAnnotations
from ...annotation_bias.parameters import CONFUSED_OBJECTS, ParameterKey, ParameterKind
from ...annotation_bias.predicted_samples import Predictor
from ...annotation_bias.thresholds import THRESHOLDS
from ...audit.findings import AUDIT_FOLDER
from ...data.json_record import JsonRecord, read_record, write_record
from ...data.site_data import SiteData
from ...data.whole_files import private_folder
from ...interface.views import SiteView
from ...outbound.patient_groups import released_groups
from ...outbound.values import OutboundValues
from ...records.plain_values import finite
from ...seeding import derive_seed
from ..auto.scored_cases import reviewed_cases
from .annotator_fields import (
    ANNOTATOR_CONFUSED,
    ANNOTATOR_MAJORITY_OFFSET,
    ANNOTATOR_MISSED,
    ANNOTATOR_OFFSET,
    PLACES,
)
from .annotators import MeasuredAnnotators, audit_annotators
from .settings import AuditSettings

# In the folder of an audit.
LEFT_FILE = "annotators_left.json"
# The operating system's generator: whoever knows the job's seed must not know who has which number.
_CHANCE = secrets.SystemRandom()


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
            if name.endswith("_patients")
            else [float("nan") if value is None else float(value) for value in values]
            for name, values in self.fields.items()
        }


def annotators_answer(
    models: Predictor, data: SiteData, site: SiteView, settings: AuditSettings
) -> tuple[AnnotatorsAudit | None, OutboundValues]:
    """Return what is known of a site's annotators, which stays there, and the fields that leave it.

    Args:
        models: the reference models, which predict cases.
        data: the site's training cases; a review's masks are replaced by those that the annotators gave.
        site: the site.
        settings: the job's. Without `report_annotators` nothing leaves.

    Raises:
        DataError: see :func:`annotators_left`.
    """
    reviewed = reviewed_cases(site)
    given = GivenAnnotations.of(data.cases, () if reviewed is None else reviewed.cases).own()
    seed = derive_seed(site.seed, site.name, "annotators")
    measured = audit_annotators(models, data, given, settings, seed=seed)
    if measured is None or not settings.report_annotators:
        return None if measured is None else measured.audit, {}
    earlier = [folder / AUDIT_FOLDER for folder in site.earlier_folders]
    left = annotators_left(site.run_folder / AUDIT_FOLDER, measured, settings.network.num_classes, earlier)
    return measured.audit.with_numbers(left.numbers), left.sent()


def annotators_left(
    folder: Path,
    measured: MeasuredAnnotators,
    num_classes: int,
    earlier: Sequence[Path] = (),
    chance: random.Random = _CHANCE,
) -> AnnotatorsLeft:
    """Return what leaves the site of its annotators: the same in a run, whatever model comes and however often.

    A server that asks again, with other weights, gets what it has already. Else the difference of two answers, over
    patients that the models choose, would be one patient's.

    Args:
        folder: of the audit in the run's folder.
        measured: the annotators.
        num_classes: number of foreground classes.
        earlier: the folders of the audit in the run that is continued.
        chance: draws who has which number.

    Raises:
        DataError: if what has left before cannot be read: nothing else may leave then.
    """
    for place in (folder, *earlier):
        left = read_record(place / LEFT_FILE, AnnotatorsLeft)
        if left is not None:
            break
    else:
        left = _drawn(measured, num_classes, chance)
    private_folder(folder)
    write_record(folder / LEFT_FILE, left)
    return left


def _drawn(measured: MeasuredAnnotators, num_classes: int, chance: random.Random) -> AnnotatorsLeft:
    labels = range(1, num_classes + 1)
    columns = {
        ANNOTATOR_OFFSET: [_released_predictions(measured, ParameterKey(ParameterKind.OFFSET, n)) for n in labels],
        ANNOTATOR_MAJORITY_OFFSET: [_released(_of_majority(measured, n)) for n in labels],
        ANNOTATOR_MISSED: [_released_predictions(measured, ParameterKey(ParameterKind.MISSING, n)) for n in labels],
        ANNOTATOR_CONFUSED: [_released_predictions(measured, CONFUSED_OBJECTS)],
    }
    names = sorted({name for of_classes in columns.values() for released in of_classes for name in released})
    chosen = chance.sample(names, min(len(names), PLACES))
    places = dict(zip(chosen, chance.sample(range(PLACES), len(chosen)), strict=True))
    if not places:
        return AnnotatorsLeft(numbers={}, fields={})
    fields: OutboundValues = {}
    for name, of_classes in columns.items():
        estimates = [estimate for released in of_classes for estimate in _placed(released, places)]
        fields |= sent(name, estimates, calibrated=False)
    numbers = {name: place + 1 for name, place in places.items()}
    return AnnotatorsLeft(numbers=numbers, fields=finite(fields))


def _placed(released: Mapping[str, Estimate], places: Mapping[str, int]) -> list[Estimate]:
    """The estimates at their annotators' places; unknown where there is none."""
    result = [Estimate.unknown()] * PLACES
    for name, place in places.items():
        result[place] = released.get(name, Estimate.unknown())
    return result


def _released_predictions(measured: MeasuredAnnotators, key: ParameterKey) -> dict[str, Estimate]:
    others = _of_key(measured.unnamed, key).patients
    return _released({name: _of_key(of_name, key) for name, of_name in measured.predictions.items()}, others)


def _of_key(estimates: GroupEstimates, key: ParameterKey) -> GroupEstimate:
    return estimates.get(key, GroupEstimate(Estimate.unknown()))


def _of_majority(measured: MeasuredAnnotators, label: int) -> dict[str, GroupEstimate]:
    return {
        name: GroupEstimate(one.from_majority[label - 1], one.compared[label - 1])
        for name, one in measured.consensus.items()
    }


def _released(groups: Mapping[str, GroupEstimate], others: frozenset[str] = frozenset()) -> dict[str, Estimate]:
    """The estimates that may leave beside that of all patients of the site."""
    names = sorted(groups)
    minimum = THRESHOLDS.min_patients_of_annotator
    leaves = released_groups([groups[name].patients for name in names], others, minimum=minimum)
    return {
        name: groups[name].estimate
        for name, is_released in zip(names, leaves, strict=True)
        if is_released and groups[name].estimate.is_known
    }
