"""What a site answers to tasks that it cannot do: a short reason, and never a code with which NVFlare ends the job."""

from pathlib import Path

import pytest
import torch
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal
from nvflare.app_common.app_constant import AppConstants

from fedannot.custom.data.location import DATA_VARIABLE, DataLocation
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.flare.executor import SegmentationExecutor
from fedannot.custom.flare.messages import MODEL_DOES_NOT_FIT, REFUSAL_HEADER, TASK_NOT_KNOWN
from fedannot.custom.flare.task_process import Place
from fedannot.custom.networks.described import described_network
from fedannot.custom.run.threads import THREADS_VARIABLE
from fedannot.transforms.errors import DataError

SETTINGS = {
    "method": "fedavg",
    "rounds": 1,
    "network": {"in_channels": 1, "num_classes": 1, "spatial_dims": 2, "features": [4, 4, 8, 8, 8, 4]},
    "training": {"learning_rate": 0.01, "batch_size": 2, "local_epochs": 1},
}


def answer_of(executor: SegmentationExecutor, task: str, params: dict[str, torch.Tensor], folder: Path) -> Shareable:
    for needed in ("startup", "local"):
        (folder / needed).mkdir()
    shareable = DXO(DataKind.WEIGHTS, data=params).to_shareable()
    shareable.set_header(AppConstants.CURRENT_ROUND, 1)
    return executor.execute(task, shareable, Place("site-1", "job", str(folder)).context(), Signal())


@pytest.fixture
def phantom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The site's data, and threads as before afterwards."""
    before = torch.get_num_threads()
    write_phantom_federation(tmp_path / "data", LesionImages(), num_sites=1, seed=0, images_per_site=3)
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "data"))
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("phantom")
def test_a_site_trains_with_as_many_threads_as_its_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job asks for one, as a researcher's does."""
    monkeypatch.setenv(THREADS_VARIABLE, "2")
    executor = SegmentationExecutor(SETTINGS | {"threads": 1})
    reply = answer_of(executor, "train", dict(described_network(executor.settings.network).state_dict()), tmp_path)
    assert from_shareable(reply).meta["num_threads"] == 2


@pytest.mark.parametrize(
    ("task", "fits", "expected"), [("dance", True, TASK_NOT_KNOWN), ("train", False, MODEL_DOES_NOT_FIT)]
)
def test_what_it_cannot_do_is_a_refusal_with_a_reason(tmp_path: Path, task: str, fits: bool, expected: str) -> None:
    executor = SegmentationExecutor(SETTINGS)
    params = dict(described_network(executor.settings.network).state_dict())
    if not fits:
        params.popitem()
    reply = answer_of(executor, task, params, tmp_path)
    assert reply.get_return_code() == ReturnCode.EXECUTION_EXCEPTION
    assert reply.get_header(REFUSAL_HEADER) == expected


def located_without_data(folder: Path, monkeypatch: pytest.MonkeyPatch, **changes: bool) -> DataLocation:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    for needed in ("startup", "local"):
        (folder / needed).mkdir()
    executor = SegmentationExecutor(SETTINGS | {"embedded": {"sites": 1, "images_per_site": 1}} | changes)
    return executor.locate(Place("site-1", "job", str(folder)).context())


def test_a_site_that_names_no_data_makes_the_phantom_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = located_without_data(tmp_path, monkeypatch)
    assert location.embedded
    assert len(list((location.folder / "images").iterdir())) == 1


def test_a_site_that_names_no_data_makes_no_phantom_where_the_job_requires_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match=r"the job does not train on the embedded phantom"):
        located_without_data(tmp_path, monkeypatch, data_required=True)
