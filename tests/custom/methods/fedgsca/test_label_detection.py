"""What a site keeps to itself of its doubts: suspect labels for its data manager, and how often it was right."""

import json
from dataclasses import replace

import numpy as np
from support.labelled_pictures import make_data, selection

from fedannot.custom.corrections.kinds import CasesRelabelled
from fedannot.custom.corrections.model import CorrectionState, Provenance
from fedannot.custom.methods.fedgsca.label_detection import detection_record, doubted_cases
from fedannot.custom.methods.fedgsca.label_selection import Selection

ORIGIN = Provenance(method="fedgsca", round_number=4)


def test_suspects_are_listed_with_the_least_likely_first(tmp_path):
    data = make_data([0, 1, 2, 0], [0, 0, 0, 0])
    probabilities = np.array([[0.8, 0.1, 0.1], [0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.4, 0.5, 0.1]])
    chosen = selection([True, False, False, False], [False, True, False, False])
    result = doubted_cases(data, chosen, probabilities, data_folder=tmp_path, provenance=ORIGIN)
    classes = [(case.new_class.given, case.new_class.predicted, case.new_class.becomes) for case in result.cases]
    assert [case.image for case in result.cases] == ["3.png", "2.png", "1.png"]
    assert classes == [("a", "b", ""), ("c", "b", ""), ("b", "a", "a")]
    assert (result.of(CasesRelabelled), result.round_number) == (CasesRelabelled(noise_level=0.75, threshold=0.6), 4)
    assert json.loads(result.model_dump_json())["cases"][2]["new_class"]["confidence"] == 0.7
    assert {case.state for case in result.cases} == {CorrectionState.ACTIVE}
    again = doubted_cases(data, chosen, probabilities, data_folder=tmp_path, provenance=ORIGIN, reverted=["2.png"])
    assert again.reverted == {"2.png"}


def test_where_all_samples_are_used_as_given_corrections_are_proposed(tmp_path):
    data = make_data([0, 1], [0, 0])
    chosen = selection([True, False], [False, False])
    as_given = replace(chosen, used=np.ones(2, dtype=bool))
    result = doubted_cases(data, as_given, np.eye(3)[:2], data_folder=tmp_path, provenance=ORIGIN)
    assert [(case.image, case.state) for case in result.cases] == [("1.png", CorrectionState.PROPOSED)]


def test_among_equally_unlikely_suspects_the_most_confident_comes_first(tmp_path):
    data = make_data([0, 1, 2, 0], [0, 0, 0, 0])
    probabilities = np.array([[0.2, 0.5, 0.3], [0.9, 0.0, 0.1], [0.7, 0.3, 0.0], [0.3, 0.6, 0.1]])
    nothing = np.zeros(4, dtype=bool)
    chosen = Selection(0.6, np.array([0.0, 0.0, 0.0, 0.1]), nothing, data.labels.numpy(), ~nothing, nothing)
    result = doubted_cases(data, chosen, probabilities, data_folder=tmp_path, provenance=ORIGIN)
    assert [case.image for case in result.cases] == ["1.png", "2.png", "0.png", "3.png"]


def test_what_is_noted_for_evaluation_by_hand():
    data = make_data([0, 1, 2, 0], [0] * 4, true=[0, 0, 2, 1])
    chosen = selection([True, False, False, True], [False, True, True, False], labels=[0, 0, 1, 0])
    record = detection_record(data, chosen, 3).plain()
    assert record == {
        "round": 3,
        "num_samples": 4,
        "coefficient": 0.6,
        "noise_level": 0.5,
        "num_suspects": 2,
        "num_pseudo": 2,
        "num_used": 4,
        "num_wrong": 2,
        "num_wrong_suspects": 1,
        "num_right_pseudo": 1,
    }
    assert "num_wrong" not in detection_record(make_data([0, 1, 2, 0], [0] * 4), chosen, 3).plain()
