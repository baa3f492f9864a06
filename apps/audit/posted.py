"""What the page of a review may send, checked before anything is done with it."""

from pydantic import Field

from ...custom.audit.decisions import Choice
from ...custom.data.json_record import JsonRecord


class PostedDecision(JsonRecord):
    """What a page says that its reader has decided.

    Args:
        case: number of the case on the page.
        finding: its id, one of the case's.
        choice: what was decided.
        reason: a comment.
        shown: hash of the annotation that the page has shown.
    """

    case: int = Field(ge=0)
    finding: str = Field(max_length=400)
    choice: Choice
    reason: str = Field(max_length=2000)
    shown: str = Field(max_length=64)


class PostedCode(JsonRecord):
    """What a page says that its address has held.

    Args:
        code: from an address of the review.
    """

    code: str = Field(max_length=400)
