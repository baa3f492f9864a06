"""What the page shows of a case: its planes, the annotations on them, and a crop of the worst finding."""

import base64
import io
from collections.abc import Mapping
from typing import Any, Literal, TypedDict, final

import numpy as np
from PIL import Image

from ...custom.audit.findings import AuditedCase, Finding
from ...transforms.array_types import Array, Classes, SingleFloats
from ...transforms.errors import DataError
from ...transforms.printable import printable
from ..reports.shown_channels import shown_channels
from .case_files import CaseReader, ReadCase
from .mask_planes import Runs, runs_of

Form = Literal["png", "webp"]
Box = tuple[int, int, int, int]

_QUALITY = 90
_CROP_SIDE = 88
# Around a finding, so that it is seen where it lies.
_MARGIN = 0.6
_LEAST_MARGIN = 6
_OUTLINE = (255, 176, 0)


class FindingContent(TypedDict):
    """Where a finding is: its plane, the box around it there, and by plane the runs of what is suggested."""

    plane: int
    box: Box | None
    suggested: dict[str, Runs] | None


@final
class CaseContent(TypedDict):
    """What a page needs to draw a case; annotation and prediction as the runs of each plane, None without masks."""

    shown: str
    width: int
    height: int
    aspect: float
    images: list[str]
    given: list[Runs] | None
    predicted: list[Runs] | None
    findings: list[FindingContent]


@final
class UnreadableCase(TypedDict):
    """Why a case cannot be drawn."""

    problem: str


def case_content(reader: CaseReader, case: AuditedCase, form: Form) -> CaseContent | UnreadableCase:
    """Return what a page needs to draw a case, as plain values; names nothing that a browser would ask for.

    Planes are those of the samples, or of a whole volume those across its last axis. Masks are lists of run lengths
    ``[class, length, …]`` over the rows of a plane.

    Args:
        reader: of the audit.
        case: which case.
        form: ``png`` is exact; ``webp`` is a fifth as large, for pages that hold all cases.

    Returns:
        The content; of a case that cannot be read, ``problem`` in words.
    """
    try:
        return _content(case, reader.shown(case), reader.read(case), form)
    except (DataError, OSError) as error:
        return {"problem": printable(str(error))}


def content_and_crop(reader: CaseReader, case: AuditedCase, form: Form) -> tuple[CaseContent | UnreadableCase, str]:
    """Return :func:`case_content` and :func:`case_crop` of a case, whose files are read but once."""
    try:
        shown, read = reader.shown(case), reader.read(case)
        return _content(case, shown, read, form), _crop(case, read)
    except (DataError, OSError) as error:
        return {"problem": printable(str(error))}, ""


def case_crop(reader: CaseReader, case: AuditedCase) -> str:
    """Return a small picture of the case's worst finding as an address with the data in it; empty if it has none."""
    try:
        return _crop(case, reader.read(case))
    except (DataError, OSError):
        return ""


def widened(box: Box, shape: tuple[int, ...]) -> Box:
    """Return a box, top, left, bottom and right, with some of what is around it in a plane of a shape."""
    top, left, bottom, right = box
    margin = max(_LEAST_MARGIN, round(_MARGIN * max(bottom - top, right - left)))
    return max(top - margin, 0), max(left - margin, 0), min(bottom + margin, shape[0]), min(right + margin, shape[1])


def _content(case: AuditedCase, shown: str, read: ReadCase, form: Form) -> CaseContent:
    image = _grey_levels(shown_channels(_planes(read.image, read, channels=True), of_volume=read.spacing is not None))
    height, width = image.shape[1:3]
    content: CaseContent = {
        "shown": shown,
        "width": width,
        "height": height,
        "aspect": _aspect(read),
        "images": [_data_address(plane, form) for plane in image],
        "given": None,
        "predicted": None,
        "findings": [_finding_content(finding, read) for finding in case.findings],
    }
    if _has_masks(read):
        content["given"] = _runs_of_planes(_planes(read.given, read))
        content["predicted"] = None if read.prediction is None else _runs_of_planes(_planes(read.prediction, read))
    return content


def _crop(case: AuditedCase, read: ReadCase) -> str:
    image = _grey_levels(shown_channels(_planes(read.image, read, channels=True), of_volume=read.spacing is not None))
    number, box = _shown_plane(case.findings[0] if case.findings else None, read)
    pixels = np.repeat(image[number][..., None], 3, axis=-1) if image.ndim == 3 else image[number].copy()
    if _has_masks(read):
        pixels = _with_outline(pixels, _planes(read.given, read)[number])
    top, left, bottom, right = _square(widened(box, pixels.shape[:2]), pixels.shape[:2])
    crop = Image.fromarray(pixels[top:bottom, left:right])
    return _encoded(crop.resize((_CROP_SIDE, _CROP_SIDE), Image.Resampling.BILINEAR), "webp", quality=80)


def _finding_content(finding: Finding, read: ReadCase) -> FindingContent:
    """Where a finding is, and the planes in which its suggestion differs from the given annotation."""
    plane, box = _shown_plane(finding, read)
    content: FindingContent = {
        "plane": plane,
        "box": None if finding.place is None else widened(box, _plane_shape(read)),
        "suggested": None,
    }
    if finding.id in read.suggestions and _has_masks(read):
        given, suggested = _planes(read.given, read), _planes(read.suggestions[finding.id], read)
        differing = np.flatnonzero((given != suggested).any(axis=(1, 2)))
        content["suggested"] = {str(number): runs_of(suggested[number]) for number in differing.tolist()}
    return content


def _shown_plane(finding: Finding | None, read: ReadCase) -> tuple[int, Box]:
    """The plane that shows a finding best, and the box around it there: top, left, bottom and right."""
    height, width = _plane_shape(read)
    if finding is not None and finding.place is not None:
        place = finding.place
        middle = place.sample + place.samples // 2
        plane = (place.start[2] + place.stop[2]) // 2 if read.given.ndim == 4 else middle
        rows, columns = (place.start[0], place.stop[0]), (place.start[1], place.stop[1])
        if read.spacing is not None:
            # As planes of volumes are turned: columns become rows from below.
            rows, columns = (height - columns[1], height - columns[0]), rows
        return plane, (rows[0], columns[0], rows[1], columns[1])
    if not _has_masks(read):
        return 0, (0, 0, height, width)
    marked = _planes(read.given, read) != 0
    if finding is not None and finding.id in read.suggestions:
        suggested = _planes(read.suggestions[finding.id], read)
        marked = marked | (suggested != 0)
    return int(marked.sum(axis=(1, 2)).argmax()), (0, 0, height, width)


def _planes(array: Array, read: ReadCase, *, channels: bool = False) -> Array:
    """Planes ``(P, H, W)``, an image with its channels last, as they are shown: axes of volumes to the right and up."""
    planes = np.moveaxis(array, 1, -1) if channels else array
    if read.given.ndim == 4:
        planes = np.moveaxis(planes[0], 2, 0)
    return planes if read.spacing is None else np.rot90(planes, axes=(1, 2))


def _plane_shape(read: ReadCase) -> tuple[int, int]:
    height, width = read.image.shape[2:4]
    return (height, width) if read.spacing is None else (width, height)


def _aspect(read: ReadCase) -> float:
    """Height of a pixel as a multiple of its width, as it is shown."""
    return 1.0 if read.spacing is None else read.spacing[1] / read.spacing[0]


def _has_masks(read: ReadCase) -> bool:
    return read.given.ndim > 1


def _grey_levels(planes: SingleFloats) -> Classes:
    """Intensities ``(P, H, W[, 3])`` from the darkest to the brightest hundredth of the case as 0 to 255."""
    low, high = (float(np.quantile(planes, share)) for share in (0.01, 0.99))
    levels: Classes = (255 * ((planes - low) / max(high - low, 1e-6)).clip(0, 1)).round().astype(np.uint8)
    return levels


def _data_address(plane: Classes, form: Form) -> str:
    options: Mapping[str, Any] = {"quality": _QUALITY} if form == "webp" else {"optimize": False}
    return _encoded(Image.fromarray(np.ascontiguousarray(plane)), form, **options)


def _encoded(image: Image.Image, form: Form, **options: Any) -> str:
    buffer = io.BytesIO()
    image.save(buffer, form.upper(), **options)
    return f"data:image/{form};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"


def _runs_of_planes(planes: Classes) -> list[Runs]:
    return [runs_of(plane) for plane in planes]


def _square(box: Box, shape: tuple[int, ...]) -> Box:
    """A square around the middle of a box, as far as the plane reaches."""
    top, left, bottom, right = box
    side = min(max(bottom - top, right - left), *shape[:2])
    first_row = min(max((top + bottom - side) // 2, 0), shape[0] - side)
    first_column = min(max((left + right - side) // 2, 0), shape[1] - side)
    return first_row, first_column, first_row + side, first_column + side


def _with_outline(pixels: Classes, classes: Classes) -> Classes:
    """Pixels ``(H, W, 3)`` with the innermost pixels of every object in a colour."""
    padded = np.pad(classes, 1, mode="edge")
    edge = np.zeros(classes.shape, dtype=bool)
    for neighbour in (padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:]):
        edge |= neighbour != classes
    drawn = pixels.copy()
    drawn[edge & (classes != 0)] = _OUTLINE
    return drawn
