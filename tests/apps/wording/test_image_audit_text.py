"""What the images say, in words."""

import pytest

from fedannot.apps.audit.image_records import ImageBias, ImagePairing, ImageReference, ImageSide
from fedannot.apps.wording.image_audit import bias_in_words, pairing_in_words, reference_in_words, side_in_words
from fedannot.custom.annotation_bias.profile.mask_pairing import PairingStatus
from fedannot.custom.annotation_bias.statuses import ReferenceKind, Status

BOUNDARY = ImageReference(kind=ReferenceKind.EDGES, value=0.0, is_confident=True)
TOLERATED = BOUNDARY.model_copy(update={"tolerated": (-0.2, 0.6)})
FAR = ImageReference(kind=ReferenceKind.CONVENTION, value=4.0, is_confident=False)
NEAR = ImageReference(kind=ReferenceKind.CONVENTION, value=-1.0, is_confident=True)


def bias(value: float | None = 3.0, **changes) -> ImageBias:
    values = {
        "patients": 9,
        "low": None if value is None else value - 0.5,
        "high": None if value is None else value + 0.5,
        "is_known": True,
        "is_to_correct": False,
        "standard_error": 0.2,
        "prominence": 0.6,
        "correlation": 0.97,
    }
    return ImageBias(bias=value, **{**values, **changes})


@pytest.mark.parametrize(
    ("record", "level", "begins"),
    [
        (bias(3.0, is_to_correct=True), BOUNDARY, "annotated too large: +3.0 px"),
        (bias(-3.0, is_to_correct=True), BOUNDARY, "annotated too small: −3.0 px"),
        (
            bias(0.8, is_to_correct=True, follows=True),
            BOUNDARY,
            "perhaps too large, to be corrected as at other sites: +0.8 px",
        ),
        (
            bias(3.0, is_known=False, is_to_correct=True, follows=True),
            BOUNDARY,
            "perhaps too large, to be corrected as",
        ),
        (bias(0.2), BOUNDARY, "about right: +0.2 px"),
        (bias(1.2), BOUNDARY, "a little too large, less than is corrected: +1.2 px"),
        (bias(3.0, status=Status.CONFIRMED), BOUNDARY, "too large, within what is tolerated: +3.0 px"),
        (bias(-3.0, status=Status.NOT_SIGNIFICANT), BOUNDARY, "perhaps too small, too uncertain to be corrected: −3.0"),
        (bias(3.0), None, "cannot tell from the images: those of other sites do not show"),
        (bias(4.1), FAR, "as the other sites: +4.1 px"),
        (bias(None), BOUNDARY, "too few objects"),
        (bias(3.0, is_known=False, prominence=0.1), BOUNDARY, "cannot tell from the images: images change hardly"),
        (bias(3.0, is_known=False, correlation=0.5), BOUNDARY, "cannot tell from the images: images change in another"),
        (bias(3.0, is_known=False), BOUNDARY, "cannot tell from the images: cases differ too much"),
        (bias(3.0, is_known=False, standard_error=None), None, "cannot tell from the images: one patient"),
    ],
)
def test_a_bias_is_said_by_its_verdict_first(record, level, begins):
    assert bias_in_words(record, level, "px").startswith(begins)


def test_the_interval_and_the_patients_are_said():
    assert "90 % interval +2.5 to +3.5, 9 patients" in bias_in_words(bias(3.0, is_to_correct=True), BOUNDARY, "px")


@pytest.mark.parametrize(
    ("level", "sites", "says"),
    [
        (None, 3, "nothing can be told"),
        (BOUNDARY, 3, "zero is the image boundary."),
        (
            TOLERATED,
            3,
            "Federated averaging has its boundary from −0.2 to +0.6 mm off, which is tolerated: nothing is corrected.",
        ),
        (BOUNDARY, 1, "at this site alone"),
        (NEAR, 3, "1.0 mm inside the image boundary: a common convention"),
        (FAR, 3, "all sites annotate 4.0 mm outside the image boundary: convention or error?"),
    ],
)
def test_what_counts_as_zero_is_said(level, sites, says):
    assert says in reference_in_words(level, sites, "mm")


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (PairingStatus.OWN_IMAGES, ""),
        (PairingStatus.TOO_FEW_CASES, ""),
        (PairingStatus.OF_OTHER_IMAGES, "masks fit their images no better than masks of other patients: check"),
        (PairingStatus.SOME_OF_OTHER_IMAGES, "about 5 of 13 masks fit the images of other patients better: check"),
    ],
)
def test_masks_of_other_images_are_warned_of(status, says):
    pairing = ImagePairing(
        patients=13, cases=13, status=status, misplaced=5 / 13, fitting_best=0.5, advantage=2.5, lost_advantage=0.4
    )

    assert pairing_in_words(pairing).startswith(says)
    assert bool(pairing_in_words(pairing)) is bool(says)


@pytest.mark.parametrize(
    ("excess", "is_towards_end", "says"),
    [
        (2.4, True, "the side towards the end of axis 2 alone is annotated too far outside: +2.4 mm"),
        (-2.4, False, "the side towards the start of axis 2 alone is annotated too far inside: −2.4 mm"),
    ],
)
def test_a_side_is_said_with_direction_and_size(excess, is_towards_end, says):
    side = ImageSide(
        patients=9,
        is_moved=True,
        axis=1,
        is_towards_end=is_towards_end,
        excess=excess,
        low=excess - 0.5,
        high=excess + 0.5,
        opposite=0.1,
    )

    assert side_in_words(side, "mm").startswith(says)
    assert "9 patients; the opposite side is not." in side_in_words(side, "mm")


def test_no_side_is_said_where_none_is_moved():
    assert side_in_words(ImageSide(patients=9, is_moved=False), "px") == ""
