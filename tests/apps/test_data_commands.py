import json

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from fedannot.apps.data_commands import data_app, parse_label_map, parse_size
from fedannot.transforms.errors import DataError


def run(*arguments):
    return CliRunner().invoke(data_app, [str(argument) for argument in arguments])


def test_phantom_then_noise(tmp_path):
    result = run("phantom", "--sites", 2, "--images", 1, "--test-images", 1, "--out", tmp_path / "clean")
    assert result.exit_code == 0, result.output
    assert "site-2" in result.output
    result = run("noise", tmp_path / "clean", "--model", "M(25,-25,5,1)", "--exact", "--out", tmp_path / "noisy")
    assert result.exit_code == 0, result.output
    noise = json.loads((tmp_path / "noisy" / "site-1" / "manifest.json").read_text())["noise"]
    assert noise["mean"] > 0
    assert f"{noise['mean']:+.1f}" in result.output
    assert f"{100 * noise['dice']:.1f}" in result.output


def test_phantom_with_noise_is_what_its_options_say(tmp_path):
    options = ("--noise", "M(20,-10,4,0.5)", "--exact", "--stratified", 0.5, "--seed", 5)
    result = run("phantom", "--sites", 2, "--images", 1, "--test-images", 1, *options, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    noises = [json.loads((tmp_path / "out" / f"site-{i}" / "manifest.json").read_text())["noise"] for i in (1, 2)]
    # One site of each direction: strengths of a site alone are the middle of [0.5, 1].
    assert sorted(noise["mean"] for noise in noises) == pytest.approx([-7.5, 15.0])


def test_import_reports_what_was_left_out(tmp_path):
    for kind in ("images", "labels"):
        (tmp_path / kind).mkdir()
        for index in range(4):
            pixels = np.full((8, 8), 255 if kind == "labels" else index, np.uint8)
            Image.fromarray(pixels).save(tmp_path / kind / f"{index}.png")
    Image.fromarray(pixels).save(tmp_path / "images" / "alone.png")
    folders = ("--images", tmp_path / "images", "--labels", tmp_path / "labels")
    result = run("import", *folders, "--sites", 2, "--size", "8,8", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "left out: images/alone.png" in result.output
    assert "255 → class 1" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("noise", "nowhere", "--model", "M(1,-1,1,0.5)"), "Error: nowhere/federation.yaml: found no such file"),
        (("phantom", "--noise", "M(1)"), "Error: Contour noise: Found 'M(1)'"),
        (("phantom", "--sites", "0"), "Error: Phantom: found num_sites=0"),
        (("import", "--images", "nowhere", "--labels", "nowhere"), "Error: nowhere: found no such folder"),
        (
            ("import", "--images", ".", "--labels", ".", "--size", "8"),
            "Error: --size: found '8', expected ROWS,COLUMNS",
        ),
    ],
)
def test_errors_are_one_line_without_traceback(tmp_path, arguments, message):
    result = run(*arguments, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert message in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["phantom", "import", "noise"])
def test_help_has_an_example(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"Example: fedannot data {command}" in result.output


def test_texts_are_parsed():
    assert parse_label_map("85:1, 170:2") == {85: 1, 170: 2}
    assert parse_size("128, 64") == (128, 64)
    for text in ("85", "a:1", "1:2:3"):
        with pytest.raises(DataError, match="VALUE:CLASS"):
            parse_label_map(text)
