"""What a check keeps of a site's cases: a few numbers of each, no pixels."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...custom.data.datalist import TRAINING, Case, ExcludedCase
from ...custom.data.description import AnyDescription, ClassificationDescription, SegmentationDescription
from .finding import Finding, Severity
from .layout import MaskLayout


@dataclass(frozen=True)
class ImageFacts:
    """What is kept of an image.

    Attributes:
        shape: ``(C, H, W)``, or ``(I, J, K)`` of a volume, as it lies in the file of its first channel.
        spacing: size of a voxel along the file's axes in millimetres, None of a picture.
        orientation: directions in which the file's axes grow, such as ``LPS``, None of a picture.
        voxel_type: the type of the values on disk, such as ``uint8``; of a picture Pillow's mode.
        minimum: smallest intensity, of volumes that of the first channel, as the next ones.
        maximum: largest intensity.
        mean: of the intensities.
        deviation: standard deviation of the intensities.
        percentiles: 1st, 50th and 99th percentile of the intensities.
        digest: SHA-256 of shape and intensities of all channels as decoded.
        has_colours: whether a picture shows colours.
        is_turned_by_exif: whether EXIF says that a picture is shown otherwise than it is stored.
        empty_channels: numbers, from 0, of channels that have one intensity everywhere; empty of an image in which all
            do, and of one with a single channel.
        covered: channel → fraction of the first one's voxels that it covers, of channels that lack some.
    """

    shape: tuple[int, ...]
    spacing: tuple[float, ...] | None
    orientation: str | None
    voxel_type: str
    minimum: float
    maximum: float
    mean: float
    deviation: float
    percentiles: tuple[float, float, float]
    digest: str
    has_colours: bool = False
    is_turned_by_exif: bool = False
    empty_channels: tuple[int, ...] = ()
    covered: Mapping[int, float] = field(default_factory=dict)

    @property
    def is_constant(self) -> bool:
        """Whether all intensities are the same."""
        return self.minimum == self.maximum


@dataclass(frozen=True)
class AnnotationFacts:
    """What is kept of a case's annotation.

    Attributes:
        areas: foreground class → pixels or voxels, present classes only; for classification the case's class → 1.
        digest: SHA-256 of shape and classes; for classification the class.
        share_kept: fraction of the foreground that is left after the pipeline's crop, 1 where nothing is cropped.
        layout: where the foreground lies, None for classification.
        ignored: fraction of the pixels that are ignored.
    """

    areas: Mapping[int, int]
    digest: str
    share_kept: float = 1.0
    layout: MaskLayout | None = None
    ignored: float = 0.0


@dataclass(frozen=True)
class CaseFacts:
    """What is kept of a case.

    Attributes:
        section: the list of the datalist that it stands in.
        case: where its files lie.
        name: the image, relative to the site's folder.
        label: the mask, as above; None for classification.
        image: None if the image cannot be used.
        annotation: None if the annotation cannot be used.
        problems: what is wrong with its files; an error of one keeps the case from training.
    """

    section: str
    case: Case
    name: str
    label: str | None
    image: ImageFacts | None
    annotation: AnnotationFacts | None
    problems: tuple[Finding, ...]

    @property
    def is_usable(self) -> bool:
        """Whether training takes the case, in agreement with `load_site_data`."""
        return not any(problem.severity == Severity.ERROR for problem in self.problems)

    @property
    def group(self) -> tuple[str | None, str] | None:
        """Source and volume or patient, None where the datalist does not give the latter."""
        return None if self.case.group is None else (self.case.source, self.case.group)


@dataclass(frozen=True)
class SiteFacts:
    """What is kept of a site; stays where the data are.

    Attributes:
        site: its name.
        folder: the folder with ``data.yaml``.
        is_test: whether it is the federation's common test set.
        description: the site's description.
        cases: the cases of all lists.
        refused: the items of each list that cannot be cases.
    """

    site: str
    folder: Path
    is_test: bool
    description: AnyDescription
    cases: tuple[CaseFacts, ...]
    refused: Mapping[str, list[ExcludedCase]]

    @property
    def is_classification(self) -> bool:
        """Whether the cases have a class instead of a mask."""
        return isinstance(self.description, ClassificationDescription)

    @property
    def class_names(self) -> dict[int, str]:
        """Class → name; for segmentation of the foreground classes."""
        return dict(enumerate(self.description.classes, start=0 if self.is_classification else 1))

    @property
    def annotated_labels(self) -> tuple[int, ...]:
        """The classes that the site annotates."""
        description = self.description
        if isinstance(description, SegmentationDescription):
            return description.annotated_labels
        return tuple(self.class_names)

    @property
    def images(self) -> list[tuple[CaseFacts, ImageFacts]]:
        """The cases whose image can be used."""
        return [(case, case.image) for case in self.cases if case.image is not None]

    def section(self, name: str) -> list[CaseFacts]:
        """The cases of a list."""
        return [case for case in self.cases if case.section == name]

    def annotations(self, section: str = TRAINING) -> list[tuple[CaseFacts, AnnotationFacts]]:
        """The usable cases of a list."""
        return [
            (case, case.annotation) for case in self.section(section) if case.is_usable and case.annotation is not None
        ]
