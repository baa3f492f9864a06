"""The words about class labels of a site's annotators: which class is given in place of which, and Cohen's κ."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ...custom.annotation_bias.annotators.records import AnnotatorClassPair, ConfusedClasses, Figure
from ...custom.annotation_bias.thresholds import THRESHOLDS
from ...custom.methods.audit.records import ReportedFigure
from ...custom.methods.audit_classification.records import ReportedLabelAnnotator, ReportedLabels
from ...transforms.natural_order import natural_order
from ..checking.finding import plural
from .phrases import percent, percent_range

NOTHING = "–"


@dataclass(frozen=True)
class ShownConfusion:
    """How often an annotator gives one class where most others give another one.

    Attributes:
        name: of the annotator.
        others: name of the class of the others.
        own: of the class given.
        cases: how many, of how many.
        fraction: with its interval, or why it is not told.
    """

    name: str
    others: str
    own: str
    cases: str
    fraction: str


@dataclass(frozen=True)
class ShownClassPair:
    """How far two annotators agree on class labels.

    Attributes:
        names: of the two.
        cases: that both have labelled.
        kappa: Cohen's, with its interval, or why it is not told.
        patients: behind it.
    """

    names: str
    cases: int
    kappa: str
    patients: int


@dataclass(frozen=True)
class ReportedLabelRow:
    """An annotator of class labels as the federation's page shows it, of one class that is confused.

    Attributes:
        site: the site.
        number: of the annotator, as the site has drawn it.
        other_class: fraction of the cases with another class than most others give.
        others: number of a class of the others; a dash where no class is confused.
        given: number of the class that is mostly given in its place.
        fraction: of the cases of this class with another one.
    """

    site: str
    number: int
    other_class: str
    others: str = NOTHING
    given: str = NOTHING
    fraction: str = NOTHING


def reported_label_rows(reported: Mapping[str, ReportedLabels]) -> tuple[ReportedLabelRow, ...]:
    """Return the rows of the federation's page about annotators of class labels, by site, number and class.

    Args:
        reported: by site, what it reported.
    """
    return tuple(
        row
        for site in sorted(reported, key=natural_order)
        for one in reported[site].annotators
        for row in _rows_of(site, one)
    )


def reported_kappas(reported: Mapping[str, ReportedLabels]) -> dict[str, str]:
    """Return Fleiss' κ with its interval in words, by site that reported one."""
    return {
        site: reported_fraction(reported[site].kappa, in_percent=False)
        for site in sorted(reported, key=natural_order)
        if reported[site].kappa is not None
    }


def _rows_of(site: str, one: ReportedLabelAnnotator) -> list[ReportedLabelRow]:
    of_all = reported_fraction(one.other_class)
    rows = [
        ReportedLabelRow(
            site,
            one.number,
            of_all,
            f"class {label}",
            _given_in_words(one, label),
            reported_fraction(one.classes[label].fraction),
        )
        for label in sorted(one.classes)
        if one.classes[label].fraction.value > 0
    ]
    return rows or [ReportedLabelRow(site, one.number, of_all)]


def _given_in_words(one: ReportedLabelAnnotator, label: int) -> str:
    given = one.classes[label].given
    if given is None:
        return "not reported"
    return f"class {given}, and class {label} in place of class {given}" if one.swaps(label) else f"class {given}"


def reported_fraction(figure: ReportedFigure | None, *, in_percent: bool = True) -> str:
    """Return a fraction that has left a site, with its interval and patients; a dash where none has."""
    if figure is None:
        return NOTHING
    shown = Figure(value=figure.value, low=figure.low, high=figure.high, patients=figure.patients)
    return f"{fraction_in_words(shown, in_percent=in_percent)}, {plural(figure.patients, 'patient')}"


def shown_confusion(name: str, pair: ConfusedClasses, classes: Sequence[str]) -> ShownConfusion:
    """Return a row of the table of confused classes.

    Args:
        name: of the annotator.
        pair: of classes.
        classes: names of all classes.
    """
    names = dict(enumerate(classes))
    return ShownConfusion(
        name=name,
        others=names.get(pair.others, str(pair.others)),
        own=names.get(pair.own, str(pair.own)),
        cases=f"{pair.num_confused} of {pair.num_cases}",
        fraction=_told(pair.fraction, partial(fraction_in_words, in_percent=True)),
    )


def shown_class_pair(pair: AnnotatorClassPair) -> ShownClassPair:
    """Return a row of the table of agreement on class labels."""
    return ShownClassPair(
        names=" – ".join(pair.annotators),
        cases=pair.num_cases,
        kappa=_told(pair.kappa, fraction_in_words),
        patients=pair.kappa.patients,
    )


def _told(figure: Figure, in_words: Callable[[Figure], str]) -> str:
    """A figure of class labels; else why it is not told."""
    if figure.value is not None:
        return in_words(figure)
    if figure.patients < THRESHOLDS.min_patients_of_annotator:
        return f"too few patients ({figure.patients} of {THRESHOLDS.min_patients_of_annotator})"
    return "both give one class alone"


def fraction_in_words(figure: Figure, *, in_percent: bool = False) -> str:
    """Return a fraction with its interval, a dash where it is not known."""
    if figure.value is None or figure.low is None or figure.high is None:
        return NOTHING
    if in_percent:
        return f"{percent(figure.value)} ({percent_range(figure.low, figure.high)})"
    return f"{figure.value:z.2f} ({figure.low:z.2f} to {figure.high:z.2f})"
