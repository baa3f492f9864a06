"""How the models of rounds are scored, with sites that are functions."""

from pathlib import Path

import pytest
from support.loop_runs import SCORES, Run
from support.memory_link import StepSite, link_of

from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_test
from fedannot.transforms.errors import DataError

pytestmark = pytest.mark.usefixtures("without_named_data")


def test_sites_score_the_model_every_so_many_rounds_and_after_the_last(tmp_path: Path) -> None:
    link = link_of(StepSite("a", scores=SCORES), StepSite("b"))
    run = Run(tmp_path, link, rounds=5, validate_every=2).begin()
    assert [number for task, number in link.tasks() if task == "validate"] == [2, 4, 5]
    assert [record["dice"] for record in run.records] == [None, 0.5, None, 0.5, 0.5]
    assert [record["evaluated_on"] is None for record in run.records] == [True, False, True, False, False]


def test_the_model_that_is_scored_is_the_new_one(tmp_path: Path) -> None:
    run = Run(tmp_path, link_of(StepSite("a")), rounds=1).begin()
    (train, validate) = run.link.requests
    assert (float(train.params["stem.weight"]), float(validate.params["stem.weight"])) == (0.0, 1.0)
    assert validate.sites is None


def test_on_the_phantom_the_server_scores_every_round_and_asks_nobody(tmp_path: Path) -> None:
    link = link_of(StepSite("a", fields={"embedded_data": True}))
    run = Run(tmp_path, link).begin()
    assert [task for task, _ in link.tasks()] == ["train", "train"]
    assert [record["evaluated_on"] for record in run.records] == ["test", "test"]
    assert all(0 < record["dice"] < 1 for record in run.records)


def test_the_server_scores_as_often_as_the_settings_say_and_asks_nobody(tmp_path: Path) -> None:
    link = link_of(StepSite("a", fields={"embedded_data": True}))
    run = Run(tmp_path, link, rounds=5, validate_every=2).begin()
    assert [task for task, _ in link.tasks()] == ["train"] * 5
    assert [record["evaluated_on"] for record in run.records] == [None, "test", None, "test", "test"]
    assert [record["dice"] is None for record in run.records] == [True, False, True, False, False]


def test_without_a_word_sites_score_every_fifth_round_and_the_last(tmp_path: Path) -> None:
    link = link_of(StepSite("a", scores=SCORES))
    Run(tmp_path, link, rounds=11).begin()
    assert [number for task, number in link.tasks() if task == "validate"] == [5, 10, 11]


def test_the_phantoms_test_set_says_nothing_of_sites_with_data_of_their_own(tmp_path: Path) -> None:
    link = link_of(StepSite("a", fields={"embedded_data": True}), StepSite("b"))
    run = Run(tmp_path, link, rounds=1).begin()
    assert link.tasks()[-1] == ("validate", 1)
    assert run.records[0]["evaluated_on"] is None


def test_a_shared_part_that_is_no_model_is_scored_by_the_sites(tmp_path: Path) -> None:
    run = Run(tmp_path, link_of(StepSite("a", scores=SCORES, fields={"embedded_data": True})), rounds=1)
    run.method.is_scored = False
    assert run.begin().records[0]["dice"] == 0.5


def test_a_test_set_that_does_not_fit_is_found_before_anybody_trains(tmp_path: Path) -> None:
    run = Run(tmp_path, link_of(StepSite("a")), network={"num_classes": 3})
    write_phantom_test(tmp_path / "local", LesionImages(), num_images=1, seed=0)
    with pytest.raises(DataError, match="classes"):
        run.begin()
    assert run.link.requests == []


def test_it_does_not_matter_to_a_method_that_is_not_scored_there(tmp_path: Path) -> None:
    run = Run(tmp_path, link_of(StepSite("a", scores={"num_samples": 0})), network={"num_classes": 3}, rounds=1)
    write_phantom_test(tmp_path / "local", LesionImages(), num_images=1, seed=0)
    run.method.is_scored = False
    assert run.begin().stem == 1.0
