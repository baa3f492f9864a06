"""Estimates of a channel as a site sends them that hides single patients: bounded means and sums, with noise alone."""

from ..outbound.fields import OutboundField

OFFSET_MEAN, OFFSET_DIFFERENCE = "offset_mean", "offset_difference"
MATCHED, PREDICTED, ANNOTATED = "objects_matched", "objects_predicted", "objects_annotated"

# In pixels of the network's images: as far as edges are looked for; and two patients of a site rarely differ by more.
LARGEST_OFFSET, LARGEST_DIFFERENCE = 8.0, 4.0
MOST_OBJECTS_OF_PATIENT = 10.0

_NOISE = "_noise"


def noise_of(name: str) -> str:
    """Return the name of the field with the standard deviations of the noise in another one."""
    return name + _NOISE


def noisy_fields(task: str, *, offset_patients: str, completeness_patients: str) -> tuple[OutboundField, ...]:
    """Return what a site whose statistics are private sends in place of its offset and completeness.

    Args:
        task: whose answer holds it.
        offset_patients: the field with the patients behind offsets.
        completeness_patients: the same of objects.
    """
    of_offset, of_objects = (offset_patients, "noisy offset"), (completeness_patients, "noisy completeness")
    declared = (
        (OFFSET_MEAN, LARGEST_OFFSET, *of_offset),
        (OFFSET_DIFFERENCE, LARGEST_DIFFERENCE, *of_offset),
        (MATCHED, MOST_OBJECTS_OF_PATIENT, *of_objects),
        (PREDICTED, MOST_OBJECTS_OF_PATIENT, *of_objects),
        (ANNOTATED, MOST_OBJECTS_OF_PATIENT, *of_objects),
    )
    return tuple(field for item in declared for field in _with_noise(task, *item))


def _with_noise(task: str, name: str, bound: float, counted_by: str, group: str) -> tuple[OutboundField, OutboundField]:
    value = OutboundField(
        name,
        (task,),
        "numbers",
        counted_by=counted_by,
        optional=group,
        sample_bound=bound,
        only_private=True,
    )
    noise = OutboundField(
        noise_of(name),
        (task,),
        "numbers",
        counted_by=counted_by,
        optional=group,
        only_private=True,
        noise_of=name,
    )
    return value, noise
