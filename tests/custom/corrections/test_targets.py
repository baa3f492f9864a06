"""What a site trains on by its corrections, in its memory."""

import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from support.corrected_runs import made_corrections

from fedannot.custom.corrections.kinds import Purpose
from fedannot.custom.corrections.model import CaseCorrection, Corrections, CorrectionState
from fedannot.custom.corrections.pixels import CasePixels, OtherClasses
from fedannot.custom.corrections.targets import case_files, corrected_label, corrected_labels
from fedannot.custom.data.datalist import Case
from fedannot.custom.data.site_data import LoadedCase
from fedannot.transforms.ignored_label import IGNORED_LABEL

DATA = Path("/data/site-1")


def square(low: int, high: int, samples: int = 1) -> torch.Tensor:
    label = torch.zeros((samples, 12, 12), dtype=torch.uint8)
    label[:, low:high, low:high] = 1
    return label


def case_of(name: str, label: torch.Tensor, spacing: tuple[float, ...] | None = None) -> LoadedCase:
    files = Case(DATA / f"images/{name}.png", DATA / f"labels/{name}.png")
    image = torch.zeros((len(label), 1, *label.shape[1:]))
    return LoadedCase(f"{name}.png", name, image, label, None, spacing, files=files)


def record(*names: str, reverted: tuple[str, ...] = (), **asked: object) -> Corrections:
    states = {True: CorrectionState.REVERTED, False: CorrectionState.ACTIVE}
    cases = (
        CaseCorrection(label=f"labels/{name}.png", image=f"images/{name}.png", state=states[name in reverted])
        for name in names
    )
    return made_corrections(DATA, cases, **({"bias": {1: 1.0}, "missed": {1: 0.2}, "relabelled": 0.5} | asked))


def corrected(pixels: CasePixels, case: LoadedCase, **bias: dict[int, float]) -> torch.Tensor:
    """A case whose contours move by minus the bias, as it is shown."""
    return corrected_label(record("a", **({"bias": {}} | bias)), pixels, case, Purpose.REVIEW)


def decided(shape: tuple[int, ...], becomes: int) -> OtherClasses:
    """Everything of class 1 gets another one."""
    return OtherClasses(np.ones(shape, np.uint8), np.full(shape, becomes, np.uint8))


def test_contours_move_and_missing_objects_are_ignored_where_nothing_is_annotated() -> None:
    pixels = np.zeros((1, 12, 12), dtype=bool)
    pixels[0, 0:2, 0:5] = True
    pixels[0, 6, 6] = True
    case = case_of("a", square(3, 9))
    (label,) = corrected_labels(record("a"), {"labels/a.png": CasePixels(pixels)}, [case], DATA)
    expected = square(4, 8)[0]
    expected[0:2, 0:5] = IGNORED_LABEL
    assert torch.equal(label, expected)
    assert torch.equal(case.label, square(3, 9))


def test_objects_get_another_class_before_contours_move_and_never_where_nothing_is_annotated() -> None:
    classes = np.zeros((1, 12, 12), dtype=np.uint8)
    classes[0, 1:9, 3:9] = 2
    case = case_of("a", square(3, 9))
    case.label[0, 11, 11] = 1
    other = OtherClasses((classes != 0).astype(np.uint8), classes)
    moved = corrected(CasePixels(relabelled=other), case, bias={2: 1.0})
    expected = 2 * square(4, 8)
    expected[0, 11, 11] = 1
    assert torch.equal(moved, expected)
    assert int(case.label.max()) == 1


def test_a_class_that_somebody_has_corrected_since_is_not_overruled() -> None:
    """Of two objects that were to become class 2 one is of class 3 by now; another decision stays."""
    case = case_of("a", square(1, 4) + 3 * square(7, 10))
    moved = corrected(CasePixels(relabelled=decided((1, 12, 12), 2)), case)
    assert torch.equal(moved, 2 * square(1, 4) + 3 * square(7, 10))


def test_an_object_that_was_drawn_again_gets_its_class_as_a_whole_or_not_at_all() -> None:
    other = OtherClasses(square(3, 8).numpy(), 2 * square(3, 8).numpy())
    assert torch.equal(corrected(CasePixels(relabelled=other), case_of("a", square(3, 9))), 2 * square(3, 9))
    # 25 of 64 pixels.
    assert torch.equal(corrected(CasePixels(relabelled=other), case_of("a", square(3, 11))), square(3, 11))


def test_millimetres_move_by_the_case_s_own_spacing() -> None:
    moved = corrected(CasePixels(), case_of("a", square(2, 10), spacing=(1.0, 2.0)), bias={1: 2.0})
    expected = torch.zeros((1, 12, 12), dtype=torch.uint8)
    expected[:, 4:8, 3:9] = 1
    assert torch.equal(moved, expected)


def test_a_reverted_case_counts_as_it_was_given_and_samples_stay_in_order() -> None:
    cases = [case_of("a", square(3, 9, samples=2)), case_of("b", square(2, 10))]
    pixels = {"labels/a.png": CasePixels(np.ones((2, 12, 12), bool), decided((2, 12, 12), 3))}
    labels = corrected_labels(record("a", "b", reverted=("a",)), pixels, cases, DATA)
    assert [torch.equal(*pair) for pair in zip(labels, (*square(3, 9, 2), *square(3, 9)), strict=True)] == [True] * 3


def test_ignored_pixels_that_do_not_fit_are_not_used_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """The annotation was replaced by one of another size since."""
    case, pixels = case_of("a", square(3, 9)), np.ones((1, 10, 12), dtype=bool)
    assert not CasePixels(pixels).fits(case)
    with caplog.at_level(logging.WARNING):
        (label,) = corrected_labels(record("a"), {"labels/a.png": CasePixels(pixels)}, [case], DATA)
    assert torch.equal(label, square(4, 8)[0])
    assert "Site site-1: labels/a.png has another size" in caplog.text


def test_files_are_named_relative_to_the_data() -> None:
    case = case_of("a", square(3, 9))
    assert case_files(case, DATA) == ("labels/a.png", "images/a.png")
    assert case_files(case, DATA / "labels") == ("a.png", "../images/a.png")
    in_memory = LoadedCase("a.png", "a", case.image, case.label, None, None)
    assert case_files(in_memory, DATA) == ("a.png", "a.png")
