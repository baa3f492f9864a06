"""Tensors of rounds on disk: the latest that counts, and what is kept."""

import torch

from fedannot.custom.data.tensor_files import load_latest_tensors, save_tensors_of_round


def layers(number):
    return {"weight": torch.full((2,), float(number))}


def found(*places):
    latest = load_latest_tensors(places)
    if latest is None:
        return None
    number, params = latest
    assert int(params["weight"][0]) in (number, 10 * number)
    return int(params["weight"][0])


def test_the_latest_round_that_counts_is_read(tmp_path):
    for number in (2, 9, 10):
        save_tensors_of_round(tmp_path, number, layers(number), keep=(2, 9))
    assert [found((tmp_path, last)) for last in (10, 9, 8, 2, 1)] == [10, 9, 2, 2, None]


def test_a_site_without_any_has_none(tmp_path):
    assert found((tmp_path / "absent", 3)) is None


def test_the_first_place_that_has_one_counts(tmp_path):
    """A run that continues another: its own rounds, and before them those of the earlier run."""
    save_tensors_of_round(tmp_path / "earlier", 3, layers(3))
    save_tensors_of_round(tmp_path / "earlier", 4, layers(4))
    own, earlier = (tmp_path / "own", 3), (tmp_path / "earlier", 3)
    assert found(own, earlier) == 3
    save_tensors_of_round(tmp_path / "own", 4, layers(40))
    assert found((tmp_path / "own", 4), earlier) == 40


def test_two_rounds_and_those_to_keep_stay(tmp_path):
    for number in range(1, 7):
        save_tensors_of_round(tmp_path, number, layers(number), keep=(2,))
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"round_{number}.pt" for number in (2, 5, 6)]


def test_a_round_done_once_more_replaces_its_file(tmp_path):
    save_tensors_of_round(tmp_path, 1, layers(1))
    save_tensors_of_round(tmp_path, 1, layers(10))
    assert found((tmp_path, 1)) == 10


def test_of_a_site_that_rested_in_a_round_to_keep_the_one_before_stays(tmp_path):
    for number in (1, 2, 4, 6, 7):
        save_tensors_of_round(tmp_path, number, layers(number), keep=(3, 9))
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"round_{number}.pt" for number in (2, 6, 7)]
    assert found((tmp_path, 3)) == 2
