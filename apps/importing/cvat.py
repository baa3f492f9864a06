"""Exports of CVAT as masks: "CVAT for images 1.1" with polygons and masks, and "Segmentation mask 1.1" with colours.

An export is a folder, an ``.xml`` file or a ``.zip`` file. An archive is read part by part and never unpacked by its
names. What a part may hold is bounded before it is read, and XML with a document type, which entities need, is refused.
"""

import math
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any
from xml.parsers import expat

import numpy as np

from ...custom.data.whole_files import private_file
from ...transforms.array_types import Booleans, Classes
from ...transforms.errors import DataError, shown
from ...transforms.folded_names import folded
from ...transforms.loading.image_files import read_colours
from ...transforms.printable import printable
from .polygons import pixels_inside

ANNOTATIONS, LABEL_MAP, MASK_FOLDER = "annotations.xml", "labelmap.txt", "SegmentationClass"
# Of the whole XML; of one mask as a file; of the names in an archive.
MOST_BYTES, MOST_MASK_BYTES, MOST_PARTS = 2**28, 2**27, 2**18
# Pixels of an image: 65,536 in each direction at most.
_MOST_PIXELS = 2**30
_BACKGROUND = "background"
_SHAPES = ("polygon", "mask")
# These say something of an image and draw nothing.
_NO_SHAPES = ("tag", "attribute")


@dataclass(frozen=True)
class CvatImage:
    """An image of an export, by its name in it.

    Attributes:
        name: path of the image with slashes; of colour masks without its suffix.
        source: where it comes from, to name in an error.
        shapes: attributes of its polygons and masks, by kind.
        size: rows and columns that the export says; None of colour masks.
        member: of colour masks the part with the mask.
        colours: of colour masks the label of each colour.
    """

    name: str
    source: str
    shapes: tuple[tuple[str, Mapping[str, str]], ...] = ()
    size: tuple[int, int] | None = None
    member: "Member | None" = None
    colours: Mapping[int, str] | None = None

    def classes(self, numbers: Mapping[str, int]) -> Classes | None:
        """Return the mask ``(H, W)``, uint8; None where nothing is drawn, which says no more than that.

        A pixel belongs to a polygon if its centre lies inside. Where shapes cover each other the one with the larger
        ``z_order`` counts, of equal ones the later, as in CVAT.

        Args:
            numbers: class of each label, 0 for background; names by :func:`.folded_names.folded`.

        Raises:
            DataError: if a label is none of these, or a shape or the mask's file cannot be used.
        """
        if self.member is not None:
            return self._of_colours(numbers)
        if not self.shapes or self.size is None:
            return None
        result = np.zeros(self.size, dtype=np.uint8)
        for kind, values in sorted(self.shapes, key=lambda shape: self._number(shape[1], "z_order", 0.0)):
            label = self._class_of(values.get("label", ""), numbers)
            draw = self._polygon if kind == "polygon" else self._mask
            rows, columns, where = draw(values, self.size)
            result[rows, columns][where] = label
        return result

    def is_annotated(self, numbers: Mapping[str, int]) -> bool:
        """Return whether anything is drawn; an image without it may be one that nobody has looked at.

        Raises:
            DataError: as :meth:`classes`, of colour masks.
        """
        return bool(self.shapes) if self.member is None else self.classes(numbers) is not None

    def _of_colours(self, numbers: Mapping[str, int]) -> Classes | None:
        assert self.member is not None
        assert self.colours is not None
        with self.member.as_file() as file:
            try:
                found = read_colours(file)
            except DataError as error:
                raise DataError(str(error).replace(str(file), self.source)) from error
        result = np.zeros(found.shape, dtype=np.uint8)
        for colour in np.unique(found).tolist():
            name = self.colours.get(colour)
            if name is None and colour:
                raise DataError(
                    f"{self.source}: found the colour #{colour:06x}; expected those of {LABEL_MAP}: "
                    f"{', '.join(f'#{one:06x}' for one in self.colours)}."
                )
            result[found == colour] = 0 if name in (None, _BACKGROUND) else self._class_of(str(name), numbers)
        return result if result.any() else None

    def _class_of(self, label: str, numbers: Mapping[str, int]) -> int:
        if (number := numbers.get(folded(label))) is None:
            names = ", ".join(map(repr, numbers))
            raise DataError(f"{self.source}: found the label {printable(label)!r}; expected one of {names}.")
        return number

    def _polygon(self, values: Mapping[str, str], size: tuple[int, int]) -> tuple[slice, slice, Booleans]:
        """The rows and columns that a polygon lies in, and which of their pixels belong to it."""
        text = values.get("points", "")
        try:
            points = np.array([[float(part) for part in point.split(",")] for point in text.split(";")])
        except ValueError:
            points = np.zeros(0)
        if points.ndim != 2 or points.shape[1] != 2 or len(points) < 3 or not np.isfinite(points).all():
            raise self._unusable("polygon", f"the points {shown(text)}", "three and more as 'x,y;x,y'")
        return pixels_inside(points[:, ::-1], size)

    def _mask(self, values: Mapping[str, str], size: tuple[int, int]) -> tuple[slice, slice, Booleans]:
        """As above of a mask: lengths of runs along rows, of pixels that do not belong to it first."""
        box = [self._number(values, key) for key in ("left", "top", "width", "height")]
        left, top, width, height = map(int, box)
        if box != [left, top, width, height] or not (
            0 <= left <= left + width <= size[1] and 0 <= top <= top + height <= size[0]
        ):
            raise self._unusable(
                "mask", f"{box[2]:g} × {box[3]:g} pixels from ({box[0]:g}, {box[1]:g})", "a box in the image"
            )
        text = values.get("rle", "")
        try:
            runs = np.array([int(part) for part in text.split(",")], dtype=np.int64)
        except (ValueError, OverflowError):
            runs = np.full(1, -1)
        if (runs < 0).any() or (runs > width * height).any() or runs.sum() != width * height:
            raise self._unusable("mask", f"the runs {shown(text)}", f"lengths that are {width * height} in all")
        belongs = np.repeat(np.arange(len(runs)) % 2 == 1, runs).reshape(height, width)
        return slice(top, top + height), slice(left, left + width), belongs

    def _number(self, values: Mapping[str, str], key: str, default: float | None = None) -> float:
        try:
            number = float(values[key]) if default is None or key in values else default
        except (KeyError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise self._unusable("shape", f"{key!r} as {shown(values.get(key))}", "a number")
        return number

    def _unusable(self, kind: str, found: str, expected: str) -> DataError:
        return DataError(f"{self.source}: found a {kind} with {found}; expected {expected}. Export it again from CVAT.")


@dataclass(frozen=True)
class Member:
    """A part of an export: a file in a folder, or of an archive."""

    source: Path
    name: str

    @property
    def shown(self) -> str:
        """How an error calls it."""
        return f"{self.source}: {printable(self.name)}"

    @contextmanager
    def opened(self, most: int) -> Iterator[IO[bytes]]:
        """Open it to read.

        Raises:
            DataError: if it cannot be read, or holds more bytes than these.
        """
        try:
            if self.source.is_file() and self.source.suffix.lower() == ".zip":
                with zipfile.ZipFile(self.source) as archive, archive.open(self.name) as stream:
                    # More than the size that a part names is never unpacked.
                    self._check_size(archive.getinfo(self.name).file_size, most)
                    yield stream
                return
            file = self.source if self.source.is_file() else self.source / self.name
            with file.open("rb") as stream:
                self._check_size(file.stat().st_size, most)
                yield stream
        except (
            zipfile.BadZipFile,
            OSError,
            RuntimeError,
            NotImplementedError,
            EOFError,
            KeyError,
            zlib.error,
        ) as error:
            raise DataError(f"{self.shown}: cannot be read ({error}); expected an export of CVAT.") from error

    @contextmanager
    def as_file(self) -> Iterator[Path]:
        """Give a private file with its content, whose name has nothing of the part's, for as long as it is used."""
        with tempfile.TemporaryDirectory() as folder, self.opened(MOST_MASK_BYTES) as stream:
            file = Path(folder) / "mask.png"
            private_file(file).write_bytes(stream.read(MOST_MASK_BYTES))
            yield file

    def _check_size(self, size: int, most: int) -> None:
        if size > most:
            raise DataError(f"{self.shown}: found {size} bytes; expected at most {most}.")


def is_cvat_export(source: Path) -> bool:
    """Return whether a path is, by its name or what lies in it, an export of CVAT."""
    if source.is_dir():
        return (source / ANNOTATIONS).is_file() or (source / LABEL_MAP).is_file()
    return source.is_file() and source.suffix.lower() in (".zip", ".xml")


def read_cvat(source: Path) -> list[CvatImage]:
    """Read the images of an export; no mask is drawn yet.

    Raises:
        DataError: if it is no such export, or cannot be read.
    """
    if source.is_file() and source.suffix.lower() == ".xml":
        return _read_xml(Member(source, source.name))
    names = _names(source)
    if ANNOTATIONS in names:
        return _read_xml(Member(source, ANNOTATIONS))
    if LABEL_MAP in names:
        return _read_masks(source, names)
    raise DataError(
        f"{source}: found neither {ANNOTATIONS} nor {LABEL_MAP}; expected an export of CVAT as 'CVAT for images 1.1' "
        "or 'Segmentation mask 1.1'."
    )


def _names(source: Path) -> list[str]:
    """The parts of an export by their names, with slashes."""
    if source.is_dir():
        files = (
            file for file in source.rglob("*") if file.is_file() and file.resolve().is_relative_to(source.resolve())
        )
        return sorted(file.relative_to(source).as_posix() for file in files)
    try:
        with zipfile.ZipFile(source) as archive:
            names = [part.filename for part in archive.infolist() if not part.is_dir()]
    except (zipfile.BadZipFile, OSError) as error:
        raise DataError(f"{source}: cannot be read as .zip ({error}); expected an export of CVAT.") from error
    if len(names) > MOST_PARTS or len(set(names)) != len(names):
        raise DataError(
            f"{source}: found {len(names)} parts, some of one name or too many; expected an export of CVAT."
        )
    return names


def _read_masks(source: Path, names: list[str]) -> list[CvatImage]:
    colours = _read_label_map(Member(source, LABEL_MAP))
    images = []
    for name in sorted(names):
        path = PurePosixPath(name)
        if path.parts[:1] == (MASK_FOLDER,) and path.suffix.lower() == ".png":
            member = Member(source, name)
            inside = path.relative_to(MASK_FOLDER).with_suffix("").as_posix()
            images.append(CvatImage(inside, member.shown, member=member, colours=colours))
    if not images:
        raise DataError(f"{source}: found no PNG in {MASK_FOLDER}; expected the masks of 'Segmentation mask 1.1'.")
    return images


def _read_label_map(member: Member) -> dict[int, str]:
    with member.opened(2**20) as stream:
        text = stream.read().decode("utf-8", "replace")
    result: dict[int, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("#"):
            continue
        name, _, rest = line.partition(":")
        numbers = rest.partition(":")[0].split(",")
        if len(numbers) != 3 or not all(part.strip().isdecimal() and int(part) < 256 for part in numbers):
            raise DataError(f"{member.shown}: found the line {shown(line)}; expected 'label:red,green,blue::'.")
        red, green, blue = map(int, numbers)
        colour = red * 2**16 + green * 2**8 + blue
        if result.setdefault(colour, name) != name:
            raise DataError(f"{member.shown}: found one colour for {result[colour]!r} and {name!r}; expected two.")
    return result


def _read_xml(member: Member) -> list[CvatImage]:
    """The images of an XML file, read as a stream."""
    content = _XmlContent(member)
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = content.refuse_document_type
    parser.StartElementHandler = content.start
    parser.EndElementHandler = content.end
    try:
        with member.opened(MOST_BYTES) as stream:
            parser.ParseFile(stream)
    except (expat.ExpatError, ValueError, LookupError) as error:
        # Of encodings that Python or the parser does not know these are other errors than of the parser.
        raise DataError(f"{member.shown}: is not XML ({error}); expected 'CVAT for images 1.1'.") from error
    if not content.images:
        raise DataError(f"{member.shown}: found no image; expected 'CVAT for images 1.1'.")
    return content.images


class _XmlContent:
    """Collects the images of an XML file while it is read."""

    def __init__(self, member: Member) -> None:
        self.images: list[CvatImage] = []
        self._member = member
        self._image: dict[str, str] | None = None
        self._shapes: list[tuple[str, Mapping[str, str]]] = []

    def refuse_document_type(self, *_: Any) -> None:
        """Refuse entities, which can name other files and can stand for more text than memory holds."""
        raise DataError(f"{self._member.shown}: declares a document type; expected an export of CVAT, which has none.")

    def start(self, name: str, values: dict[str, str]) -> None:
        """Take an element that begins."""
        if name == "track":
            raise DataError(
                f"{self._member.shown}: found tracks of a video; expected images. Export as 'CVAT for images 1.1'."
            )
        if name == "image" and self._image is None:
            self._image, self._shapes = values, []
        elif self._image is not None and name in _SHAPES:
            self._shapes.append((name, values))
        elif self._image is not None and name not in _NO_SHAPES:
            image = printable(self._image.get("name", ""))
            raise DataError(
                f"{self._member.shown}: found a {printable(name)!r} in the image {image!r}; expected polygons and "
                "masks. Convert it, or remove it."
            )

    def end(self, name: str) -> None:
        """Take an element that ends."""
        if name != "image" or self._image is None:
            return
        title, self_size = self._image.get("name", ""), (self._image.get("height", ""), self._image.get("width", ""))
        # No image is longer than a number of six digits says.
        if not all(text.isdecimal() and text.isascii() and len(text) < 7 for text in self_size):
            raise DataError(f"{self._member.shown}: found the image {printable(title)!r} without a size; expected one.")
        size = (int(self_size[0]), int(self_size[1]))
        if not title or size[0] * size[1] > _MOST_PIXELS:
            raise DataError(f"{self._member.shown}: found an image of {size} pixels, or without a name; expected both.")
        source = f"{self._member.shown}: image {printable(title)}"
        self.images.append(CvatImage(title, source, tuple(self._shapes), size))
        self._image = None
