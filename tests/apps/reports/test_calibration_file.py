"""Errors and bins in `calibration.json`, compared with predictions counted one by one."""

import json
import math

import numpy as np
import pytest
import torch

from fedannot.apps.reports.calibration_file import Calibration, read_calibration, write_calibration
from fedannot.custom.evaluation.calibration import NUM_BINS, CalibrationBins, sample_bins
from fedannot.transforms.errors import DataError
from fedannot.transforms.ignored_label import IGNORED_LABEL


def predictions(seed, count):
    """Probabilities of three classes, (3, N), and labels."""
    generator = torch.Generator().manual_seed(seed)
    probabilities = torch.softmax(2 * torch.randn(3, count, generator=generator), dim=0)
    return probabilities, torch.randint(0, 3, (count,), generator=generator)


def counted(samples):
    """Per bin (b/B, (b + 1)/B] the predictions, the confidences and how many are right."""
    bins = [([], []) for _ in range(NUM_BINS)]
    for probabilities, labels in samples:
        for column, label in zip(probabilities.T.tolist(), labels.tolist(), strict=True):
            confidence = max(column)
            place = next(b for b in range(NUM_BINS) if confidence * NUM_BINS <= b + 1)
            bins[place][0].append(confidence)
            bins[place][1].append(column.index(confidence) == label)
    return bins


def expected_error(samples):
    bins = counted(samples)
    total = sum(len(confidences) for confidences, _ in bins)
    return sum(
        len(confidences) / total * abs(np.mean(right) - np.mean(confidences))
        for confidences, right in bins
        if confidences
    )


def written(tmp_path, samples, task):
    bins = tuple(sample_bins(*sample) for sample in samples)
    write_calibration(tmp_path / "calibration.json", [Calibration("site-1", "global", bins)], task)
    [found] = read_calibration(tmp_path / "calibration.json")
    return found


def test_pixels_of_all_cases_and_the_mean_of_cases(tmp_path):
    samples = [predictions(0, 300), predictions(1, 40)]
    found = written(tmp_path, samples, "segmentation")
    bins = counted(samples)
    assert (found["site"], found["model"], found["cases"]) == ("site-1", "global", 2)
    assert found["count"] == [len(confidences) for confidences, _ in bins]
    assert found["ece_pooled"] == pytest.approx(expected_error(samples))
    assert found["ece_mean_of_cases"] == pytest.approx(np.mean([expected_error([sample]) for sample in samples]))
    assert found["ece_pooled"] != pytest.approx(found["ece_mean_of_cases"], rel=1e-3)
    for place, (confidences, right) in enumerate(bins):
        if confidences:
            assert found["confidence"][place] == pytest.approx(np.mean(confidences))
            assert found["accuracy"][place] == pytest.approx(np.mean(right))
        else:
            assert (found["confidence"][place], found["accuracy"][place]) == (None, None)


def test_cases_of_a_classification_have_no_mean_of_their_own(tmp_path):
    probabilities, labels = predictions(2, 25)
    cases = [(probabilities[:, case : case + 1], labels[case : case + 1]) for case in range(25)]
    found = written(tmp_path, cases, "classification")
    assert found["cases"] == sum(found["count"]) == 25
    assert found["ece_pooled"] == pytest.approx(expected_error([(probabilities, labels)]))
    assert found["ece_mean_of_cases"] is None


def test_a_case_without_a_decided_pixel_is_in_no_error(tmp_path):
    probabilities, labels = predictions(3, 50)
    samples = [(probabilities, labels), (probabilities, torch.full_like(labels, IGNORED_LABEL))]
    found = written(tmp_path, samples, "segmentation")
    assert found["cases"] == 2
    assert found["ece_mean_of_cases"] == pytest.approx(found["ece_pooled"])


@pytest.mark.parametrize("cases", [(), (CalibrationBins.empty(),)])
def test_nothing_to_count_is_null_and_not_a_number_that_json_lacks(tmp_path, cases):
    file = tmp_path / "calibration.json"
    assert math.isnan(CalibrationBins.empty().ece)
    write_calibration(file, [Calibration("site-1", "global", cases)], "segmentation")
    assert "NaN" not in file.read_text()
    [found] = json.loads(file.read_text())["calibration"]
    assert (found["ece_pooled"], found["ece_mean_of_cases"]) == (None, None)


def test_a_run_without_the_file_has_no_calibration(tmp_path):
    assert read_calibration(tmp_path / "calibration.json") == []


@pytest.mark.parametrize("content", ["[]", "{}", '{"calibration": 3}', '{"calibration": [3]}', '"calibration"'])
def test_another_file_is_refused_by_its_name(tmp_path, content):
    file = tmp_path / "calibration.json"
    file.write_text(content)
    with pytest.raises(DataError, match=r"calibration\.json: found no list 'calibration' of objects"):
        read_calibration(file)
