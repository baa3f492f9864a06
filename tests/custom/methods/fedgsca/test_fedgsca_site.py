"""FedGSCA at a site: which samples are trained on, what is reported, and what stays there."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from support.labelled_pictures import make_data
from support.site_views import HandmadeSite
from torch import nn

from fedannot.custom.corrections.case_states import restore, revert
from fedannot.custom.corrections.model import CORRECTIONS_FOLDER
from fedannot.custom.data.datalist import Case
from fedannot.custom.methods.fedgsca import OUTBOUND_FIELDS
from fedannot.custom.methods.fedgsca.records import SELECTION_FILE
from fedannot.custom.methods.fedgsca.server import SELECTOR
from fedannot.custom.methods.fedgsca.settings import FedGSCASettings
from fedannot.custom.methods.fedgsca.site import FedGSCASite
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.task_names import TRAIN

# Brightness is the class, a little off; the labels of the last four are wrong.
TRUE = [0, 1, 2] * 4
GIVEN = [*TRUE[:8], 0, 1, 2, 0]
DATA = make_data(GIVEN, (np.array(TRUE) + np.linspace(-0.2, 0.2, 12)).tolist(), true=TRUE)
SELECTOR_LISTS = {"means": [0.3, 4.0], "variances": [0.1, 1.0], "priors": [0.7, 0.3]}


class Reader(nn.Module):
    """Reads the class from the brightness."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(4.0))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return -self.scale * (images.mean(dim=(1, 2, 3))[:, None] - torch.arange(3)) ** 2


def method_of(**settings: object) -> FedGSCASite:
    values = {"rounds": 9, "network": {"in_channels": 1, "num_classes": 3}}
    values["training"] = {"batch_size": 4, "local_epochs": 1, "learning_rate": 1e-6, "augmentation": False}
    return FedGSCASite(FedGSCASettings.model_validate(values | settings))


def test_the_warm_up_trains_on_all_samples_and_says_nothing_of_them(tmp_path: Path) -> None:
    method, site = method_of(warmup_rounds=2), HandmadeSite(tmp_path, DATA)
    trained = method.train(Reader(), site.view(method, 2))
    assert (trained.fields, trained.trained_on) == ({}, None)
    assert not (site.run_folder / CORRECTIONS_FOLDER).exists()


def test_wrong_labels_are_suspect_and_the_selector_leaves_with_its_patients(tmp_path: Path) -> None:
    method, site = method_of(), HandmadeSite(tmp_path, DATA)
    trained = method.train(Reader(), site.view(method, 3, {SELECTOR: SELECTOR_LISTS}))
    assert trained.fields["noise_level"] == pytest.approx(4 / 12)
    assert trained.fields["selector_patients"] == [8, 4]
    OutboundRegistry(OUTBOUND_FIELDS).check(
        TRAIN, dict(trained.fields) | {"num_patients": len(set(trained.trained_on or ()))}
    )
    stored = site.view(method, 3).corrections.latest()
    assert stored is not None
    assert {case.image for case in stored.corrections.cases} == {"8.png", "9.png", "10.png", "11.png"}
    (record,) = (site.run_folder / SELECTION_FILE).read_text(encoding="utf-8").splitlines()
    assert (json.loads(record)["round"], json.loads(record)["num_wrong_suspects"]) == (3, 4)
    assert site.said[0].startswith("Round 3: 4 of 12 labels do not look right")


def test_a_selector_of_its_own_stays_at_the_site_and_is_found_again(tmp_path: Path) -> None:
    """What the server sends does not count then; a new half finds the file of the round before."""
    method, site = method_of(selector="own"), HandmadeSite(tmp_path, DATA)
    trained = method.train(Reader(), site.view(method, 1, {SELECTOR: SELECTOR_LISTS}))
    assert set(trained.fields) == {"noise_level"}
    view = site.view(method, 2)
    own = method_of(selector="own")._selector(view)
    assert own is not None
    assert list(own.means) != SELECTOR_LISTS["means"]
    assert method._selector(site.view(method, 1)) is None
    later = HandmadeSite(tmp_path / "later", DATA).view(method, 2, earlier_folders=(site.run_folder,))
    assert method._selector(later) == own


def test_without_a_global_selector_all_labels_are_taken_as_they_are(tmp_path: Path) -> None:
    method = method_of()
    assert method._selector(HandmadeSite(tmp_path, DATA).view(method, 4)) is None


def test_a_mixture_that_collapses_is_said_and_not_sent(tmp_path: Path) -> None:
    """All losses are the same."""
    method = method_of()
    site = HandmadeSite(tmp_path, make_data([0] * 6, [0.0] * 6))
    trained = method.train(Reader(), site.view(method, 2))
    assert "selector_means" not in trained.fields
    assert "Round 2: the mixture of losses collapsed; there is no new selector." in site.said


def test_a_component_of_few_patients_is_said_and_does_not_leave(tmp_path: Path) -> None:
    data = make_data([0, 1, 2] * 4 + [0], [*([0, 1, 2] * 4), 2.0])
    method, site = method_of(), HandmadeSite(tmp_path, data)
    trained = method.train(Reader(), site.view(method, 2, {SELECTOR: SELECTOR_LISTS}))
    assert "selector_means" not in trained.fields
    assert any("too few patients for the sample selector" in text or "collapsed" in text for text in site.said)


@pytest.mark.parametrize("losses", ["trained", "received"])
def test_the_selector_is_fitted_to_the_losses_of_the_model_that_the_settings_name(tmp_path: Path, losses: str) -> None:
    training = {"batch_size": 4, "local_epochs": 5, "learning_rate": 0.05, "augmentation": False}
    method = method_of(selector_losses=losses, training=training)
    calls: list[float] = []
    network = Reader()
    network.register_forward_hook(lambda module, *_: None if module.training else calls.append(float(module.scale)))
    method.train(network, HandmadeSite(tmp_path, DATA).view(method, 2, {SELECTOR: SELECTOR_LISTS}))
    assert calls[0] == 4.0
    assert (float(network.scale) in calls) is (losses == "trained")


def test_pseudo_labels_and_samples_that_are_left_out_are_its_targets_until_they_are_reverted(tmp_path: Path) -> None:
    """Of the four doubted samples those with a confident prediction have its class; a warm-up round has none."""
    method, site = method_of(pseudo_labels="fixed", fixed_threshold=0.99), HandmadeSite(tmp_path, DATA)
    method.train(Reader(), site.view(method, 3, {SELECTOR: SELECTOR_LISTS}))
    stored = site.view(method, 3).corrections.latest()
    assert stored is not None
    becomes = {case.image: case.new_class.becomes for case in stored.corrections.cases if case.new_class is not None}
    targets = method.targets(site.view(method, 3))
    used = [True] * len(GIVEN) if targets.used is None else targets.used.tolist()
    expected = [
        DATA.classes.index(becomes.get(f"{index}.png") or DATA.classes[given]) for index, given in enumerate(GIVEN)
    ]
    assert targets.labels.tolist() == expected  # type: ignore[union-attr]
    assert used == [becomes.get(f"{index}.png") != "" for index in range(len(GIVEN))]
    revert(stored.folder)
    given = method.targets(site.view(method, 3))
    assert (given.labels.tolist(), given.used) == (GIVEN, None)  # type: ignore[union-attr]
    assert method.targets(site.view(method, 4)).labels is None


@pytest.mark.parametrize("reviewed", [{"is_reference": True}, {"given_label": 2}], ids=["kept", "changed"])
def test_a_label_that_a_review_has_decided_is_trained_on_until_somebody_restores(tmp_path: Path, reviewed) -> None:
    method = method_of(warmup_rounds=0, pseudo_labels="fixed", fixed_threshold=0.6)
    files = Case(image=tmp_path / "8.png", label=GIVEN[8], **reviewed)
    cases = tuple(replace(case, files=files) if case.name == "8.png" else case for case in DATA.cases)
    site = HandmadeSite(tmp_path, replace(DATA, cases=cases))
    # As the site's folder says it, too: who restores asks it what is reviewed.
    item = {"image": "8.png", "label": GIVEN[8]} | {key: one for key, one in reviewed.items() if key == "given_label"}
    lists = {"training": [item]} | ({"reference": [item]} if "is_reference" in reviewed else {})
    (tmp_path / "datalist.json").write_text(json.dumps(lists))
    (tmp_path / "data.yaml").write_text("pipeline: classification\nchannels: 1\nclasses: [a, b, c]\nsize: [4, 4]\n")
    for number in (3, 4):
        view = site.view(method, number, {SELECTOR: SELECTOR_LISTS})
        method.train(Reader(), view)
        targets = method.targets(view)
        assert targets.labels.tolist() == [*TRUE[:8], GIVEN[8], *TRUE[9:]]  # type: ignore[union-attr]
        assert targets.used is None or bool(targets.used[8])
    restore(site.view(method, 4).corrections.latest().folder, ["8.png"])  # type: ignore[union-attr]
    view = site.view(method, 5, {SELECTOR: SELECTOR_LISTS})
    method.train(Reader(), view)
    assert method.targets(view).labels.tolist() == TRUE  # type: ignore[union-attr]
