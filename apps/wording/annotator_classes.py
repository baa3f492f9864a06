"""The words about class labels of a site's annotators: which class is given in place of which, and Cohen's κ."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ...custom.annotation_bias.annotators.records import AnnotatorClassPair, ConfusedClasses, Figure
from ...custom.annotation_bias.thresholds import THRESHOLDS
from .phrases import percent

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
        return f"{percent(figure.value)} ({100 * figure.low:.0f} to {percent(figure.high)})"
    return f"{figure.value:.2f} ({figure.low:.2f} to {figure.high:.2f})"
