"""FedA³I at a site: it answers with the difficulty of its annotations."""

from pathlib import Path

from support.pictures import Threshold, make_data
from support.site_views import HandmadeSite

from fedannot.custom.methods.feda3i.quality_report import quality_report
from fedannot.custom.methods.feda3i.settings import FedA3ISettings
from fedannot.custom.methods.feda3i.site import FedA3ISite
from fedannot.custom.task_names import ESTIMATE_QUALITY


def test_the_answer_is_the_report_of_its_training_cases(tmp_path: Path) -> None:
    data, method = make_data([(1,)] * 4), FedA3ISite(FedA3ISettings())
    answer = method.answer(ESTIMATE_QUALITY, Threshold(1), HandmadeSite(tmp_path, data).view(method))
    expected = quality_report(Threshold(1), data, method.settings)
    assert answer.fields == expected.fields
    assert answer.samples.keys() == expected.samples.keys()
