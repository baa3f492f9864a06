"""What sites answer in `auto`, as the server reads it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...annotation_bias.estimate import Estimate, received
from ...annotation_bias.image_features import ImageStatistics
from ...annotation_bias.noisy_estimates import noisy_completeness, noisy_offset
from ...annotation_bias.noisy_fields import ANNOTATED, MATCHED, OFFSET_DIFFERENCE, OFFSET_MEAN, PREDICTED, noise_of
from ...annotation_bias.statuses import Unit
from .outbound import (
    COMPLETENESS,
    CONFUSED_SHARE,
    EDGES,
    EXCHANGED_PART,
    IMAGE_DEVIATIONS,
    IMAGE_MEANS,
    OFFSET,
    REFERENCE,
    RELABELLED,
    RESAMPLED,
    REVIEWED,
)


def unit_of(pixel_size: float) -> Unit:
    """Return the unit of a site's lengths; where a pixel has no size, or one of a millimetre, both say the same."""
    return "px" if pixel_size == 1 else "mm"


@dataclass(frozen=True)
class BiasReport:
    """A site's answer to ``estimate_annotation_bias``; estimates are by class.

    Attributes:
        num_samples: as far as the site's reported count counts.
        pixel_size: in millimetres, 1 where it is not known.
        images: statistics of its image features.
        annotated_patients: patients in whom the class is annotated.
        offset: boundary bias of the given annotations from the model, divided by the slope of the error injection.
        edges: distance of the image boundary from the predicted one, positive outside.
        reviewed_from_model: boundary bias of the reviewed annotations from the model, divided by the same slope.
        given_from_reviewed: boundary bias of the given annotations from the reviewed ones, without a model.
        completeness: annotation recall; of all predicted objects, not of the confident ones, if the site hides its
            patients.
        hides_patients: whether it is that of all predicted objects.
        confused: fraction of the annotated objects of all classes that look like another class.
        exchanged_part: fraction of these objects that have the label of a permuted class; 1 where none is permuted.
        is_relabelled: whether all but these two are estimated on annotations with relabelled objects.
    """

    num_samples: int
    pixel_size: float
    images: ImageStatistics
    annotated_patients: tuple[int, ...]
    offset: tuple[Estimate, ...]
    edges: tuple[Estimate, ...]
    reviewed_from_model: tuple[Estimate, ...]
    given_from_reviewed: tuple[Estimate, ...]
    completeness: tuple[Estimate, ...]
    hides_patients: bool = False
    confused: Estimate = field(default_factory=Estimate.unknown)
    exchanged_part: float = 1.0
    is_relabelled: bool = False

    @property
    def has_reviewed(self) -> bool:
        """Whether any of it is of reviewed cases."""
        return any(one.is_known for one in (*self.reviewed_from_model, *self.given_from_reviewed))

    def without_reviewed(self) -> "BiasReport":
        """Return what it would be if the site had no reviewed case."""
        unknown = tuple(Estimate.unknown() for _ in self.offset)
        return replace(self, reviewed_from_model=unknown, given_from_reviewed=unknown)

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "BiasReport":
        """Read the registered fields, which the guard has checked."""
        pixel = _pixel_size(fields)
        offset = _offsets(fields, pixel)
        # Both are on the model's scale.
        reviewed = (
            replace(one, slope=given.slope).corrected()
            for one, given in zip(received(REFERENCE, fields), offset, strict=True)
        )
        return cls(
            num_samples=fields["num_samples"],
            pixel_size=pixel,
            images=ImageStatistics(fields["num_patients"], tuple(fields[IMAGE_MEANS]), tuple(fields[IMAGE_DEVIATIONS])),
            annotated_patients=tuple(fields["annotated_patients"]),
            offset=tuple(item.corrected() for item in offset),
            edges=received(EDGES, fields),
            reviewed_from_model=tuple(reviewed),
            # Between masks nothing has to be calibrated.
            given_from_reviewed=tuple(replace(item, slope=1.0, auroc=1.0) for item in received(REVIEWED, fields)),
            completeness=_completeness(fields),
            hides_patients=MATCHED in fields,
            confused=received(CONFUSED_SHARE, fields)[0],
            exchanged_part=1.0 if math.isnan(fields[EXCHANGED_PART][0]) else fields[EXCHANGED_PART][0],
            is_relabelled=fields.get(RELABELLED, False),
        )


def _pixel_size(fields: Mapping[str, Any]) -> float:
    """In millimetres; 1 where it is not known, or withheld by a site that does not resample its images."""
    given, resampled = fields["pixel_size"], fields.get(RESAMPLED, 0) / 1000
    return given if given > 0 else resampled if resampled > 0 else 1.0


def _offsets(fields: Mapping[str, Any], pixel: float) -> tuple[Estimate, ...]:
    """Those that a site says; else those that it says with noise, if it does."""
    said, names = received(OFFSET, fields), (OFFSET_MEAN, OFFSET_DIFFERENCE)
    if OFFSET_MEAN not in fields:
        return said
    columns = [fields[column] for name in names for column in (name, noise_of(name))]
    noisy = (noisy_offset(one.patients, *values, pixel=pixel) for one, *values in zip(said, *columns, strict=True))
    return tuple(one if one.is_known else other for one, other in zip(said, noisy, strict=True))


def _completeness(fields: Mapping[str, Any]) -> tuple[Estimate, ...]:
    """Likewise."""
    said, names = received(COMPLETENESS, fields), (MATCHED, PREDICTED, ANNOTATED)
    if MATCHED not in fields:
        return said
    columns = [fields[name] for name in (*names, *map(noise_of, names))]
    noisy = (
        noisy_completeness(one.patients, tuple(values[:3]), tuple(values[3:]))
        for one, *values in zip(said, *columns, strict=True)
    )
    return tuple(one if one.is_known else other for one, other in zip(said, noisy, strict=True))
