"""Why a site's result does not count, in words."""

from collections.abc import Mapping

from ...custom.refusals import RefusalCode, RefusalReason
from .phrases import filled

_SITE_LOG = "see the site's log"
_FROM_NEXT_ROUND = "it counts from the next round on"
_CLAUSES: Mapping[RefusalCode, str] = {
    RefusalCode.TEXT: "{text}",
    RefusalCode.NO_USABLE_DATA: f"its data cannot be used; {_SITE_LOG}",
    RefusalCode.DATA_DO_NOT_FIT: f"its data are of another kind than the job trains on; {_SITE_LOG}",
    RefusalCode.TASK_FAILED: f"its task failed; {_SITE_LOG}",
    RefusalCode.PROCESS_DIED: f"the process of its task died or took too long; {_SITE_LOG}",
    RefusalCode.TASK_NOT_KNOWN: "it does not know the task; is its fedannot of another version?",
    RefusalCode.MODEL_DOES_NOT_FIT: f"the received model does not fit its network settings; {_SITE_LOG}",
    RefusalCode.HELD_BACK: f"its result was held back by the site's own policy; {_SITE_LOG}",
    RefusalCode.TOO_FEW_SAMPLES: f"it has too few patients or samples for an update to leave it; {_SITE_LOG}",
    RefusalCode.RETURN_CODE: "{return_code}",
    RefusalCode.NO_KNOWN_REASON: "its answer has no known reason",
    RefusalCode.MODEL_NOT_FETCHED: "its model could not be fetched; see the server's log",
    RefusalCode.NO_ANSWER: "no answer to {task!r} within {seconds} s",
    RefusalCode.NO_ANSWER_AFTER_OTHERS: "no answer to {task!r} within {seconds} s after enough others had answered",
    RefusalCode.ANSWER_OF_OTHER_ROUND: "its answer to {task!r} is of round {round}, expected {expected}",
    RefusalCode.SECOND_ANSWER: "it is a second answer to {task!r}",
    RefusalCode.NO_ROUND: "no round is open",
    RefusalCode.OTHER_ROUND: "it is of round {round}, expected {expected}",
    RefusalCode.SECOND_RESULT: "it is a second result for this round",
    RefusalCode.SAMPLES_OUT_OF_RANGE: "its number of samples is {samples}, expected 1 to {largest}",
    RefusalCode.NOT_ASKED: f"the site was not asked in this round; {_FROM_NEXT_ROUND}",
    RefusalCode.JOINED_LATE: f"the site joined after this round's weights were made; {_FROM_NEXT_ROUND}",
    RefusalCode.NO_MODEL: "it has no model",
    RefusalCode.ENTRIES_MISSING: "{number} missing entries, e.g. {entry!r}",
    RefusalCode.ENTRIES_UNEXPECTED: "{number} unexpected entries, e.g. {entry!r}",
    RefusalCode.NO_TENSOR: "{entry!r} is {type}, expected a tensor",
    RefusalCode.OTHER_SHAPE: "{entry!r} has shape {shape}, expected {expected}",
    RefusalCode.OTHER_TYPE: "{entry!r} has type {type}, expected {expected}",
    RefusalCode.NOT_FINITE: "{entry!r} has values that are not finite",
    RefusalCode.DIVERGED: "{entry!r} has values up to {largest:.3g}, more than {limit:.3g}: training has diverged",
    RefusalCode.FIELD_MISSING: "its result lacks {field!r}",
    RefusalCode.FIELD_TYPE: "its {field!r} is {type}, expected {expected}",
    RefusalCode.FIELD_LENGTH: "its {field!r} has {number} entries, expected {expected}",
    RefusalCode.FIELD_OUT_OF_RANGE: "its {field!r} is {value}, expected {low} to {high}",
    RefusalCode.TOO_FEW_BEHIND: "its {field!r} has an entry of {count} patients, expected at least {least} or none",
    RefusalCode.WEIGHT_TOO_LARGE: (
        "it would be {weight:z.2f} of a layer block, where limits.json (largest_share) of who averages allows at most "
        "{largest:g}: the round does not count"
    ),
}


def refusal_in_words(reason: RefusalReason) -> str:
    """Return why a result does not count, as the end of a sentence that names the site."""
    return filled(_CLAUSES[reason.code], reason.values)
