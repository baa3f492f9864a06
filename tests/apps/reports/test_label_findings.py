"""How right doubts of labels were, from what sites noted: by hand."""

import json

import pytest
from plain_records import summary

from fedannot.apps.reports.label_findings import pooled_selection, rare_class_recall, rare_classes, selection_scores
from fedannot.custom.data.datalist import TRAINING, Case, write_datalist
from fedannot.custom.data.description import ClassificationDescription, write_site_description
from fedannot.custom.data.federation import FederationDescription, write_federation


def note(run, site, *records):
    folder = run / "run" / site / "job"
    folder.mkdir(parents=True)
    (folder / "label_selection.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


def record(round_number, suspects, wrong, found, pseudo=0, right=0, samples=100):
    values = {
        "round": round_number,
        "num_samples": samples,
        "num_suspects": suspects,
        "noise_level": suspects / samples,
        "coefficient": 0.6,
        "num_used": samples,
        "num_pseudo": pseudo,
    }
    return values | {
        "num_wrong": wrong,
        "num_wrong_suspects": found,
        "num_right_pseudo": right,
    }


def test_the_last_round_counts_and_sites_without_true_labels_do_not(tmp_path):
    note(tmp_path, "site-1", record(3, 90, 40, 40), record(4, 50, 40, 30, pseudo=20, right=15))
    note(tmp_path, "site-2", record(4, 0, 0, 0))
    unknown = {"round": 4, "num_samples": 9, "num_suspects": 2, "noise_level": 0.2, "coefficient": 0.6}
    note(tmp_path, "site-3", unknown | {"num_used": 9, "num_pseudo": 0})
    scores = selection_scores(tmp_path, ["site-1", "site-2", "site-3", "site-4"])
    assert set(scores) == {"site-1", "site-2"}
    assert scores["site-1"].true_noise_level == 0.4
    pooled = pooled_selection(scores)
    assert pooled.plain() == {
        "precision": 0.6,
        "recall": 0.75,
        "noise_level_error": pytest.approx(0.05),
        "right_pseudo": 0.75,
    }


def test_a_round_can_be_asked_for_and_the_later_of_two_records_of_it_counts(tmp_path):
    note(tmp_path, "site-1", record(3, 90, 40, 40), record(4, 80, 40, 30), record(4, 50, 40, 30))
    asked = {number: selection_scores(tmp_path, ["site-1"], round_number=number) for number in (2, 3, 4)}
    assert asked[2] is None
    assert asked[3]["site-1"].suspects == 90
    assert asked[4]["site-1"].suspects == selection_scores(tmp_path, ["site-1"])["site-1"].suspects == 50


def test_nothing_to_divide_by(tmp_path):
    assert selection_scores(tmp_path, ["site-1"]) is None
    note(tmp_path, "site-1", record(1, 0, 0, 0))
    pooled = pooled_selection(selection_scores(tmp_path, ["site-1"]))
    assert pooled.plain() == {"precision": None, "recall": None, "noise_level_error": 0.0, "right_pseudo": None}


def test_rare_classes_are_counted_over_all_sites_by_their_true_labels(tmp_path):
    """b has 2 true cases and e none; by the given labels alone a would be rarer than b."""
    sites = {"site-1": [(0, 0), (1, 1), (1, 0), (1, 0)], "site-2": [(1, 1), (2, None), (2, 2), (2, 2), (3, 3)]}
    sites["site-2"] += [(3, 3), (3, 3)]
    for name, labels in sites.items():
        (tmp_path / name).mkdir()
        cases = [
            Case(image=tmp_path / name / f"{index}.png", label=given, clean_label=true)
            for index, (given, true) in enumerate(labels)
        ]
        write_datalist(tmp_path / name / "datalist.json", {TRAINING: cases})
        description = ClassificationDescription(channels=1, size=(8, 8), classes=tuple("abcde"))
        write_site_description(tmp_path / name, description)
    write_federation(tmp_path, FederationDescription(name="by-hand", task="classification", sites=list(sites)))
    assert rare_classes(tmp_path) == [1, 4]


def of_round(recall_per_class):
    values = {"recall_per_class": recall_per_class}
    return summary(task="classification", rounds=[values]).rounds[0]


def test_recall_of_rare_classes_by_hand():
    late = [of_round([0.5, 0.25, None]) for _ in range(5)]
    assert rare_class_recall(late, [0, 1]) == 0.375
    assert rare_class_recall(late, [0, 2]) == 0.5
    assert rare_class_recall(late, [2]) is None
    # Sites score every fifth round only.
    assert rare_class_recall([*late, of_round(None)], [0, 1]) == 0.375
    assert rare_class_recall([of_round(None)], [0, 1]) is None
