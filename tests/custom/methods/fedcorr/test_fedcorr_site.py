"""FedCorr at a site: its training, what it says of its noise, and which of its labels it replaces."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.labelled_pictures import Brightness
from support.labelled_pictures import make_data as make_classes
from support.pictures import Threshold, make_data
from support.several_annotators import write_site
from support.site_views import HandmadeSite
from torch import nn

from fedannot.apps.reports.correction_changes import in_words, read_changes
from fedannot.custom.corrections.case_states import revert
from fedannot.custom.corrections.export import export_corrections
from fedannot.custom.data.description import ImageDescription
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.data.site_data import LoadedCase, SiteData, load_site_data
from fedannot.custom.data.store_location import participant_store
from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.interface.method import SiteMethod
from fedannot.custom.methods.fedavg.settings import FedAvgSettings
from fedannot.custom.methods.fedavg.site import FedAvgSite
from fedannot.custom.methods.fedcorr import METHODS
from fedannot.custom.methods.fedcorr.relabelling import Relabelling, relabelled_classes, sampled_losses
from fedannot.custom.methods.fedcorr.server import SHARE_OF_NOISE, TRAINED_ROUND
from fedannot.custom.methods.fedcorr.settings import FedCorrClassificationSettings, FedCorrSettings
from fedannot.custom.methods.fedcorr.site import FedCorrSite
from fedannot.custom.networks.described import described_network
from fedannot.custom.networks.devices import ready_to_compute
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.task_names import CORRECT_ANNOTATIONS, ESTIMATE_NOISE_SHARE, ESTIMATE_SITE_NOISE

COMMON: dict[str, Any] = {"rounds": 9, "preprocessing_rounds": 2, "finetuning_rounds": 2}
COMMON |= {"network": {"features": (4, 4, 8, 8, 8, 4), "num_classes": 2}}
TRAINING = {"batch_size": 2, "local_epochs": 2}
# A training that leaves the model as it is.
STILL = {"batch_size": 4, "local_epochs": 1, "learning_rate": 1e-9, "optimizer": "sgd", "momentum": 0.0}
PLAIN = {"mixup": 0.0, "proximity_weight": 0.0, "correction": False}
DATA = make_data([(1, 2), (1,), (2,), ()])
TOLD = {TRAINED_ROUND: 1}


def method_of(**settings: Any) -> FedCorrSite:
    return FedCorrSite(FedCorrSettings.model_validate(COMMON | {"training": STILL} | settings))


def classifier(**settings: Any) -> FedCorrSite:
    values = COMMON | {"network": {"in_channels": 1, "num_classes": 3}} | settings
    return FedCorrSite(FedCorrClassificationSettings.model_validate(values | {"training": STILL}))


def trained(method: SiteMethod, folder: Path, **message: Any) -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    network = ready_to_compute(described_network(method.settings.network))
    method.train(network, HandmadeSite(folder, DATA).view(method, 2, message))
    return network.state_dict()


def is_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


def test_without_its_parts_it_trains_as_federated_averaging_bit_for_bit(tmp_path: Path) -> None:
    plain = method_of(training=TRAINING, **PLAIN)
    fedavg = FedAvgSettings.model_validate({key: plain.settings.model_dump()[key] for key in ("rounds", "network")})
    averaging = FedAvgSite(fedavg.model_copy(update={"training": plain.settings.training}))
    expected = trained(averaging, tmp_path / "fedavg")
    assert is_same(trained(plain, tmp_path / "plain"), expected)
    mixed = trained(method_of(training=TRAINING), tmp_path / "mixed")
    assert not is_same(mixed, expected)
    # Without a share of noise it is federated averaging with mixed images; with one it stays nearer.
    without = method_of(training=TRAINING, proximity_weight=0.0)
    assert is_same(mixed, trained(without, tmp_path / "share", **{SHARE_OF_NOISE: 0.4}))
    assert not is_same(mixed, trained(method_of(training=TRAINING), tmp_path / "near", **{SHARE_OF_NOISE: 0.4}))


def site_of(folder: Path, data: SiteData) -> HandmadeSite:
    """A site of cases in memory, whose datalist has no reviewed ones."""
    folder.mkdir(exist_ok=True)
    (folder / "data.yaml").write_text(
        "pipeline: image2d\nchannels: 1\nsize: [4, 4]\nclasses: [a]\nlabels: {0: 0, 1: 1}\n"
    )
    (folder / "datalist.json").write_text('{"training": []}')
    return HandmadeSite(folder, data)


def noisy_pixels(units: Sequence[str] = "abcd", reviewed: Sequence[int] = ()) -> SiteData:
    """Four pictures of 4 × 4 pixels, whose brightness is the class; two of each are wrong, more and more so."""
    cases = []
    for number, unit in enumerate(units):
        true = torch.arange(16).reshape(1, 4, 4) % 3
        label = true.clone().to(torch.uint8)
        image = true[:, None].float()
        # Brighter than class 1, where background is annotated, and background, where class 1 is.
        label[0, 0, 1], image[0, 0, 0, 1] = 0, 1 + 0.05 * (number + 1)
        label[0, 1, 2], image[0, 0, 1, 2] = 1, -0.5 - 0.05 * number
        given = label.clone() if number in reviewed else None
        cases.append(LoadedCase(f"{number}.png", unit, image, label, None, None, given_label=given))
    description = ImageDescription(channels=1, size=(4, 4), classes=("a", "b"), labels={0: 0, 1: 1, 2: 2})
    return SiteData("site-1", tuple(cases), description, ())


def network() -> Threshold:
    result = Threshold(2)
    result.scale.data.fill_(4.0)
    return result


def asked(
    method: FedCorrSite, site: HandmadeSite, task: str, number: int = 2, model: nn.Module | None = None
) -> dict[str, Any]:
    answer = method.answer(task, model or network(), site.view(method, number, TOLD))
    declared = next(one for one in METHODS if one.task == method.settings.task)
    OutboundRegistry(declared.outbound_fields).check(task, dict(answer.fields))
    return dict(answer.fields)


def labels_in_use(method: FedCorrSite, site: HandmadeSite, number: int = 2) -> list[torch.Tensor]:
    view = site.view(method, number)
    return [case.label for case in method._corrected(view, view.corrections.latest()).cases]


def changed(labels: Sequence[torch.Tensor], data: SiteData) -> set[tuple[int, int, int]]:
    """Case, row and column of the pixels whose class is another than the given one."""
    pairs = zip(labels, data.cases, strict=True)
    return {
        (number, int(row), int(column))
        for number, (label, case) in enumerate(pairs)
        for _, row, column in (label != case.label).nonzero()
    }


@pytest.mark.parametrize(("direction", "expected"), [("both", {(number, 1, 2) for number in range(4)}), ("add", set())])
def test_half_of_the_noisy_pixels_are_replaced_those_of_the_largest_losses(
    tmp_path: Path, direction: str, expected: set[tuple[int, int, int]]
) -> None:
    """8 of 64 pixels are noisy: bright ones that are background lose about 4 x² − 4 (x − 1)², from 4.4 to 5.6.

    Dark ones that are foreground lose 4 (1 − x)² − 4 x², from 8 to 9.2, and `add` does not replace these.
    """
    data = noisy_pixels()
    method, site = method_of(direction=direction), site_of(tmp_path, data)
    method.train(network(), site.view(method, 1))
    assert asked(method, site, ESTIMATE_NOISE_SHARE)["noise_share"] == 8 / 64
    assert changed(labels_in_use(method, site), data) == expected


def test_after_the_second_stage_all_that_the_model_is_sure_of_is_replaced(tmp_path: Path) -> None:
    data = noisy_pixels(reviewed=[2])
    site = site_of(tmp_path, data)
    wrong = {(number, row, row + 1) for number in (0, 1, 3) for row in (0, 1)}
    both, add = method_of(), method_of(direction="add")
    assert asked(both, site, CORRECT_ANNOTATIONS, 5) == {"has_corrected": True}
    assert changed(labels_in_use(both, site, 5), data) == wrong
    assert asked(add, site, CORRECT_ANNOTATIONS, 4) == {"has_corrected": True}
    assert changed(labels_in_use(add, site, 4), data) == {place for place in wrong if place[1] == 0}
    assert both.training_flags(site.view(both, 5)) == {"has_corrected": True}
    assert both.training_flags(site.view(both, 3)) == {"has_corrected": False}


def test_a_task_that_comes_again_finds_what_was_before_and_later_ones_add_to_it(tmp_path: Path) -> None:
    data = noisy_pixels()
    method, site = method_of(), site_of(tmp_path, data)
    method.train(network(), site.view(method, 1))
    first, labels = asked(method, site, ESTIMATE_NOISE_SHARE), labels_in_use(method, site)
    assert asked(method, site, ESTIMATE_NOISE_SHARE) == first
    assert all(map(torch.equal, labels_in_use(method, site), labels))
    # In the next round half of the noisy pixels are left, and half of these are replaced.
    assert asked(method, site, ESTIMATE_NOISE_SHARE, 3)["noise_share"] == 4 / 64
    assert len(changed(labels_in_use(method, site, 3), data)) == 6
    assert changed(labels_in_use(method, site, 2), data) == changed(labels, data)


def test_a_site_trains_on_its_corrected_labels_with_one_annotation_each(tmp_path: Path) -> None:
    several = [replace(case, annotations=torch.stack([case.label[0]] * 3)[None]) for case in noisy_pixels().cases]
    data = replace(noisy_pixels(reviewed=[0]), cases=tuple(several))
    method, site = method_of(), site_of(tmp_path, data)
    asked(method, site, CORRECT_ANNOTATIONS, 5)
    seen: list[SiteData] = []
    batches = method.batches
    method.batches = lambda data, *rest: seen.append(data) or batches(data, *rest)  # type: ignore[method-assign,func-returns-value]
    method.train(network(), site.view(method, 5))
    assert len(changed([case.label for case in seen[0].cases], data)) == 8
    assert all(case.annotations is None for case in seen[0].cases)


def test_what_the_data_manager_reverts_stays_given(tmp_path: Path) -> None:
    data = noisy_pixels()
    method, site = method_of(), site_of(tmp_path, data)
    asked(method, site, CORRECT_ANNOTATIONS, 4)
    revert(site.view(method, 4).corrections.folder_of(4), ["1.png"])
    assert {number for number, *_ in changed(labels_in_use(method, site, 4), data)} == {0, 2, 3}
    asked(method, site, CORRECT_ANNOTATIONS, 5)
    assert {number for number, *_ in changed(labels_in_use(method, site, 5), data)} == {0, 2, 3}


def test_the_statistic_is_a_mean_over_cases_of_the_own_model(tmp_path: Path) -> None:
    data = noisy_pixels()
    method, site = method_of(), site_of(tmp_path, data)
    method.train(network(), site.view(method, 1))
    answer = method.answer(ESTIMATE_SITE_NOISE, Threshold(2), site.view(method, 2, TOLD))
    own = network()
    losses = [float(nn.functional.cross_entropy(own(case.image), case.label.long()).detach()) for case in data.cases]
    assert answer.fields["mean_case_loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    assert answer.samples["mean_case_loss"].values[:, 0] == pytest.approx(losses, rel=1e-5)


def test_in_a_job_without_corrections_no_server_can_ask_for_any(tmp_path: Path) -> None:
    method, site = method_of(correction=False), HandmadeSite(tmp_path, noisy_pixels())
    method.train(network(), site.view(method, 1))
    assert asked(method, site, CORRECT_ANNOTATIONS) == {"has_corrected": False}
    assert asked(method, site, ESTIMATE_NOISE_SHARE)["noise_share"] == 8 / 64
    assert site.view(method, 2).corrections.latest() is None


@pytest.mark.parametrize("task", [ESTIMATE_SITE_NOISE, ESTIMATE_NOISE_SHARE])
def test_of_few_patients_or_without_its_own_model_nothing_is_said(tmp_path: Path, task: str) -> None:
    method, few = method_of(), site_of(tmp_path / "few", noisy_pixels("aabb"))
    method.train(network(), few.view(method, 1))
    lost = site_of(tmp_path / "lost", noisy_pixels())
    for site in (few, lost):
        value, patients = asked(method, site, task).values()
        assert math.isnan(value)
        assert patients == 0
        assert site.view(method, 2).corrections.latest() is None
    assert "model of round 1" in lost.said[-1]


@pytest.mark.parametrize("task", [ESTIMATE_SITE_NOISE, ESTIMATE_NOISE_SHARE])
def test_of_a_damaged_model_nothing_is_said(tmp_path: Path, task: str) -> None:
    method, site = method_of(), site_of(tmp_path, noisy_pixels())
    method.train(network(), site.view(method, 1))
    file = site.run_folder / "local_models/round_1.pt"
    content = file.read_bytes()
    damaged = {"cut": content[:99], "empty": b""}
    torch.save({"other": torch.zeros(2)}, file)
    for of in (file.read_bytes(), *damaged.values()):
        file.write_bytes(of)
        value, patients = asked(method, site, task).values()
        assert (math.isnan(value), patients) == (True, 0)
        assert "of round 1 in local_models cannot be used (" in site.said[-1]


def test_where_all_pixels_are_ignored_there_is_no_share(tmp_path: Path) -> None:
    data = noisy_pixels()
    for case in data.cases:
        case.label[:] = 255
    method, site = method_of(), site_of(tmp_path, data)
    method.train(network(), site.view(method, 1))
    value, patients = asked(method, site, ESTIMATE_NOISE_SHARE).values()
    assert (math.isnan(value), patients) == (True, 0)
    asked(method, site, CORRECT_ANNOTATIONS, 5)
    assert changed(labels_in_use(method, site, 5), data) == set()


def test_what_is_reviewed_later_counts_as_it_is(tmp_path: Path) -> None:
    method, site = method_of(), site_of(tmp_path, noisy_pixels())
    asked(method, site, CORRECT_ANNOTATIONS, 4)
    site.data = noisy_pixels(reviewed=[1])
    assert {number for number, *_ in changed(labels_in_use(method, site, 4), site.data)} == {0, 2, 3}
    asked(method, site, CORRECT_ANNOTATIONS, 5)
    assert {number for number, *_ in changed(labels_in_use(method, site, 5), site.data)} == {0, 2, 3}


def test_classes_are_replaced_and_sites_divided_by_dimensionality(tmp_path: Path) -> None:
    """The labels of the last four are wrong; those with the largest losses get another class."""
    true = [0, 1, 2] * 8
    given = [*true[:20], 1, 1, 2, 1]
    bright = np.array(true) + np.r_[np.linspace(-0.2, 0.2, 20), 0.0, -0.1, -0.05, -0.1]
    data = make_classes(given, bright.tolist(), true=true)
    data = replace(data, cases=(replace(data.cases[0], given_label=data.cases[0].label), *data.cases[1:]))
    model = Brightness()
    model.scale.data.fill_(4.0)
    method, site = classifier(), site_of(tmp_path, data)
    method.train(model, site.view(method, 1))
    fields = asked(method, site, ESTIMATE_SITE_NOISE, model=model)
    assert set(fields) == {"local_dimensionality", "num_statistic_patients"}
    assert fields["local_dimensionality"] > 0
    assert set(asked(classifier(statistic="loss"), site, ESTIMATE_SITE_NOISE, model=model)) == {
        "mean_case_loss",
        "num_statistic_patients",
    }
    assert asked(method, site, ESTIMATE_NOISE_SHARE, model=model)["noise_share"] == pytest.approx(4 / 24)
    labels = torch.cat(labels_in_use(method, site)).tolist()
    wrong = [number for number, (label, other) in enumerate(zip(labels, true, strict=True)) if label != other]
    assert wrong == [20, 23]
    assert labels[:20] == given[:20]
    asked(method, site, CORRECT_ANNOTATIONS, 5, model)
    assert torch.cat(labels_in_use(method, site, 5)).tolist() == true
    stored = site.view(method, 5).corrections.latest()
    assert stored is not None
    assert in_words(stored.corrections, None) == ["16.7 % of the labels are wrong by the estimate"]


def test_every_class_of_a_large_site_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of pixels a part is drawn; of images none is left out, however many there are."""
    given = [0, 1, 2] * 6 + [1, 0]
    data = make_classes(given, [0.0, 1.0, 2.0] * 6 + [2.0, 2.0])
    monkeypatch.setitem(sampled_losses.__kwdefaults__, "most", 10)
    model, inference = Brightness(), Inference.of(classifier().settings)
    assert len(sampled_losses(model, data, inference, 0)) == 10
    probabilities = torch.cat([model(case.image) for case in data.cases]).softmax(dim=1)
    rule = Relabelling(least_loss=0.9)
    classes = relabelled_classes(rule, model, probabilities, data, inference, [False] * 20)
    assert classes.tolist() == [*given[:18], 2, 2]


def test_a_reverted_class_stays_given_also_after_a_round_that_does_not_replace_it(tmp_path: Path) -> None:
    """The model of round 5 is sure of nothing; that of round 6 sees another class, as that of round 4 did."""
    data = make_classes([1, 1, 2], [0.0, 1.0, 2.0])
    method, site, model, other = classifier(), site_of(tmp_path, data), Brightness(), Brightness()
    model.scale.data.fill_(9.0)
    other.scale.data.fill_(0.0)
    asked(method, site, CORRECT_ANNOTATIONS, 4, model)
    assert torch.cat(labels_in_use(method, site, 4)).tolist() == [0, 1, 2]
    revert(site.view(method, 4).corrections.folder_of(4))
    for number, seen in ((5, other), (6, model)):
        asked(method, site, CORRECT_ANNOTATIONS, number, seen)
        stored = site.view(method, number).corrections.latest()
        assert stored is not None
        assert "0.png" in {name.rpartition("/")[2] for name in stored.corrections.reverted}
    assert torch.cat(labels_in_use(method, site, 6)).tolist() == [1, 1, 2]


def test_files_on_disk_stay_and_corrected_masks_can_be_shown_and_exported(tmp_path: Path) -> None:
    write_phantom_federation(tmp_path / "data", LesionImages(), num_sites=1, images_per_site=3, test_images=1)
    folder = tmp_path / "data/site-1"
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    one = {"features": (4, 4, 8, 8, 8, 4), "num_classes": 1}
    method, site = method_of(network=one), HandmadeSite(tmp_path, data_folder=folder)
    asked(method, site, CORRECT_ANNOTATIONS, 5, Everywhere())
    assert all((label == 1).all() for label in labels_in_use(method, site, 5))
    assert {file: file.read_bytes() for file in before} == before
    stored = site.view(method, 5).corrections.latest()
    assert stored is not None
    assert in_words(stored.corrections, None) == [
        "pixels with a probability of the predicted class above 0.5 may become that class"
    ]
    (tmp_path / "export").mkdir()
    exported = export_corrections(tmp_path / "export", stored)
    assert (len(exported.annotations), exported.failed) == (3, ())
    assert all(annotation.changed > 0 for annotation in exported.annotations)
    # A case that is reviewed since counts as it is, also where that is written down.
    lists = json.loads((folder / "datalist.json").read_text())
    (folder / "datalist.json").write_text(json.dumps(lists | {"reference": lists["training"][:1]}))
    assert [change.state for change in read_changes(stored).cases()] == ["unchanged", "corrected", "corrected"]
    (tmp_path / "later").mkdir()
    later = export_corrections(tmp_path / "later", stored)
    assert ([annotation.given for annotation in exported.annotations][:1], 2) == (
        list(later.as_given),
        len(later.annotations),
    )


class Everywhere(nn.Module):
    """Is sure of foreground everywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.logit = nn.Parameter(torch.tensor(3.0))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        zero = torch.zeros_like(images)
        return torch.cat((zero, zero + self.logit), dim=1)


@pytest.mark.parametrize("rule", ["majority", "staple", "random-per-epoch", "soft", "one:B"])
def test_every_rule_for_several_annotations(tmp_path: Path, rule: str) -> None:
    """A replaced case has one label from then on, which can be shown; there is no file of it to export."""
    write_site(tmp_path / "data")
    data = load_site_data(tmp_path / "data", participant_store(), section="training", site="site-1", consensus=rule)
    one = {"features": (4, 4, 8, 8, 8, 4), "num_classes": 1}
    method = method_of(network=one, training=STILL | {"consensus": rule}, confidence=0.9)
    site = HandmadeSite(tmp_path, data, data_folder=tmp_path / "data")
    for number in (1, 5):
        method.train(Everywhere(), site.view(method, number))
        asked(method, site, CORRECT_ANNOTATIONS, number + 1, Everywhere())
    assert all((label == 1).all() for label in labels_in_use(method, site, 6))
    stored = site.view(method, 6).corrections.latest()
    assert stored is not None
    cases = read_changes(stored).cases()
    assert [change.state for change in cases] == ["corrected"] * 3
    (tmp_path / "export").mkdir()
    exported = export_corrections(tmp_path / "export", stored)
    assert (len(exported.annotations), len(exported.failed)) == ((3, 0) if rule == "one:B" else (0, 3))
