"""What an importer finds: cases of a data set where they lie, before they become a federation."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from ...custom.data.annotations import Annotation
from ...transforms.array_types import Labels

Section = Literal["training", "validation", "testing"]


class DrawnMask(Protocol):
    """A mask of a picture that no file holds: it is drawn from what an annotator marked."""

    @property
    def file(self) -> Path:
        """The file that says what was marked."""
        ...

    def draw(self, image: Path, size: tuple[int, int]) -> Labels:
        """Return the mask ``(H, W)``.

        Args:
            image: the picture.
            size: its rows and columns.

        Raises:
            DataError: if it cannot be drawn.
        """
        ...


GivenLabel = Path | tuple[Path, ...] | DrawnMask | int


@dataclass(frozen=True)
class SourceAnnotation:
    """An annotation of one of several annotators that an import makes into a file.

    Attributes:
        file: files with a mask of one object each, which become one mask; or a mask that is drawn.
        annotator: the name of who made it.
    """

    file: tuple[Path, ...] | DrawnMask
    annotator: str


@dataclass(frozen=True)
class LeftOut:
    """A file, an item or a row that an import leaves out.

    Attributes:
        name: what it is called.
        reason: why, in the same words for all files of one reason; what is left out is counted by it.
        text: the whole message where it says more.
    """

    name: str
    reason: str
    text: str | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}" if self.text is None else self.text


@dataclass(frozen=True)
class SourceCase:
    """One case where it lies.

    Attributes:
        image: a picture, a volume (NIfTI, NRRD, MHA, ...) or a folder with one DICOM series.
        label: the annotation: a file; several files with a mask of one object each, which become one mask; for
            classification the class index.
        clean_label: the annotation without noise where it is known, as above.
        group: the volume or patient that the case belongs to; cases of a group stay together.
        source: the centre or data set that the case comes from.
        section: the part of the data set that its publishers assign the case to, None if they do not.
        name: what its files are called in the federation, without suffix; None keeps the image's name.
        channels: the file of every channel in order, None for one that is missing; empty of an image in one file. The
            image is the first of them that is there.
        annotations: of a case with several annotators all their annotations, which are not united; `label` is then
            :data:`fedannot.custom.data.annotations.UNDECIDED`, unless the case has one of its own besides them.
        path: where its image lies below the data set's folder, with slashes; patients and centres are searched in it.
    """

    image: Path
    label: Path | tuple[Path, ...] | int
    clean_label: Path | tuple[Path, ...] | int | None = None
    group: str | None = None
    source: str | None = None
    section: Section | None = None
    name: str | None = None
    path: str | None = None
    channels: tuple[Path | None, ...] = ()
    annotations: tuple[Annotation | SourceAnnotation, ...] = ()


@dataclass(frozen=True)
class SourceDataset:
    """A data set where it lies.

    Attributes:
        name: what it is called.
        task: segmentation or classification.
        volumes: whether its images are volumes.
        cases: its cases in a reproducible order.
        classes: for segmentation the names of the classes 1, 2, …; for classification of the classes 0, 1, ….
        labels: value in a mask file → class, 0 for background; None: masks of two values explain themselves.
        channels: of pictures 1 for grey, 3 for RGB, None for RGB if one has colours; of several channels their names,
            of volumes at least their number.
        skipped: what was left out on finding it, and why; one entry for each file.
        notes: a sentence for everything that was decided on finding it.
        ignore: values in a mask file of pixels that count nowhere.
        unites_masks: several masks of an image are its objects, as its publishers say; else masks that cover each other
            are taken for several readers'.
    """

    name: str
    task: Literal["segmentation", "classification"]
    volumes: bool
    cases: tuple[SourceCase, ...]
    classes: tuple[str, ...] = ("lesion",)
    labels: dict[int, int] | None = None
    channels: int | tuple[str, ...] | None = 1
    skipped: tuple[LeftOut, ...] = field(default=())
    notes: tuple[str, ...] = ()
    unites_masks: bool = False
    ignore: tuple[int, ...] = ()
