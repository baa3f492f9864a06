"""What tells DICOM files apart, and what their headers say; no pixel is read."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

DICOM_SUFFIX = ".dcm"

_PREAMBLE = 128
_SERIES, _FRAME_OF_REFERENCE = "0020|000e", "0020|0052"
_CLASS, _FRAMES, _POSITION, _ORIENTATION = "0008|0016", "0028|0008", "0020|0032", "0020|0037"
_THICKNESS = "0018|0050"
# Of a pixel in the patient, or on the detector.
_PIXEL_SPACINGS = "0028|0030", "0018|1164"
_SEGMENTATION_CLASS = "1.2.840.10008.5.1.4.1.1.66.4"


@dataclass(frozen=True)
class SeriesIdentity:
    """What identifies a series; empty where its files do not say it.

    Attributes:
        series: its UID.
        frame_of_reference: UID of the frame that its places are in.
    """

    series: str
    frame_of_reference: str


class DicomHeader:
    """What the header of a DICOM file says; its pixels are not read.

    Args:
        file: the file.

    Raises:
        RuntimeError: if SimpleITK cannot read it.
    """

    def __init__(self, file: Path | str) -> None:
        import SimpleITK  # noqa: PLC0415

        self.file = Path(file)
        self.reader = SimpleITK.ImageFileReader()
        self.reader.SetFileName(str(file))
        self.reader.SetImageIO("GDCMImageIO")
        self.reader.ReadImageInformation()

    def _text(self, tag: str) -> str:
        return str(self.reader.GetMetaData(tag)).strip("\0 \t\r\n") if self.reader.HasMetaDataKey(tag) else ""

    @property
    def frames(self) -> int:
        """Number of its frames; 1 where the file says none."""
        text = self._text(_FRAMES)
        return int(text) if text.isdecimal() else 1

    @property
    def is_segmentation(self) -> bool:
        """Whether it is a DICOM segmentation."""
        return self._text(_CLASS) == _SEGMENTATION_CLASS

    @property
    def has_frames(self) -> bool:
        """Whether its frames have places of their own."""
        return self.frames > 1 or self.is_segmentation

    @property
    def identity(self) -> SeriesIdentity:
        """The series that the file belongs to."""
        return SeriesIdentity(self._text(_SERIES), self._text(_FRAME_OF_REFERENCE))

    @property
    def voxels(self) -> int:
        """Number of its voxels."""
        return math.prod(self.reader.GetSize())

    @property
    def position(self) -> list[float] | None:
        """Where the first pixel lies, None where the file does not say it in three numbers."""
        return self._numbers(_POSITION, 3)

    @property
    def orientation(self) -> list[float] | None:
        """How rows and columns run, six numbers, None where the file does not say it."""
        return self._numbers(_ORIENTATION, 6)

    @property
    def pixel_spacing(self) -> list[float] | None:
        """Size of a pixel, two numbers above 0, None where the file does not say it."""
        known = (self._numbers(tag, 2) for tag in _PIXEL_SPACINGS)
        return next((spacing for spacing in known if spacing is not None and min(spacing) > 0), None)

    @property
    def slice_thickness(self) -> float | None:
        """How thick the slice is, above 0, None where the file does not say it."""
        thickness = self._numbers(_THICKNESS, 1)
        return thickness[0] if thickness is not None and thickness[0] > 0 else None

    def _numbers(self, tag: str, count: int) -> list[float] | None:
        try:
            numbers = [float(part) for part in self._text(tag).split("\\")]
        except ValueError:
            return None
        return numbers if len(numbers) == count and all(map(math.isfinite, numbers)) else None


def is_dicom_series(folder: Path) -> bool:
    """Return whether a folder holds a DICOM file; a README or the like may lie next to it."""
    return folder.is_dir() and bool(dicom_files([file for file in folder.iterdir() if not file.name.startswith(".")]))


def is_dicom(source: Path) -> bool:
    """Return whether an image is a DICOM file, by its suffix, or a folder with a series."""
    return source.is_dir() or source.name.lower().endswith(DICOM_SUFFIX)


def dicom_files(files: Iterable[Path]) -> set[Path]:
    """Return the DICOM files among others, by their first bytes."""
    return {file for file in files if file.is_file() and _begins_as_dicom(file)}


def is_dicom_picture(file: Path) -> bool:
    """Return whether a file is DICOM, by its suffix, with one frame; one that cannot be read is, too."""
    if not file.name.lower().endswith(DICOM_SUFFIX):
        return False
    try:
        return not DicomHeader(file).has_frames
    except RuntimeError:
        return True


def has_one_frame(file: Path) -> bool:
    """Return whether a DICOM file of any suffix can be read and has one frame, as a slice or an X-ray has."""
    try:
        return not DicomHeader(file).has_frames
    except RuntimeError:
        return False


def stands_alone(file: Path) -> bool:
    """Return whether a DICOM file is an image of its own: it has frames, or no place among the slices of a series.

    One that cannot be read is none.
    """
    if not file.name.lower().endswith(DICOM_SUFFIX):
        return False
    try:
        header = DicomHeader(file)
    except RuntimeError:
        return False
    return header.has_frames or header.position is None


def _begins_as_dicom(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            return stream.read(_PREAMBLE + 4)[_PREAMBLE:] == b"DICM"
    except OSError:
        return False
