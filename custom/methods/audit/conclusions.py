"""What a site learns of its own annotations, as a part of its audit."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...annotation_bias.estimate_record import ParameterRecord, ReferenceLevelRecord
from ...annotation_bias.parameters import CONFUSED_OBJECTS, ParameterKey, ParameterKind
from ...annotation_bias.statuses import Status, Unit
from ...audit.findings import Conclusion, KindResult, SiteAudit
from ..auto.thresholds import THRESHOLDS

_ORDER = (Status.CONFIRMED, Status.UNKNOWN, Status.SMALL, Status.NOT_SIGNIFICANT)
_KINDS = (ParameterKind.OFFSET, ParameterKind.MISSING)


def with_conclusions(audit: SiteAudit, sent: Mapping[str, Any]) -> SiteAudit:
    """Return an audit with what the federation concludes of the site.

    Args:
        audit: of the site.
        sent: by the server: ``reference_levels`` by class, ``parameters`` by kind and class.

    Raises:
        ValueError: if the server sent something else.
    """
    names = dict(enumerate(audit.classes, start=1))
    conclusions = []
    for text, plain in sorted(sent["parameters"].items()):
        key = ParameterKey.parse(text)
        if key != CONFUSED_OBJECTS and (key.kind not in _KINDS or key.label not in names):
            raise ValueError(
                "Expected conclusions of offsets and missing objects by class, and of confused ones, but received "
                f"{text!r}."
            )
        record = ParameterRecord.model_validate(plain)
        unit = audit.unit if key.kind is ParameterKind.OFFSET else None
        conclusions.append(conclusion(key, names.get(key.label, ""), record, unit))
    levels = {
        names[int(label)]: ReferenceLevelRecord.model_validate(level)
        for label, level in sent["reference_levels"].items()
        if int(label) in names
    }
    conclusions.sort(key=lambda one: _ORDER.index(one.status))
    kinds = tuple(_untried_where_confused(kind, conclusions) for kind in audit.kinds)
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


def _untried_where_confused(kind: KindResult, conclusions: Sequence[Conclusion]) -> KindResult:
    """A kind of problem; of confused classes nothing was tried where most were confused: errors make them right."""
    if kind.kind == ParameterKind.CONFUSED and any(map(are_most_confused, conclusions)):
        return kind.model_copy(update={"auroc": None})
    return kind


def are_most_confused(one: Conclusion) -> bool:
    """Return whether a conclusion is that most objects have the label of another class."""
    return one.parameter == CONFUSED_OBJECTS and one.is_confirmed and (one.effect or 0.0) > THRESHOLDS.most_objects
