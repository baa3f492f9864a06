"""The audit of annotators from files: who has annotated what, and how, with a model that knows the right masks."""

import json

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage
from support.site_views import HandmadeSite

from fedannot.custom.annotation_bias.cases import PredictedCase
from fedannot.custom.annotation_bias.parameters import ParameterKey, ParameterKind
from fedannot.custom.annotation_bias.statuses import EvidenceCode, Status
from fedannot.custom.data.description import ImageDescription, write_site_description
from fedannot.custom.data.site_data import load_site_data
from fedannot.custom.methods.audit.annotator_places import LEFT_FILE
from fedannot.custom.methods.audit.annotators import audit_annotators
from fedannot.custom.methods.audit.leaving_annotators import annotators_answer
from fedannot.custom.methods.audit.settings import AuditSettings
from fedannot.custom.methods.audit.site import AuditSite

OFFSET = ParameterKey(ParameterKind.OFFSET, 1)
SIZE = 48
SETTINGS = AuditSettings()


def disc(radius):
    rows, columns = np.mgrid[:SIZE, :SIZE]
    return (np.hypot(rows - 24, columns - 24) <= radius).astype(np.uint8)


def write_site(folder, items):
    """A site with a datalist and its masks, by the names of their files."""
    folder.mkdir()
    for item in items:
        Image.fromarray(np.full((SIZE, SIZE), 90, dtype=np.uint8)).save(folder / item["image"])
        for name, radius in item.pop("radii").items():
            Image.fromarray(disc(radius)).save(folder / name)
    (folder / "datalist.json").write_text(json.dumps({"training": items}))
    write_site_description(
        folder, ImageDescription(size=(SIZE, SIZE), channels=1, classes=("cell",), labels={0: 0, 1: 1})
    )
    return load_site_data(folder, folder.parent / "store", site="site-1")


def right(cases):
    """Predictions of a disc with a radius of ten pixels."""
    inside = disc(10) > 0
    distance = ndimage.distance_transform_edt(inside) - ndimage.distance_transform_edt(~inside)
    probability = 1 / (1 + np.exp(-2 * distance))
    for case in cases:
        label = case.label[0].numpy()
        yield PredictedCase(case.unit, label, np.stack([1 - probability, probability]), case.spacing)


def audited(data):
    return audit_annotators(right, data, data.cases, SETTINGS, seed=0)


def test_each_of_several_annotations_of_a_case_counts_for_its_annotator(tmp_path):
    biases = {"Ann": 0, "Ben": 0, "Cem": 4}
    items = [
        {
            "image": f"{n}.png",
            "label": f"{n}_Ann.png",
            "labels": [{"file": f"{n}_{name}.png", "annotator": name} for name in biases],
            "radii": {f"{n}_{name}.png": 10 + bias for name, bias in biases.items()},
        }
        for n in range(6)
    ]
    audit = audited(write_site(tmp_path / "site", items)).audit
    statuses = {one.annotator: one.parameters[OFFSET].status for one in audit.annotators}
    assert statuses == {"Ann": Status.NOT_SIGNIFICANT, "Ben": Status.NOT_SIGNIFICANT, "Cem": Status.CONFIRMED}
    cem = audit.annotators[2]
    assert (cem.num_cases, cem.num_patients) == (6, 6)
    assert cem.consensus[OFFSET].estimate == pytest.approx(4, abs=0.3)
    # The model, which does not know who is right, sees the same.
    assert cem.predictions[OFFSET].estimate == pytest.approx(4, abs=0.6)
    assert len(audit.pairs) == 3


def of_one_annotator(tmp_path, names, count):
    items = []
    for name, radius in names.items():
        for n in range(count):
            image, mask = f"{name}{n}.png", f"{name}{n}_m.png"
            known = {} if name == "nobody" else {"annotator": name}
            items.append({"image": image, "label": mask, "radii": {mask: radius}} | known)
    return write_site(tmp_path / "site", items)


def test_annotators_of_different_cases_are_compared_by_predictions(tmp_path):
    found = audited(of_one_annotator(tmp_path, {"Ann": 10, "Ben": 10, "Cem": 13, "nobody": 10}, 5))
    records = {one.annotator: one.parameters[OFFSET] for one in found.audit.annotators}
    assert [records[name].is_confirmed for name in ("Ann", "Ben", "Cem")] == [False, False, True]
    assert records["Cem"].effect == pytest.approx(3, abs=0.5)
    assert found.audit.num_unnamed == 5
    # Their patients would be what is left of all.
    assert len(found.unnamed[OFFSET].patients) == 5
    assert (found.audit.pairs, found.consensus) == ((), {})


def test_with_two_annotators_nobody_knows_who_deviates(tmp_path):
    audit = audited(of_one_annotator(tmp_path, {"Ann": 10, "Ben": 14}, 5)).audit
    assert {one.parameters[OFFSET].evidence[0].code for one in audit.annotators} == {EvidenceCode.TWO_ANNOTATORS}


def test_a_site_with_one_named_annotator_has_no_audit_of_them(tmp_path):
    assert audited(of_one_annotator(tmp_path, {"Ann": 10, "nobody": 10}, 2)) is None


def test_nothing_leaves_unless_the_job_asks_for_it_and_no_name_does(tmp_path):
    data = of_one_annotator(tmp_path, {"Ann": 10, "Ben": 10, "Cem": 13}, 5)
    site = HandmadeSite(tmp_path, data, tmp_path / "site").view(AuditSite(SETTINGS))
    audit, fields = annotators_answer(right, data, site, SETTINGS)
    assert (fields, [one.number for one in audit.annotators]) == ({}, [None] * 3)
    assert not list(tmp_path.rglob(LEFT_FILE))
    asked = SETTINGS.model_copy(update={"report_annotators": True})
    audit, fields = annotators_answer(right, data, site, asked)
    assert sorted(fields["annotator_offset_patients"]) == [0] * 5 + [5] * 3
    assert not any(name in str(fields) for name in ("Ann", "Ben", "Cem"))
    # The site's page says whose figures they are.
    cem = audit.annotators[2]
    assert fields["annotator_offset"][cem.number - 1] == pytest.approx(cem.predictions[OFFSET].estimate, abs=0.01)
