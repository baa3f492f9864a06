"""A case in the pixels of its own files: the image in tiles, and the annotations on its planes."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypedDict

import numpy as np
import torch

from ...custom.audit.findings import AuditedCase, Finding
from ...custom.data.description import (
    ClassificationDescription,
    ImageDescription,
    SliceDescription,
    VolumeDescription,
)
from ...custom.data.masks import Mask, annotated_axis, read_classes, turned_to
from ...custom.data.preparation import build_restoration, fitted_picture_mask
from ...transforms.array_types import Classes
from ...transforms.errors import DataError
from .case_files import CaseReader, with_suggestion
from .case_pictures import CROP_SIDE, Box, crop_picture, square_around, widened
from .encoded_planes import encoded_classes, reduced
from .file_channels import ChannelDescription, FileChannels
from .file_grid import AXIAL, PlaneGrid, boxes_on_planes, plane_of
from .suggested_files import SuggestedFiles

Layer = Literal["given", "predicted", "suggested"]

LAYERS: tuple[Layer, ...] = ("given", "predicted", "suggested")
_KEPT_SUGGESTIONS = 4
TILE = 512
MAX_SCALE = 64


class FindingPlace(TypedDict):
    """Where a finding is in the planes that are shown first."""

    plane: int
    box: Box | None
    hasSuggestion: bool


class CaseDescription(ChannelDescription):
    """What the page needs before it asks for pixels; the channel is the first that is there."""

    channels: list[str]
    shown: str
    version: str
    axis: int
    axes: list[dict[str, Any] | None]
    plane: int
    tile: int
    classes: list[str]
    hasMasks: bool
    hasPrediction: bool
    blindFirst: bool
    findings: list[FindingPlace]


@dataclass(frozen=True)
class TileRequest:
    """A part of a plane: whole pixels, or the means of squares of them.

    Attributes:
        axis: across which the plane lies.
        plane: its number.
        scale: side of the squares, a power of two.
        row: of the tile among those of the plane at this scale.
        column: as above.
        channel: of the image.
    """

    axis: int
    plane: int
    scale: int
    row: int
    column: int
    channel: int = 0


@dataclass(frozen=True)
class PlaneRequest:
    """The classes of a plane.

    Attributes:
        layer: 0 for the given annotation, 1 for the predicted one, 2 for what is suggested.
        finding: number of the finding whose suggestion is meant; of no account for the others.
        axis: across which the plane lies.
        plane: its number.
    """

    layer: int
    finding: int
    axis: int
    plane: int


class FilePixels:
    """The image and the annotations of a case in the pixels of its files; what is asked for stays in memory.

    Args:
        reader: of the audit.
        case: which case.
        version: of its files, as :meth:`.case_files.CaseReader.version_of_files` gives it.

    Raises:
        DataError: if the image cannot be read.
    """

    def __init__(self, reader: CaseReader, case: AuditedCase, version: str) -> None:
        self._reader, self._case, self.version = reader, case, version
        self._files, self._description = reader.files(case), reader.description
        self.channels = FileChannels(self._files.image_files, self._description)
        self.grid = self.channels.grid
        self._layers: dict[tuple[Layer, int], Classes] = {}

    @property
    def nbytes(self) -> int:
        """What it holds in memory."""
        layers = list(self._layers.values())
        given = vars(self).get("_given")
        # Mostly the same memory as its layer has.
        if given is not None and not any(np.may_share_memory(given.classes, own) for own in layers):
            layers.append(given.classes)
        return self.channels.nbytes + sum(layer.nbytes for layer in layers)

    @property
    def has_masks(self) -> bool:
        """Whether the case is annotated with a mask."""
        return not isinstance(self._description, ClassificationDescription)

    @cached_property
    def axis(self) -> int:
        """The axis across which the planes lie that annotators draw on."""
        if not isinstance(self._description, SliceDescription | VolumeDescription):
            return AXIAL
        return self.grid.axis_of(annotated_axis(Mask(np.empty(0, np.uint8), self.grid.affine), self._description))

    def describe(self, shown: str, *, blind_first: bool) -> CaseDescription:
        """Return what the page needs before it asks for pixels.

        Args:
            shown: hash of the annotation.
            blind_first: whether the prediction is hidden until the reader has judged the annotation.

        Raises:
            DataError: if what the audit has kept of the case cannot be read.
        """
        return {
            **self.channels.describe(self.channels.first),
            "channels": self.channels.names,
            "shown": shown,
            "version": self.version,
            "axis": self.axis,
            "axes": [self._axis_values(axis) for axis in range(3)],
            "plane": self._first_plane(),
            "tile": TILE,
            "classes": list(self._description.classes),
            "hasMasks": self.has_masks,
            "hasPrediction": self.has_masks and bool(self._case.arrays),
            "blindFirst": blind_first,
            "findings": self._places,
        }

    def crop(self) -> str:
        """Return a small picture of the worst finding, of a case without findings of the plane with most annotated.

        Raises:
            DataError: as :meth:`describe`.
        """
        grid = self.grid.planes_across(self.axis)
        whole: FindingPlace = {"plane": self._first_plane(), "box": None, "hasSuggestion": False}
        place = next(iter(self._places), whole)
        top, left, bottom, right = square_around(
            place["box"] or (0, 0, grid.height, grid.width), (grid.height, grid.width)
        )
        step = max(1, (bottom - top) // CROP_SIDE)
        first = self.channels.first
        part = plane_of(self.channels.values(first), self.axis, place["plane"])[top:bottom, left:right]
        low, high = self.channels.window(first)
        levels = 255 * ((reduced(part, step).astype(np.float32) - low) / max(high - low, 1e-6)).clip(0, 1)
        classes = None
        if self.has_masks:
            given = plane_of(self.classes("given"), self.axis, place["plane"])[top:bottom, left:right]
            classes = given[step // 2 :: step, step // 2 :: step]
            levels = levels[: classes.shape[0], : classes.shape[1]]
        return crop_picture(levels.round().astype(np.uint8), classes)

    def tile(self, request: TileRequest) -> bytes:
        """Return a tile: the rows of its values, little-endian; of colours three bytes a pixel.

        Raises:
            LookupError: if there is no such channel or tile.
            DataError: if the channel cannot be read.
        """
        grid = self._planes(request.axis, request.plane)
        side = TILE * request.scale
        top, left = request.row * side, request.column * side
        scales = [2**power for power in range(MAX_SCALE.bit_length())]
        if request.scale not in scales or top >= grid.height or left >= grid.width:
            raise LookupError
        values = self.channels.values(request.channel)
        part = plane_of(values, request.axis, request.plane)[top : top + side, left : left + side]
        return reduced(part, request.scale).astype(part.dtype.newbyteorder("<")).tobytes()

    def runs(self, request: PlaneRequest) -> bytes:
        """Return the classes of a plane; see :func:`.encoded_planes.encoded_classes`.

        Raises:
            LookupError: if there is no such plane, annotation or suggestion.
            DataError: if a file cannot be read.
        """
        self._planes(request.axis, request.plane)
        if request.layer >= len(LAYERS):
            raise LookupError
        classes = self.classes(LAYERS[request.layer], request.finding)
        return encoded_classes(plane_of(classes, request.axis, request.plane))

    def classes(self, layer: Layer, finding: int = 0) -> Classes:
        """Return an annotation of the whole image in its grid ``(X, Y, Z)``; errors as :meth:`runs`.

        A prediction takes for every pixel the nearest one of the network's image. A suggestion is what would be
        written were it accepted: the given annotation where it changes nothing.
        """
        key = (layer, finding if layer == "suggested" else 0)
        if key not in self._layers:
            classes = self._read_layer(*key)
            suggested = [own for own in self._layers if own[0] == "suggested"]
            for old in suggested[: len(suggested) + 1 - _KEPT_SUGGESTIONS]:
                del self._layers[old]
            self._layers[key] = classes
        return self._layers[key]

    def _read_layer(self, layer: Layer, number: int) -> Classes:
        if not self.has_masks:
            raise LookupError
        if layer == "given":
            return self._in_grid(self._given)
        arrays = self._reader.arrays(self._case)
        if arrays is None:
            raise LookupError
        if layer == "predicted":
            return self._restored(arrays.prediction)
        finding = self._case.findings[number]
        if finding.id not in arrays.suggestions:
            raise LookupError
        given = self._given_in_network
        suggested = with_suggestion(given, arrays.suggestions[finding.id], finding, self._case)
        assert not isinstance(self._description, ClassificationDescription)
        files = SuggestedFiles(self._reader, self._description)
        return self._in_grid(replace(self._given, classes=files.in_file(self._case, given, suggested, self._given)))

    @cached_property
    def _given(self) -> Mask:
        assert not isinstance(self._description, ClassificationDescription)
        assert not isinstance(self._files.label, int)
        mask = read_classes(self._files.label, self._description)
        found = turned_to(mask, self.grid.affine).classes.shape
        expected = self.grid.to_file(np.empty(self.grid.extents, np.bool_)).shape
        if found != expected:
            raise DataError(f"{self._case.label}: found the shape {found}; expected that of its image, {expected}.")
        return mask

    @cached_property
    def _given_in_network(self) -> Classes:
        if isinstance(self._description, ImageDescription):
            # Without its image, which takes seconds where it is large.
            return fitted_picture_mask(self._given.classes, self._description)
        return self._reader.read(self._case.model_copy(update={"findings": ()})).given

    def _restored(self, classes: Classes) -> Classes:
        """Classes of the network's samples in the grid."""
        assert not isinstance(self._description, ClassificationDescription)
        assert not isinstance(self._files.label, int)
        restore = build_restoration(self._description, self._given.classes.shape)
        try:
            restored = restore(self._files.image, self._files.label, torch.from_numpy(classes))
        except (ValueError, RuntimeError) as error:
            raise DataError(
                f"{self._case.image}: what the audit has kept of it has the shape {classes.shape}, which does not fit "
                "the image. Audit again where files or data.yaml have changed."
            ) from error
        return self._in_grid(replace(self._given, classes=restored))

    def _in_grid(self, mask: Mask) -> Classes:
        turned: Classes = self.grid.from_file(turned_to(mask, self.grid.affine).classes)
        return turned

    @cached_property
    def _places(self) -> list[FindingPlace]:
        boxes: dict[str, tuple[int, Box]] = {}
        placed = [finding for finding in self._case.findings if finding.place is not None]
        grid = self.grid.planes_across(self.axis)
        if placed and self.has_masks:
            for group, marked in self._marked(placed):
                for finding, result in zip(group, boxes_on_planes(marked, self.axis), strict=False):
                    if result is not None:
                        boxes[finding.id] = (result[0], widened(result[1], (grid.height, grid.width)))
        first = self._first_plane
        return [
            {
                "plane": boxes[finding.id][0] if finding.id in boxes else first(),
                "box": boxes[finding.id][1] if finding.id in boxes else None,
                "hasSuggestion": self.has_masks and finding.has_suggestion and bool(self._case.arrays),
            }
            for finding in self._case.findings
        ]

    def _marked(self, findings: list[Finding]) -> list[tuple[list[Finding], Classes]]:
        """Findings in groups whose places do not meet, and these places in the grid, numbered from 1."""
        arrays = self._reader.arrays(self._case)
        shape = self._given_in_network.shape if arrays is None else arrays.prediction.shape
        groups: list[tuple[list[Finding], Classes]] = []
        for finding in findings:
            assert finding.place is not None
            for group, painted in groups:
                if len(group) < 255 and not finding.place.of(painted).any():
                    break
            else:
                group, painted = [], np.zeros(shape, np.uint8)
                groups.append((group, painted))
            group.append(finding)
            finding.place.of(painted)[...] = len(group)
        return [(group, self._restored(painted)) for group, painted in groups]

    def _first_plane(self) -> int:
        """The plane on which most is annotated."""
        if self.grid.extents[self.axis] == 1:
            return 0
        others = tuple(axis for axis in range(3) if axis != self.axis)
        return int((self.classes("given") != 0).sum(axis=others).argmax())

    def _planes(self, axis: int, plane: int) -> PlaneGrid:
        if axis not in range(3) or (axis != AXIAL and self.grid.affine is None):
            raise LookupError
        grid = self.grid.planes_across(axis)
        if not 0 <= plane < grid.planes:
            raise LookupError
        return grid

    def _axis_values(self, axis: int) -> dict[str, Any] | None:
        if axis != AXIAL and self.grid.affine is None:
            return None
        return vars(self.grid.planes_across(axis))
