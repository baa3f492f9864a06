"""The words about a site's annotators: who deviates and how, how far they agree, and what cannot be told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ...custom.annotation_bias.annotators.records import AnnotatorAudit, AnnotatorsAudit, Figure
from ...custom.annotation_bias.estimate_record import ParameterRecord
from ...custom.annotation_bias.parameters import CONFUSED_OBJECTS, ParameterKey, ParameterKind
from ...custom.annotation_bias.statuses import EvidenceCode, Status, Unit
from ...custom.methods.audit.records import ReportedAnnotator, ReportedFigure
from ...transforms.natural_order import natural_order
from ..checking.finding import plural
from .annotator_classes import (
    NOTHING,
    ShownClassPair,
    ShownConfusion,
    fraction_in_words,
    reported_fraction,
    shown_class_pair,
    shown_confusion,
)
from .evidence import evidence_in_words
from .phrases import begun, listed, percent, signed

_TESTED = (Status.SMALL, Status.NOT_SIGNIFICANT, Status.CONFIRMED)


class Verdict(StrEnum):
    """What is known of an annotator, as the style sheet names it."""

    DEVIATES = "confirmed"
    ALIKE = "not-significant"
    UNKNOWN = "unknown"


_VERDICT_WORDS = {
    Verdict.DEVIATES: "Deviates",
    Verdict.ALIKE: "No deviation found",
    Verdict.UNKNOWN: "Cannot tell",
}


@dataclass(frozen=True)
class ShownAnnotator:
    """An annotator as the page shows it; figures are of one class in a line.

    Attributes:
        name: of the annotator.
        number: at the server; empty where it knows none.
        cases: how many, of how many patients.
        majority: contours against the majority of the annotators of the same cases.
        predictions: contours against the model's predictions.
        missed: fraction of missed objects.
        confused: fraction of objects of another class.
        style: the verdict, as the style sheet names it.
        words: the verdict.
        sentences: how the annotator deviates, or why that cannot be told.
    """

    name: str
    number: str
    cases: str
    majority: tuple[str, ...]
    predictions: tuple[str, ...]
    missed: tuple[str, ...]
    confused: tuple[str, ...]
    style: str
    words: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class ShownPair:
    """How far two annotators agree on a class.

    Attributes:
        names: of the two.
        class_name: of the class.
        dice: with its interval.
        hd95: as above.
        patients: behind Dice.
    """

    names: str
    class_name: str
    dice: str
    hd95: str
    patients: int


@dataclass(frozen=True)
class ShownAnnotators:
    """The section of a site's page about its annotators.

    Attributes:
        annotators: a row for each.
        pairs: a row for every two with common cases, and class.
        confusions: of class labels, a row for every annotator and pair of classes that occurs.
        class_pairs: of class labels, a row for every two with common cases.
        notes: what the figures are of.
        has_masks: whether masks are audited, which have contours and missed objects; else class labels.
        has_classes: whether there are several, so that objects can have another one.
        has_numbers: whether the server knows some by numbers.
    """

    annotators: tuple[ShownAnnotator, ...]
    pairs: tuple[ShownPair, ...]
    confusions: tuple[ShownConfusion, ...]
    class_pairs: tuple[ShownClassPair, ...]
    notes: tuple[str, ...]
    has_classes: bool
    has_masks: bool
    has_numbers: bool


def shown_annotators(audit: AnnotatorsAudit, classes: Sequence[str]) -> ShownAnnotators:
    """Return what the page shows of a site's annotators.

    Args:
        audit: of the annotators.
        classes: names of the foreground classes, of class labels of all classes.
    """
    names = dict(enumerate(classes, start=1))
    ordered = sorted(audit.annotators, key=lambda one: natural_order(one.annotator))
    return ShownAnnotators(
        annotators=tuple(_row(one, names, audit.unit) for one in ordered),
        pairs=tuple(
            ShownPair(
                " – ".join(pair.annotators),
                names.get(pair.label, ""),
                fraction_in_words(pair.dice),
                _length(pair.hd95, audit.unit),
                pair.dice.patients,
            )
            for pair in audit.pairs
        ),
        confusions=tuple(shown_confusion(one.annotator, pair, classes) for one in ordered for pair in one.confused),
        class_pairs=tuple(map(shown_class_pair, audit.class_pairs)),
        notes=tuple(_notes(audit)),
        has_classes=len(classes) > 1,
        has_masks=audit.unit is not None,
        has_numbers=any(one.number is not None for one in ordered),
    )


def annotator_sentences(one: AnnotatorAudit, names: Mapping[int, str], unit: Unit | None) -> tuple[str, ...]:
    """Return how an annotator deviates, a sentence for each parameter; else what cannot be told, and why.

    Args:
        one: the annotator.
        names: of the classes.
        unit: of lengths.
    """
    confirmed = [
        _deviation(key, record, names, unit, is_of_consensus=key in one.consensus)
        for key, record in sorted(one.parameters.items())
        if record.is_confirmed
    ]
    unknown: dict[str, list[str]] = {}
    for key, record in sorted(one.parameters.items()):
        if record.status is Status.UNKNOWN:
            unknown.setdefault(_why(record), []).append(_what(key, names))
    if not one.parameters:
        return ("There is no estimate.",)
    reasons = [f"Not known {listed(what, 'or')}: {why}." for why, what in unknown.items()]
    return (*(begun(sentence) for sentence in confirmed), *reasons)


def verdict(one: AnnotatorAudit) -> Verdict:
    """Return what is known of an annotator: the worst of what could be tested."""
    statuses = {record.status for record in one.parameters.values()}
    if Status.CONFIRMED in statuses:
        return Verdict.DEVIATES
    return Verdict.ALIKE if statuses & set(_TESTED) else Verdict.UNKNOWN


def _row(one: AnnotatorAudit, names: Mapping[int, str], unit: Unit | None) -> ShownAnnotator:
    missed = {key.label: record for key, record in one.parameters.items() if key.kind is ParameterKind.MISSING}
    confused = one.parameters.get(CONFUSED_OBJECTS)
    found = verdict(one)
    return ShownAnnotator(
        name=one.annotator,
        number="" if one.number is None else str(one.number),
        cases=f"{plural(one.num_cases, 'case')} of {plural(one.num_patients, 'patient')}",
        majority=_by_class(_offsets(one.consensus), names, unit),
        predictions=_by_class(_offsets(one.predictions), names, unit),
        missed=_by_class(missed, names, None),
        confused=(NOTHING if confused is None else _figure(confused, None),),
        style=found.value,
        words=_VERDICT_WORDS[found],
        sentences=annotator_sentences(one, names, unit),
    )


def _offsets(parameters: Mapping[ParameterKey, ParameterRecord]) -> dict[int, ParameterRecord]:
    return {key.label: record for key, record in parameters.items() if key.kind is ParameterKind.OFFSET}


def _by_class(records: Mapping[int, ParameterRecord], names: Mapping[int, str], unit: Unit | None) -> tuple[str, ...]:
    """A line for each class, with its name where there are several."""
    if not records:
        return (NOTHING,)
    return tuple(
        f"{names.get(label, '')}: {_figure(record, unit)}" if len(names) > 1 else _figure(record, unit)
        for label, record in sorted(records.items())
    )


def _figure(record: ParameterRecord, unit: Unit | None) -> str:
    figure = Figure(value=record.estimate, low=record.low, high=record.high, patients=record.patients)
    text = fraction_in_words(figure, in_percent=True) if unit is None else _length(figure, unit, is_signed=True)
    return text if text == NOTHING else f"{text}, {plural(record.patients, 'patient')}"


def _length(figure: Figure, unit: Unit | None, *, is_signed: bool = False) -> str:
    if figure.value is None or figure.low is None or figure.high is None:
        return NOTHING
    value, low, high = (signed(one) if is_signed else f"{one:z.1f}" for one in (figure.value, figure.low, figure.high))
    return f"{value} {unit} ({low} to {high})"


def _deviation(
    key: ParameterKey, record: ParameterRecord, names: Mapping[int, str], unit: Unit | None, *, is_of_consensus: bool
) -> str:
    """What is confirmed of a parameter, with interval and patients."""
    effect, low, high = record.from_reference or (0.0, 0.0, 0.0)
    class_name = names.get(key.label, "")
    patients = plural(record.patients, "patient")
    if key.kind is ParameterKind.OFFSET:
        size = f"{abs(effect):z.1f} {unit} {'larger' if effect > 0 else 'smaller'}"
        others = "the majority’s in the same cases" if is_of_consensus else _MEDIAN
        if record.has(EvidenceCode.PAIRS):
            others = "the median annotator’s, by the differences of pairs in the same cases"
        return (
            f"contours of {class_name} are {size} than {others} "
            f"(90 % interval {signed(low)} to {signed(high)} {unit}, {patients})."
        )
    value, typical = record.estimate or 0.0, (record.estimate or 0.0) - effect
    if key.kind is ParameterKind.MISSING:
        objects = "objects that most others have annotated" if is_of_consensus else "objects that the model predicts"
        what = f"misses {percent(value)} of the {class_name} {objects}"
    else:
        others = "than most others" if is_of_consensus else "than the model"
        what = f"gives {percent(value)} of the {'objects' if unit else 'cases'} another class {others}"
    return f"{what}; for the median annotator it is {percent(typical)} ({patients})."


_MEDIAN = "the median annotator’s in other cases, by the model’s predictions"


def _why(record: ParameterRecord) -> str:
    few = [item for item in record.evidence if item.code in (EvidenceCode.FEW_PATIENTS, EvidenceCode.TWO_ANNOTATORS)]
    return evidence_in_words((few or list(record.evidence))[0]) if record.evidence else "there is no estimate"


def _what(key: ParameterKey, names: Mapping[int, str]) -> str:
    class_name = names.get(key.label, "")
    return {
        ParameterKind.OFFSET: f"whether contours of {class_name} deviate",
        ParameterKind.MISSING: f"whether {class_name} is missed",
    }.get(key.kind, "whether objects have another class")


def _notes(audit: AnnotatorsAudit) -> list[str]:
    """What the figures are of."""
    if audit.unit is None:
        notes = [
            "Each label is compared with the class that more than half of the other annotators of the case give; this "
            "takes three annotators. Intervals hold 90 % and are over patients."
        ]
    else:
        notes = _mask_notes(audit)
    if audit.kappa is not None and audit.kappa.value is not None:
        notes.append(
            f"Agreement on classes (Fleiss’ κ): {fraction_in_words(audit.kappa)}, {audit.kappa.patients} patients."
        )
    if audit.num_unnamed:
        notes.append(f"{begun(plural(audit.num_unnamed, 'case'))} without a named annotator: not in the table.")
    return notes


def _mask_notes(audit: AnnotatorsAudit) -> list[str]:
    """What the figures of masks are of."""
    notes = [
        "Positive: annotated too large. Intervals hold 90 % and are over patients.",
        "The model has a bias of its own: against its predictions only differences between annotators count.",
    ]
    if any(item.has(EvidenceCode.TWO_ANNOTATORS) for one in audit.annotators for item in one.consensus.values()):
        notes.append(
            "Where two annotated a case, its contours are compared with those of the other one. Such figures are "
            "symmetric: they do not say who deviates."
        )
    if any(item.has(EvidenceCode.PAIRS) for one in audit.annotators for item in one.consensus.values()):
        notes.append(
            "Each case has two of the annotators. The differences of all pairs give each one’s contours against the "
            "median annotator’s, which are 0 by definition; they stand in the column of the majority."
        )
    return notes


@dataclass(frozen=True)
class ReportedRow:
    """An annotator of a site as the federation's page shows it, of one class.

    Attributes:
        site: the site.
        number: of the annotator, as the site has drawn it.
        label: of the class; empty where there is one.
        majority: contours against the majority of the annotators of the same cases.
        predictions: contours against the model's predictions.
        missed: fraction of missed objects.
        confused: fraction of objects of another class, all classes together.
    """

    site: str
    number: int
    label: str
    majority: str
    predictions: str
    missed: str
    confused: str


def reported_rows(
    annotators: Mapping[str, Sequence[ReportedAnnotator]], units: Mapping[str, Unit]
) -> tuple[ReportedRow, ...]:
    """Return the rows of the federation's page about annotators, by site, number and class.

    Args:
        annotators: by site, what it reported.
        units: of lengths, by site; pixels where a site is not in it.
    """
    reported = [(site, one) for site in sorted(annotators, key=natural_order) for one in annotators[site]]
    labels = {site: sorted({label for one in annotators[site] for label in _labels(one)}) for site in annotators}
    return tuple(
        ReportedRow(
            site=site,
            number=one.number,
            label=f"class {label}" if len(labels[site]) > 1 else "",
            majority=_reported(one.from_majority.get(label), units.get(site, "px")),
            predictions=_reported(one.parameters.get(ParameterKey(ParameterKind.OFFSET, label)), units.get(site, "px")),
            missed=_reported(one.parameters.get(ParameterKey(ParameterKind.MISSING, label)), None),
            confused=_reported(one.parameters.get(CONFUSED_OBJECTS), None),
        )
        for site, one in reported
        for label in labels[site]
    )


def _labels(one: ReportedAnnotator) -> set[int]:
    return {key.label for key in one.parameters if not key.is_of_all_classes} | set(one.from_majority)


def _reported(figure: ReportedFigure | None, unit: Unit | None) -> str:
    if figure is None or unit is None:
        return reported_fraction(figure)
    shown = Figure(value=figure.value, low=figure.low, high=figure.high, patients=figure.patients)
    return f"{_length(shown, unit, is_signed=True)}, {plural(figure.patients, 'patient')}"
