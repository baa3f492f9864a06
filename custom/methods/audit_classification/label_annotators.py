"""The audit of a site's annotators of class labels: who gives other classes than the others of the same cases."""

from collections.abc import Sequence

from ....transforms.ignored_label import IGNORED_LABEL
from ...annotation_bias.annotators.deviations import MinimumEffects, consensus_tests
from ...annotation_bias.annotators.from_labels import (
    CaseLabels,
    ClassConfusion,
    PairKappa,
    class_confusions,
    label_estimates,
    label_kappa,
    pair_kappas,
)
from ...annotation_bias.annotators.records import (
    AnnotatorAudit,
    AnnotatorClassPair,
    AnnotatorsAudit,
    ConfusedClasses,
    Figure,
)
from ...annotation_bias.estimate_record import ParameterRecord
from ...data.site_data import LoadedCase
from ..audit.annotators import named_annotators

_TWO = 2


def audit_label_annotators(
    cases: Sequence[LoadedCase], num_classes: int, minimum: float, *, seed: int
) -> AnnotatorsAudit | None:
    """Return what is known of a site's annotators; None where no case has labels of two. It stays at the site.

    Args:
        cases: its training cases.
        num_classes: number of classes.
        minimum: smaller differences from the median annotator are not confirmed.
        seed: decides intervals.
    """
    common = common_labels(cases)
    if not common:
        return None
    tested = consensus_tests(label_estimates(common, seed=seed), MinimumEffects(0.0, minimum, 0.0))
    kappa, confused = label_kappa(common, num_classes, seed=seed), class_confusions(common, seed=seed)
    named = [(name, case.unit) for case in cases for name in named_annotators(case)]
    audits = []
    for name in sorted({name for name, _ in named}):
        units = [unit for other, unit in named if other == name]
        records = {key: ParameterRecord.of(one, result) for key, (one, result) in tested.get(name, {}).items()}
        audits.append(
            AnnotatorAudit(
                annotator=name,
                num_cases=len(units),
                num_patients=len(set(units)),
                consensus=records,
                confused=tuple(map(_confused, confused.get(name, ()))),
            )
        )
    return AnnotatorsAudit(
        unit=None,
        annotators=tuple(audits),
        num_unnamed=sum(not named_annotators(case) for case in cases),
        class_pairs=tuple(map(_class_pair, pair_kappas(common, num_classes, seed=seed))),
        kappa=Figure.of(kappa) if kappa.patients else None,
    )


def _confused(one: ClassConfusion) -> ConfusedClasses:
    return ConfusedClasses(
        others=one.others,
        own=one.own,
        num_confused=one.num_confused,
        num_cases=one.num_cases,
        fraction=Figure.of(one.fraction),
    )


def _class_pair(one: PairKappa) -> AnnotatorClassPair:
    return AnnotatorClassPair(annotators=one.annotators, num_cases=one.num_cases, kappa=Figure.of(one.kappa))


def common_labels(cases: Sequence[LoadedCase]) -> list[CaseLabels]:
    """Return the classes of the cases to which at least two annotators have given one; they stay at the site.

    Args:
        cases: of the site.
    """
    labels = [_labels_of(case) for case in cases if case.annotations is not None]
    return [case for case in labels if len(case.annotators) >= _TWO]


def _labels_of(case: LoadedCase) -> CaseLabels:
    """What its annotators have given, which no review changes; who leaves the case without a class has no part."""
    classes = () if case.annotations is None else case.annotations.numpy()[0].tolist()
    given = [(name, one) for name, one in zip(named_annotators(case), classes, strict=True) if one != IGNORED_LABEL]
    return CaseLabels(case.unit, tuple(name for name, _ in given), tuple(one for _, one in given))
