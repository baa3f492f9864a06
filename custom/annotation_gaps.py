"""What a site's annotations say nothing of: ignored pixels, and classes that the site does not annotate."""

from enum import StrEnum

from .data.description import SegmentationDescription, SiteDescription


class AnnotationGap(StrEnum):
    """A kind of gap in annotations, which a method has to support.

    Example:
        >>> from fedannot.custom import find_method
        >>> AnnotationGap.UNANNOTATED_CLASSES in find_method("segmentation", "fedavg").supports
        True
    """

    IGNORED_PIXELS = "ignored pixels"
    UNANNOTATED_CLASSES = "classes that a site does not annotate"


# By kind of gap the key of data.yaml that says so.
KEYS = {AnnotationGap.IGNORED_PIXELS: "ignore", AnnotationGap.UNANNOTATED_CLASSES: "annotated_classes"}


def gaps_of(description: SiteDescription) -> frozenset[AnnotationGap]:
    """Return the kinds of gaps that a site's description tells of; none in classification."""
    if not isinstance(description, SegmentationDescription):
        return frozenset()
    gaps = {
        AnnotationGap.IGNORED_PIXELS: bool(description.ignore),
        AnnotationGap.UNANNOTATED_CLASSES: bool(description.unannotated_classes),
    }
    return frozenset(gap for gap, is_there in gaps.items() if is_there)
