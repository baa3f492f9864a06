"""Which figures of a site's annotators of class labels leave it, under numbers that the site draws for the run."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...annotation_bias.annotators.from_labels import CaseLabels, OtherClass, label_kappa, other_classes
from ...annotation_bias.annotators.from_predictions import GroupEstimate
from ...annotation_bias.annotators.records import AnnotatorsAudit
from ...annotation_bias.estimate import Estimate, sent
from ...annotation_bias.thresholds import THRESHOLDS
from ...audit.findings import AUDIT_FOLDER
from ...data.site_data import SiteData
from ...interface.views import SiteView
from ...outbound.values import OutboundValues
from ...records.plain_values import finite
from ...seeding import derive_seed
from ..audit.annotator_fields import PLACES
from ..audit.annotator_places import (
    CHANCE,
    AnnotatorsLeft,
    answer_of_run,
    drawn_places,
    may_leave,
    placed,
    released_estimates,
)
from .annotator_fields import ANNOTATOR_CLASS, ANNOTATOR_CLASS_GIVEN, ANNOTATOR_OTHER_CLASS, ANNOTATORS_KAPPA
from .label_annotators import audit_label_annotators, common_labels
from .settings import AuditClassificationSettings

_MINIMUM = THRESHOLDS.min_patients_of_annotator


def label_annotators_answer(
    data: SiteData, site: SiteView, settings: AuditClassificationSettings
) -> tuple[AnnotatorsAudit | None, OutboundValues]:
    """Return what is known of a site's annotators, which stays there, and the fields that leave it.

    Args:
        data: the site's training cases.
        site: the site.
        settings: the job's. Without `report_annotators` nothing leaves.

    Raises:
        DataError: if what has left before cannot be read.
    """
    seed = derive_seed(site.seed, site.name, "annotators")
    audit = audit_label_annotators(data.cases, len(data.classes), settings.floor, seed=seed)
    if audit is None or not settings.report_annotators:
        return audit, {}
    earlier = [folder / AUDIT_FOLDER for folder in site.earlier_folders]
    folder, cases = site.run_folder / AUDIT_FOLDER, common_labels(data.cases)
    left = label_annotators_left(folder, cases, len(data.classes), earlier, seed=seed)
    return audit.with_numbers(left.numbers), left.sent()


def label_annotators_left(
    folder: Path,
    cases: Sequence[CaseLabels],
    num_classes: int,
    earlier: Sequence[Path] = (),
    chance: random.Random = CHANCE,
    *,
    seed: int,
) -> AnnotatorsLeft:
    """Return what leaves the site of its annotators of class labels: the same in a run, however often it is asked.

    Args:
        folder: of the audit in the run's folder.
        cases: with the classes of at least two annotators.
        num_classes: number of classes.
        earlier: the folders of the audit in the run that is continued.
        chance: draws who has which number.
        seed: decides the intervals.

    Raises:
        DataError: if what has left before cannot be read: nothing else may leave then.
    """
    return answer_of_run(folder, earlier, lambda: _drawn(cases, num_classes, chance, seed))


def _drawn(cases: Sequence[CaseLabels], num_classes: int, chance: random.Random, seed: int) -> AnnotatorsLeft:
    of_all, of_classes = other_classes(cases, seed=seed)
    # No figure of all annotators together leaves that is the sum of theirs, so that each has only itself to hide.
    all_classes = {name: one.fraction for name, one in of_all.items() if len(one.patients) >= _MINIMUM}
    by_class = {name: _released_classes(of_classes[name]) for name in sorted(all_classes)}
    kappa = _released_kappa(cases, num_classes, of_all, seed)
    places = drawn_places(sorted(all_classes), chance)
    if not places and not kappa.is_known:
        return AnnotatorsLeft(numbers={}, fields={})
    columns = [_of_class(label, by_class) for label in range(num_classes)]
    fields = (
        sent(ANNOTATOR_OTHER_CLASS, placed(all_classes, places), calibrated=False)
        | sent(ANNOTATOR_CLASS, [one for column in columns for one in placed(column, places)], calibrated=False)
        | {ANNOTATOR_CLASS_GIVEN: _given(of_classes, by_class, places, num_classes)}
        | sent(ANNOTATORS_KAPPA, [kappa], calibrated=False)
    )
    return AnnotatorsLeft(numbers={name: place + 1 for name, place in places.items()}, fields=finite(fields))


def _released_kappa(
    cases: Sequence[CaseLabels], num_classes: int, of_all: Mapping[str, OtherClass], seed: int
) -> Estimate:
    """Fleiss' κ, unknown where the figures of annotators leave over few of its patients: they would follow from it."""
    reported = [one.patients for one in of_all.values() if len(one.patients) >= _MINIMUM]
    withheld = [one.patients for one in of_all.values() if len(one.patients) < _MINIMUM]
    everybody = frozenset(case.unit for case in cases)
    rest = everybody.difference(*reported).union(*withheld)
    if len(everybody) < _MINIMUM or 0 < len(rest) < _MINIMUM:
        return Estimate.unknown()
    kappa = label_kappa(cases, num_classes, seed=seed)
    return kappa if may_leave(kappa) else Estimate.unknown()


def _group(one: OtherClass) -> GroupEstimate:
    return GroupEstimate(one.fraction, one.patients)


def _released_classes(of_classes: Mapping[int, OtherClass]) -> dict[int, Estimate]:
    """An annotator's classes that may leave besides the figure of all: no class is what the rest leaves over."""
    released = released_estimates({str(label): _group(one) for label, one in of_classes.items()})
    return {int(label): estimate for label, estimate in released.items()}


def _of_class(label: int, by_class: Mapping[str, Mapping[int, Estimate]]) -> dict[str, Estimate]:
    return {name: of_name[label] for name, of_name in by_class.items() if label in of_name}


def _given(
    of_classes: Mapping[str, Mapping[int, OtherClass]],
    by_class: Mapping[str, Mapping[int, Estimate]],
    places: Mapping[str, int],
    num_classes: int,
) -> list[int]:
    """The class that each annotator mostly gives in place of each, from 1, 0 where none leaves; as its fraction is."""
    result = [0] * (PLACES * num_classes)
    for name, place in places.items():
        for label in by_class[name]:
            given = of_classes[name][label].given
            result[label * PLACES + place] = 0 if given is None else given + 1
    return result
