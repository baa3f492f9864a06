"""ADELE at a site: its correction by hand, what counts in training, what a review decided, and a restart."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from support.pictures import Threshold, make_data
from support.several_annotators import write_site
from support.site_views import HandmadeSite
from torch import nn

from fedannot.custom.consensus_rule import CHOICES, ConsensusKind
from fedannot.custom.corrections.case_states import restore, revert
from fedannot.custom.corrections.kinds import PixelsReplaced
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_site
from fedannot.custom.data.site_data import SiteData, load_site_data
from fedannot.custom.interface.views import SiteView
from fedannot.custom.methods.adele import METHOD
from fedannot.custom.methods.adele.confident_pixels import confident_classes, decided_pixels, with_replaced_pixels
from fedannot.custom.methods.adele.server import CORRECTED_CLASSES
from fedannot.custom.methods.adele.site import AdeleSite
from fedannot.custom.methods.auto.protected_cases import protected_cases, reviewed_names
from fedannot.custom.methods.fedavg.site import FedAvgSite
from fedannot.custom.task_names import CORRECT_ANNOTATIONS
from fedannot.transforms.errors import DataError

IGNORED = 255


def site_part(num_classes: int = 1, training: Any = None, **settings: Any) -> AdeleSite:
    network = {"in_channels": 1, "num_classes": num_classes}
    values = {"batch_size": 4, "local_epochs": 1} | (training or {})
    made = METHOD.site_part(
        METHOD.settings.model_validate({"rounds": 9, "network": network, "training": values} | settings)
    )
    assert isinstance(made, AdeleSite)
    return made


def ask(method: AdeleSite, site: SiteView, *classes: Any, network: nn.Module | None = None) -> Any:
    view = replace(site, message={CORRECTED_CLASSES: list(classes)})
    return method.answer(CORRECT_ANNOTATIONS, network or Certain(), view)


class Certain(nn.Module):
    """Sure of the class that a picture shows, from the darkest pixels, 0, to the brightest, 2 or the only class."""

    def __init__(self, num_classes: int = 1, certainty: float = 9.0) -> None:
        super().__init__()
        self.certainty = nn.Parameter(torch.tensor(certainty))
        self.num_classes = num_classes

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        low, high = images.amin(), images.amax()
        shown = ((images[:, 0] - low) / (high - low) * min(2, self.num_classes)).round().long()
        one_hot = nn.functional.one_hot(shown, self.num_classes + 1)
        return self.certainty * one_hot.movedim(-1, 1).float()


def written(folder: Path, given: np.ndarray, shown: np.ndarray, **items: Any) -> HandmadeSite:
    """Three pictures, of which the network sees `shown` and the site has given `given`."""
    folder.mkdir()
    classes = ", ".join(f"c{label}" for label in range(1, 4))
    labels = ", ".join(f"{label}: {label}" for label in range(4))
    (folder / "data.yaml").write_text(
        f"pipeline: image2d\nchannels: 1\nsize: [4, 4]\nclasses: [{classes}]\nlabels: {{{labels}}}\nignore: [255]\n"
    )
    for number in range(3):
        Image.fromarray((85 * shown + 40).clip(0, 255).astype(np.uint8)).save(folder / f"{number}.png")
        Image.fromarray(given).save(folder / f"{number}-mask.png")
    cases = [{"image": f"{number}.png", "label": f"{number}-mask.png"} for number in range(3)]
    cases[0] |= items
    (folder / "datalist.json").write_text(json.dumps({"training": cases}))
    return HandmadeSite(folder.with_name(f"{folder.name}-run"), data_folder=folder)


#              0→1  0→2  1→0  1→2  2→0  2→1  3→1  ignored
GIVEN = np.array([[0, 0, 1, 1], [2, 2, 3, IGNORED], [0, 1, 2, 3], [0, 1, 2, 3]], np.uint8)
SHOWN = np.array([[1, 2, 0, 2], [0, 1, 1, 1], [0, 1, 2, 2], [0, 1, 2, 2]], np.uint8)


def labels_in_use(method: AdeleSite, view: SiteView) -> list[list[list[int]]]:
    stored = view.corrections.latest()
    data = with_replaced_pixels(view.load("training"), stored, view.locate().folder)
    return [case.label[0].tolist() for case in data.cases]


@pytest.mark.parametrize("direction", ["both", "add"])
def test_classes_are_corrected_in_turn_and_given_masks_stay(tmp_path: Path, direction: str) -> None:
    """Pixels of background and the class alone, where the prediction is one of these; by hand."""
    method, site = site_part(3, direction=direction), written(tmp_path / "data", GIVEN, SHOWN)
    before = {file.name: file.read_bytes() for file in (tmp_path / "data").glob("*-mask.png")}
    network = Certain(3)
    assert ask(method, site.view(method, 2), 1, network=network).fields == {"has_corrected": True}
    expected = GIVEN.copy()
    expected[0, 0] = 1
    expected[0, 2] = 0 if direction == "both" else 1
    assert labels_in_use(method, site.view(method, 2)) == [expected.tolist()] * 3
    assert labels_in_use(method, site.view(method, 1)) == [GIVEN.tolist()] * 3
    # Class 2 later: a class that is corrected already is not corrected again, by whatever the model has learnt since.
    ask(method, site.view(method, 5), 1, 2, network=Certain(3, -9.0))
    ask(method, site.view(method, 5), 1, 2, network=network)
    ask(method, site.view(method, 6), 1, 2, network=network)
    later = labels_in_use(method, site.view(method, 6))[0]
    assert site.view(method, 9).corrections.latest().corrections.round_number == 5  # type: ignore[union-attr]
    assert later[0][0] == 1
    kind = site.view(method, 9).corrections.latest().corrections.of(PixelsReplaced)  # type: ignore[union-attr]
    assert kind is not None
    assert kind.rounds == {1: 2, 2: 5}
    assert {file.name: file.read_bytes() for file in (tmp_path / "data").glob("*-mask.png")} == before
    assert sum("masks are corrected" in text for text in site.said) == 2


def test_both_classes_at_once_are_as_one_after_the_other(tmp_path: Path) -> None:
    results = []
    for name, steps in (("once", [(2, (1, 2))]), ("twice", [(2, (1,)), (3, (1, 2))])):
        method, site = site_part(3), written(tmp_path / name, GIVEN, SHOWN)
        for number, classes in steps:
            ask(method, site.view(method, number), *classes, network=Certain(3))
        results.append(labels_in_use(method, site.view(method, 9))[0])
    expected = GIVEN.copy()
    expected[0] = (1, 2, 0, 1)
    expected[1, 0] = 0
    assert results == [expected.tolist()] * 2


def test_only_what_is_more_probable_than_the_thresholds_counts() -> None:
    logits = torch.tensor([[[3.0, 1.0, 0.0, 0.0]], [[0.0, 0.0, 1.3, 1.5]]])[None]
    p = logits.softmax(dim=1)
    assert p[0, 0, 0, 1].item() == pytest.approx(0.731, abs=1e-3)
    assert confident_classes(0.8, 0.7)(logits).tolist() == [[[0, 0, IGNORED, 1]]]
    assert confident_classes(0.75, 0.8)(logits).tolist() == [[[0, IGNORED, 1, 1]]]
    assert confident_classes(0.75, None)(logits).tolist() == [[[IGNORED, IGNORED, 1, 1]]]
    assert confident_classes(1.0, 1.0)(1000 * logits).tolist() == [[[IGNORED] * 4]]
    assert decided_pixels([np.array([0, 1, 2])], np.array([1, 0, 1]), 1).tolist() == [2, 1, 0]


@pytest.mark.parametrize("asked", [[0], [4], [1, 1], ["1"], [True], None, {"1": 1}, [1.0]])
def test_classes_that_a_server_cannot_mean_are_refused(tmp_path: Path, asked: Any) -> None:
    method, site = site_part(3), written(tmp_path / "data", GIVEN, SHOWN)
    view = site.view(method, 2, {CORRECTED_CLASSES: asked})
    with pytest.raises(ValueError, match="Expected different classes from 1 to 3"):
        method.answer(CORRECT_ANNOTATIONS, Certain(3), view)
    off = site_part(3, correction=False)
    with pytest.raises(ValueError, match="Expected different classes"):
        ask(off, site.view(off, 2), 1)


def test_what_a_review_kept_or_changed_and_what_the_data_manager_reverted_stays(tmp_path: Path) -> None:
    method = site_part(3)
    changed = written(tmp_path / "data", GIVEN, SHOWN, given_label="1-mask.png")
    folder, view = tmp_path / "data", changed.view(method, 2)
    # Without a list of reviewed cases, too.
    assert protected_cases(view, view.load("training")) == {"0-mask.png"}
    lists = json.loads((folder / "datalist.json").read_text())
    # Masks of one content: cases of another image are none of the list's.
    lists["reference"] = [lists["training"][1]]
    (folder / "datalist.json").write_text(json.dumps(lists))
    assert reviewed_names(view, view.load("training")) == {"0-mask.png", "1-mask.png"}
    assert protected_cases(view, view.load("training")) == {"0-mask.png", "1-mask.png"}
    ask(method, view, 1, network=Certain(3))
    assert [label == GIVEN.tolist() for label in labels_in_use(method, view)] == [True, True, False]
    stored = view.corrections.latest()
    assert stored is not None
    revert(stored.folder, ["2-mask.png"])
    assert labels_in_use(method, view)[2] == GIVEN.tolist()
    ask(method, changed.view(method, 3), 1, 2, network=Certain(3))
    assert labels_in_use(method, changed.view(method, 3))[2] == GIVEN.tolist()
    restore(changed.view(method, 3).corrections.latest().folder)  # type: ignore[union-attr]
    assert labels_in_use(method, changed.view(method, 3))[2][0] == [1, 2, 0, 1]
    # What is reviewed later counts as it is from then on.
    trained_on = method._corrected(changed.view(method, 3)).load("training").cases[2]
    assert trained_on.label[0, 0].tolist() == [1, 2, 0, 1]
    (folder / "datalist.json").write_text(json.dumps(lists | {"reference": lists["training"][1:]}))
    trained_on = method._corrected(changed.view(method, 3)).load("training").cases[2]
    assert trained_on.label[0].tolist() == GIVEN.tolist()
    # A list of reviewed cases that cannot be read: nothing is replaced.
    lists["reference"] = [{"image": "absent.png", "label": "absent.png"}]
    (folder / "datalist.json").write_text(json.dumps(lists))
    with pytest.raises(DataError, match=r"absent\.png"):
        ask(method, changed.view(method, 4), 1, 2, 3, network=Certain(3))


@pytest.mark.parametrize("rule", [*(k.value for k in ConsensusKind if k is not ConsensusKind.ONE), "one:B"])
def test_every_rule_for_several_annotations_trains_on_corrected_ones(tmp_path: Path, rule: str) -> None:
    """A network that sees background throughout: whatever annotators gave, nothing is left to train on."""
    assert rule.split(":", maxsplit=1)[0] in CHOICES
    write_site(tmp_path / "data")
    method = site_part(training={"consensus": rule, "loss": "ce"})
    site = HandmadeSite(tmp_path, data_folder=tmp_path / "data")

    def load(section: str) -> SiteData:
        return load_site_data(tmp_path / "data", tmp_path / "store", section=section, site="site-1", consensus=rule)

    view = site.view(method, 2, load=load)
    ask(method, view, 1, network=Certain(1, 0.0).requires_grad_(requires_grad=False))
    assert not view.corrections.latest().corrections.replaced_file  # type: ignore[union-attr]
    ask(method, site.view(method, 3, load=load), 1)
    network = nn.Conv2d(1, 2, 1)
    with torch.no_grad():
        network.weight.zero_()
        network.bias.copy_(torch.tensor([6.0, -6.0]))  # type: ignore[union-attr]
    again = replace(view, run_folder=tmp_path / "other", round_number=2)
    ask(method, again, 1, network=network)
    corrected = method._corrected(again).load("training")
    assert not any(
        case.label.any() or (case.annotations is not None and case.annotations.any()) for case in corrected.cases
    )
    assert any(case.label.any() for case in load("training").cases)
    assert method.train(network, again).outcome.mean_loss == pytest.approx(0.0, abs=0.01)


def test_with_one_scale_and_no_weight_it_is_federated_averaging(tmp_path: Path) -> None:
    data, results = make_data([(1, 2)] * 4), []
    method = site_part(2, {"learning_rate": 0.05, "local_epochs": 3}, scales=[1], consistency_weight=0.0)
    for part in (method, FedAvgSite(method.settings), site_part(2, {"learning_rate": 0.05, "local_epochs": 3})):
        network = Threshold(2)
        part.train(network, HandmadeSite(tmp_path, data).view(part))
        results.append(network.scale.item())
    assert results[0] == results[1] != results[2]


def test_a_continued_run_goes_on_with_the_same_pixels(tmp_path: Path) -> None:
    method = site_part(1)
    write_phantom_site(tmp_path / "data", 0, LesionImages(), num_sites=1, num_images=3)
    first = HandmadeSite(tmp_path / "one", data_folder=tmp_path / "data")
    ask(method, first.view(method, 2), 1)
    second = HandmadeSite(tmp_path / "two", data_folder=tmp_path / "data")
    view = second.view(method, 3, earlier_folders=(first.run_folder,), continued_round=2)
    method.before_task(view)
    assert labels_in_use(method, view) == labels_in_use(method, first.view(method, 3))
    assert labels_in_use(method, view) != labels_in_use(method, first.view(method, 1))
    assert method.training_flags(view) == {"has_corrected": True}
