"""What leaves a site of its annotators, who have numbers that mean nothing elsewhere: never a name."""

from ...annotation_bias.thresholds import THRESHOLDS
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
# Of the fields that are counts; all others are numbers.
COUNT_ENDINGS = ("_patients", "_given")
FRACTION = (0.0, 1.0)


def annotator_fields(
    name: str, limits: tuple[float, float] | None = None, *, task: str = AUDIT_CASES, length: int | None = None
) -> list[OutboundField]:
    """Return the fields of an estimate of each annotator: with its interval, and the patients behind it.

    Args:
        name: of the estimate.
        limits: smallest and largest value.
        task: whose answer holds it.
        length: of the lists, where it is not of each class.
    """
    per_class = PLACES if length is None else 1
    numbers = [
        OutboundField(
            name + ending,
            (task,),
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
        (task,),
        "counts",
        optional=GROUP,
        length=length,
        per_class=per_class,
        follows_model=True,
        least=THRESHOLDS.min_patients_of_annotator,
    )
    return [*numbers, counts]


ANNOTATOR_FIELDS = (
    *annotator_fields(ANNOTATOR_OFFSET),
    *annotator_fields(ANNOTATOR_MAJORITY_OFFSET),
    *annotator_fields(ANNOTATOR_MISSED, FRACTION),
    *annotator_fields(ANNOTATOR_CONFUSED, FRACTION, length=PLACES),
)
