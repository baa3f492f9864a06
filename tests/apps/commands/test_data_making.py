"""The commands that make federations of a phantom, or of one without noise."""

import json

import pytest
from typer.testing import CliRunner

from fedannot.apps.commands.data import data_app


def run(*arguments):
    return CliRunner().invoke(data_app, [str(argument) for argument in arguments])


def test_phantom_then_noise(tmp_path):
    result = run("phantom", "--sites", 2, "--images", 1, "--test-images", 1, "--out", tmp_path / "clean")
    assert result.exit_code == 0, result.output
    assert "site-2" in result.output
    result = run("noise", tmp_path / "clean", "--model", "M(25,-25,5,1)", "--exact", "--out", tmp_path / "noisy")
    assert result.exit_code == 0, result.output
    noise = json.loads((tmp_path / "noisy" / "site-1" / "manifest.json").read_text(encoding="utf-8"))["noise"]
    assert noise["mean"] > 0
    assert f"{noise['mean']:+.1f}" in result.output
    assert f"{100 * noise['dice']:.1f}" in result.output


def test_contour_noise_without_any_length_is_an_error_and_leaves_nothing(tmp_path):
    run("phantom", "--sites", 1, "--images", 1, "--test-images", 1, "--out", tmp_path / "clean")
    result = run("noise", tmp_path / "clean", "--model", "M(0,0,0,0)", "--out", tmp_path / "noisy")
    assert result.exit_code == 1
    assert "moves no contour at any site" in result.output
    assert not (tmp_path / "noisy").exists()


def test_phantom_volumes_of_which_sites_leave_lesions_out(tmp_path):
    options = ("--task", "lesions3d", "--sites", 2, "--images", 1, "--test-images", 1, "--completeness", "0.5,1")
    result = run("phantom", *options, "--out", tmp_path / "out")
    missing = json.loads((tmp_path / "out" / "site-1" / "manifest.json").read_text(encoding="utf-8"))["missing_lesions"]
    assert missing["num_kept"] < missing["num_lesions"]
    assert f"{100 * missing['dice']:.1f}" in result.output
    assert len(list((tmp_path / "out" / "test" / "images").iterdir())) == 1


def test_phantom_chambers_and_protocols(tmp_path):
    options = ("--task", "chambers3d", "--sites", 2, "--images", 1, "--test-images", 1)
    result = run("phantom", *options, "--protocols", "0-C(12,8)", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "C(12,8,4,0.25)" in result.output
    result = run("phantom", *options, "--out", tmp_path / "clean")
    result = run("noise", tmp_path / "clean", "--protocols", "0-D", "--out", tmp_path / "drawn")
    assert result.exit_code == 0, result.output
    assert "discs, px" in result.output
    # At 64 × 64 lengths of 3 and 4 pixels at 256 × 256 are 0.75 and 1.
    assert "1.0, 1.0" in result.output
    result = run("noise", tmp_path / "clean", "--protocols", "0-D", "--exact", "--out", tmp_path / "no")
    assert result.exit_code == 1
    assert "--exact: --protocols does not have it." in result.output


@pytest.mark.parametrize(
    ("task", "option"),
    [
        ("lesions2d", ("--completeness", "1")),
        ("lesions3d", ("--noise", "M(1,-1,1,1)")),
        ("lesions3d", ("--protocols", "C")),
    ],
)
def test_phantom_refuses_options_of_another_task(task, option, tmp_path):
    result = run("phantom", "--task", task, *option, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert f"{option[0]}: the task {task} does not have it." in result.output
    assert not (tmp_path / "out").exists()


def test_phantom_with_noise_is_what_its_options_say(tmp_path):
    options = ("--noise", "M(20,-10,4,0.5)", "--exact", "--stratified", 0.5, "--seed", 5)
    result = run("phantom", "--sites", 2, "--images", 1, "--test-images", 1, *options, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    noises = [
        json.loads((tmp_path / "out" / f"site-{i}" / "manifest.json").read_text(encoding="utf-8"))["noise"]
        for i in (1, 2)
    ]
    # One site of each direction: strengths of a site alone are the middle of [0.5, 1].
    assert sorted(noise["mean"] for noise in noises) == pytest.approx([-7.5, 15.0])
