"""`auto` at a site: what it reports, what it corrects in memory, and what a run that goes on finds of it."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from support.recalling import Recalls
from support.site_views import HandmadeSite
from torch import nn

from fedannot.custom.annotation_bias.noisy_fields import MATCHED, OFFSET_DIFFERENCE, OFFSET_MEAN
from fedannot.custom.corrections.case_states import revert
from fedannot.custom.corrections.model import CORRECTIONS_FOLDER
from fedannot.custom.corrections.store import CorrectionStore
from fedannot.custom.corrections.targets import active_targets
from fedannot.custom.data.datalist import Case, write_datalist
from fedannot.custom.data.description import ImageDescription, write_site_description
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.lesion_volumes import LesionVolumes
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.methods.auto import METHOD
from fedannot.custom.methods.auto.settings import AutoSettings
from fedannot.custom.methods.auto.site import AutoSite
from fedannot.custom.networks.described import described_network
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.task_names import COMPARE_SCORES, CORRECT_ANNOTATION_BIAS, ESTIMATE_ANNOTATION_BIAS, KEEP_SCORES
from fedannot.custom.training.batch import Batch
from fedannot.custom.training.batches import training_batches
from fedannot.custom.training.objectives import Step
from fedannot.transforms.ignored_label import IGNORED_LABEL
from fedannot.transforms.move_contour import MoveContour

NUM_CASES = 5


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("federation") / "data"
    write_phantom_federation(folder, LesionImages(), num_sites=1, seed=0, images_per_site=NUM_CASES, test_images=1)
    return folder / "site-1"


def method_of(**settings: object) -> AutoSite:
    values = {"rounds": 9, "warmup_rounds": 1, "network": {"features": (4, 4, 8, 8, 8, 4)}}
    values["training"] = {"batch_size": 3, "local_epochs": 1}
    return AutoSite(AutoSettings.model_validate(values | settings))


def recalling(site: HandmadeSite, method: AutoSite, outward: float = 0.0) -> Recalls:
    data = site.view(method).load("training")
    return Recalls(data.images, data.labels, outward)


def instruction(offsets=None, missing=None, confused=0.0, unannotated=None):
    """The plain values that the server sends; not checked, as nobody checks them on the way."""
    asked = []
    if confused:
        asked.append({"kind": "objects_relabelled", "fraction": confused})
    if offsets:
        asked.append({"kind": "boundary_shift", "bias": offsets})
    if missing or unannotated:
        ignored = (missing or {}) if unannotated is None else unannotated
        asked.append({"kind": "missed_objects_ignored", "missed": missing or {}, "ignored": ignored})
    return {"corrections": asked}


def latest(site, last_round):
    stored = CorrectionStore(site.run_folder, last_round).latest()
    assert stored is not None
    return stored


def labels_of(stored, data, folder):
    return active_targets(stored, data, folder).labels


def test_a_site_reports_its_offset_from_the_model(tmp_path: Path, data_folder: Path) -> None:
    method, site = method_of(), HandmadeSite(tmp_path, data_folder=data_folder)
    answer = method.answer(ESTIMATE_ANNOTATION_BIAS, recalling(site, method, outward=-2.0), site.view(method, 2))
    OutboundRegistry(METHOD.outbound_fields).check(ESTIMATE_ANNOTATION_BIAS, answer.fields)
    assert answer.fields["offset"] == [pytest.approx(2.0, abs=0.3)]
    assert answer.fields["offset_patients"] == [NUM_CASES]
    assert answer.fields["offset_slope"] == [pytest.approx(1.0, abs=0.1)]
    assert answer.fields["completeness"] == [1.0]
    assert answer.fields["annotated_patients"] == [NUM_CASES]
    assert np.isnan(answer.fields["reviewed_offset"]).all()


def test_reviewed_cases_say_where_the_reference_level_is(tmp_path: Path, data_folder: Path) -> None:
    """The site's masks are one pixel larger than what was reviewed of three of its images."""
    folder = tmp_path / "data"
    shutil.copytree(data_folder, folder)
    content = json.loads((folder / "datalist.json").read_text())
    content["reference"] = [{"image": case["image"], "label": case["clean_label"]} for case in content["training"][:4]]
    (folder / "datalist.json").write_text(json.dumps(content))
    for case in content["training"]:
        mask = np.asarray(Image.open(folder / case["label"]))
        larger = np.asarray(MoveContour(1.0)((mask > 0).astype(np.uint8)))
        Image.fromarray((larger * 255).astype(np.uint8)).save(folder / case["label"])
    method, site = method_of(), HandmadeSite(tmp_path / "site", data_folder=folder)
    answer = method.answer(ESTIMATE_ANNOTATION_BIAS, recalling(site, method), site.view(method, 2))
    assert answer.fields["reviewed_offset"] == [pytest.approx(1.0, abs=0.2)]
    assert answer.fields["reviewed_offset_patients"] == [4]
    assert answer.fields["reference_offset"] == [pytest.approx(-1.0, abs=0.25)]


def test_what_is_corrected_is_trained_on_and_given_files_stay(tmp_path: Path, data_folder: Path) -> None:
    method, site = method_of(), HandmadeSite(tmp_path, data_folder=data_folder)
    given = {file: file.read_bytes() for file in data_folder.rglob("*.png")}
    view = site.view(method, 2, instruction({"1": 2.0}))
    assert method.answer(CORRECT_ANNOTATION_BIAS, recalling(site, method), view).fields == {"has_undone": True}
    torch.manual_seed(0)
    network = described_network(method.settings.network)
    other = described_network(method.settings.network)
    other.load_state_dict(network.state_dict())
    method.train(network, site.view(method, 2))
    assert method.training_flags(site.view(method, 2)) == {"has_undone": True}
    assert {file: file.read_bytes() for file in data_folder.rglob("*.png")} == given
    # The same as training on masks that were moved before.
    data = view.load("training")
    moved = torch.stack([torch.from_numpy(np.asarray(MoveContour(-2.0)(mask.numpy()))) for mask in data.labels])
    batches = training_batches(data, method.settings.training, torch.device("cpu"), labels=moved)
    method.train_on(batches, other, site.view(method, 2))
    assert all(torch.equal(one, two) for one, two in zip(network.parameters(), other.parameters(), strict=True))
    assert "contours of class 1 moved by -2.00." in site.said[0]


def test_without_an_instruction_training_is_federated_averaging(tmp_path: Path, data_folder: Path) -> None:
    method, site = method_of(), HandmadeSite(tmp_path, data_folder=data_folder)
    trained = method.train(described_network(method.settings.network), site.view(method, 2))
    assert trained.fields == {}
    assert method.training_flags(site.view(method, 2)) == {}


def test_the_most_confident_unannotated_objects_are_ignored(tmp_path: Path, data_folder: Path) -> None:
    method, site = method_of(), HandmadeSite(tmp_path, data_folder=data_folder)
    data = site.view(method).load("training")
    network = Recalls(data.images, data.labels)
    extra = np.zeros(data.labels.shape[1:], dtype=bool)
    free = int((data.labels == 0).all(dim=0).float().argmax())
    row, column = divmod(free, extra.shape[1])
    extra[row : row + 2, column : column + 2] = True
    network.masks[:, torch.from_numpy(extra)] = 1
    # Five annotated objects are half of all: five are missing.
    view = site.view(method, 2, instruction(missing={"1": 0.5}))
    method.answer(CORRECT_ANNOTATION_BIAS, network, view)
    stored = latest(site, 2)
    assert sum(case.ignored_objects for case in stored.corrections.cases) == NUM_CASES
    # A third of all: two and a half are not annotated. So many are ignored; the loss asks for what is confirmed.
    method.answer(
        CORRECT_ANNOTATION_BIAS,
        network,
        site.view(method, 3, instruction(missing={"1": 0.2}, unannotated={"1": 1 / 3})),
    )
    stored = latest(site, 3)
    assert sum(case.ignored_objects for case in stored.corrections.cases) == NUM_CASES // 2
    assert stored.folder.name == "round_3"
    targets = active_targets(stored, data, data_folder)
    labels = torch.stack(targets.labels)
    assert set(labels.unique().tolist()) == {0, 1, IGNORED_LABEL}
    assert torch.equal(labels == 1, data.labels == 1)
    assert targets.completeness.eq(0.8).all()
    # Two by two pixels in the corner of the image, and 9 at most two steps away.
    assert int((labels == IGNORED_LABEL).sum()) == 13 * (NUM_CASES // 2)


class SeesClasses(nn.Module):
    """Sees class 1 in the left half of images and class 2 in the right half, wherever an image is bright."""

    def __init__(self) -> None:
        super().__init__()
        self.certainty = nn.Parameter(torch.tensor(6.0))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        bright = images[:, 0] > images[:, 0].mean()
        is_left = torch.arange(images.shape[-1]) < images.shape[-1] // 2
        seen = torch.stack((~bright, bright & is_left, bright & ~is_left), dim=1)
        return self.certainty * (2 * seen.float() - 1)


@pytest.fixture
def two_classes(tmp_path: Path) -> Path:
    """Pictures with a bright square in each half; in half of the pictures the codes of the classes are exchanged."""
    folder = tmp_path / "data"
    cases = []
    for index in range(6):
        mask = np.zeros((24, 48), np.uint8)
        mask[4:12, 6:14], mask[10:18, 30:40] = (2, 1) if index % 2 else (1, 2)
        for kind, pixels in (("images", (mask > 0) * np.uint8(200)), ("labels", mask)):
            (folder / kind).mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(folder / kind / f"p{index}.png")
        cases.append(Case(folder / "images" / f"p{index}.png", folder / "labels" / f"p{index}.png"))
    write_datalist(folder / "datalist.json", {"training": cases})
    labels = {0: 0, 1: 1, 2: 2}
    write_site_description(folder, ImageDescription(channels=1, size=(24, 48), labels=labels, classes=("a", "b")))
    return folder


TWO_CLASSES = {"features": (4, 4, 8, 8, 8, 4), "num_classes": 2}


def test_a_site_reports_the_fraction_of_objects_that_look_like_another_class(tmp_path: Path, two_classes: Path) -> None:
    method, site = method_of(network=TWO_CLASSES), HandmadeSite(tmp_path, data_folder=two_classes)
    answer = method.answer(ESTIMATE_ANNOTATION_BIAS, SeesClasses(), site.view(method, 2))
    OutboundRegistry(METHOD.outbound_fields).check(ESTIMATE_ANNOTATION_BIAS, answer.fields)
    assert answer.fields["swapped"] == [pytest.approx(0.5)]
    assert answer.fields["swapped_patients"] == [6]
    assert answer.fields["exchanged_part"] == [1.0]
    # What it would see of injected errors goes with it, here not more than by chance; without it nothing is confirmed.
    assert answer.fields["swapped_auroc"] == [pytest.approx(0.5, abs=0.1)]


def test_a_site_without_any_object_says_nothing_of_classes(tmp_path: Path, two_classes: Path) -> None:
    """Nothing is annotated, and the model sees nothing either."""
    for file in (*(two_classes / "images").iterdir(), *(two_classes / "labels").iterdir()):
        Image.fromarray(np.zeros((24, 48), np.uint8)).save(file)
    method, site = method_of(network=TWO_CLASSES), HandmadeSite(tmp_path, data_folder=two_classes)
    answer = method.answer(ESTIMATE_ANNOTATION_BIAS, SeesClasses(), site.view(method, 2))
    OutboundRegistry(METHOD.outbound_fields).check(ESTIMATE_ANNOTATION_BIAS, answer.fields)
    assert answer.fields["swapped_patients"] == [0]
    assert np.isnan(answer.fields["exchanged_part"]).all()


def test_objects_of_another_class_are_trained_on_as_what_the_model_sees(tmp_path: Path, two_classes: Path) -> None:
    method, site = method_of(network=TWO_CLASSES), HandmadeSite(tmp_path, data_folder=two_classes)
    method.answer(CORRECT_ANNOTATION_BIAS, SeesClasses(), site.view(method, 2, instruction(confused=0.5)))
    stored = latest(site, 2)
    assert [case.relabelled_objects for case in stored.corrections.cases] == [0, 2, 0, 2, 0, 2]
    data = site.view(method).load("training")
    counts = torch.stack(labels_of(stored, data, two_classes))
    assert torch.equal(counts, torch.stack([data.labels[0]] * 6))
    assert "6 objects relabelled" in site.said[0]
    revert(stored.folder, [stored.corrections.cases[1].label])
    counts = torch.stack(labels_of(latest(site, 2), data, two_classes))
    assert torch.equal(counts[1], data.labels[1])
    # Reported once more that nothing is wrong, everything counts as it was given.
    method.answer(CORRECT_ANNOTATION_BIAS, SeesClasses(), site.view(method, 3, instruction()))
    stored = latest(site, 3)
    assert not stored.corrections.changes_labels


def test_contours_are_assessed_by_the_classes_that_objects_were_given(tmp_path: Path, two_classes: Path) -> None:
    method, site = method_of(network=TWO_CLASSES), HandmadeSite(tmp_path, data_folder=two_classes)
    model = SeesClasses()
    before = method.answer(ESTIMATE_ANNOTATION_BIAS, model, site.view(method, 2)).fields
    method.answer(CORRECT_ANNOTATION_BIAS, model, site.view(method, 2, instruction(confused=0.5)))
    after = method.answer(ESTIMATE_ANNOTATION_BIAS, model, site.view(method, 3)).fields
    OutboundRegistry(METHOD.outbound_fields).check(ESTIMATE_ANNOTATION_BIAS, after)
    # An object of the wrong class matches none of the model's; each class is wrong in half of the pictures.
    assert ("classes_given_anew" in before, before["offset_patients"]) == (False, [3, 3])
    assert (after["classes_given_anew"], after["offset_patients"]) == (True, [6, 6])
    assert after["offset"] == pytest.approx([0.0, 0.0], abs=0.05)
    # The share is that of the given classes: it gets its instruction again, and stays corrected.
    assert after["swapped"] == before["swapped"] == [pytest.approx(0.5)]
    # Annotations of which somebody has taken it back count as they are.
    stored = latest(site, 3)
    revert(stored.folder, [stored.corrections.cases[1].label])
    assert method.answer(ESTIMATE_ANNOTATION_BIAS, model, site.view(method, 3)).fields["offset_patients"] == [5, 5]
    revert(stored.folder)
    rolled_back = method.answer(ESTIMATE_ANNOTATION_BIAS, model, site.view(method, 3)).fields
    assert ("classes_given_anew" in rolled_back, rolled_back["offset_patients"]) == (False, [3, 3])
    # Reported that nothing is wrong, everything is predicted as it was given.
    method.answer(CORRECT_ANNOTATION_BIAS, model, site.view(method, 3, instruction()))
    as_given = method.answer(ESTIMATE_ANNOTATION_BIAS, model, site.view(method, 4)).fields
    assert ("classes_given_anew" in as_given, as_given["offset_patients"]) == (False, [3, 3])


def test_most_objects_have_to_be_of_their_class_when_contours_are_assessed_by_it(
    tmp_path: Path, two_classes: Path
) -> None:
    """Codes are exchanged in all pictures; the site is instructed to correct a tenth of the objects alone."""
    for file in (two_classes / "labels").glob("p[024].png"):
        mask = np.asarray(Image.open(file))
        Image.fromarray(np.where(mask > 0, 3 - mask, 0).astype(np.uint8)).save(file)
    method, site = method_of(network=TWO_CLASSES), HandmadeSite(tmp_path, data_folder=two_classes)
    method.answer(CORRECT_ANNOTATION_BIAS, SeesClasses(), site.view(method, 2, instruction(confused=0.1)))
    few = method.answer(ESTIMATE_ANNOTATION_BIAS, SeesClasses(), site.view(method, 3)).fields
    assert ("classes_given_anew" in few, few["swapped"]) == (False, [pytest.approx(1.0)])
    method.answer(CORRECT_ANNOTATION_BIAS, SeesClasses(), site.view(method, 3, instruction(confused=1.0)))
    all_of_them = method.answer(ESTIMATE_ANNOTATION_BIAS, SeesClasses(), site.view(method, 4)).fields
    assert (all_of_them["classes_given_anew"], all_of_them["swapped"]) == (True, [pytest.approx(1.0)])


def test_what_is_hidden_by_noise_is_of_the_given_classes(tmp_path: Path, two_classes: Path) -> None:
    """Which objects get another class hangs on all patients: one would change the samples of the others."""
    method, site = method_of(network=TWO_CLASSES), HandmadeSite(tmp_path, data_folder=two_classes)
    before = method.answer(ESTIMATE_ANNOTATION_BIAS, SeesClasses(), site.view(method, 2)).samples
    method.answer(CORRECT_ANNOTATION_BIAS, SeesClasses(), site.view(method, 2, instruction(confused=0.5)))
    after = method.answer(ESTIMATE_ANNOTATION_BIAS, SeesClasses(), site.view(method, 3)).samples
    assert before.keys() == after.keys() != set()
    for name, samples in before.items():
        assert np.array_equal(samples.values, after[name].values, equal_nan=True), name


def test_as_many_are_ignored_as_the_new_classes_ask_for(tmp_path: Path, two_classes: Path) -> None:
    """All objects are given as the first class, and a third of the second one's is said not to be annotated."""
    for file in (two_classes / "labels").iterdir():
        Image.fromarray((np.asarray(Image.open(file)) > 0).astype(np.uint8)).save(file)
    # In one more picture nothing is annotated, and the model sees both.
    for kind, value in (("images", 200), ("labels", 0)):
        shown = np.asarray(Image.open(two_classes / "images" / "p0.png")) > 0
        Image.fromarray(shown * np.uint8(value)).save(two_classes / kind / "p5.png")
    method, site = method_of(network=TWO_CLASSES), HandmadeSite(tmp_path, data_folder=two_classes)
    shares = {"missing": {"2": 1 / 6}, "unannotated": {"2": 1 / 6}}
    method.answer(CORRECT_ANNOTATION_BIAS, SeesClasses(), site.view(method, 2, instruction(confused=0.5, **shares)))
    stored = latest(site, 2)
    assert [case.relabelled_objects for case in stored.corrections.cases] == [1, 1, 1, 1, 1, 0]
    # Five objects are of the second class now, so that one more is ignored; as given there would be none of it.
    assert [case.ignored_objects for case in stored.corrections.cases] == [0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_that_is_none_is_refused(tmp_path: Path, data_folder: Path, share: float) -> None:
    method, site = method_of(), HandmadeSite(tmp_path, data_folder=data_folder)
    with pytest.raises(ValueError, match=r"objects_relabelled\.fraction"):
        method.answer(
            CORRECT_ANNOTATION_BIAS, recalling(site, method), site.view(method, 2, instruction(confused=share))
        )


def test_where_objects_are_missing_the_loss_asks_for_the_share_that_is_annotated(
    tmp_path: Path, data_folder: Path
) -> None:
    """One annotation of five was looked at, and counts as it was given: it is complete."""
    method, site = method_of(), HandmadeSite(tmp_path, data_folder=data_folder)
    method.answer(
        CORRECT_ANNOTATION_BIAS,
        recalling(site, method),
        site.view(method, 2, instruction(missing={"1": 0.25}, unannotated={"1": 0.4})),
    )
    stored = latest(site, 2)
    revert(stored.folder, [stored.corrections.cases[3].label])
    network = described_network(method.settings.network).eval()
    view = site.view(method, 2)
    images, labels = (view.load("training").images[2:4], view.load("training").labels[2:4].unsqueeze(1))
    probabilities = network(images).softmax(dim=1).detach()
    given = probabilities[:, 1] * torch.tensor([0.75, 1.0]).view(2, 1, 1)
    expected = -torch.where(labels[:, 0] == 1, given, 1 - given).log().mean()
    objective = method.objective(network, view, None, method.targets(view))
    result = objective(network, Batch(images, labels, torch.tensor([2, 3])), Step(number=0, epoch=0, epochs=1))
    assert float(result.detach()) == pytest.approx(float(expected), rel=1e-5)


def test_what_is_reverted_counts_as_given_in_the_next_training(tmp_path: Path, data_folder: Path) -> None:
    method, site = method_of(), HandmadeSite(tmp_path, data_folder=data_folder)
    network = described_network(method.settings.network)
    fresh = described_network(method.settings.network)
    fresh.load_state_dict(network.state_dict())
    method.train(fresh, site.view(method, 2))
    method.answer(CORRECT_ANNOTATION_BIAS, recalling(site, method), site.view(method, 2, instruction({"1": 2.0})))
    revert(latest(site, 2).folder)
    method.train(network, site.view(method, 2))
    assert method.training_flags(site.view(method, 2)) == {"has_undone": True}
    assert all(torch.equal(one, two) for one, two in zip(network.parameters(), fresh.parameters(), strict=True))


def test_what_was_reverted_stays_so_when_the_site_is_instructed_again(tmp_path: Path, data_folder: Path) -> None:
    """A second estimate knows nothing of what the site's data manager has decided."""
    method, site = method_of(), HandmadeSite(tmp_path, data_folder=data_folder)
    method.answer(CORRECT_ANNOTATION_BIAS, recalling(site, method), site.view(method, 2, instruction({"1": 2.0})))
    stored = latest(site, 2)
    chosen = stored.corrections.cases[1].label
    revert(stored.folder, [chosen])
    method.answer(CORRECT_ANNOTATION_BIAS, recalling(site, method), site.view(method, 5, instruction({"1": 1.5})))
    stored = latest(site, 5)
    assert (stored.folder.name, stored.corrections.reverted) == ("round_5", {chosen})


@pytest.mark.parametrize(("continued_round", "found"), [(2, True), (1, False), (None, False)])
def test_a_run_that_goes_on_finds_what_was_corrected_by_then(
    tmp_path: Path, data_folder: Path, continued_round: int | None, found: bool
) -> None:
    method, earlier = method_of(), HandmadeSite(tmp_path / "earlier", data_folder=data_folder)
    method.answer(CORRECT_ANNOTATION_BIAS, recalling(earlier, method), earlier.view(method, 2, instruction({"1": 2.0})))
    later = HandmadeSite(tmp_path / "later", data_folder=data_folder)
    changes = {"earlier_folders": [earlier.run_folder], "continued_round": continued_round}
    method.before_task(later.view(method, 3, **changes))
    assert method.training_flags(later.view(method, 3, **changes)) == ({"has_undone": True} if found else {})


def test_nothing_to_correct_takes_back_what_was_corrected(tmp_path: Path, data_folder: Path) -> None:
    method, site = method_of(), HandmadeSite(tmp_path, data_folder=data_folder)
    network = described_network(method.settings.network)
    fresh = described_network(method.settings.network)
    fresh.load_state_dict(network.state_dict())
    method.train(fresh, site.view(method, 5))
    for number, offsets in ((2, {"1": 2.0}), (5, {})):
        method.answer(CORRECT_ANNOTATION_BIAS, recalling(site, method), site.view(method, number, instruction(offsets)))
    method.train(network, site.view(method, 5))
    assert all(torch.equal(one, two) for one, two in zip(network.parameters(), fresh.parameters(), strict=True))


@pytest.mark.parametrize(
    "message",
    [
        instruction({"1": float("nan")}),
        instruction({"1": float("inf")}),
        instruction(missing={"1": -0.5}),
        instruction(missing={"1": 7.0}),
        instruction(unannotated={"1": 7.0}),
        instruction(unannotated={"1": float("nan")}),
        instruction(missing={"1": 0.5}, unannotated={}),
        instruction(unannotated={"1": 0.5}),
    ],
)
def test_what_cannot_be_corrected_is_refused(tmp_path: Path, data_folder: Path, message: dict[str, object]) -> None:
    method, site = method_of(), HandmadeSite(tmp_path, data_folder=data_folder)
    with pytest.raises(ValueError, match=r"BoundaryShift|boundary_shift|missed_objects_ignored|same classes"):
        method.answer(CORRECT_ANNOTATION_BIAS, recalling(site, method), site.view(method, 2, message))
    assert not (site.run_folder / CORRECTIONS_FOLDER).exists()


def with_section(data_folder: Path, folder: Path, section: str, annotation: str) -> Path:
    """The training images once more as another list, with given or clean annotations."""
    shutil.copytree(data_folder, folder)
    content = json.loads((folder / "datalist.json").read_text())
    content[section] = [{"image": case["image"], "label": case[annotation]} for case in content["training"]]
    (folder / "datalist.json").write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize(("section", "field"), [("validation", "held_out_gain"), ("reference", "reviewed_gain")])
def test_a_site_says_by_how_much_the_shadow_is_better(
    tmp_path: Path, data_folder: Path, section: str, field: str
) -> None:
    folder = with_section(data_folder, tmp_path / "data", section, "label")
    method, site = method_of(), HandmadeSite(tmp_path / "site", data_folder=folder)
    right, wrong = recalling(site, method), recalling(site, method, outward=-3.0)
    assert method.answer(KEEP_SCORES, wrong, site.view(method, 3)).fields == {"has_scored": True}
    answer = method.answer(COMPARE_SCORES, right, site.view(method, 5, {"kept_round": 3})).fields
    OutboundRegistry(METHOD.outbound_fields).check(COMPARE_SCORES, answer)
    assert answer[f"{field}_patients"] == [NUM_CASES]
    assert 0.05 < answer[f"{field}_low"][0] < answer[field][0] < answer[f"{field}_high"][0] < 1
    other = "reviewed_gain" if field == "held_out_gain" else "held_out_gain"
    assert np.isnan(answer[other]).all()
    # Of another round there is nothing to compare with; a run that goes on finds what was kept.
    assert np.isnan(method.answer(COMPARE_SCORES, right, site.view(method, 4)).fields[field]).all()
    later = HandmadeSite(tmp_path / "later", data_folder=folder)
    view = later.view(method, 5, {"kept_round": 3}, earlier_folders=[site.run_folder], continued_round=4)
    assert method.answer(COMPARE_SCORES, right, view).fields == answer


def test_a_site_without_reviewed_or_held_out_patients_scores_nothing(tmp_path: Path, data_folder: Path) -> None:
    method, site = method_of(), HandmadeSite(tmp_path, data_folder=data_folder)
    answer = method.answer(KEEP_SCORES, recalling(site, method), site.view(method, 3))
    assert answer.fields == {"has_scored": False}


def test_patients_that_are_held_out_are_not_learnt_and_can_be_scored(tmp_path: Path, data_folder: Path) -> None:
    """The training is that on the other patients alone; of seven patients three are held out."""
    folder = tmp_path / "data"
    write_phantom_federation(folder, LesionImages(), num_sites=1, seed=1, images_per_site=7, test_images=1)
    method = method_of(held_out=0.4)
    site = HandmadeSite(tmp_path / "site", data_folder=folder / "site-1")
    network, fresh = (described_network(method.settings.network) for _ in range(2))
    fresh.load_state_dict(network.state_dict())
    trained = method.train(network, site.view(method, 2))
    assert trained.trained_on is not None
    left = set(trained.trained_on)
    data = site.view(method).load("training")
    assert len(left) == 4
    assert left < set(data.units)
    content = json.loads((folder / "site-1" / "datalist.json").read_text())
    chosen = [case for case, unit in zip(content["training"], data.units, strict=True) if unit in left]
    (folder / "site-1" / "datalist.json").write_text(json.dumps(content | {"training": chosen}))
    fewer = HandmadeSite(tmp_path / "fewer", data_folder=folder / "site-1")
    method_of().train(fresh, fewer.view(method_of(), 2))
    assert all(torch.equal(one, two) for one, two in zip(network.parameters(), fresh.parameters(), strict=True))
    (folder / "site-1" / "datalist.json").write_text(json.dumps(content))
    recalls = recalling(site, method)
    method.answer(KEEP_SCORES, recalls, site.view(method, 2))
    answer = method.answer(COMPARE_SCORES, recalls, site.view(method, 2)).fields
    assert (answer["held_out_gain_patients"], answer["held_out_gain"]) == ([3], [0.0])
    # Estimates are of what is learnt, too.
    estimated = method.answer(ESTIMATE_ANNOTATION_BIAS, recalls, site.view(method, 2)).fields
    assert estimated["num_patients"] == 4


def test_what_noise_can_be_given_to_stays_at_the_site_with_the_answer(tmp_path: Path, data_folder: Path) -> None:
    """Numbers of objects are reported with noise only where the job acts on them."""
    method, site = method_of(correct=("offset",)), HandmadeSite(tmp_path, data_folder=data_folder)
    answer = method.answer(ESTIMATE_ANNOTATION_BIAS, recalling(site, method, outward=-2.0), site.view(method, 2))
    assert set(answer.samples) == {OFFSET_MEAN, OFFSET_DIFFERENCE}
    assert not set(answer.samples) & set(answer.fields)
    assert answer.samples[OFFSET_MEAN].values.shape == (NUM_CASES, 1)
    assert answer.samples[OFFSET_MEAN].bounded(0, 8.0) == pytest.approx(2.0, abs=0.3)
    assert "resampled_micrometres" not in answer.fields
    acting = method_of(correct=["offset", "missing"])
    answer = acting.answer(ESTIMATE_ANNOTATION_BIAS, recalling(site, acting), site.view(acting, 2))
    assert answer.samples[MATCHED].bounded(0, 10.0) == NUM_CASES


def test_a_site_in_millimetres_says_to_which_pixel_it_resamples_or_has_no_offset_with_noise(tmp_path: Path) -> None:
    write_phantom_federation(
        tmp_path / "data", LesionVolumes(None), num_sites=1, seed=0, images_per_site=1, test_images=1
    )
    folder = tmp_path / "data" / "site-1"
    network = {"features": (4, 4, 8, 8, 8, 4)}
    for resampled in (False, True):
        if resampled:
            content = yaml.safe_load((folder / "data.yaml").read_text())
            (folder / "data.yaml").write_text(yaml.safe_dump(content | {"spacing": [2.0, 2.0, 2.0]}))
        method = method_of(network=network)
        site = HandmadeSite(tmp_path / str(resampled), data_folder=folder)
        answer = method.answer(
            ESTIMATE_ANNOTATION_BIAS, described_network(method.settings.network), site.view(method, 2)
        )
        assert answer.fields.get("resampled_micrometres") == (2000 if resampled else None)
        assert (OFFSET_MEAN in answer.samples) == resampled
