"""Corrected labels that are kept from round to round."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from fedannot.custom.corrections import kept_labels
from fedannot.custom.corrections.kept_labels import KeptLabels
from fedannot.custom.corrections.kinds import BoundaryShift, PixelsReplaced, Purpose, Sample
from fedannot.custom.corrections.model import Corrections, Provenance
from fedannot.custom.corrections.pixels import CasePixels, OtherClasses
from fedannot.custom.corrections.targets import corrected_sample


def corrections(bias=1.0):
    made = Provenance(method="auto", round_number=1, model_sha256="", made="2026-01-01T00:00:00+00:00")
    return Corrections(site="s", data="/d", provenance=made, corrections=(BoundaryShift(bias={1: bias}),), cases=())


@pytest.fixture
def large(monkeypatch):
    monkeypatch.setattr(kept_labels, "LEAST_PIXELS", 1000)
    classes = np.zeros((20, 20, 10), np.uint8)
    classes[5:15, 4:12, 2:8] = 1
    return Sample(classes, (1.0, 1.0, 2.0))


class Made:
    """Makes labels and counts how often."""

    def __init__(self, kept):
        self.kept, self.count = kept, 0

    def __call__(self, asked, sample, purpose=Purpose.TRAINING):
        def make():
            self.count += 1
            return corrected_sample(asked, sample, purpose)[0]

        return self.kept.label(asked, sample, purpose, make)


def test_a_label_is_made_once_and_is_the_one_that_would_be_made(large):
    made, expected = Made(KeptLabels()), corrected_sample(corrections(), large, Purpose.TRAINING)[0]
    first = made(corrections(), large)
    np.testing.assert_array_equal(first, expected)
    first[:] = 7
    again = made(corrections(), large)
    again[:] = 9
    np.testing.assert_array_equal(made(corrections(), large), expected)
    assert (made.count, made(corrections(), large).dtype) == (1, np.uint8)


def test_whatever_it_is_made_of_has_it_made_again(large):
    made, other = Made(KeptLabels()), large.classes.copy()
    other[0, 0, 0] = 1
    ignored = large.classes == 1
    given = OtherClasses(large.classes, 2 * large.classes)
    turned = OtherClasses(2 * large.classes, large.classes)
    samples = [
        large,
        replace(large, classes=other),
        replace(large, classes=np.ascontiguousarray(large.classes.reshape(10, 20, 20))),
        replace(large, spacing=(1.0, 1.0, 1.0)),
        replace(large, spacing=None),
        replace(large, axes=((1, 1), (0, 1), (2, -1))),
        replace(large, pixels=CasePixels(ignored=ignored)),
        replace(large, pixels=CasePixels(seen=ignored)),
        replace(large, pixels=CasePixels(relabelled=given)),
        replace(large, pixels=CasePixels(relabelled=turned)),
        replace(large, pixels=CasePixels(replaced=np.stack([large.classes]))),
    ]
    for _ in range(2):
        for sample in samples:
            made(corrections(), sample)
        made(corrections(bias=2.0), large)
        made(corrections(), large, Purpose.EXPORT)
    assert made.count == len(samples) + 2


def test_the_order_in_which_classes_were_corrected_counts(large):
    made, pixels = Made(KeptLabels()), np.full((2, *large.classes.shape), 2, np.uint8)
    sample, rule = replace(large, pixels=CasePixels(replaced=pixels)), {"foreground_threshold": 0.5}
    for rounds in ({1: 3, 2: 3}, {2: 3, 1: 3}):
        asked = PixelsReplaced(rounds=rounds, background_threshold=None, **rule)
        label = made(corrections().model_copy(update={"corrections": (asked,)}), sample)
        assert label[0, 0, 0] == next(iter(rounds))


def test_what_is_kept_has_an_end_and_small_samples_are_not_kept(large):
    content = len(np.unique(large.classes))
    made = Made(KeptLabels(most_bytes=60))
    for bias in (1.0, 2.0, 1.0, 1.0):
        made(corrections(bias), large)
    assert content == 2
    assert made.kept._size <= 60
    assert made.count >= 3
    small = Sample(large.classes[:5, :5, :5], None)
    before = made.count
    for _ in range(2):
        made(corrections(), small)
    assert made.count == before + 2


def test_threads_that_ask_for_one_label_get_it(large):
    made, expected = Made(KeptLabels()), corrected_sample(corrections(), large, Purpose.TRAINING)[0]
    with ThreadPoolExecutor(8) as pool:
        labels = list(pool.map(lambda _: made(corrections(), large), range(40)))
    assert all(np.array_equal(label, expected) for label in labels)
    assert made.kept._size == sum(map(len, made.kept._kept.values()))
