"""What a site is told of its own annotations, as a part of its audit."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...audit.findings import Conclusion, KindResult, SiteAudit
from ...channel.estimate_record import ParameterRecord, ReferenceLevelRecord
from ...channel.parameters import SWAPPED_OBJECTS, ParameterKey, ParameterKind
from ...channel.statuses import Status, Unit
from ..auto.thresholds import THRESHOLDS

_ORDER = (Status.CONFIRMED, Status.UNKNOWN, Status.SMALL, Status.NOT_SIGNIFICANT)
_KINDS = (ParameterKind.OFFSET, ParameterKind.MISSING)


def with_conclusions(audit: SiteAudit, told: Mapping[str, Any]) -> SiteAudit:
    """Return an audit with what the federation concludes of the site.

    Args:
        audit: of the site.
        told: by the server: ``reference_levels`` by class, ``parameters`` by kind and class.

    Raises:
        ValueError: if the server told something else.
    """
    names = dict(enumerate(audit.classes, start=1))
    conclusions = []
    for text, plain in sorted(told["parameters"].items()):
        key = ParameterKey.parse(text)
        if key != SWAPPED_OBJECTS and (key.kind not in _KINDS or key.label not in names):
            raise ValueError(
                "Expected conclusions of offsets and missing objects by class, and of swapped ones, but was told of "
                f"{text!r}."
            )
        record = ParameterRecord.model_validate(plain)
        unit = audit.unit if key.kind is ParameterKind.OFFSET else None
        conclusions.append(conclusion(key, names.get(key.label, ""), record, unit))
    levels = {
        names[int(label)]: ReferenceLevelRecord.model_validate(level)
        for label, level in told["reference_levels"].items()
        if int(label) in names
    }
    conclusions.sort(key=lambda one: _ORDER.index(one.status))
    kinds = tuple(_untried_where_swapped(kind, conclusions) for kind in audit.kinds)
    return audit.model_copy(update={"conclusions": tuple(conclusions), "reference_levels": levels, "kinds": kinds})


def conclusion(key: ParameterKey, class_name: str, record: ParameterRecord, unit: Unit | None) -> Conclusion:
    """Return the conclusion that a record of a parameter is.

    Args:
        key: the parameter.
        class_name: empty for all classes.
        record: what is known of it.
        unit: of the figures; None of a share.
    """
    return Conclusion(parameter=key, class_name=class_name, unit=unit, **dict(record))


def _untried_where_swapped(kind: KindResult, conclusions: Sequence[Conclusion]) -> KindResult:
    """A kind of problem; of swapped classes nothing was tried where most were swapped: errors make them right."""
    if kind.kind == ParameterKind.SWAPPED and any(map(are_most_swapped, conclusions)):
        return kind.model_copy(update={"auroc": None})
    return kind


def are_most_swapped(one: Conclusion) -> bool:
    """Return whether a conclusion is that most objects have the label of another class."""
    return one.parameter == SWAPPED_OBJECTS and one.is_confirmed and (one.effect or 0.0) > THRESHOLDS.most_objects
