"""An audit, a review of a part of the cases, a datalist with it, and the next estimate: with a model that is fixed."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from support.audits import SITE, audited_images
from support.recalling import Recalls
from support.site_views import HandmadeSite

from fedannot.apps.audit.applying import apply_decisions
from fedannot.apps.audit.case_files import CaseReader
from fedannot.apps.audit.image_audit import audit_images
from fedannot.apps.audit.stored_decisions import new_decision
from fedannot.custom.annotation_bias.parameters import ParameterKey, ParameterKind
from fedannot.custom.audit.decisions import Decisions
from fedannot.custom.corrections.store import CorrectionStore
from fedannot.custom.data.datalist import REFERENCE, TRAINING, read_datalist
from fedannot.custom.data.site_data import load_site_data
from fedannot.custom.data.store_location import participant_store
from fedannot.custom.methods.audit.settings import AuditSettings
from fedannot.custom.methods.audit.site import AuditSite
from fedannot.custom.methods.auto.answers import BiasReport
from fedannot.custom.methods.auto.decisions import decide
from fedannot.custom.methods.auto.settings import AutoSettings
from fedannot.custom.methods.auto.site import AutoSite
from fedannot.custom.task_names import CORRECT_ANNOTATION_BIAS, ESTIMATE_ANNOTATION_BIAS
from fedannot.transforms.move_contour import MoveContour

CASES, REVIEWED, TOO_LARGE = 12, 5, 5.0
OFFSET = ParameterKey(ParameterKind.OFFSET, 1)
SMALL = {"rounds": 9, "network": {"features": (4, 4, 8, 8, 8, 4)}}


@pytest.fixture(scope="module")
def too_large(tmp_path_factory):
    """The audit of a site whose masks are all too large, and a folder of right masks by their names."""
    folder = tmp_path_factory.mktemp("loop")
    result = audited_images(folder, CASES)
    right = folder / "right"
    right.mkdir()
    for case in read_datalist(CaseReader(result).datalist).section(TRAINING):
        mask = np.asarray(Image.open(case.clean_label)) > 0
        larger = np.asarray(MoveContour(TOO_LARGE)(mask.astype(np.uint8)))
        Image.fromarray((larger * 255).astype(np.uint8)).save(case.label)
        shutil.copyfile(case.clean_label, right / case.label.name)
    return folder, result


@pytest.fixture
def reviewed(too_large, tmp_path):
    """Reviews some cases, keeps others, and returns the site's data with the updated datalist."""

    def review(count=REVIEWED, kept=0):
        source, result = too_large
        data = shutil.copytree(source / "data" / SITE, tmp_path / "data")
        audit = result.audit.model_copy(update={"data": str(data)})
        found = replace(result, audit=audit)
        edited = tmp_path / "edited"
        edited.mkdir()
        for case in audit.cases[:count]:
            shutil.copyfile(source / "right" / Path(case.label).name, edited / Path(case.label).name)
        reader = CaseReader(found)
        decisions = [
            new_decision(finding.id, "keep", reviewer="Dr Ada", reason="", shown=reader.shown(case))
            for case in audit.cases[count : count + kept]
            for finding in case.findings
        ]
        of_site = Decisions(site=SITE, decisions=tuple(decisions))
        apply_decisions(reader, of_site, data / "reviewed", edited=edited, update_datalist=True)
        return data

    return review


def methods():
    return AutoSite(AutoSettings.model_validate(SMALL)), AuditSite(AuditSettings.model_validate(SMALL | {"folds": 1}))


def model_of(data):
    """Draws where a model lands that has learnt from right and from too large masks."""
    loaded = load_site_data(data, participant_store(), section=TRAINING, site=SITE)
    return Recalls(loaded.images, loaded.clean_labels, TOO_LARGE / 2)


def estimated(data, folder, method):
    view = HandmadeSite(folder, data_folder=data, name=SITE).view(method, 2)
    return method.answer(ESTIMATE_ANNOTATION_BIAS, model_of(data), view).fields


def without_given(data):
    """The datalist as earlier versions have updated it."""
    file = data / "datalist.reviewed.json"
    content = json.loads(file.read_text())
    for section in (TRAINING, REFERENCE):
        for item in content[section]:
            item.pop("given_label", None)
    file.write_text(json.dumps(content))


@pytest.mark.parametrize("names_given", [True, False], ids=["given masks known", "of an earlier version"])
def test_a_site_that_is_reviewed_in_part_is_still_too_large(reviewed, tmp_path, names_given):
    data = reviewed()
    if not names_given:
        without_given(data)
    auto, audit = (estimated(data, tmp_path / type(method).__name__, method) for method in methods())
    for name in ("offset", "reference_offset", "reviewed_offset", "completeness"):
        np.testing.assert_array_equal(auto[name], audit[name])
    assert auto["offset_patients"] == [CASES if names_given else CASES - REVIEWED]
    assert auto["reviewed_offset_patients"] == [REVIEWED if names_given else 0]
    assert auto["reference_offset_patients"] == [REVIEWED]
    report = BiasReport.of(auto)
    for settings in (AutoSettings.model_validate(SMALL), AuditSettings.model_validate(SMALL | {"folds": 1})):
        result = decide({SITE: report}, settings, seed=0)
        finding = result.findings[SITE][OFFSET]
        assert finding.is_confirmed
        assert finding.effect == pytest.approx(TOO_LARGE, abs=0.7)
        assert result.corrections[SITE]


def test_what_images_say_of_the_site_is_the_same_after_an_update(too_large, reviewed):
    """Right masks are in use for half of the cases; the site still draws as it did."""
    source, _ = too_large
    (before,) = audit_images(source / "data" / SITE).biases["lesion"].values()
    data = reviewed(REVIEWED, kept=2)
    in_use = [
        case.label.parent.parent.name for case in read_datalist(data / "datalist.reviewed.json").section(TRAINING)
    ]
    assert in_use.count("reviewed") == REVIEWED
    (after,) = audit_images(data).biases["lesion"].values()
    assert after == before
    assert after.bias == pytest.approx(TOO_LARGE, abs=1.0)


def test_the_given_masks_say_by_how_much_without_a_model(reviewed, tmp_path):
    answer = estimated(reviewed(), tmp_path / "site", methods()[0])
    assert answer["reviewed_offset"] == [pytest.approx(TOO_LARGE, abs=0.3)]
    # The model lies half-way between both.
    assert answer["offset"] == [pytest.approx(TOO_LARGE / 2, abs=0.5)]
    assert answer["reference_offset"] == [pytest.approx(-TOO_LARGE / 2, abs=0.5)]


def test_masks_that_a_review_has_kept_count_beside_those_that_it_has_replaced(reviewed, tmp_path):
    answer = estimated(reviewed(3, kept=6), tmp_path / "site", methods()[0])
    assert (answer["reviewed_offset"], answer["reviewed_offset_patients"]) == ([0.0], [9])
    assert answer["offset_patients"] == [CASES]


def test_a_site_that_is_reviewed_as_a_whole_is_right(reviewed, tmp_path):
    data = reviewed(CASES)
    report = BiasReport.of(estimated(data, tmp_path / "site", methods()[0]))
    assert not report.given_from_reviewed[0].is_known
    result = decide({SITE: report}, AutoSettings.model_validate(SMALL), seed=0)
    finding = result.findings[SITE][OFFSET]
    assert not finding.is_confirmed
    assert finding.effect == pytest.approx(0.0, abs=0.01)


@pytest.mark.parametrize("names_given", [True, False])
def test_reviewed_annotations_are_trained_on_as_they_are(reviewed, tmp_path, names_given):
    """The others are corrected; what somebody has restored in the list of corrections stays restored."""
    data = reviewed()
    if not names_given:
        without_given(data)
    method, site = methods()[0], HandmadeSite(tmp_path / "site", data_folder=data, name=SITE)
    asked = {"corrections": [{"kind": "boundary_shift", "bias": {"1": TOO_LARGE}}]}
    method.answer(CORRECT_ANNOTATION_BIAS, model_of(data), site.view(method, 2, asked))
    view = site.view(method, 2)
    loaded, targets = view.load(TRAINING), method.targets(view)
    names = {case.image for case in read_datalist(data / "datalist.reviewed.json").section(REFERENCE)}
    corrected = [bool((one != case.label[0]).any()) for one, case in zip(targets.labels, loaded.cases, strict=True)]
    assert corrected == [case.files.image not in names for case in loaded.cases]
    for one, case in zip(targets.labels, loaded.cases, strict=True):
        assert float((one != case.clean_label[0]).float().mean()) < 0.02
        if case.files.image in names:
            assert torch.equal(one, case.clean_label[0])
    stored = CorrectionStore(site.run_folder, 2).latest()
    assert len(stored.corrections.reverted) == REVIEWED
