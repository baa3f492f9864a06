"""An audit of labels at a site: who predicts whom, what is found and stays there, and what leaves."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from support.labelled_pictures import Brightness, make_data
from support.site_views import HandmadeSite

from fedannot.custom.audit.findings import AUDIT_FOLDER, read_audit
from fedannot.custom.data.annotations import Annotation
from fedannot.custom.data.datalist import Case
from fedannot.custom.methods.audit.folds import parts
from fedannot.custom.methods.audit_classification.label_scores import predicted_labels
from fedannot.custom.methods.audit_classification.outbound import OUTBOUND_FIELDS
from fedannot.custom.methods.audit_classification.settings import AuditClassificationSettings
from fedannot.custom.methods.audit_classification.site import AuditClassificationSite
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.task_names import AUDIT_LABELS, CONCLUDE, ESTIMATE_CONFUSION, KEEP_REFERENCE_MODEL

# Brightness is the class; every fifth label is the next class.
TRUE = [index % 3 for index in range(60)]
GIVEN = [(label + 1) % 3 if index % 5 == 0 else label for index, label in enumerate(TRUE)]
BRIGHTNESS = (np.array(TRUE) + np.linspace(-0.1, 0.1, 60)).tolist()
DATA = make_data(GIVEN, BRIGHTNESS, true=TRUE)
WRONG = {f"{index}.png" for index in range(0, 60, 5)}
CLASSES = ("a", "b", "c")


def method_of(folds: int = 1, confident_fraction: float = 1.0) -> AuditClassificationSite:
    values = {
        "rounds": 2 * folds, "folds": folds, "confident_fraction": confident_fraction,
        "network": {"in_channels": 1, "num_classes": 3},
        "training": {"batch_size": 6, "local_epochs": 1, "learning_rate": 0.01, "augmentation": False},
    }  # fmt: skip
    return AuditClassificationSite(AuditClassificationSettings.model_validate(values))


def network_of(scale: float = 4.0) -> Brightness:
    network = Brightness()
    with torch.no_grad():
        network.scale.fill_(scale)
    return network


def test_the_noise_level_leaves_and_no_case_does(tmp_path: Path) -> None:
    method, site = method_of(), HandmadeSite(tmp_path, DATA)
    answer = method.answer(ESTIMATE_CONFUSION, network_of(), site.view(method, 2))
    assert answer.fields["noise_level"] == [0.2]
    assert answer.fields["support"] == [1.0]
    OutboundRegistry(OUTBOUND_FIELDS).check(ESTIMATE_CONFUSION, dict(answer.fields))
    assert OutboundRegistry(OUTBOUND_FIELDS).refusal(ESTIMATE_CONFUSION, answer.fields, 3) is None


def test_every_wrong_label_is_a_finding_that_names_both_classes(tmp_path: Path) -> None:
    method, site = method_of(), HandmadeSite(tmp_path, DATA)
    method.answer(AUDIT_LABELS, network_of(), site.view(method, 2))
    audit = read_audit(site.run_folder / AUDIT_FOLDER)
    assert (audit.task, audit.unit, audit.classes, audit.num_cases) == ("classification", None, CLASSES, 60)
    assert {case.image for case in audit.cases if case.findings} == WRONG
    assert [bool(case.findings) for case in audit.cases] == [True] * 12 + [False] * 48
    for case in audit.cases[:12]:
        (finding,) = case.findings
        index = int(case.image.removesuffix(".png"))
        given, seems = CLASSES[GIVEN[index]], CLASSES[TRUE[index]]
        assert (case.label, finding.classes, finding.kind) == (given, (given, seems), "wrong_label")
        assert finding.classes == (given, seems)
        assert finding.figures["other_probability"] > finding.figures["given_probability"]
        assert not finding.has_suggestion
        assert finding.probability is not None
        assert finding.probability > 0.8
        assert finding.disagreement > 0.5


def test_annotators_are_in_the_file_of_the_site_and_nothing_of_them_leaves(tmp_path: Path) -> None:
    names = ("ann", "ben", "cem", "dea")
    annotations = tuple(Annotation(index, name) for index, name in enumerate(names))
    swapped = torch.tensor([1, 0, 2], dtype=torch.uint8)
    cases = tuple(
        replace(
            case,
            files=Case(tmp_path / case.name, 0, group=case.unit, annotations=annotations),
            annotations=torch.stack([case.label, case.label, swapped[case.label.long()], case.label], 1),
        )
        for case in DATA.cases
    )
    method, site = method_of(), HandmadeSite(tmp_path, replace(DATA, cases=cases))
    answer = method.answer(AUDIT_LABELS, network_of(), site.view(method, 2))
    audit = read_audit(site.run_folder / AUDIT_FOLDER).annotators
    assert audit is not None
    assert [one.annotator for one in audit.annotators if any(r.is_confirmed for r in one.parameters.values())] == [
        "cem"
    ]
    assert set(answer.fields) == {"num_patients", "flagged_shares", "kind_aurocs"}


def test_a_finding_has_the_same_name_in_a_repeated_audit(tmp_path: Path) -> None:
    method, names = method_of(), []
    for repeat in ("one", "other"):
        site = HandmadeSite(tmp_path / repeat, DATA)
        method.answer(AUDIT_LABELS, network_of(), site.view(method, 2))
        result = read_audit(site.run_folder / AUDIT_FOLDER).cases
        names.append({case.image: finding.id for case in result for finding in case.findings})
    assert names[0] == names[1]
    assert len(set(names[0].values())) == 12


def test_shares_alone_leave(tmp_path: Path) -> None:
    method, site = method_of(), HandmadeSite(tmp_path, DATA)
    fields = method.answer(AUDIT_LABELS, network_of(), site.view(method, 2)).fields
    assert fields == {"num_patients": 60, "flagged_shares": [0.2], "kind_aurocs": [1.0]}
    OutboundRegistry(OUTBOUND_FIELDS).check(AUDIT_LABELS, dict(fields))


def test_a_label_is_predicted_by_the_model_that_has_not_learnt_it(tmp_path: Path) -> None:
    """Models of the two parts are distinguished by how sure they are."""
    method, site = method_of(folds=2), HandmadeSite(tmp_path, DATA)
    assert method.answer(KEEP_REFERENCE_MODEL, network_of(1.0), site.view(method, 3)).fields == {"has_kept": True}
    models = method.models(network_of(6.0), site.view(method, 4))
    predicted = predicted_labels(models, DATA, method.settings)
    part = parts(DATA.units, 2, seed=method.settings.seed, site="site-1")
    for index, unit in enumerate(DATA.units):
        scale = (1.0, 6.0)[part[unit]]
        logits = -scale * (BRIGHTNESS[index] - np.arange(3)) ** 2
        expected = np.exp(logits) / np.exp(logits).sum()
        assert predicted.probabilities[index] == pytest.approx(expected, abs=1e-5)
    trained = method.train(network_of(), site.view(method, 1))
    assert set(trained.trained_on or ()) == {unit for unit, fold in part.items() if fold != 0}


def test_what_is_concluded_stands_beside_the_findings(tmp_path: Path) -> None:
    method, site = method_of(), HandmadeSite(tmp_path, DATA)
    method.answer(AUDIT_LABELS, network_of(), site.view(method, 2))
    concluded = {
        "estimate": 0.2, "low": 0.12, "high": 0.3, "patients": 60, "slope": 1.0, "auroc": 0.9, "effect": 0.2,
        "p_value": 0.001, "status": "confirmed", "evidence": [],
    }  # fmt: skip
    message = {"conclude": {"wrong_labels": concluded}}
    answer = method.answer(CONCLUDE, network_of(), site.view(method, 2, message))
    assert answer.fields == {"has_concluded": True}
    audit = read_audit(site.run_folder / AUDIT_FOLDER)
    assert [(str(conclusion.parameter), conclusion.status, conclusion.effect) for conclusion in audit.conclusions] == [
        ("labels 0", "confirmed", 0.2)
    ]
    assert sum(bool(case.findings) for case in audit.cases) == 12
