"""FedIA at a site: corrections are made once, trained on, reported, and taken over by a run that goes on."""

import itertools
import json
from pathlib import Path

import nibabel
import numpy as np
import pytest
import torch
from support.kept_masks import with_first_case_kept
from support.site_views import HandmadeSite
from torch import nn

from fedannot.custom.corrections.case_states import restore
from fedannot.custom.corrections.kinds import LesionsAdded
from fedannot.custom.corrections.store import CorrectionStore
from fedannot.custom.data.datalist import Case, write_datalist
from fedannot.custom.data.description import SliceDescription, write_site_description
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.methods.auto.protected_cases import protected_cases
from fedannot.custom.methods.fedia.settings import FedIASettings
from fedannot.custom.methods.fedia.site import FedIASite
from fedannot.custom.networks.described import described_network
from fedannot.custom.task_names import CORRECT_ANNOTATIONS, ESTIMATE_COMPLETENESS


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("federation") / "data"
    write_phantom_federation(folder, LesionImages(), num_sites=1, seed=0, images_per_site=3, test_images=1)
    return folder / "site-1"


class Everything(nn.Module):
    """Is sure of a lesion everywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.certainty = nn.Parameter(torch.tensor(9.0))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        result = torch.zeros_like(images) + self.certainty
        return torch.cat((-result, result), dim=1)


def method_of(**settings: object) -> FedIASite:
    values = {"rounds": 9, "warmup_rounds": 1, "network": {"features": (4, 4, 8, 8, 8, 4)}}
    values["training"] = {"batch_size": 3, "local_epochs": 1}
    return FedIASite(FedIASettings.model_validate(values | settings))


def test_the_estimate_counts_lesions_of_all_training_cases(tmp_path: Path, data_folder: Path) -> None:
    method, site = method_of(), HandmadeSite(tmp_path, data_folder=data_folder)
    answer = method.answer(ESTIMATE_COMPLETENESS, Everything(), site.view(method))
    assert (answer.fields["num_patients"], answer.fields["num_predicted_lesions"]) == (3, 3)
    assert answer.fields["num_annotated_lesions"] >= 3
    assert "num_predicted_lesions" in answer.samples


def test_annotations_are_corrected_once_and_counted_from_then_on(tmp_path: Path, data_folder: Path) -> None:
    method, site = method_of(), HandmadeSite(tmp_path, data_folder=data_folder)
    view = site.view(method, 5)
    assert view.corrections.files_in_use(data_folder) == {}
    given = view.load("training").labels.sum()
    assert method.answer(CORRECT_ANNOTATIONS, Everything(), view).fields == {"has_corrected": True}
    assert len(view.corrections.files_in_use(data_folder)) == 3
    assert view.load("training").labels.sum() > given
    first = CorrectionStore(site.run_folder, 9).latest()
    assert method.answer(CORRECT_ANNOTATIONS, Everything(), site.view(method, 6)).fields == {"has_corrected": True}
    assert CorrectionStore(site.run_folder, 9).latest() == first
    assert [text.split(":")[0] for text in site.said] == ["Before round 5"]


def test_a_site_that_asks_trains_on_given_annotations_until_somebody_has_decided(
    tmp_path: Path, data_folder: Path
) -> None:
    method, site = (
        method_of(corrections="ask", trigger="estimate", estimator="sure"),
        HandmadeSite(tmp_path, data_folder=data_folder),
    )
    view = site.view(method, 5)
    given = view.load("training").labels.clone()
    assert method.answer(CORRECT_ANNOTATIONS, Everything(), view).fields == {"has_corrected": True}
    assert view.corrections.files_in_use(data_folder) == {}
    assert torch.equal(view.load("training").labels, given)
    assert "3 of 3 annotations would be corrected" in site.said[-1]
    restore(view.corrections.folder_of(5), ["lesion_001.png"])
    assert [file.name for file in view.corrections.files_in_use(data_folder)] == ["lesion_001.png"]
    # What is asked once is not asked again.
    assert method.answer(CORRECT_ANNOTATIONS, Everything(), site.view(method, 6)).fields == {"has_corrected": True}
    assert len(view.corrections.files_in_use(data_folder)) == 1


@pytest.mark.parametrize("correction", [True, False])
def test_a_training_says_whether_it_was_on_corrected_annotations(
    tmp_path: Path, data_folder: Path, correction: bool
) -> None:
    method, site = method_of(correction=correction), HandmadeSite(tmp_path, data_folder=data_folder)
    network = described_network(method.settings.network)
    first = method.train(network, site.view(method, 2))
    assert method.training_flags(site.view(method, 2)) == ({"has_corrected": False} if correction else {})
    assert first.outcome.dice_loss is not None
    if correction:
        method.answer(CORRECT_ANNOTATIONS, Everything(), site.view(method, 3))
        assert method.training_flags(site.view(method, 3)) == {"has_corrected": True}


@pytest.mark.parametrize(
    ("correction", "continued_round", "taken"),
    [(True, 4, True), (True, 3, False), (True, None, False), (False, 4, False)],
)
def test_a_run_that_goes_on_takes_over_what_was_corrected_by_then(
    tmp_path: Path, data_folder: Path, correction: bool, continued_round: int | None, taken: bool
) -> None:
    """They were corrected before round 5, so that a run goes on from them after round 4 and later."""
    method, earlier = method_of(), HandmadeSite(tmp_path / "earlier", data_folder=data_folder)
    method.answer(CORRECT_ANNOTATIONS, Everything(), earlier.view(method, 5))
    again, site = method_of(correction=correction), HandmadeSite(tmp_path / "now", data_folder=data_folder)
    view = site.view(again, 5, earlier_folders=(earlier.run_folder,), continued_round=continued_round)
    again.before_task(view)
    assert (CorrectionStore(site.run_folder, 9).latest() is not None) is taken
    assert bool(site.said) is taken


class Bright(nn.Module):
    """Is sure of a lesion where the image is bright."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(10.0))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        result = self.scale * (images[:, :1] - 2.0)
        return torch.cat((-result, result), dim=1)


OWN = {"weighting": "established", "estimator": "sure", "trigger": "estimate", "additions": "lesions"}


def test_in_the_own_form_a_site_adds_whole_lesions_and_then_counts_them_as_annotated(tmp_path: Path) -> None:
    """Of six bright boxes in every volume a site annotates three; the annotated ones are seen without fault."""
    folder = tmp_path / "data"
    (folder / "images").mkdir(parents=True)
    (folder / "labels").mkdir()
    cases = []
    for number in range(4):
        image, label = np.zeros((24, 24, 6), dtype=np.int16), np.zeros((24, 24, 6), dtype=np.uint8)
        for index, (row, column) in enumerate(itertools.product((2, 10, 18), (3, 14))):
            image[row : row + 3, column : column + 3, 2:4] = 100
            if index < 3:
                label[row : row + 3, column : column + 3, 2:4] = 1
        names = [folder / kind / f"{number}.nii.gz" for kind in ("images", "labels")]
        for array, name in zip((image, label), names, strict=True):
            nibabel.save(nibabel.Nifti1Image(array, np.eye(4)), name)
        cases.append(Case(*names))
    write_datalist(folder / "datalist.json", {"training": cases})
    write_site_description(folder, SliceDescription(size=(24, 24), labels={0: 0, 1: 1}, classes=("lesion",)))

    method, site = method_of(**OWN), HandmadeSite(tmp_path / "run", data_folder=folder)
    before = method.answer(ESTIMATE_COMPLETENESS, Bright(), site.view(method, 5)).fields
    # As many new as annotated, all equally sure: 12 / (12 + 12 / 0.75).
    assert (before["completeness"], before["completeness_high"]) == (0.429, 0.429)
    assert (before["lesion_recall"], before["lesion_precision"]) == (1.0, 1.0)
    assert method.answer(CORRECT_ANNOTATIONS, Bright(), site.view(method, 5)).fields == {"has_corrected": True}
    corrections = CorrectionStore(site.run_folder, 9).latest()
    assert corrections is not None
    masks = [case.mask for case in corrections.corrections.used_masks]
    assert [mask.new_lesions for mask in masks if mask is not None] == [3, 3, 3, 3]
    assert corrections.corrections.of(LesionsAdded) == LesionsAdded(threshold=0.5, smallest_lesion=5)
    after = method.answer(ESTIMATE_COMPLETENESS, Bright(), site.view(method, 5)).fields
    assert (after["completeness"], after["num_annotated_lesions"]) == (1.0, 24)


def test_a_mask_that_a_review_has_kept_is_not_corrected(tmp_path: Path, data_folder: Path) -> None:
    folder = with_first_case_kept(data_folder, tmp_path)
    method, site = method_of(), HandmadeSite(tmp_path, data_folder=folder)
    view = site.view(method, 5)
    given = view.load("training").cases[0].label
    method.answer(CORRECT_ANNOTATIONS, Everything(), view)
    assert len(view.corrections.files_in_use(folder)) == 2
    assert torch.equal(view.load("training").cases[0].label, given)
    assert len(view.corrections.reverted) == 1


def test_a_corrected_mask_that_a_review_keeps_counts_as_given_when_the_run_goes_on(
    tmp_path: Path, data_folder: Path
) -> None:
    """The same run folder: neither training nor the next correction takes it for one that somebody has restored."""
    folder = with_first_case_kept(data_folder, tmp_path)
    kept = (folder / "datalist.json").read_text()
    lists = json.loads(kept)
    (folder / "datalist.json").write_text(json.dumps({key: lists[key] for key in lists if key != "reference"}))
    method, site = method_of(), HandmadeSite(tmp_path, data_folder=folder)
    given = site.view(method, 5).load("training").cases[0].label
    method.answer(CORRECT_ANNOTATIONS, Everything(), site.view(method, 5))
    corrected = site.view(method, 6)
    assert not torch.equal(corrected.load("training").cases[0].label, given)
    (folder / "datalist.json").write_text(kept)
    resumed = site.view(method, 6)
    data = resumed.load("training")
    assert torch.equal(data.cases[0].label, given)
    assert len(resumed.corrections.files_in_use(folder)) == 2
    assert protected_cases(resumed, data) == resumed.corrections.reverted == {data.cases[0].label_name(folder)}
