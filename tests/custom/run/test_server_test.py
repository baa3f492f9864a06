"""The server's test: the scores of the global model on the test set, where there is one."""

import copy
import json

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from fedannot.custom.data.description import read_site_description, write_site_description
from fedannot.custom.data.location import DATA_VARIABLE
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.settings import EmbeddedSettings
from fedannot.custom.data.phantoms.writer import write_phantom_test
from fedannot.custom.data.site_data import load_site_data
from fedannot.custom.data.store_location import CACHE_VARIABLE
from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.evaluation.segmentation_scores import evaluate
from fedannot.custom.methods.fedavg.settings import FedAvgSettings
from fedannot.custom.networks import devices
from fedannot.custom.run import server_test
from fedannot.custom.run.server_test import ServerTest
from fedannot.custom.settings import NetworkSettings, TrainingSettings
from fedannot.transforms.errors import DataError

SETTINGS = FedAvgSettings(
    training=TrainingSettings(batch_size=2), embedded=EmbeddedSettings(sites=1, images_per_site=1, test_images=3)
)


class Threshold(nn.Module):
    """Lesion where the intensity is beyond a threshold, above or below it by the sign of the slope."""

    def __init__(self, slope=1.0, threshold=0.0):
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(slope))
        self.threshold = nn.Parameter(torch.tensor(threshold))

    def forward(self, images):
        score = self.slope * (images - self.threshold)
        return torch.cat((torch.zeros_like(score), score), dim=1)


class ThreeClasses(Threshold):
    """The same, with logits of two classes that it never finds."""

    def forward(self, images):
        result = super().forward(images)
        return torch.cat((result, torch.full_like(result, -1e6)), dim=1)


@pytest.fixture(autouse=True)
def on_the_cpu_without_named_data(monkeypatch):
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    monkeypatch.setattr(devices, "preferred_device", lambda: torch.device("cpu"))


@pytest.fixture
def folders(tmp_path):
    """The run's folder and the server's configuration folder, without a test set."""
    for name in ("run", "local"):
        (tmp_path / name).mkdir()
    return tmp_path / "run", tmp_path / "local"


@pytest.fixture
def with_test_set(folders):
    run_folder, config = folders
    write_phantom_test(config, LesionImages(), num_images=3, seed=2)
    return run_folder, config


def test_score_is_the_evaluation_by_hand(with_test_set):
    run_folder, config = with_test_set
    params = Threshold(slope=-1.0, threshold=-0.75).state_dict()
    scores = ServerTest(Threshold(), SETTINGS, run_folder, config).score(params, sites_are_embedded=False)
    data = load_site_data(config, run_folder / "other", section="testing", site="test")
    network = Threshold()
    network.load_state_dict(params)
    expected = evaluate(network, data.cases, 1, Inference(2))
    assert scores.model_dump(mode="json", exclude_unset=True) == {
        "evaluated_on": "test",
        "dice": expected.dice[0],
        "dice_per_class": [expected.dice[0]],
        "left_empty": None,
        "left_empty_per_class": [None],
        "hd95": expected.hd95[0],
        "hd95_undefined": 0,
        "hd95_unit": "px",
        "num_cases": 3,
        "num_annotated_per_class": [3],
    }
    result, truth = data.images[:, 0].numpy() < -0.75, data.labels.numpy() == 1
    dice = [2 * (a & b).sum() / (a.sum() + b.sum()) for a, b in zip(result, truth, strict=True)]
    assert scores.dice == pytest.approx(np.mean(dice))
    assert 0.0 < scores.dice < 1.0


def test_nothing_of_an_image_lies_in_the_runs_folder(with_test_set, monkeypatch):
    """The researcher downloads it."""
    run_folder, config = with_test_set
    monkeypatch.delenv(CACHE_VARIABLE)
    (config / "cache.json").write_text("{}")
    scorer = ServerTest(Threshold(), SETTINGS, run_folder, config)
    scorer.check_data()
    scorer.score(Threshold().state_dict(), sites_are_embedded=False)
    assert list(run_folder.rglob("*")) == []
    assert len(list((config.parent / "cache" / "packs").iterdir())) == 1


def test_a_store_that_cannot_be_used_is_said_before_anybody_trains(with_test_set, monkeypatch):
    run_folder, config = with_test_set
    (config / "thesis").mkdir()
    (config / "thesis" / "thesis.tex").write_text("x")
    monkeypatch.setenv(CACHE_VARIABLE, str(config / "thesis"))
    with pytest.raises(DataError, match=r"thesis: found other files \(thesis\.tex, …\); expected an empty"):
        ServerTest(Threshold(), SETTINGS, run_folder, config).check_data()


def test_every_model_is_scored_with_its_own_weights_and_the_same_again(with_test_set):
    scorer = ServerTest(Threshold(), SETTINGS, *with_test_set)
    first, second = Threshold(-1.0, -0.75).state_dict(), Threshold(-1.0, -1.5).state_dict()
    scores = [scorer.score(params, sites_are_embedded=False) for params in (first, second, first)]
    assert scores[0] == scores[2]
    assert scores[0].dice != scores[1].dice


def test_neither_the_params_nor_the_network_are_modified(with_test_set):
    network = Threshold(3.0, 4.0).train()
    params = Threshold(-1.0, -0.75).state_dict()
    network_before, params_before = copy.deepcopy(network.state_dict()), copy.deepcopy(params)
    ServerTest(network, SETTINGS, *with_test_set).score(params, sites_are_embedded=False)
    assert params.keys() == params_before.keys()
    assert all(torch.equal(params[name], params_before[name]) for name in params)
    assert all(torch.equal(tensor, network_before[name]) for name, tensor in network.state_dict().items())
    assert network.training


def test_a_model_that_finds_nothing_has_no_distance(with_test_set):
    nothing = Threshold(1.0, 1e6).state_dict()
    assert ServerTest(Threshold(), SETTINGS, *with_test_set).score(nothing, sites_are_embedded=False).model_dump(
        mode="json", exclude_unset=True
    ) == {
        "evaluated_on": "test",
        "dice": 0.0,
        "dice_per_class": [0.0],
        "left_empty": None,
        "left_empty_per_class": [None],
        "hd95": None,
        "hd95_undefined": 3,
        "hd95_unit": "px",
        "num_cases": 3,
        "num_annotated_per_class": [3],
    }


def test_a_model_that_finds_nothing_in_a_test_set_with_empty_images_scores_nothing(with_test_set):
    run_folder, config = with_test_set
    masks = sorted((config / "labels").iterdir())
    assert len(masks) == 3
    Image.fromarray(np.zeros_like(np.asarray(Image.open(masks[0])))).save(masks[0])
    nothing, everything = Threshold(1.0, 1e6).state_dict(), Threshold(1.0, -1e6).state_dict()
    scorer = ServerTest(Threshold(), SETTINGS, run_folder, config)
    scores = scorer.score(nothing, sites_are_embedded=False)
    assert (scores.dice, scores.left_empty, scores.hd95_undefined) == (0.0, 1.0, 2)
    assert (scores.num_cases, scores.num_annotated_per_class) == (3, (2,))
    assert scorer.score(everything, sites_are_embedded=False).left_empty == 0.0


def test_classes_that_no_test_case_shows_are_named(with_test_set):
    run_folder, config = with_test_set
    description = read_site_description(config)
    labels = {0: 0, 1: 2, 2: 3, 255: 1}
    changes = {"labels": labels, "classes": ("lesion", "cyst", "scar")}
    write_site_description(config, description.model_copy(update=changes))
    settings = SETTINGS.model_copy(update={"network": NetworkSettings(num_classes=3)})
    scores = ServerTest(ThreeClasses(), settings, run_folder, config).score(
        ThreeClasses().state_dict(), sites_are_embedded=False
    )
    assert scores.unscored_classes == ("cyst", "scar")
    assert scores.dice_per_class[1:] == (None, None)
    assert scores.dice == scores.dice_per_class[0]


def test_without_a_test_set_there_is_no_score(folders):
    run_folder, config = folders
    scorer = ServerTest(Threshold(), SETTINGS, run_folder, config)
    for _ in range(2):
        assert scorer.score(Threshold().state_dict(), sites_are_embedded=False) is None
    assert list(run_folder.iterdir()) == []


def test_named_data_without_a_test_set_give_no_score(folders, tmp_path, monkeypatch):
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "data of sites"))
    assert ServerTest(Threshold(), SETTINGS, *folders).score(Threshold().state_dict(), sites_are_embedded=True) is None


def test_embedded_test_set_is_looked_for_again_when_all_sites_are_embedded(folders, monkeypatch):
    run_folder, config = folders
    scorer = ServerTest(Threshold(), SETTINGS, run_folder, config)
    params = Threshold(-1.0, -0.75).state_dict()
    assert scorer.score(params, sites_are_embedded=False) is None
    scores = scorer.score(params, sites_are_embedded=True)
    assert scores.num_cases == 3
    # Later rounds neither look nor read again.
    monkeypatch.setattr(server_test, "locate_test_data", lambda *_: pytest.fail("looked again"))
    assert scorer.score(params, sites_are_embedded=True) == scores


def test_a_test_set_of_another_kind_is_refused_with_the_settings_that_fit(folders):
    run_folder, config = folders
    write_phantom_test(config, LesionImages(), num_images=1, seed=2)
    settings = SETTINGS.model_copy(update={"network": NetworkSettings(num_classes=2)})
    with pytest.raises(DataError, match=r"Site test: .*data\.yaml describes .* --set network\.num_classes=1, or write"):
        ServerTest(Threshold(), settings, run_folder, config).score(Threshold().state_dict(), sites_are_embedded=False)


def with_reference(config, *, with_test):
    """The test set's first two cases as reviewed ones, with or without a test set beside them."""
    file = config / "datalist.json"
    content = json.loads(file.read_text())
    cases = content.pop("testing")
    content["reference"] = cases[:2]
    file.write_text(json.dumps(content | ({"testing": cases} if with_test else {})))


@pytest.mark.parametrize("with_test", [True, False])
def test_reviewed_cases_come_with_the_model_and_are_no_test_set(with_test_set, with_test):
    run_folder, config = with_test_set
    with_reference(config, with_test=with_test)
    scorer, params = ServerTest(Threshold(), SETTINGS, run_folder, config), Threshold(-1.0, -0.75).state_dict()
    network, data = scorer.reviewed(params)
    assert [case.name for case in data.cases] == ["lesion_001.png", "lesion_002.png"]
    assert all(torch.equal(network.state_dict()[name], params[name]) for name in params)
    assert (scorer.score(params, sites_are_embedded=False) is not None) == with_test


def test_without_reviewed_cases_or_with_unreadable_ones_there_are_none(with_test_set, caplog):
    run_folder, config = with_test_set
    scorer, params = ServerTest(Threshold(), SETTINGS, run_folder, config), Threshold().state_dict()
    assert scorer.reviewed(params) is None
    with_reference(config, with_test=True)
    for mask in (config / "labels").iterdir():
        mask.write_bytes(b"no picture")
    assert scorer.reviewed(params) is None
    assert "The reviewed cases at the server do not count" in caplog.text
