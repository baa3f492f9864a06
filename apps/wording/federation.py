"""What an audit knows of all sites, in words: headline, titles, and what `auto` would do."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ...custom.annotation_bias.parameters import ParameterKey, ParameterKind
from ...custom.annotation_bias.statuses import Unit
from ...custom.corrections.kinds import BoundaryShift, MissedObjectsIgnored, ObjectsRelabelled
from ...custom.methods.audit.records import KindShare
from ...custom.methods.auto.records import SiteBiasRecord
from .phrases import begun, continued

_TITLES = {
    ParameterKind.OFFSET: "Contours too large (+) or too small (−)",
    ParameterKind.MISSING: "Missed objects, %",
    ParameterKind.CONFUSED: "Objects of another class, %",
    ParameterKind.LABELS: "Wrong labels, %",
}
_REFERENCES_OF_FRACTIONS = {
    ParameterKind.MISSING: "Fractions are relative to the most complete site.",
    ParameterKind.CONFUSED: "Fractions are relative to the site with the least.",
}


class Problem(StrEnum):
    """What may be wrong with a site's annotations as a whole."""

    TOO_SMALL = "too_small"
    TOO_LARGE = "too_large"
    LEFT_OUT = "left_out"
    ANOTHER_CLASS = "another_class"
    WRONG_LABELS = "wrong_labels"


_PROBLEMS = {
    Problem.TOO_SMALL: "contours too small",
    Problem.TOO_LARGE: "contours too large",
    Problem.LEFT_OUT: "missed objects",
    Problem.ANOTHER_CLASS: "objects of another class",
    Problem.WRONG_LABELS: "wrong labels",
}


@dataclass(frozen=True)
class FederationLead:
    """What the headline of the federation's page says, in numbers.

    Attributes:
        is_unfit: whether the model found too few annotated patients, so that nothing was tested.
        num_sites: of which anything is known.
        counts: at how many sites a problem is confirmed, of the problems that are at any.
        largest_difference: of boundary biases between sites if only the reference level is unknown; None if small.
        unit: of that; None where sites differ in it.
        is_any_unknown: whether something could not be tested.
    """

    is_unfit: bool
    num_sites: int
    counts: Mapping[Problem, int]
    largest_difference: float | None
    unit: Unit | None
    is_any_unknown: bool


def lead_in_words(lead: FederationLead) -> str:
    """Return the headline."""
    if lead.is_unfit:
        return "Nothing could be assessed: the model found too little of what is annotated."
    if lead.counts:
        result = ", ".join(f"{_PROBLEMS[problem]} at {count}" for problem, count in lead.counts.items())
        return f"{begun(result)} of {lead.num_sites} sites."
    if lead.largest_difference:
        unit = "" if lead.unit is None else f" {lead.unit}"
        return (
            f"Contours differ by up to {lead.largest_difference:z.1f}{unit} between sites; only a review can tell "
            "which are right."
        )
    if lead.is_any_unknown:
        return "No site is confirmed to annotate differently; not all could be tested."
    return "All sites annotate alike, as far as this audit can tell."


def table_title(key: ParameterKey, *, is_only: bool) -> str:
    """Return the title of the table of a parameter.

    Args:
        key: the parameter.
        is_only: whether the class goes without saying.
    """
    what = _TITLES[key.kind]
    return what if is_only else f"Class {key.label}: {continued(what)}"


def reference_of_fractions(kind: ParameterKind) -> str | None:
    """Return what a fraction is relative to; None where that is the reference level."""
    return _REFERENCES_OF_FRACTIONS.get(kind)


def would_in_words(key: ParameterKey, record: SiteBiasRecord, unit: Unit) -> str:
    """Return what `auto` would do at a site."""
    kind, shift, missed = key.kind, record.of(BoundaryShift), record.of(MissedObjectsIgnored)
    if kind is ParameterKind.OFFSET and shift is not None and key.label in shift.moves:
        return f"move contours by {_signed(shift.moves[key.label], unit)} {unit}"
    if kind is ParameterKind.MISSING and missed is not None and key.label in missed.missed:
        return "ignore objects that are probably missing"
    if kind is ParameterKind.CONFUSED and record.of(ObjectsRelabelled) is not None:
        return "relabel the most doubtful objects"
    if kind is ParameterKind.LABELS and record.parameters[key].is_confirmed:
        return "correct wrong labels"
    return "nothing"


def share_in_words(found: KindShare | None) -> str:
    """Return the fraction of patients with a finding of a kind, and how well such errors are found there."""
    if found is None or found.flagged is None:
        return "–"
    auroc = "not known" if found.auroc is None else f"{found.auroc:z.2f}"
    return f"{100 * found.flagged:z.0f} % ({auroc})"


def length_in_words(value: float | None, unit: str) -> str:
    """Return a length, or a fraction in percent, with its sign."""
    return "–" if value is None else f"{_signed(value, unit)} {unit}"


def interval_in_words(low: float | None, high: float | None, unit: str) -> str:
    """Return an interval of lengths, or of fractions in percent."""
    return "–" if low is None or high is None else f"{_signed(low, unit)} to {_signed(high, unit)}"


def _signed(value: float, unit: str) -> str:
    """With a true minus, which is not taken for a hyphen, and no sign where it rounds to nothing."""
    decimals = 0 if unit == "%" else 1
    rounded = round(value, decimals)
    return f"{rounded:+.{decimals}f}".replace("-", "−") if rounded else f"{0.0:.{decimals}f}"
