"""What methods with personal parts share at a site: what is kept, what is shared, and what is scored."""

import json
import math
import shutil
from pathlib import Path

import pytest
import torch
from support.personal import COMMON, DATA, PERSONAL, received, same, site_part, train_round, values
from support.several_annotators import write_site
from support.site_views import HandmadeSite

from fedannot.apps.reports.local_models import read_local_model
from fedannot.custom.data.datalist import TRAINING
from fedannot.custom.data.personal_files import LOCAL_MODEL_FILE, LOCAL_SCORES_FILE, PERSONAL_FOLDER
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.data.site_data import load_site_data
from fedannot.custom.data.store_location import participant_store
from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.evaluation.segmentation_scores import evaluate
from fedannot.custom.methods.fedavg.site import FedAvgSite
from fedannot.custom.methods.personal.own_threshold import AtThreshold, own_threshold
from fedannot.custom.methods.personal.settings import PersonalSettings
from fedannot.custom.methods.personal.site import PersonalSite
from fedannot.custom.task_names import KEEP_MODEL

ALL = pytest.mark.parametrize("name", PERSONAL)


@ALL
def test_a_round_trains_and_the_same_seed_gives_the_same_bits(tmp_path: Path, name: str) -> None:
    results = []
    for folder in ("one", "other"):
        method = site_part(name)
        network = received(method)
        start = method.start(received(method), seed=1)
        personal, loss = train_round(method, network, tmp_path / folder)
        assert loss > 0
        assert not same(values(start), personal)
        results.append((values(network), personal))
    assert all(same(one, other) for one, other in zip(*results, strict=True))


@ALL
def test_the_shared_part_has_no_tensor_of_the_personal_one(tmp_path: Path, name: str) -> None:
    method = site_part(name)
    network = received(method)
    # The average of a single model is what was sent.
    train_round(method, received(method), tmp_path, 1)
    personal, _ = train_round(method, network, tmp_path)
    own = [tensor for tensor in personal.values() if tensor.numel() > 1]
    assert own
    for tensor in own:
        assert not any(
            tensor.shape == sent.shape and torch.equal(tensor, sent) for sent in network.state_dict().values()
        )


@ALL
def test_the_personal_part_is_none_of_the_shared_networks_tensors(name: str) -> None:
    method = site_part(name)
    network = received(method)
    storages = {tensor.data_ptr() for tensor in network.state_dict().values()}
    personal = method.start(network, seed=1)
    assert not any(tensor.data_ptr() in storages for tensor in personal.state_dict().values() if tensor.numel() > 1)


@ALL
def test_the_local_model_gives_logits(name: str) -> None:
    method = site_part(name)
    network = received(method)
    model = method.local_model(network, method.start(network, seed=1)).eval()
    assert model(torch.zeros(2, 1, 16, 16)).shape == (2, 2, 16, 16)


class Counting(PersonalSite):
    """The personal part is one number, to which every round adds one."""

    settings: PersonalSettings

    def start(self, shared: torch.nn.Module, seed: int) -> torch.nn.Module:
        del shared
        made = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.constant_(made.weight, seed % 7 * 100.0)
        return made

    def train_both(self, shared, personal, batches, site):  # type: ignore[no-untyped-def]
        with torch.no_grad():
            personal.weight += 1.0
        return site_part("ditto").train_both(shared, shared, batches, site)

    def local_model(self, shared: torch.nn.Module, personal: torch.nn.Module) -> torch.nn.Module:
        del shared
        return personal


def counting() -> Counting:
    return Counting(site_part("ditto").settings)


def count(method: Counting, site: HandmadeSite, number: int, **changes: object) -> float:
    """What the personal part is in use with after a round."""
    model = method.model_in_use(received(method), site.view(method, number, **changes))
    return float(model.weight)  # type: ignore[arg-type]


def test_the_personal_part_goes_on_from_the_last_round_that_the_site_was_there_for(tmp_path: Path) -> None:
    """A new half for every task, and the second round is missed."""
    site = HandmadeSite(tmp_path, DATA)
    for number in (1, 3, 4):
        method = counting()
        method.train(received(method), site.view(method, number))
    start = float(counting().start(received(counting()), seed=0).weight)  # type: ignore[arg-type]
    assert start == 0.0
    assert (count(counting(), site, 4) - count(counting(), site, 3), count(counting(), site, 9) % 100) == (1.0, 3.0)


def test_a_round_that_is_done_once_more_begins_where_it_began(tmp_path: Path) -> None:
    site, method = HandmadeSite(tmp_path, DATA), counting()
    for number in (1, 2, 2):
        method.train(received(method), site.view(method, number))
    assert count(method, site, 2) % 100 == 2.0


class Diverging(Counting):
    """Its second round ends with what is not finite, as after a huge received model."""

    def train_both(self, shared, personal, batches, site):  # type: ignore[no-untyped-def]
        outcome = super().train_both(shared, personal, batches, site)
        if site.round_number == 2:
            with torch.no_grad():
                personal.weight *= math.inf
        return outcome


def test_a_round_that_is_not_finite_does_not_stay(tmp_path: Path) -> None:
    site, method = HandmadeSite(tmp_path, DATA), Diverging(site_part("ditto").settings)
    for number in (1, 2, 3, 4):
        method.train(received(method), site.view(method, number))
    assert count(method, site, 4) % 100 == 3.0
    assert any("not finite, and is not kept; the next round goes on from an earlier one" in text for text in site.said)


def test_a_file_that_cannot_be_read_is_said_and_the_site_begins_anew(tmp_path: Path) -> None:
    site, method = HandmadeSite(tmp_path, DATA), counting()
    method.train(received(method), site.view(method, 1))
    (file,) = (site.run_folder / PERSONAL_FOLDER).iterdir()
    file.write_bytes(file.read_bytes()[:100])
    method.train(received(method), site.view(method, 2))
    assert count(method, site, 2) % 100 == 1.0
    assert any("cannot be used" in text and "initialises it again" in text for text in site.said)


def test_every_site_begins_with_a_personal_part_of_its_own(tmp_path: Path) -> None:
    method = site_part("decoupled")
    result = []
    for name in ("site-1", "site-2"):
        site = HandmadeSite(tmp_path / name, DATA, name=name)
        model = method.model_in_use(received(method), site.view(method, 1))
        result.append(values(model.get_submodule("adaptation")))
    assert not same(*result)


def test_a_run_that_goes_on_takes_the_personal_part_of_the_earlier_one(tmp_path: Path) -> None:
    """As it was after the round from which it goes on, whatever came later there."""
    earlier, method = HandmadeSite(tmp_path / "earlier", DATA), counting()
    for number in (1, 2, 3):
        method.train(received(method), earlier.view(method, number))
    site = HandmadeSite(tmp_path / "now", DATA)
    continued = {"earlier_folders": (earlier.run_folder,), "continued_round": 2}
    assert count(method, site, 3, **continued) % 100 == 2.0
    method.train(received(method), site.view(method, 3, **continued))
    assert count(method, site, 3, **continued) % 100 == 3.0


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("federation") / "data"
    write_phantom_federation(folder, LesionImages(), num_sites=1, seed=0, images_per_site=4, test_images=1)
    file = folder / "site-1" / "datalist.json"
    datalist = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(datalist | {"validation": datalist["training"]}), encoding="utf-8")
    return folder / "site-1"


@pytest.mark.parametrize(
    ("name", "models"), [("ditto", {"global", "local"}), ("fedrep", {"local"}), ("single_site", {"local"})]
)
@pytest.mark.parametrize("way", ["task", "end of the run"])
def test_the_last_model_is_kept_with_the_scores_of_what_is_a_model(
    tmp_path: Path, data_folder: Path, name: str, models: set[str], way: str
) -> None:
    """A shared part that is no model by itself has no score."""
    method, site = site_part(name), HandmadeSite(tmp_path, data_folder=data_folder)
    method.train(received(method), site.view(method, 1))
    network, view = received(method), site.view(method, 1)
    if way == "task":
        assert method.answer(KEEP_MODEL, network, view).fields == {"has_model": True}
    else:
        method.after_run(network, view)
    folder = site.run_folder / PERSONAL_FOLDER
    kept = torch.load(folder / LOCAL_MODEL_FILE, weights_only=True)
    personal = view.kept_tensors(PERSONAL_FOLDER, 1)
    assert personal is not None
    assert same(kept["shared"], values(network))
    assert same(kept["personal"], personal[1])
    assert kept["round"] == 1
    scores = json.loads((folder / LOCAL_SCORES_FILE).read_text(encoding="utf-8"))
    assert set(scores["models"]) == models
    assert any(f"Dice on this site's {scores['num_cases']} validation cases" in text for text in site.said)
    assert not any("has no layers of its own" in text for text in site.said)


def test_a_site_that_asks_for_it_keeps_its_model_with_a_threshold_of_its_own(tmp_path: Path, data_folder: Path) -> None:
    method, site = site_part("ditto", own_threshold=True), HandmadeSite(tmp_path, data_folder=data_folder)
    method.train(received(method), site.view(method, 1))
    network, view = received(method), site.view(method, 1)
    method.answer(KEEP_MODEL, network, view)
    folder = site.run_folder / PERSONAL_FOLDER
    kept = torch.load(folder / LOCAL_MODEL_FILE, weights_only=True)
    own = method.model_in_use(network, view)
    expected = own_threshold(own, view.load(TRAINING).cases, 1, Inference.of(method.settings))
    assert kept["threshold"] == expected
    models = json.loads((folder / LOCAL_SCORES_FILE).read_text(encoding="utf-8"))["models"]
    assert set(models) == {"global", "local_at_half", "local"}
    # The validation cases are the training cases here.
    data, inference = view.load("validation"), Inference.of(method.settings)
    for name, model in (("local_at_half", own), ("local", AtThreshold(own, expected))):
        assert models[name]["dice"] == pytest.approx(evaluate(model, data.cases, 1, inference).mean_dice)
    assert models["local"]["dice"] >= models["local_at_half"]["dice"]
    assert any(text.startswith(f"A pixel is foreground from a probability of {expected:g} on") for text in site.said)
    read = read_local_model(folder / LOCAL_MODEL_FILE, method.settings)
    assert isinstance(read, AtThreshold)
    assert read.threshold == expected


@pytest.mark.parametrize("name", ["ditto", "fedbn"])
def test_a_site_that_has_not_trained_keeps_the_shared_layers_and_says_so(
    tmp_path: Path, data_folder: Path, name: str
) -> None:
    """The kept file has no threshold, as none was asked for."""
    method, site = site_part(name), HandmadeSite(tmp_path, data_folder=data_folder)
    method.answer(KEEP_MODEL, received(method), site.view(method, 1))
    kept = torch.load(site.run_folder / PERSONAL_FOLDER / LOCAL_MODEL_FILE, weights_only=True)
    assert set(kept) == {"shared", "personal", "round"}
    assert any(text.startswith("This site has no layers of its own") for text in site.said)


def test_a_site_without_validation_cases_says_that_nothing_is_scored(tmp_path: Path, data_folder: Path) -> None:
    lone = shutil.copytree(data_folder, tmp_path / "lone")
    datalist = json.loads((lone / "datalist.json").read_text(encoding="utf-8"))
    (lone / "datalist.json").write_text(json.dumps({"training": datalist["training"]}), encoding="utf-8")
    method, site = site_part("ditto"), HandmadeSite(tmp_path, data_folder=lone)
    method.train(received(method), site.view(method, 1))
    method.after_run(received(method), site.view(method, 1))
    assert (site.run_folder / PERSONAL_FOLDER / LOCAL_MODEL_FILE).is_file()
    assert not (site.run_folder / PERSONAL_FOLDER / LOCAL_SCORES_FILE).exists()
    assert any("has no list 'validation', so that nothing says" in text for text in site.said)


@pytest.mark.parametrize("rule", ["majority", "staple", "random-per-epoch", "soft", "one:B"])
@pytest.mark.parametrize("name", ["fedrep", "fedbn", "iop_fl"])
def test_every_rule_for_several_annotations(tmp_path: Path, name: str, rule: str) -> None:
    """The labels that are trained on are those of the rule, as in federated averaging."""
    write_site(tmp_path / "data")
    data = load_site_data(tmp_path / "data", participant_store(), section="training", site="site-1", consensus=rule)
    method = site_part(name, training=COMMON["training"] | {"consensus": rule})
    view = HandmadeSite(tmp_path, data, data_folder=tmp_path / "data").view(method, 1)
    network, averaged = received(method), received(method)
    outcome = method.train(network, view).outcome
    expected = FedAvgSite(method.settings).train(averaged, view).outcome
    if name == "fedrep":
        # Its head was trained before.
        assert outcome.mean_loss != expected.mean_loss
        assert outcome.samples == expected.samples
    else:
        assert outcome == expected
        assert same(values(method.model_in_use(network, view)), values(averaged))
