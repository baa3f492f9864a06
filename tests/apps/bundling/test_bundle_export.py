"""The files of a bundle, what they say of the run, and that nothing is half written."""

import json
import math
from pathlib import Path
from typing import Any

import plain_records
import pytest
import torch
from finished_runs import PICTURES, settings_of, write_run
from monai.bundle import ConfigParser
from typer.testing import CliRunner

from fedannot.apps.bundling.export import export_bundle
from fedannot.apps.bundling.metadata import Statements, metadata
from fedannot.apps.bundling.model_card import model_card
from fedannot.apps.bundling.reading_code import PACKAGE, PROGRAM, reading_modules
from fedannot.apps.bundling.source import read_source
from fedannot.apps.commands.cli import app
from fedannot.custom.data.description import AnyDescription, ClassificationDescription, VolumeDescription
from fedannot.custom.methods.personal.own_threshold import AtThreshold
from fedannot.custom.records.record_lines import write_records
from fedannot.transforms.errors import DataError

ROOT = Path(__file__).parents[3]
FILES = {"LICENSE", "configs/inference.json", "configs/metadata.json", "docs/README.md", "models/model.pt"}
FILES |= {"configs/metadata.schema.json", PROGRAM}
FILES |= {"models/model.ts", *(f"{PACKAGE}/{name}" for name in reading_modules())}
FILES |= {f"{PACKAGE}/__init__.py", f"{PACKAGE}/loading/__init__.py"}
# What MONAI's schema of metadata asks for (meta_schema_20240725), and of a tensor.
REQUIRED = {"schema", "version", "monai_version", "pytorch_version", "numpy_version", "required_packages_version"}
REQUIRED |= {"task", "description", "authors", "copyright", "network_data_format"}
OF_TENSOR = {"type": str, "format": str, "num_channels": int, "spatial_shape": list, "dtype": str, "value_range": list}

CELLS = ClassificationDescription(classes=("round", "long"), channels=1, size=(40, 40))
VOLUMES = VolumeDescription(classes=("lesion",), labels={0: 0, 1: 1}, intensity="window", window=(-100, 300))
WHOLE = {"features": [4, 4, 8, 8, 8, 4], "spatial_dims": 3}
DYNUNET = {"_target_": "DynUNet", "kernel_size": [3, 3, 3], "strides": [1, 2, 2], "upsample_kernel_size": [2, 2]}
DYNUNET |= {"filters": [4, 8, 8], "deep_supervision": True}
METHODS: dict[str, tuple[str, str, dict[str, Any], AnyDescription, str | None]] = {
    "fedavg": ("fedavg", "segmentation", {}, PICTURES, None),
    "feda3i": ("feda3i", "segmentation", {}, PICTURES, None),
    "fedia": ("fedia", "segmentation", {}, PICTURES, None),
    "fedhac": ("fedhac", "segmentation", {"warmup_rounds": 4}, PICTURES, None),
    "fedcurv": ("fedcurv", "segmentation", {}, PICTURES, None),
    "decoupled": ("decoupled", "segmentation", {}, PICTURES, None),
    "decoupled, personal": ("decoupled", "segmentation", {}, PICTURES, "site-1"),
    "decoupled, threshold": ("decoupled", "segmentation", {"own_threshold": True}, PICTURES, "site-1"),
    "fedrep, personal": ("fedrep", "segmentation", {}, PICTURES, "site-1"),
    "ditto, personal": ("ditto", "segmentation", {}, PICTURES, "site-2"),
    "fedbn, personal": ("fedbn", "segmentation", {}, PICTURES, "site-1"),
    "iop_fl, personal": ("iop_fl", "segmentation", {}, PICTURES, "site-1"),
    "single site": ("single_site", "segmentation", {}, PICTURES, "site-2"),
    "volumes": ("fedavg", "segmentation", {"network": WHOLE, "training": {"patch": [32, 32, 16]}}, VOLUMES, None),
    "DynUNet": ("feda3i", "segmentation", {"network": DYNUNET}, PICTURES, None),
    "fednoro": ("fednoro", "segmentation", {}, PICTURES, None),
    "fedselect": ("fedselect", "segmentation", {}, PICTURES, None),
    "fedrobust": ("fedrobust", "segmentation", {}, PICTURES, None),
    "fedrobust, classes": ("fedrobust", "classification", {}, CELLS, None),
    "fedfixer": ("fedfixer", "classification", {"warmup_rounds": 4}, CELLS, None),
    "fedgp": ("fedgp", "classification", {"warmup_rounds": 4}, CELLS, None),
    "fedcorr": ("fedcorr", "segmentation", {}, PICTURES, None),
    "elr": ("elr", "segmentation", {}, PICTURES, None),
    "feddm": ("feddm", "segmentation", {"models_to_sites": True}, PICTURES, None),
    "adele": ("adele", "segmentation", {}, PICTURES, None),
    "elr, classes": ("elr", "classification", {}, CELLS, None),
    "classes": ("fedavg", "classification", {}, CELLS, None),
    "fedgsca": ("fedgsca", "classification", {}, CELLS, None),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_bundle_of_every_method(name: str, tmp_path: Path) -> None:
    method, task, changes, description, site = METHODS[name]
    run = write_run(tmp_path / "run", settings_of(method, task, **changes), description)
    source = read_source(run, site=site)
    export_bundle(source, tmp_path / "bundle")
    written = {
        str(file.relative_to(tmp_path / "bundle")) for file in (tmp_path / "bundle").rglob("*") if file.is_file()
    }
    assert written == FILES
    described = json.loads((tmp_path / "bundle" / "configs" / "metadata.json").read_text(encoding="utf-8"))
    assert set(described) >= REQUIRED
    formats = described["network_data_format"]
    for tensor in (formats["inputs"]["image"], formats["outputs"]["pred"]):
        assert all(isinstance(tensor[key], kind) for key, kind in OF_TENSOR.items())
        assert len(tensor["channel_def"]) == tensor["num_channels"]
    # The formats are those of the network.
    network = torch.jit.load(tmp_path / "bundle" / "models" / "model.ts")  # type: ignore[no-untyped-call]
    image, pred = formats["inputs"]["image"], formats["outputs"]["pred"]
    result = network(torch.randn(3, image["num_channels"], *image["spatial_shape"]))
    assert tuple(result.shape) == (3, pred["num_channels"], *pred["spatial_shape"])
    # Everything in the configuration can be built.
    parser = ConfigParser.load_config_file(tmp_path / "bundle" / "configs" / "inference.json")
    config = ConfigParser(parser | {"bundle_root": str(tmp_path / "bundle"), "dataset_dir": str(run / "data")})
    for key in ("network_def", "preprocessing", "dataset", "dataloader", "inferer", "predict"):
        assert config.get_parsed_content(key) is not None
    assert "fedannot" not in (tmp_path / "bundle" / "configs" / "inference.json").read_text(encoding="utf-8")


def described(tmp_path: Path, method: str, **of_summary: Any) -> dict[str, Any]:
    return metadata(read_source(write_run(tmp_path / "run", settings_of(method), **of_summary)), Statements())


def test_metadata_say_who_trained_the_model_with_which_weight(tmp_path: Path) -> None:
    result = described(tmp_path, "fedavg")
    assert result["description"] == (
        "The global model of a federation, trained with fedavg by 2 sites; no image left its site."
    )
    assert result["fedannot"]["federation"] == {
        "name": "hospitals",
        "sites": {
            site: {"num_samples": count, "num_excluded": 0, "train_loss": None}
            for site, count in (("site-1", 30), ("site-2", 10))
        },
    }
    assert result["fedannot"]["weights"] == {"by": "site", "values": {"site-1": 0.75, "site-2": 0.25}}
    assert (result["fedannot"]["method"], result["fedannot"]["seed"], result["fedannot"]["rounds"]) == ("fedavg", 3, 12)
    assert result["eval_metrics"] == {"dice": 0.75, "evaluated_on": "9 cases of the federation's test set"}
    assert result["fedannot"]["noise_estimates"] == {}


def test_metadata_and_model_card_tell_empty_cases_from_annotated_ones(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", settings_of("fedavg"))
    record = {"evaluated_on": "test", "num_cases": 9, "dice": 0.5, "left_empty": 0.75, "hd95": None}
    write_records(run / "metrics.jsonl", [plain_records.record(12, **record)])
    source = read_source(run)
    result = metadata(source, Statements())
    where = "9 cases of the federation's test set"
    assert result["eval_metrics"] == {"dice": 0.5, "left_empty": 0.75, "evaluated_on": where}
    assert (
        f"After the last round, on {where}: dice 0.500, left_empty 0.750. dice is the mean over the cases in which a "
        "class is annotated, 0 where it is missed; left_empty, if there are others, the fraction of them in which it "
        "is found nowhere."
    ) in " ".join(model_card(source, result).split())


def test_metadata_hold_the_weights_of_layers_and_the_noise_estimates(tmp_path: Path) -> None:
    weights = {"sites": ["site-1", "site-2"], "blocks": ["conv_0", "final_conv"], "values": [[0.8, 0.6], [0.2, 0.4]]}
    predicted = {"inner": [0.5], "outer": [0.25], "group": "larger", "strength": 0.1}
    estimate = {"sites": {"site-1": predicted}, "reason": None, "p_value": 0.01}
    result = described(tmp_path, "feda3i", weights=weights, estimate=estimate)["fedannot"]
    assert result["weights"] == {
        "by": "site and layer block",
        "blocks": ["conv_0", "final_conv"],
        "values": {"site-1": [0.8, 0.6], "site-2": [0.2, 0.4]},
    }
    assert result["noise_estimates"] == {"estimate": estimate}


def test_metadata_hold_weights_that_follow_from_reports(tmp_path: Path) -> None:
    predicted = {"estimate": 0.4, "is_estimable": True, "num_annotated_lesions": 2, "num_predicted_lesions": 5}
    completeness = {"site-1": predicted | {"corrected_before_round": None}}
    run = write_run(tmp_path / "run", settings_of("fedia"), completeness=completeness)
    record = {"weights": {"site-1": 0.3, "site-2": 0.7}}
    write_records(run / "metrics.jsonl", [plain_records.record(12, **record)])
    result = metadata(read_source(run), Statements())
    assert result["fedannot"]["weights"] == {"by": "site", "values": {"site-1": 0.3, "site-2": 0.7}}
    assert result["fedannot"]["noise_estimates"] == {"completeness": completeness}
    assert result["eval_metrics"] == {}


def test_a_sites_own_threshold_is_in_its_model_and_said(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", settings_of("ditto", own_threshold=True))
    source = read_source(run, site="site-2")
    plain = read_source(write_run(tmp_path / "plain", settings_of("ditto")), site="site-2")
    assert isinstance(source.network, AtThreshold)
    assert float(source.network.shift) == pytest.approx(math.log(0.35 / 0.65))
    for name, tensor in plain.network.state_dict().items():
        assert torch.equal(source.network.model.state_dict()[name], tensor)
    result = metadata(source, Statements())
    assert result["fedannot"]["threshold"] == 0.35
    assert "A pixel is foreground from a probability of 0.35 on" in model_card(source, result)
    assert "threshold" not in metadata(plain, Statements())["fedannot"]
    assert "from a probability of" not in model_card(plain, metadata(plain, Statements()))


def test_statements_of_a_person_and_nothing_of_this_machine(tmp_path: Path) -> None:
    settings = settings_of("fedgsca", "classification", data="/home/me", resume_from="/home/me/state.pt")
    network = settings.network.model_copy(update={"checkpoint": "/home/me/start.pt"})
    settings = settings.model_copy(update={"network": network})
    run = write_run(tmp_path / "run", settings, CELLS, data=str(tmp_path))
    terms = tmp_path / "terms.txt"
    terms.write_text("Ask us.\n", encoding="utf-8")
    statements = Statements("2.1.0", "Counting cells.", "The hospitals")
    export_bundle(read_source(run), tmp_path / "bundle", statements, terms)
    written = (tmp_path / "bundle" / "configs" / "metadata.json").read_text(encoding="utf-8")
    assert "/home/me" not in written
    assert str(tmp_path) not in written
    result = json.loads(written)
    assert (result["version"], result["intended_use"]) == ("2.1.0", "Counting cells.")
    assert (result["authors"], result["copyright"]) == ("The hospitals", "Copyright (c) The hospitals")
    assert (tmp_path / "bundle" / "LICENSE").read_text(encoding="utf-8") == "Ask us.\n"
    card = (tmp_path / "bundle" / "docs" / "README.md").read_text(encoding="utf-8")
    assert "Counting cells." in card
    assert "| site-1 | 30 | 0.750 |" in card


def test_the_licence_is_the_projects_unless_another_is_named(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", settings_of("fedavg"))
    export_bundle(read_source(run), tmp_path / "bundle")
    assert (tmp_path / "bundle" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_without_a_licence_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(tmp_path / "run", settings_of("fedavg"))
    monkeypatch.setattr("fedannot.apps.bundling.export.distributions", lambda name: [])
    with pytest.raises(
        DataError, match=r"found no LICENSE in what is installed; .* or name a file with --licence FILE"
    ):
        export_bundle(read_source(run), tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_nothing_is_overwritten_or_half_written(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", settings_of("fedavg"))
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine.txt").write_text("mine")
    with pytest.raises(DataError, match="full: found a folder with files in it; expected an empty or absent"):
        export_bundle(read_source(run), full)
    assert [file.name for file in full.iterdir()] == ["mine.txt"]
    source = read_source(run)
    with torch.no_grad():
        next(source.network.parameters()).fill_(torch.nan)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(DataError, match="Are its weights finite"):
        export_bundle(source, tmp_path / "broken")
    with pytest.raises(DataError, match="no-terms: found no such file"):
        export_bundle(read_source(run), tmp_path / "broken", licence=tmp_path / "no-terms")
    assert sorted(tmp_path.iterdir()) == before


def test_the_command(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", settings_of("decoupled", warmup_rounds=2))
    arguments = ["bundle", "export", str(run), "--site", "site-2", "--out", str(tmp_path / "bundle")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert f"{tmp_path / 'bundle' / 'run.py'} --dataset_dir IMAGES" in result.output
    found = json.loads((tmp_path / "bundle" / "configs" / "metadata.json").read_text(encoding="utf-8"))
    assert found["fedannot"]["model_of"] == "site-2"
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "expected an empty or absent output folder" in result.output


def test_what_was_built_in_the_projects_folder_does_not_hide_the_licence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip leaves metadata without it there, which Python finds first where it starts in that folder."""
    run, built = write_run(tmp_path / "run", settings_of("fedavg")), tmp_path / "fedannot.egg-info"
    built.mkdir()
    (built / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: fedannot\nVersion: 0.1.0\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    export_bundle(read_source(run), tmp_path / "bundle")
    assert (tmp_path / "bundle" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
