"""What a site reports of a classifier's scores."""

import pytest
from support.labelled_pictures import Brightness, make_data

from fedannot.custom.methods.fedavg.settings import ClassificationSettings
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.outbound.reports import class_validation_report
from fedannot.custom.settings import ClassifierSettings
from fedannot.custom.task_names import VALIDATE_CLASSES

SETTINGS = ClassificationSettings(network=ClassifierSettings(in_channels=1, num_classes=3))


def test_validation_counts_leave_and_classes_with_few_patients_are_left_out():
    # Class b has two patients only; one of its cases is taken for a, which must not count either.
    data = make_data([0, 0, 0, 1, 1, 1, 2, 2, 2], [0, 0, 2, 0, 1, 1, 2, 2, 0], units=list("xyzppqrst"))
    report = class_validation_report(Brightness(), data, SETTINGS)
    assert report == {
        "num_samples": 9,
        "num_patients": 6,
        "num_class_patients": [3, 0, 3],
        "num_correct": [2, 0, 2],
        "num_labelled": [3, 0, 3],
        "num_predicted": [3, 0, 3],
    }
    OutboundRegistry().check(VALIDATE_CLASSES, report)


@pytest.mark.parametrize("labels", [[], [0, 0], [0, 1, 2]])
def test_with_few_patients_nothing_is_scored(labels):
    data = make_data(labels, labels) if labels else None
    report = class_validation_report(Brightness(), data, SETTINGS)
    assert report == {"num_samples": len(labels)}
