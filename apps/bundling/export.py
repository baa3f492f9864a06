"""Writes a MONAI Bundle, as a whole or not at all."""

import json
from importlib.metadata import distributions
from pathlib import Path

import torch

from ...custom.data.whole_files import new_folder
from ...custom.evaluation.inference import Inference
from ...transforms.errors import DataError
from ...transforms.strict_files import JsonObject
from .inference_config import MODEL_FILE, inference_config
from .metadata import Statements, metadata
from .metadata_schema import METADATA_SCHEMA
from .model_card import model_card
from .reading_code import write_reading_code
from .source import BundleSource
from .torchscript import to_torchscript

WEIGHTS_FILE = "model.pt"
SCHEMA_FILE = "metadata.schema.json"


def export_bundle(
    source: BundleSource, out: Path, statements: Statements | None = None, licence: Path | None = None
) -> None:
    """Write a run's model as a MONAI Bundle.

    Args:
        source: what the bundle is made of.
        out: the bundle's folder; must be absent or empty.
        statements: what a person says of it.
        licence: file with the terms of use; by default the project's own, Apache-2.0.

    Raises:
        DataError: if the folder holds files, the model cannot be exported, or there is no file with the terms.
    """
    described = metadata(source, statements or Statements())
    inference = Inference.of(source.settings)
    size = inference.extents(source.description.size)
    terms = _read_licence(licence)
    with new_folder(out, shared=True) as folder:
        for name in ("configs", "models", "docs"):
            (folder / name).mkdir()
        network = source.network
        traced = to_torchscript(network, source.description.in_channels, size, inference.precision)
        torch.jit.save(traced, folder / "models" / MODEL_FILE)
        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
        torch.save(weights, folder / "models" / WEIGHTS_FILE)
        _write_json(folder / "configs" / "metadata.json", described)
        _write_json(folder / "configs" / SCHEMA_FILE, METADATA_SCHEMA)
        _write_json(folder / "configs" / "inference.json", inference_config(source.description, inference))
        write_reading_code(folder)
        (folder / "docs" / "README.md").write_text(model_card(source, described), encoding="utf-8")
        (folder / "LICENSE").write_text(terms, encoding="utf-8")


def _read_licence(file: Path | None) -> str:
    if file is None:
        return _own_licence()
    if not file.is_file():
        raise DataError(f"{file}: found no such file; expected the bundle's terms of use.")
    return file.read_text(encoding="utf-8")


def _own_licence() -> str:
    """The project's own, which every installation keeps next to its metadata."""
    # In the project's folder what was built is found as well, without it.
    for result in distributions(name="fedannot"):
        if text := result.read_text("licenses/LICENSE"):
            return text
    raise DataError(
        "fedannot: found no LICENSE in what is installed; install the package again, or name a file with --licence "
        "FILE."
    )


def _write_json(file: Path, content: JsonObject) -> None:
    file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
