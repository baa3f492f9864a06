"""Which DICOM files hold contours in place of pixels; told by their first bytes, as image readers cannot open them."""

from pathlib import Path

_STRUCTURE_SET_CLASS = b"1.2.840.10008.5.1.4.1.1.481.3"
# The class in the file's meta information: tag, type and length of two bytes before the text.
_CLASS_ELEMENT = b"\x02\x00\x02\x00UI"
_PREAMBLE, _HEAD = 128, 1024


def is_structure_set(source: Path) -> bool:
    """Return whether a file is a structure set by its meta information, or a folder whose only DICOM file is one."""
    if source.is_dir():
        files = [file for file in source.iterdir() if not file.name.startswith(".") and file.is_file()]
        dicom = [head for file in files if (head := _head(file))[_PREAMBLE : _PREAMBLE + 4] == b"DICM"]
        return len(dicom) == 1 and _says_structure_set(dicom[0])
    return _says_structure_set(_head(source))


def _head(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(_HEAD)
    except OSError:
        return b""


def _says_structure_set(head: bytes) -> bool:
    if head[_PREAMBLE : _PREAMBLE + 4] != b"DICM" or (start := head.find(_CLASS_ELEMENT)) < 0:
        return False
    start += len(_CLASS_ELEMENT) + 2
    length = int.from_bytes(head[start - 2 : start], "little")
    return head[start : start + length].rstrip(b"\0 ") == _STRUCTURE_SET_CLASS
