"""What arms have alike and what differs: in words, on the page, in the console, and in files of earlier versions."""

import io

import plain_records
from PIL import Image

from fedannot.apps.reports.compared_runs import COMPARISON_FILE, read_comparison
from fedannot.apps.reports.compared_settings import ComparedSettings, StartWeights, settings_in_words, values_in_words
from fedannot.apps.reports.comparison import print_comparison
from fedannot.apps.reports.comparison_page import command_again, write_comparison_page
from fedannot.apps.terminal import Terminal
from fedannot.custom.data.whole_files import write_text

RATE = {"key": "training.learning_rate", "topic": "learning rate", "values": {"fedavg": 0.002, "fedia": 0.005}}
WEIGHTS = {"seed": 0, "num_entries": 134, "sha256": {"fedavg": "ab" * 32, "fedia": "ab" * 32}}
LINES = [
    "Alike in all arms, as in fedia: network, loss.",
    "Different: training.learning_rate: 0.002 in fedavg, 0.005 in fedia (allowed).",
    "Start weights: the same bits in fedavg, fedia (134 entries, seed 0: sha256 abababababab…).",
]


def settings(**changes):
    values = {"like": "fedia", "alike": ("network", "loss"), "differences": [RATE | {"why": "allowed"}]}
    return ComparedSettings.model_validate(values | {"start_weights": [WEIGHTS]} | changes)


def comparison(**fields):
    runs = [{"arm": arm, "seed": 0, "last_rounds": {"dice": 0.5}} for arm in ("fedavg", "fedia")]
    return plain_records.comparison(runs, **fields)


def test_each_difference_has_its_line_with_the_reason():
    assert settings_in_words(settings()) == LINES
    assert settings_in_words(None) == []
    lines = settings_in_words(settings(like=None, network="mine:build", differences=[]))
    assert lines[:2] == ["Alike in all arms: network, loss.", "The network of all arms: mine:build."]


def test_equal_values_are_said_once():
    given = {"a": 1, "b": 2, "c": 1, "d": [0.5], "e": None, "f": ""}
    assert values_in_words(given) == '1 in a and c, 2 in b, [0.5] in d, null in e, "" in f'


def test_start_weights_that_were_not_the_same():
    other = WEIGHTS | {"sha256": {"fedavg": "ab" * 32, "fedia": "cd" * 32}}
    assert not StartWeights.model_validate(other).are_equal
    assert not StartWeights.model_validate(WEIGHTS | {"num_entries": 0}).are_equal
    assert settings_in_words(settings(start_weights=[WEIGHTS, other]))[-1].startswith("Start weights: not the same in ")
    alone = WEIGHTS | {"sha256": {"fedavg": "ab" * 32}}
    assert "the others have another network than fedavg" in settings_in_words(settings(start_weights=[alone]))[-1]


def test_the_console_s_table_has_them_at_its_head():
    console = Terminal(file=io.StringIO(), width=60)
    print_comparison(comparison(settings=settings()), console)
    lines = console.file.getvalue().splitlines()
    assert lines[:3] == LINES
    assert any("arm" in line for line in lines[3:])


def test_page_and_file_have_them_and_files_of_earlier_versions_are_read(tmp_path):
    compared = comparison(settings=settings())
    Image.new("RGB", (4, 4)).save(tmp_path / "comparison.png")
    run = tmp_path / "runs" / "fedavg-seed0"
    run.mkdir(parents=True)
    write_text(run / "summary.json", plain_records.summary().model_dump_json(exclude_unset=True))
    text = write_comparison_page(tmp_path, compared).read_text(encoding="utf-8")
    assert "What the methods share" in text
    assert "<p>Alike in all arms, as in fedia: network, loss.</p>" in text
    assert '<tr><th scope="row">training.learning_rate</th><td>0.002</td><td>0.005</td><td>allowed</td></tr>' in text
    write_text(tmp_path / COMPARISON_FILE, compared.model_dump_json())
    assert read_comparison(tmp_path).settings == settings()
    write_text(tmp_path / COMPARISON_FILE, comparison().model_dump_json(exclude={"settings"}))
    assert read_comparison(tmp_path).settings is None


def test_the_command_that_makes_it_again_has_all_options(tmp_path):
    arms = {"fedavg": {"job": "fedavg"}, "fedia": {"job": "fedia", "shared_rounds": 12}}
    asked = {"like": "fedia", "network": "mine:build", "allow_different": ["rounds"], "arms": arms}
    command = command_again(tmp_path, comparison(), asked)
    expected = "--shared-rounds fedia:12 --allow-different rounds --like fedia --network mine:build --seeds 1"
    assert command.startswith(f"fedannot compare fedavg fedia {expected}")
