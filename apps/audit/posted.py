"""What the page of a review may send, checked before anything is done with it."""

from typing import Annotated

from pydantic import Field, StrictInt, StringConstraints

from ...custom.audit.decisions import FindingChoice, HexName
from ...custom.audit.drawn_masks import MAX_DRAWN_TOOLS, Tool
from ...custom.data.json_record import JsonRecord

# Of a contour's offset and of a shift, in millimetres, or pixels without spacing.
MAX_MOVE = 50.0

PlaneNumber = Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,8})$")]
_Length = Annotated[float, Field(strict=True, ge=-MAX_MOVE, le=MAX_MOVE, allow_inf_nan=False)]


class PostedDecision(JsonRecord):
    """What a page says that its reader has decided.

    Args:
        case: number of the case on the page.
        finding: its id, one of the case's; empty of a case without any.
        choice: what was decided.
        reason: a comment.
        shown: hash of the annotation that the page has shown.
        mask: of ``edit`` the id of a mask that was stored before.
        confirmed: ids of the findings whose decisions the reader agreed to replace by this one.
    """

    case: int = Field(ge=0)
    finding: str = Field(max_length=400)
    choice: FindingChoice
    reason: str = Field(max_length=2000)
    shown: str = Field(max_length=64)
    mask: HexName = ""
    confirmed: tuple[Annotated[str, Field(max_length=400)], ...] = Field(default=(), max_length=100)


class PostedUndo(JsonRecord):
    """What a page asks to be undone.

    Args:
        action: of this reviewer's decisions.
    """

    action: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class PostedMask(JsonRecord):
    """A mask as a page shows it, in the planes of the given file.

    Args:
        case: number of the case on the page.
        finding: the finding that was marked, one of the case's; empty of a case without any.
        shown: hash of the annotation that the page has shown.
        count: number of planes.
        height: rows of each.
        width: columns of each.
        planes: by number the runs of those that differ from the given annotation.
        tools: what was used, in the order of the first use.
    """

    case: int = Field(ge=0)
    finding: str = Field(max_length=400)
    shown: str = Field(max_length=64)
    count: StrictInt
    height: StrictInt
    width: StrictInt
    planes: dict[PlaneNumber, list[StrictInt]]
    tools: tuple[Tool, ...] = Field(default=(), max_length=MAX_DRAWN_TOOLS)


class PostedMove(PostedMask):
    """A mask whose contours, or all of it, are to be moved for a look; nothing is stored.

    Args:
        distance: positive makes objects larger; in millimetres, pixels without spacing.
        label: the class whose contours move; None for all.
        shift: by how much all classes move down and to the right in the plane, as above.
    """

    distance: _Length = 0.0
    label: StrictInt | None = None
    shift: tuple[_Length, _Length] = (0.0, 0.0)


class PostedCode(JsonRecord):
    """What a page says that its address has held.

    Args:
        code: from an address of the review.
    """

    code: str = Field(max_length=400)
