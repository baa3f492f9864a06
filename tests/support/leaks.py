"""A search for names and pixels of patients' files in whatever a federation leaves behind.

It looks through archives and encodings, and compares arrays with images by their correlation.
"""

import base64
import binascii
import gzip
import hashlib
import io
import json
import re
import sys
import urllib.parse
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from fedannot.custom.data.site_data import load_site_data

# Bytes that are compared at once, how many places of an array, and how many different bytes make a window telling.
WINDOW, PLACES, TELLING = 64, 5, 2
# Two planes that are so alike are one image.
CORRELATION = 0.99
# How deep archives and encodings may be nested.
DEPTH = 4
_BASE64 = re.compile(rb"[A-Za-z0-9+/\r\n]{24,}={0,2}")
_LONG = 192
_ZLIB = (b"\x78\x01", b"\x78\x9c", b"\x78\xda")


@dataclass
class Needles:
    """What must not be found.

    Attributes:
        texts: ways to write a name, and whose it is.
        windows: bytes of pixels, and whose they are.
        planes: images by their size, as rows of mean 0 and length 1.
    """

    texts: dict[bytes, str] = field(default_factory=dict)
    windows: dict[bytes, str] = field(default_factory=dict)
    planes: dict[tuple[int, int], list[NDArray[np.float32]]] = field(default_factory=dict)

    @cached_property
    def beginnings(self) -> NDArray[np.uint64]:
        """The first eight bytes of all windows, once all are there."""
        return np.array([int.from_bytes(window[:8], sys.byteorder) for window in self.windows], np.uint64)

    def add_name(self, name: str) -> None:
        """Add a name, or a piece of a path, in the ways in which programs write it."""
        escaped = {json.dumps(name)[1:-1], urllib.parse.quote(name), repr(name)[1:-1], ascii(name)[1:-1]}
        codes = {name.encode(code) for code in ("utf-8", "utf-16-le", "utf-16-be")}
        for written in codes | {text.encode() for text in escaped} | {binascii.hexlify(name.encode())}:
            self.texts[written] = name

    def add_pixels(self, name: str, pixels: NDArray[Any]) -> None:
        """Add windows of an array as its bytes lie in memory."""
        content = np.ascontiguousarray(pixels).tobytes()
        self.add_bytes(name, content)

    def add_bytes(self, name: str, content: bytes) -> None:
        """Add windows of bytes, at places that are spread evenly; a constant one, of background, tells nothing."""
        result = 0
        for start in range(0, len(content) - WINDOW + 1, max(WINDOW, (len(content) - WINDOW) // (8 * PLACES))):
            window = content[start : start + WINDOW]
            if len(set(window)) >= TELLING and result < PLACES:
                self.windows[window] = name
                result += 1

    def add_planes(self, images: NDArray[np.float32]) -> None:
        """Add images ``(N, H, W)`` to be compared by their correlation."""
        for plane in images:
            if (unit := _unit(plane)) is not None:
                self.planes.setdefault((plane.shape[0], plane.shape[1]), []).append(unit)


def tell_tale(site: Path) -> list[str]:
    """Give all files of a site's data folder names that nothing else has, and return them without their suffix."""
    datalist = site / "datalist.json"
    content = json.loads(datalist.read_text(encoding="utf-8"))
    names = []
    for section in content.values():
        for case in section if isinstance(section, list) else ():
            for key, value in case.items():
                if isinstance(value, str) and (site / value).is_file():
                    file = site / value
                    stem, dot, suffix = file.name.partition(".")
                    token = hashlib.sha256(f"{site.name} {value}".encode()).hexdigest()[:12]
                    renamed = file.with_name(f"Weiß-{stem}-{token}{dot}{suffix}")
                    file.rename(renamed)
                    case[key] = str(renamed.relative_to(site))
                    names += [f"{stem}-{token}", renamed.name]
    datalist.write_text(json.dumps(content), encoding="utf-8")
    return names


def needles_of(folders: Mapping[str, str], data: Path, cache: Path) -> Needles:
    """Return what is searched for of the data of participants.

    Args:
        folders: by folder in ``data`` the section of its datalist.
        data: the federation's folder, whose own name counts, too.
        cache: folder for decoded images.
    """
    needles = Needles()
    needles.add_name(data.name)
    for name, section in folders.items():
        datalist = json.loads((data / name / "datalist.json").read_text(encoding="utf-8"))
        for case in datalist[section]:
            for value in case.values():
                if isinstance(value, str) and (file := data / name / value).is_file():
                    _add_file(needles, file)
        for loaded in load_site_data(data / name, cache, section=section, site=name).cases:
            image, label = loaded.image.numpy(), loaded.label.numpy()
            for pixels in (image, image.astype(np.float16), image.astype(np.float64)):
                needles.add_pixels(f"prepared {loaded.name}", pixels)
            if label.ndim > 1:
                for kind in (np.uint8, np.float32, np.int64):
                    needles.add_pixels(f"mask of {loaded.name}", label.astype(kind))
            needles.add_planes(image.reshape(-1, *image.shape[2:4]) if image.ndim == 4 else image[:, 0, :, :, 0])
    return needles


def _add_file(needles: Needles, file: Path) -> None:
    """Its name, its bytes, and its pixels as they were given."""
    stem = file.name.partition(".")[0].removeprefix("Weiß-")
    needles.add_name(stem)
    needles.add_name(file.name)
    needles.add_bytes(f"file {file.name}", file.read_bytes())
    try:
        with Image.open(file) as image:
            needles.add_pixels(f"pixels of {file.name}", np.asarray(image))
    except OSError:
        return


def leaks_in(folder: Path, needles: Needles, skip: Collection[str] = ()) -> list[str]:
    """Return which files below a folder hold what must not be there: the file, where in it, and what.

    Args:
        folder: where to look, at any depth; links are not followed.
        needles: what is searched for.
        skip: names of entries of the folder that are left out.
    """
    result = []
    for file in sorted(folder.rglob("*")):
        place = file.relative_to(folder)
        if place.parts[0] in skip or file.is_symlink():
            continue
        result += [f"{place}: its name is that of {name}" for name in _texts(str(place).encode(), needles)]
        if file.is_file():
            result += [f"{place}{where}" for where in _leaks(file.read_bytes(), needles, DEPTH)]
    return result


def _texts(content: bytes, needles: Needles) -> set[str]:
    return {name for text, name in needles.texts.items() if text in content}


def _leaks(content: bytes, needles: Needles, depth: int) -> Iterator[str]:
    for name in sorted(_texts(content, needles)):
        yield f": the name {name}"
    for name in sorted(_pixels(content, needles)):
        yield f": {name}"
    for array in _arrays(content):
        if _shows(array, needles):
            yield ": an array that is an image"
    if depth:
        for how, inner in _unpacked(content):
            yield from (f" > {how}{where}" for where in _leaks(inner, needles, depth - 1))


def _pixels(content: bytes, needles: Needles) -> set[str]:
    """Whose windows are somewhere in bytes: looked up by how they begin, then compared."""
    result = set()
    for start in range(min(8, max(len(content) - 7, 0))):
        words = np.frombuffer(content, np.uint64, (len(content) - start) // 8, start)
        for index in np.flatnonzero(np.isin(words, needles.beginnings)):
            place = start + 8 * int(index)
            if (name := needles.windows.get(content[place : place + WINDOW])) is not None:
                result.add(name)
    return result


def _unpacked(content: bytes) -> Iterator[tuple[str, bytes]]:
    """What may be packed in bytes: archives, compressed streams, base64."""
    if zipfile.is_zipfile(io.BytesIO(content)):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.infolist():
                yield "a name in it", member.filename.encode()
                yield f"{member.filename}", archive.read(member)
    for magic, unpack in ((b"\x1f\x8b", gzip.decompress), *((start, zlib.decompress) for start in _ZLIB)):
        if content.startswith(magic):
            try:
                yield "compressed", unpack(content)
            except (OSError, EOFError, zlib.error):
                continue
    runs = [re.sub(rb"[\r\n=]", b"", run) for run in _BASE64.findall(content)]
    for shift in range(4):
        parts = [base64.b64decode(run[shift : shift + (len(run) - shift) // 4 * 4]) for run in runs]
        # A log has thousands of short ones, paths among them; an archive is long.
        yield from (("base64", part) for part in parts if len(part) > _LONG)
        if short := b"\n".join(part for part in parts if len(part) <= _LONG):
            yield "base64", short


def _arrays(content: bytes) -> Iterator[NDArray[Any]]:
    """The arrays that a file of NumPy, PyTorch or an image holds."""
    stream = io.BytesIO(content)
    if content.startswith(b"\x93NUMPY"):
        yield np.load(stream, allow_pickle=False)
    elif content.startswith(b"PK"):
        try:
            yield from _tensors(torch.load(stream, map_location="cpu", weights_only=True))
        except Exception:
            return
    else:
        try:
            with Image.open(stream) as image:
                yield np.asarray(image.convert("L"))
        except Exception:
            return


def _tensors(value: Any) -> Iterator[NDArray[Any]]:
    if isinstance(value, torch.Tensor):
        yield value.detach().to(torch.float64).numpy()
    elif isinstance(value, dict):
        for entry in value.values():
            yield from _tensors(entry)
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from _tensors(entry)


def _shows(array: NDArray[Any], needles: Needles) -> bool:
    """Whether a plane of an array is one of the images, in whatever scale."""
    if array.ndim < 2 or array.dtype.kind not in "biuf":
        return False
    known = needles.planes.get((array.shape[-2], array.shape[-1]))
    if not known:
        return False
    table = np.stack(known)
    for plane in array.reshape(-1, *array.shape[-2:]).astype(np.float32):
        unit = _unit(plane)
        if unit is not None and float(np.abs(table @ unit).max()) > CORRELATION:
            return True
    return False


def _unit(plane: NDArray[Any]) -> NDArray[np.float32] | None:
    flat = np.asarray(plane, dtype=np.float32).ravel()
    flat = flat - flat.mean()
    length = float(np.linalg.norm(flat))
    return None if length == 0 else (flat / length).astype(np.float32)
