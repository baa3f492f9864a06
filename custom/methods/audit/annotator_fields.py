"""What leaves a site of its annotators, who have numbers that mean nothing elsewhere: never a name."""

from ...outbound.fields import OutboundField
from ...task_names import AUDIT_CASES

# Places of annotators in a list of each class; which annotator has which is drawn at random by the site.
PLACES = 8
ANNOTATOR_OFFSET, ANNOTATOR_MAJORITY_OFFSET = "annotator_offset", "annotator_majority_offset"
ANNOTATOR_MISSED, ANNOTATOR_CONFUSED = "annotator_missed", "annotator_confused"
NAMES = (ANNOTATOR_OFFSET, ANNOTATOR_MAJORITY_OFFSET, ANNOTATOR_MISSED, ANNOTATOR_CONFUSED)
# They all leave, or none does.
GROUP = "annotators"
ENDINGS = ("", "_low", "_high")
_FRACTION = (0.0, 1.0)


def _fields(
    name: str, limits: tuple[float, float] | None = None, *, of_all_classes: bool = False
) -> list[OutboundField]:
    """An estimate of each place with its interval, and the patients behind it; of each class if they are not of all."""
    length, per_class = (PLACES, 1) if of_all_classes else (None, PLACES)
    numbers = [
        OutboundField(
            name + ending,
            (AUDIT_CASES,),
            "numbers",
            counted_by=f"{name}_patients",
            optional=GROUP,
            limits=limits,
            length=length,
            per_class=per_class,
        )
        for ending in ENDINGS
    ]
    counts = OutboundField(
        f"{name}_patients",
        (AUDIT_CASES,),
        "counts",
        optional=GROUP,
        length=length,
        per_class=per_class,
        follows_model=True,
    )
    return [*numbers, counts]


ANNOTATOR_FIELDS = (
    *_fields(ANNOTATOR_OFFSET),
    *_fields(ANNOTATOR_MAJORITY_OFFSET),
    *_fields(ANNOTATOR_MISSED, _FRACTION),
    *_fields(ANNOTATOR_CONFUSED, _FRACTION, of_all_classes=True),
)
