"""Why a site's result does not count, as a code and values; sentences are made of them elsewhere."""

import textwrap
import traceback
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic import Field, model_validator

from .former_names import FORMER_REFUSALS
from .strict_model import StrictModel


class RefusalCode(StrEnum):
    """Why a result does not count; behind each code the values that go with it.

    Attributes:
        TEXT: a sentence that a record of an earlier version holds: ``text``.
        NO_USABLE_DATA: a site's word: its data cannot be used.
        DATA_DO_NOT_FIT: as above: they are of another kind than the job trains on.
        TASK_FAILED: as above.
        PROCESS_DIED: as above: the process of its task died or took too long.
        TASK_NOT_KNOWN: as above: it does not know the task.
        MODEL_DOES_NOT_FIT: as above: the received model does not fit its network settings.
        HELD_BACK: as above: its own policy held the result back.
        TOO_FEW_SAMPLES: as above: it has too few patients or samples for an update to leave it.
        RETURN_CODE: the site gave a ``return_code`` of NVFlare's alone.
        NO_KNOWN_REASON: the site gave none of these.
        MODEL_NOT_FETCHED: its model could not be fetched.
        NO_ANSWER: no answer to a ``task`` within so many ``seconds``.
        NO_ANSWER_AFTER_OTHERS: as above, since enough others had answered.
        ANSWER_OF_OTHER_ROUND: its answer to a ``task`` is of another ``round`` than ``expected``.
        SECOND_ANSWER: it answered a ``task`` twice.
        NO_ROUND: no round is open.
        OTHER_ROUND: its result is of another ``round`` than ``expected``.
        SECOND_RESULT: it sent two results for a round.
        SAMPLES_OUT_OF_RANGE: its number of ``samples`` is not from 1 to the ``largest``.
        NOT_ASKED: it was not asked in this round.
        JOINED_LATE: it joined after the weights of this round were made.
        NO_MODEL: its result has no model.
        ENTRIES_MISSING: its model lacks a ``number`` of entries, ``entry`` among them.
        ENTRIES_UNEXPECTED: its model has as many more.
        NO_TENSOR: an ``entry`` is of another ``type``.
        OTHER_SHAPE: an ``entry`` has another ``shape`` than ``expected``.
        OTHER_TYPE: an ``entry`` has another ``type`` of numbers than ``expected``.
        NOT_FINITE: an ``entry`` has values that are not finite.
        DIVERGED: an ``entry`` has values up to ``largest``, beyond the ``limit``.
        FIELD_MISSING: its result lacks a ``field``.
        FIELD_TYPE: a ``field`` is of another ``type`` than ``expected``.
        FIELD_LENGTH: a ``field`` has another ``number`` of entries than ``expected``.
        FIELD_OUT_OF_RANGE: a ``field`` has a ``value`` that is not from ``low`` to ``high``.
        TOO_FEW_BEHIND: a ``field`` has an entry of a ``count`` of patients, fewer than the ``least``.
        WEIGHT_TOO_LARGE: its ``weight`` in a layer block would be above the ``largest`` that who averages allows.
    """

    TEXT = "text"
    NO_USABLE_DATA = "no_usable_data"
    DATA_DO_NOT_FIT = "data_do_not_fit"
    TASK_FAILED = "task_failed"
    PROCESS_DIED = "process_died"
    TASK_NOT_KNOWN = "task_not_known"
    MODEL_DOES_NOT_FIT = "model_does_not_fit"
    HELD_BACK = "held_back"
    TOO_FEW_SAMPLES = "too_few_samples"
    RETURN_CODE = "return_code"
    NO_KNOWN_REASON = "no_known_reason"
    MODEL_NOT_FETCHED = "model_not_fetched"
    NO_ANSWER = "no_answer"
    NO_ANSWER_AFTER_OTHERS = "no_answer_after_others"
    ANSWER_OF_OTHER_ROUND = "answer_of_other_round"
    SECOND_ANSWER = "second_answer"
    NO_ROUND = "no_round"
    OTHER_ROUND = "other_round"
    SECOND_RESULT = "second_result"
    SAMPLES_OUT_OF_RANGE = "samples_out_of_range"
    NOT_ASKED = "not_asked"
    JOINED_LATE = "joined_late"
    NO_MODEL = "no_model"
    ENTRIES_MISSING = "entries_missing"
    ENTRIES_UNEXPECTED = "entries_unexpected"
    NO_TENSOR = "no_tensor"
    OTHER_SHAPE = "other_shape"
    OTHER_TYPE = "other_type"
    NOT_FINITE = "not_finite"
    DIVERGED = "diverged"
    FIELD_MISSING = "field_missing"
    FIELD_TYPE = "field_type"
    FIELD_LENGTH = "field_length"
    FIELD_OUT_OF_RANGE = "field_out_of_range"
    TOO_FEW_BEHIND = "too_few_behind"
    WEIGHT_TOO_LARGE = "weight_too_large"


# What a site may report of its failure: one of these, never a text of its own.
REPORTED = (
    RefusalCode.NO_USABLE_DATA,
    RefusalCode.DATA_DO_NOT_FIT,
    RefusalCode.TASK_FAILED,
    RefusalCode.PROCESS_DIED,
    RefusalCode.TASK_NOT_KNOWN,
    RefusalCode.MODEL_DOES_NOT_FIT,
    RefusalCode.HELD_BACK,
    RefusalCode.TOO_FEW_SAMPLES,
)


# What a site's refusal holds besides its code in a simulation, where site, server and researcher are one person: the
# error's type, its text and the last line of its traceback. In a federation these stay in the site's log.
ERROR_FIELDS = ("error", "error_text", "error_line")
_LONGEST_TEXT = 2000


def error_fields(error: BaseException) -> dict[str, str]:
    """Return what a simulation says of an error, with its line breaks.

    Args:
        error: that was raised.
    """
    last = "".join(traceback.format_list(traceback.extract_tb(error.__traceback__)[-1:]))
    # Without the marks below the line.
    lines = [line for line in textwrap.dedent(last).splitlines() if line.strip(" ^~")]
    text = str(error)[:_LONGEST_TEXT]
    return {"error": type(error).__name__, "error_text": text, "error_line": "\n".join(lines)}


class RefusalReason(StrictModel):
    """Why a result does not count; where a record of an earlier version holds a text, it is read as well.

    Attributes:
        code: why.
        values: that go with it, by name; see :class:`RefusalCode`. What a site sent in another type is a text. In a
            simulation also :data:`ERROR_FIELDS`.
    """

    code: RefusalCode
    values: dict[str, str | int | float] = Field(default_factory=dict)

    @classmethod
    def of(cls, code: RefusalCode, **values: str | int | float) -> "RefusalReason":
        """Return a reason with its values."""
        return cls(code=code, values=values) if values else cls(code=code)

    @classmethod
    def reported(cls, code: Any, error: Any = None) -> "RefusalReason | None":
        """Return the reason that a site has reported, also one of an earlier version; None for anything else.

        Args:
            code: what the site sent.
            error: :func:`error_fields` of a site of a simulation; None in a federation.
        """
        if not isinstance(code, str):
            return None
        current = FORMER_REFUSALS.get(code, code)
        return cls.of(RefusalCode(current), **_texts(error)) if current in REPORTED else None

    @model_validator(mode="before")
    @classmethod
    def _read_text(cls, values: Any) -> Any:
        if not isinstance(values, str):
            return values
        former = FORMER_REFUSALS.get(values)
        return {"code": "text", "values": {"text": values}} if former is None else {"code": former}

    def __str__(self) -> str:
        """Return code and values, for a log or an error; see :attr:`error_lines` for the rest."""
        if self.code is RefusalCode.TEXT:
            return str(self.values.get("text", ""))
        values = ", ".join(f"{name} {value}" for name, value in self.values.items() if name not in ERROR_FIELDS)
        return f"{self.code.value.replace('_', ' ')}{f' ({values})' if values else ''}"

    @property
    def without_error(self) -> "RefusalReason":
        """The reason as records hold it, which may be given away: without the text of a simulated site's error."""
        return self.of(self.code, **{name: of for name, of in self.values.items() if name not in ERROR_FIELDS})

    @property
    def error_lines(self) -> list[str]:
        """The site's error in a simulation: type and text, then the last line of the traceback; else empty."""
        if "error" not in self.values:
            return []
        kind, text, line = (str(self.values.get(name, "")) for name in ERROR_FIELDS)
        return [*f"{kind}: {text}".splitlines(), *line.splitlines()]


def _texts(error: Any) -> dict[str, str]:
    values = error if isinstance(error, Mapping) else {}
    return {name: values[name] for name in ERROR_FIELDS if isinstance(values.get(name), str)}
