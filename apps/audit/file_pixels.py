"""A case in the pixels of its own files: the image in tiles, and the annotations on its planes."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypedDict

import numpy as np
import torch
from PIL import Image

from ...custom.audit.findings import AuditedCase, Finding
from ...custom.data.description import (
    ClassificationDescription,
    ImageDescription,
    SliceDescription,
    VolumeDescription,
)
from ...custom.data.masks import Mask, annotated_axis, read_classes, turned_to
from ...custom.data.preparation import build_restoration, fitted_picture_mask
from ...transforms.array_types import Array, Classes
from ...transforms.errors import DataError
from ...transforms.loading.image_channels import reference_file
from ...transforms.loading.image_files import read_displayed
from .case_files import CaseReader, with_suggestion
from .case_pictures import CROP_SIDE, Box, crop_picture, square_around, widened
from .file_grid import AXIAL, FileGrid, PlaneGrid, boxes_on_planes, picture_grid, plane_of, volume_grid
from .suggested_files import SuggestedFiles

Layer = Literal["given", "predicted", "suggested"]

_LAYERS: tuple[Layer, ...] = ("given", "predicted", "suggested")
_KEPT_SUGGESTIONS = 4
TILE = 512
MAX_SCALE = 64
_SAMPLED = 2**20
# Darkest and brightest hundredth, as everywhere in the page.
_QUANTILES = (0.01, 0.99)
_CT_AIR, _CT_BONE = -500, 500
_CT_PRESETS = (("Soft tissue", -160, 240), ("Lung", -1350, 150), ("Bone", -500, 1300), ("Brain", 0, 80))
_LONGEST_RUN = 2**24 - 1
_TYPES = ("uint8", "int16", "uint16")


class Preset(TypedDict):
    """A window by its name: what is black, and what is white."""

    name: str
    low: float
    high: float


class FindingPlace(TypedDict):
    """Where a finding is in the planes that are shown first."""

    plane: int
    box: Box | None
    hasSuggestion: bool


class CaseDescription(TypedDict):
    """What the page needs before it asks for pixels."""

    shown: str
    version: str
    axis: int
    axes: list[dict[str, Any] | None]
    plane: int
    type: str
    colours: bool
    window: tuple[float, float]
    range: tuple[float, float]
    presets: list[Preset]
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
    """

    axis: int
    plane: int
    scale: int
    row: int
    column: int


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
        self.grid, values = self._read_image()
        self.values = self.grid.from_file(_in_small_type(values))
        self._layers: dict[tuple[Layer, int], Classes] = {}

    @property
    def nbytes(self) -> int:
        """What it holds in memory."""
        return self.values.nbytes + sum(layer.nbytes for layer in self._layers.values())

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
        low, high = float(self.values.min()), float(self.values.max())
        return {
            "shown": shown,
            "version": self.version,
            "axis": self.axis,
            "axes": [self._axis_values(axis) for axis in range(3)],
            "plane": self._first_plane(),
            "type": self.values.dtype.name,
            "colours": self.values.ndim == 4,
            "window": self._shown_window(),
            "range": (low, high),
            "presets": self._presets(low, high),
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
        part = plane_of(self.values, self.axis, place["plane"])[top:bottom, left:right]
        low, high = self._shown_window()
        levels = 255 * ((_reduced(part, step).astype(np.float32) - low) / max(high - low, 1e-6)).clip(0, 1)
        classes = None
        if self.has_masks:
            given = plane_of(self.classes("given"), self.axis, place["plane"])[top:bottom, left:right]
            classes = given[step // 2 :: step, step // 2 :: step]
            levels = levels[: classes.shape[0], : classes.shape[1]]
        return crop_picture(levels.round().astype(np.uint8), classes)

    def tile(self, request: TileRequest) -> bytes:
        """Return a tile: the rows of its values, little-endian; of colours three bytes a pixel.

        Raises:
            LookupError: if there is no such tile.
        """
        grid = self._planes(request.axis, request.plane)
        side = TILE * request.scale
        top, left = request.row * side, request.column * side
        scales = [2**power for power in range(MAX_SCALE.bit_length())]
        if request.scale not in scales or top >= grid.height or left >= grid.width:
            raise LookupError
        part = plane_of(self.values, request.axis, request.plane)[top : top + side, left : left + side]
        return _reduced(part, request.scale).astype(part.dtype.newbyteorder("<")).tobytes()

    def runs(self, request: PlaneRequest) -> bytes:
        """Return the classes of a plane; see :func:`encoded_classes`.

        Raises:
            LookupError: if there is no such plane, annotation or suggestion.
            DataError: if a file cannot be read.
        """
        self._planes(request.axis, request.plane)
        if request.layer >= len(_LAYERS):
            raise LookupError
        classes = self.classes(_LAYERS[request.layer], request.finding)
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

    def _read_image(self) -> tuple[FileGrid, Array]:
        file = reference_file(self._files.image_files)
        if isinstance(self._description, SliceDescription | VolumeDescription):
            from ...transforms.loading.volume_files import read_first_channel  # noqa: PLC0415

            volume = read_first_channel(file)
            assert volume.placement is not None
            return volume_grid(volume.voxels.shape, volume.placement), volume.voxels
        values = read_displayed(file, self._description.shown_channels)
        return picture_grid(*values.shape[:2]), values

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

    def _shown_window(self) -> tuple[float, float]:
        """What is black and what is white at first; colours stay as they are."""
        if self.values.ndim == 4:
            return 0.0, 255.0
        own = getattr(self._description, "window", None)
        if own is not None:
            return float(own[0]), float(own[1])
        step = max(1, round((self.values.size / _SAMPLED) ** 0.5))
        first, last = (float(value) for value in np.quantile(self.values[::step, ::step], _QUANTILES))
        return first, max(last, first + 1)

    def _presets(self, low: float, high: float) -> list[Preset]:
        """Windows of CT where the image is one by its intensities, which no other kind has."""
        is_ct = self.grid.affine is not None and low <= _CT_AIR and high >= _CT_BONE
        return [{"name": name, "low": start, "high": stop} for name, start, stop in _CT_PRESETS] if is_ct else []


def encoded_classes(plane: Classes) -> bytes:
    """Return the classes of a plane, in whichever form is shorter; all numbers are little-endian.

    Returns:
        The number 1 in four bytes, and four bytes for each run over the rows, the class in the highest of them and the
        length in the others; or the number 0 in four bytes, and one byte for each pixel.
    """
    flat = plane.ravel()
    starts = np.concatenate([[0], np.flatnonzero(flat[1:] != flat[:-1]) + 1])
    lengths = np.diff(np.concatenate([starts, [flat.size]]))
    classes = flat[starts].astype(np.uint32)
    pieces = -(-lengths // _LONGEST_RUN)
    if 4 * int(pieces.sum()) >= flat.size:
        return bytes(4) + flat.tobytes()
    if (pieces > 1).any():
        ends = np.cumsum(pieces) - 1
        last = lengths - (pieces - 1) * _LONGEST_RUN
        lengths = np.full(int(pieces.sum()), _LONGEST_RUN)
        lengths[ends] = last
        classes = np.repeat(classes, pieces)
    runs = (classes << np.uint32(24)) | lengths.astype(np.uint32)
    return np.concatenate([np.array([1], np.uint32), runs]).astype("<u4").tobytes()


def _in_small_type(values: Array) -> Array:
    """Whole numbers in the smallest type of up to 16 bits that holds them, where one does; else float32."""
    if values.dtype == np.uint8:
        return values
    low, high = float(values.min()), float(values.max())
    if values.dtype.kind in "iu" or bool((np.rint(values) == values).all()):
        for name in _TYPES:
            if np.iinfo(name).min <= low and high <= np.iinfo(name).max:
                return values.astype(name)
    return values.astype(np.float32)


def _reduced(part: Array, scale: int) -> Array:
    """The means of squares of pixels, smaller ones at the end; whole numbers are rounded."""
    if scale == 1:
        return np.ascontiguousarray(part)
    if part.dtype == np.uint8:
        return np.asarray(Image.fromarray(np.ascontiguousarray(part)).reduce(scale))
    means = np.asarray(Image.fromarray(part.astype(np.float32)).reduce(scale))
    return means if part.dtype.kind == "f" else np.rint(means).astype(part.dtype)
