"""Facts of images and masks larger than what is counted at a time."""

import numpy as np
import pytest
from PIL import Image

from fedannot.apps.checking import measured_facts
from fedannot.apps.checking.reading import CaseReader
from fedannot.custom.data.datalist import Case
from fedannot.custom.data.description import ImageDescription


def test_mean_deviation_and_areas_are_those_of_all_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(measured_facts, "_PART", 100)
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 256, (37, 41, 3), dtype=np.uint8)
    classes = generator.integers(0, 3, (37, 41), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    Image.fromarray(classes).save(tmp_path / "m.png")
    description = ImageDescription(channels=3, size=(8, 8), labels={0: 0, 1: 1, 2: 2}, classes=("a", "b"))
    facts = CaseReader(tmp_path, description)("training", Case(tmp_path / "a.png", tmp_path / "m.png"))
    assert facts.image is not None
    assert facts.annotation is not None
    assert facts.image.mean == pytest.approx(pixels.mean(), rel=1e-12)
    assert facts.image.deviation == pytest.approx(pixels.std(), rel=1e-12)
    assert facts.annotation.areas == {label: np.count_nonzero(classes == label) for label in (1, 2)}
