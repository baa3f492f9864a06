"""MONAI's commands and a bundle's own line run in any folder, with spaces in paths, and without a download."""

import json
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from finished_runs import PICTURES, settings_of, write_run
from monai.bundle import ckpt_export, verify_metadata, verify_net_in_out
from PIL import Image
from test_bundle_export import METHODS
from typer.testing import CliRunner

from fedannot.apps.commands.cli import app
from fedannot.apps.functions.bundles import export_bundle

KINDS = ("fedavg", "volumes", "classes")


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Bundles of two and three dimensions and of classes, in a folder with spaces."""
    folder, exported = tmp_path_factory.mktemp("of a hospital"), {}
    for name in KINDS:
        method, task, changes, description, _ = METHODS[name]
        run = write_run(folder / f"run {name}", settings_of(method, task, **changes), description)
        exported[name] = export_bundle(run, folder / f"my bundle, {name}").folder
    return exported


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files_of(bundle: Path) -> dict[str, str]:
    return {"meta_file": f"{bundle}/configs/metadata.json", "config_file": f"{bundle}/configs/inference.json"}


def shape_of(bundle: Path) -> tuple[int, ...]:
    described = json.loads((bundle / "configs" / "metadata.json").read_text(encoding="utf-8"))
    image = described["network_data_format"]["inputs"]["image"]
    return (2, image["num_channels"], *image["spatial_shape"])


def typed(monkeypatch: pytest.MonkeyPatch, command: str, values: dict[str, str], *, joined: bool) -> None:
    """Let this process have the arguments that a command would have."""
    words = [f"--{name}={value}" if joined else (f"--{name}", value) for name, value in values.items()]
    flat = [word for part in words for word in ([part] if isinstance(part, str) else part)]
    monkeypatch.setattr(sys, "argv", ["__main__.py", command, "network_def", *flat])


@pytest.mark.parametrize("joined", [True, False], ids=["--key=value", "--key value"])
@pytest.mark.parametrize("name", KINDS)
def test_inputs_and_outputs_are_verified_in_any_folder(
    name: str, joined: bool, bundles: dict[str, Path], elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = files_of(bundles[name])
    typed(monkeypatch, "verify_net_in_out", files, joined=joined)
    verify_net_in_out("network_def", **files)
    wrong = json.loads(Path(files["meta_file"]).read_text(encoding="utf-8"))
    wrong["network_data_format"]["outputs"]["pred"]["num_channels"] += 1
    (elsewhere / "wrong.json").write_text(json.dumps(wrong), encoding="utf-8")
    with pytest.raises(ValueError, match="output channel number `2` doesn't match: `3`"):
        verify_net_in_out("network_def", **(files | {"meta_file": "wrong.json"}))


@pytest.mark.parametrize("name", KINDS)
def test_a_checkpoint_is_exported_in_any_folder(
    name: str, bundles: dict[str, Path], elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = bundles[name]
    weights = torch.load(bundle / "models" / "model.pt", weights_only=True)
    other = {key: value + 0.01 if value.is_floating_point() else value for key, value in weights.items()}
    torch.save(other, elsewhere / "other.pt")
    files = files_of(bundle)
    typed(monkeypatch, "ckpt_export", files, joined=False)
    ckpt_export("network_def", filepath="exported.ts", ckpt_file="other.pt", **files)
    exported, original = (torch.jit.load(file) for file in ("exported.ts", bundle / "models" / "model.ts"))  # type: ignore[no-untyped-call]
    images = torch.randn(shape_of(bundle), generator=torch.Generator().manual_seed(0))
    assert not torch.equal(exported(images), original(images))
    original.load_state_dict(other)
    assert torch.equal(exported(images), original(images))


@pytest.mark.parametrize("name", KINDS)
def test_metadata_are_verified_without_a_download(
    name: str, bundles: dict[str, Path], elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jsonschema")
    monkeypatch.setattr("monai.apps.utils._download_with_progress", lambda *_, **__: pytest.fail("downloads"))
    file, schema = (bundles[name] / "configs" / part for part in ("metadata.json", "metadata.schema.json"))
    verify_metadata(meta_file=str(file), filepath=str(schema))
    described = json.loads(file.read_text(encoding="utf-8"))
    image = described["network_data_format"]["inputs"]["image"]
    for part, key, value in (
        (described, "version", None),
        (image, "num_channels", 0),
        (image, "spatial_shape", [1.5]),
        (described["fedannot"], "task", "something"),
    ):
        kept, part[key] = part[key], value
        Path("wrong.json").write_text(json.dumps(described), encoding="utf-8")
        with pytest.raises(ValueError, match="Failed validating"):
            verify_metadata(meta_file="wrong.json", filepath=str(schema))
        part[key] = kept


def images_in(folder: Path) -> Path:
    (folder / "IMAGES" / "ward 1").mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 255, (40, 50, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "IMAGES" / "ward 1" / "a.png")
    return folder


def test_the_line_that_export_prints_runs_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the words that a shell makes of it, from where the command was given."""
    working = tmp_path / "my work"
    working.mkdir()
    run = write_run(working / "a run", settings_of("fedavg"), PICTURES)
    result = CliRunner().invoke(app, ["bundle", "export", str(run), "--out", str(working / "a bundle (new)")])
    assert result.exit_code == 0, result.output
    (line,) = (line.removeprefix("Run it: ") for line in result.output.splitlines() if line.startswith("Run it: "))
    shell = subprocess.run(
        f"printf '%s\\0' {line}", shell=True, capture_output=True, text=True, check=True, cwd=working
    )
    python, *words = shell.stdout.removesuffix("\0").split("\0")
    assert Path(shutil.which(python) or "").samefile(sys.executable)
    monkeypatch.chdir(images_in(working))
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.setattr(sys, "path", [*sys.path])
    runpy.run_path(words[0], run_name="__main__")
    assert Image.open(working / "RESULTS" / "ward 1" / "a_seg.png").size == (50, 40)


def test_the_line_of_the_model_card_runs_in_the_bundles_folder(
    bundles: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = bundles["classes"]
    card = (bundle / "docs" / "README.md").read_text(encoding="utf-8")
    (line,) = (line for line in card.splitlines() if line.startswith("python "))
    monkeypatch.chdir(images_in(bundle))
    monkeypatch.setattr(sys, "argv", shlex.split(line)[1:])
    monkeypatch.setattr(sys, "path", [*sys.path])
    runpy.run_path(sys.argv[0], run_name="__main__")
    written = json.loads((bundle / "RESULTS" / "predictions.json").read_text(encoding="utf-8"))
    assert list(written) == ["ward 1/a.png"]
