"""What an importer finds: cases of a data set where they lie, before they become a federation."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Section = Literal["training", "validation", "testing"]


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
    """

    image: Path
    label: Path | tuple[Path, ...] | int
    clean_label: Path | tuple[Path, ...] | int | None = None
    group: str | None = None
    source: str | None = None
    section: Section | None = None
    name: str | None = None


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
        channels: 1 for grey, 3 for RGB; None for RGB if a picture has colours.
        skipped: what was left out on finding it, and why; one text for each file, with its name.
    """

    name: str
    task: Literal["segmentation", "classification"]
    volumes: bool
    cases: tuple[SourceCase, ...]
    classes: tuple[str, ...] = ("lesion",)
    labels: dict[int, int] | None = None
    channels: Literal[1, 3] | None = 1
    skipped: tuple[str, ...] = field(default=())
