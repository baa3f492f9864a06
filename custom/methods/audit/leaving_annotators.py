"""Which figures of a site's annotators leave it, under numbers that the site draws for the run."""

import random
from collections.abc import Sequence
from pathlib import Path

from ...annotation_bias.annotators.from_predictions import GroupEstimate, GroupEstimates
from ...annotation_bias.annotators.records import AnnotatorsAudit
from ...annotation_bias.estimate import Estimate, sent
from ...annotation_bias.given_annotations import GivenAnnotations
from ...annotation_bias.parameters import CONFUSED_OBJECTS, ParameterKey, ParameterKind
from ...annotation_bias.predicted_samples import Predictor
from ...audit.findings import AUDIT_FOLDER
from ...data.site_data import SiteData
from ...interface.views import SiteView
from ...outbound.values import OutboundValues
from ...records.plain_values import finite
from ...seeding import derive_seed
from ..auto.scored_cases import reviewed_cases
from .annotator_fields import (
    ANNOTATOR_CONFUSED,
    ANNOTATOR_MAJORITY_OFFSET,
    ANNOTATOR_MISSED,
    ANNOTATOR_OFFSET,
)
from .annotator_places import CHANCE, AnnotatorsLeft, answer_of_run, drawn_places, placed, released_estimates
from .annotators import MeasuredAnnotators, audit_annotators
from .settings import AuditSettings


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
    chance: random.Random = CHANCE,
) -> AnnotatorsLeft:
    """Return what leaves the site of its annotators: the same in a run, whatever model comes and however often.

    Args:
        folder: of the audit in the run's folder.
        measured: the annotators.
        num_classes: number of foreground classes.
        earlier: the folders of the audit in the run that is continued.
        chance: draws who has which number.

    Raises:
        DataError: if what has left before cannot be read: nothing else may leave then.
    """
    return answer_of_run(folder, earlier, lambda: _drawn(measured, num_classes, chance))


def _drawn(measured: MeasuredAnnotators, num_classes: int, chance: random.Random) -> AnnotatorsLeft:
    labels = range(1, num_classes + 1)
    columns = {
        ANNOTATOR_OFFSET: [_released_predictions(measured, ParameterKey(ParameterKind.OFFSET, n)) for n in labels],
        ANNOTATOR_MAJORITY_OFFSET: [released_estimates(_of_majority(measured, n)) for n in labels],
        ANNOTATOR_MISSED: [_released_predictions(measured, ParameterKey(ParameterKind.MISSING, n)) for n in labels],
        ANNOTATOR_CONFUSED: [_released_predictions(measured, CONFUSED_OBJECTS)],
    }
    names = sorted({name for of_classes in columns.values() for released in of_classes for name in released})
    places = drawn_places(names, chance)
    if not places:
        return AnnotatorsLeft(numbers={}, fields={})
    fields: OutboundValues = {}
    for name, of_classes in columns.items():
        estimates = [estimate for released in of_classes for estimate in placed(released, places)]
        fields |= sent(name, estimates, calibrated=False)
    numbers = {name: place + 1 for name, place in places.items()}
    return AnnotatorsLeft(numbers=numbers, fields=finite(fields))


def _released_predictions(measured: MeasuredAnnotators, key: ParameterKey) -> dict[str, Estimate]:
    others = _of_key(measured.unnamed, key).patients
    return released_estimates({name: _of_key(of_name, key) for name, of_name in measured.predictions.items()}, others)


def _of_key(estimates: GroupEstimates, key: ParameterKey) -> GroupEstimate:
    return estimates.get(key, GroupEstimate(Estimate.unknown()))


def _of_majority(measured: MeasuredAnnotators, label: int) -> dict[str, GroupEstimate]:
    return {
        name: GroupEstimate(one.from_majority[label - 1], one.compared[label - 1])
        for name, one in measured.consensus.items()
    }
