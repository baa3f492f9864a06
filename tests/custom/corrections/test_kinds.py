"""The kinds of correction: one record on the wire and on disk, its checks, and the order of application."""

import json

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError
from support.corrected_runs import made_corrections

from fedannot.custom.corrections.kinds import (
    BoundaryShift,
    CasesRelabelled,
    Correction,
    CorrectionKind,
    LesionsAdded,
    MaskShift,
    MasksReplaced,
    MissedObjectsIgnored,
    ObjectsRelabelled,
    PixelsRelabelled,
    PixelsReplaced,
    Purpose,
    Sample,
    in_order,
    server_corrections,
)
from fedannot.custom.corrections.pixels import CasePixels, OtherClasses
from fedannot.custom.corrections.targets import corrected_sample
from fedannot.transforms.ignored_label import IGNORED_LABEL

ALL = (
    CasesRelabelled(noise_level=0.2, threshold=0.5, transition=((1.0, 0.0), (0.5, 0.5))),
    PixelsRelabelled(noise_share=0.2, threshold=0.5, only_added=False),
    ObjectsRelabelled(fraction=0.5),
    MaskShift(shift=(2.0, -1.5)),
    BoundaryShift(bias={1: 2.0, 2: -0.5}),
    MissedObjectsIgnored(missed={1: 0.25}, ignored={1: 0.4}),
    PixelsReplaced(rounds={2: 4, 1: 6}, foreground_threshold=0.8, background_threshold=None),
    LesionsAdded(threshold=0.8, smallest_lesion=5),
    MasksReplaced(source="/audit", audited="2026-01-01T00:00:00+00:00"),
)
ADAPTER: TypeAdapter[tuple[Correction, ...]] = TypeAdapter(tuple[Correction, ...])


def test_every_kind_comes_back_from_json_with_whole_numbers_as_classes() -> None:
    assert [item.kind for item in ALL] == list(CorrectionKind)
    plain = [item.model_dump(mode="json", exclude_unset=True) for item in ALL]
    assert ADAPTER.validate_python(json.loads(json.dumps(plain))) == ALL
    assert all(set(item) >= {"kind"} for item in plain)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "boundary_shift", "bias": {"1": float("nan")}},
        {"kind": "boundary_shift", "bias": {"1": 1.0}, "other_bias": {"1": 1.0}},
        {"kind": "boundary_shift", "bias": {"one": 1.0}},
        {"kind": "mask_shift", "shift": [1.0, float("nan")]},
        {"kind": "mask_shift", "shift": [1.0]},
        {"kind": "mask_shift", "shift": {"1": 1.0}},
        {"kind": "missed_objects_ignored", "missed": {"1": 1.5}},
        {"kind": "objects_relabelled", "fraction": -0.1},
        {"kind": "objects_relabelled", "fraction": 0.5, "label": 1},
        {"kind": "another"},
        {"fraction": 0.5},
    ],
)
def test_what_is_none_of_them_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ADAPTER.validate_python([wrong])


def test_the_models_bias_of_earlier_versions_is_read_and_does_not_count() -> None:
    earlier = {"kind": "boundary_shift", "bias": {"1": 2.0}, "model_bias": {"1": 0.75}}
    assert ADAPTER.validate_python([earlier]) == (BoundaryShift(bias={1: 2.0}),)


def test_a_record_has_at_most_one_of_a_kind_in_the_order_of_kinds() -> None:
    assert in_order(reversed(ALL)) == ALL
    with pytest.raises(ValueError, match="expected one correction of a kind"):
        in_order([ALL[1], ALL[1]])
    with pytest.raises(ValueError, match="expected corrections in the order"):
        made_corrections("/data", (), corrections=(ALL[2], ALL[1]))


def test_a_server_asks_for_nothing_that_changes_nothing() -> None:
    assert server_corrections() == ()
    assert server_corrections(bias={}, missed={}, ignored={1: 0.5}, relabelled=0.0) == ()


@pytest.mark.parametrize(
    ("purpose", "ignored"),
    [(Purpose.TRAINING, True), (Purpose.REVIEW, True), (Purpose.EXPORT, False)],
)
def test_the_purpose_decides_what_of_a_correction_counts(purpose: Purpose, ignored: bool) -> None:
    """A square of class 1 from 3 to 12 becomes class 2, then shrinks by 1; a corner is ignored, but not in files."""
    classes = np.zeros((16, 16), np.uint8)
    classes[3:13, 3:13] = 1
    corner = np.zeros((16, 16), bool)
    corner[0, :2] = True
    pixels = CasePixels(corner, OtherClasses(classes, 2 * classes))
    corrections = made_corrections("/data", (), bias={2: 1.0}, missed={2: 0.5}, relabelled=0.5)
    result, relabelled = corrected_sample(corrections, Sample(classes, None, pixels), purpose)
    expected = np.zeros_like(classes)
    expected[4:12, 4:12] = 2
    expected[0, :2] = IGNORED_LABEL if ignored else 0
    np.testing.assert_array_equal(result, expected)
    assert relabelled == 1


@pytest.mark.parametrize("purpose", Purpose)
def test_pixels_are_replaced_class_after_class(purpose: Purpose) -> None:
    """A pixel that class 2 has left may become class 1 then; another class, and ignored pixels, stay."""
    given = np.array([[0, 1, 2, 2, 3, IGNORED_LABEL]], np.uint8)
    kind = PixelsReplaced(rounds={2: 4, 1: 6}, foreground_threshold=0.8, background_threshold=0.8)
    decided = np.array([[[2, 2, 1, 1, 1, 2]], [[2, 1, 2, 0, 2, 2]]], np.uint8)
    result, relabelled = kind.apply(Sample(given, None, CasePixels(replaced=decided)), purpose)
    assert (result.tolist(), relabelled) == ([[2, 0, 1, 0, 3, IGNORED_LABEL]], 0)
    assert kind.apply(Sample(given, None), purpose)[0] is given
    assert (
        CasePixels(replaced=decided).of_sample((slice(None), slice(1, 3))).replaced.tolist()
        == decided[..., 1:3].tolist()
    )


@pytest.mark.parametrize(
    ("purpose", "comes_in"),
    [(Purpose.TRAINING, IGNORED_LABEL), (Purpose.REVIEW, IGNORED_LABEL), (Purpose.EXPORT, 1)],
)
def test_a_shift_of_all_masks_is_moved_back_before_contours_are(purpose: Purpose, comes_in: int) -> None:
    """Annotated 2 mm too far down and 1.5 too far left, by pixels of 1 and 0.5 mm, and 1 mm too large."""
    classes = np.zeros((16, 24), np.uint8)
    classes[4:12, 8:16] = 1
    corrections = made_corrections("/data", (), corrections=(MaskShift(shift=(2.0, -1.5)), BoundaryShift(bias={1: 1})))
    result, _ = corrected_sample(corrections, Sample(classes, (1.0, 0.5)), purpose)
    expected = np.zeros_like(classes)
    expected[3:9, 13:17] = 1
    np.testing.assert_array_equal(result, expected)

    # What the border has cut goes on outside: nobody knows how, and a file cannot say so.
    classes[:] = 0
    classes[6:, 8:16] = 1
    result, _ = MaskShift(shift=(2.0, 0.0)).apply(Sample(classes, None), purpose)
    expected = np.zeros_like(classes)
    expected[4:14, 8:16], expected[14:, 8:16] = 1, comes_in
    np.testing.assert_array_equal(result, expected)


def test_a_shift_follows_the_axes_of_a_file() -> None:
    classes = np.zeros((9, 10, 11), np.uint8)
    classes[3:6, 3:6, 3:6] = 1
    sample = Sample(classes, (1.0, 1.0, 1.0), axes=((2, -1), (0, 1), (1, 1)))
    moved, _ = MaskShift(shift=(1.0, 2.0, -3.0)).apply(sample, Purpose.EXPORT)
    np.testing.assert_array_equal(moved, np.roll(classes, (-3, -1, -2), (0, 1, 2)))
    with pytest.raises(ValueError, match="2 axes"):
        MaskShift(shift=(1.0, 2.0)).apply(sample, Purpose.EXPORT)
