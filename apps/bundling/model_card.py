"""`docs/README.md`: what a bundle's model is, for whom, how it was trained, what it scores, how it is run."""

from collections.abc import Mapping
from typing import Any

from ...custom.data.description import ClassificationDescription, ImageDescription
from ...custom.methods.personal.own_threshold import AtThreshold
from ...transforms.printable import printable
from ..wording.final_model import final_model_in_words
from .inference_config import POSTFIX, PREDICTIONS_FILE, PROBABILITIES_POSTFIX
from .metadata import bundle_name
from .reading_code import PROGRAM
from .source import BundleSource

_MARKDOWN = str.maketrans({character: f"\\{character}" for character in "\\|<>`[]"})
_SECTIONS = ("Intended use", "Run it", "How it was trained", "Scores", "Limits", "Files")


def model_card(source: BundleSource, metadata: Mapping[str, Any]) -> str:
    """Write a bundle's model card.

    Args:
        source: what the bundle is made of.
        metadata: of :func:`fedannot.apps.bundling.metadata.metadata`.
    """
    texts = (
        metadata["intended_use"],
        _running(source, metadata),
        _training(source, metadata),
        _scores(metadata, source),
        _limits(source),
        _FILES,
    )
    parts = [f"# {_words(bundle_name(source))}", _words(f"{metadata['description']} {metadata['task']}.")]
    parts += [f"## {title}\n{text}" for title, text in zip(_SECTIONS, texts, strict=True)]
    return "\n\n".join(parts) + "\n"


_FILES = """\
- `models/model.ts`: the model as TorchScript, which `configs/inference.json` loads
- `models/model.pt`: its weights, a state dict (`torch.load(..., weights_only=True)`)
- `configs/metadata.json`: inputs and outputs, the training federation, sites' weights and noise estimates, versions
- `configs/metadata.schema.json`: what `metadata.json` must hold, to verify it without a download
- `run.py`, `bundle_reading`: the program code that reads images and writes results
- `configs/inference.json`: how images are prepared and masks written. Such a file can hold any Python: run it only if \
you trust its origin"""


RUN_LINE = f"python {PROGRAM} --dataset_dir IMAGES --output_dir RESULTS"
_PROBABILITIES = f"""

With `--write_probabilities`, each class also gets a file of its probability, `RESULTS/NAME_{PROBABILITIES_POSTFIX}_0` \
for background and so on, float32, with the voxels of the mask. The mask is the class of the largest one."""
_BY_MONAI = ", with `--write_probabilities True` for probabilities"


def _running(source: BundleSource, metadata: Mapping[str, Any]) -> str:
    packages = [f"monai=={metadata['monai_version']}", "torch"]
    packages += [f"{name}>={version}" for name, version in metadata["required_packages_version"].items()]
    images, result = _files(source)
    is_segmentation = not isinstance(source.description, ClassificationDescription)
    return f"""\
In the bundle's folder:

```sh
pip install {" ".join(f'"{package}"' for package in packages)}
{RUN_LINE}
```

`IMAGES` is a folder of {images}, also in folders below. {result} The GPU is used where there is one. What cannot be \
used is named, the others go on, and the command ends with an error.{_PROBABILITIES if is_segmentation else ""}

MONAI's own command does the same: `python -m monai.bundle run --config_file configs/inference.json --dataset_dir \
IMAGES --output_dir RESULTS`{_BY_MONAI if is_segmentation else ""}."""


_PICTURES = "pictures (PNG, JPEG, BMP, TIFF, DICOM of one frame)"
_VOLUMES = "volumes (NIfTI, NRRD, MHA, a folder for each DICOM series, DICOM of many frames with `highdicom` installed)"


def _files(source: BundleSource) -> tuple[str, str]:
    description = source.description
    if isinstance(description, ClassificationDescription):
        return _PICTURES, (f"`RESULTS/{PREDICTIONS_FILE}` gets the probability of every class for every file.")
    classes = ", ".join(f"{number} {_words(name)}" for number, name in enumerate(("background", *description.classes)))
    if isinstance(description, ImageDescription):
        return _PICTURES, (f"`RESULTS/NAME_{POSTFIX}.png` has the size of its picture; its values are {classes}.")
    return _VOLUMES, (
        f"`RESULTS/NAME_{POSTFIX}.nii.gz` has the voxels and the place of its volume; its values are {classes}."
    )


def _training(source: BundleSource, metadata: Mapping[str, Any]) -> str:
    facts = metadata["fedannot"]
    federation = _words(facts["federation"]["name"] or "not named")
    lines = [
        f"- method: {facts['method']}, {facts['rounds']} rounds, seed {facts['seed']}, fedannot "
        f"{facts['fedannot_version']}",
        f"- federation: {federation}, {len(facts['federation']['sites'])} sites known",
    ]
    if sites := facts["federation"]["sites"]:
        weights = facts["weights"].get("values", {})
        lines += ["", "| site | samples | weight |", "|---|---|---|"]
        lines += [
            f"| {_words(site)} | {report.get('num_samples', '-')} | {_weight(weights.get(site))} |"
            for site, report in sites.items()
        ]
        if "blocks" in facts["weights"]:
            lines += ["", "Weights: of the first and of the last layer block."]
    if facts["noise_estimates"]:
        lines += ["", "What was concluded of the sites' annotations is in `configs/metadata.json` (`noise_estimates`)."]
    if source.site is not None:
        lines += [
            "",
            f"The model holds layers that {_words(source.site)} trained for itself alone, by its own annotations.",
        ]
    if isinstance(source.network, AtThreshold):
        lines.append(
            f"A pixel is foreground from a probability of {source.network.threshold:g} on, which fits the site's "
            "annotations best; the model's outputs are shifted accordingly."
        )
    return "\n".join(lines)


def _words(text: str) -> str:
    """A name as words of one line, which are neither a cell's end nor HTML."""
    return printable(text).translate(_MARKDOWN)


def _weight(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value[0]:z.3f} to {value[-1]:z.3f}" if isinstance(value, list) else f"{value:z.3f}"


def _scores(metadata: Mapping[str, Any], source: BundleSource) -> str:
    measured = dict(metadata["eval_metrics"])
    if not measured:
        return "None were measured in the run."
    where = measured.pop("evaluated_on")
    listed = ", ".join(f"{name} {value:z.3f}" for name, value in measured.items())
    meaning = ""
    if "dice" in measured or "left_empty" in measured:
        meaning = (
            " dice is the mean over the cases in which a class is annotated, 0 where it is missed; left_empty, "
            "if there are others, the fraction of them in which it is found nowhere."
        )
    final = None if source.summary is None or source.site is not None else source.summary.final_model
    when = "After the last round" if final is None or final.kind == "last" else f"Of {final_model_in_words(final)}"
    return f"{when}, on {where}: {listed}.{meaning}"


def _limits(source: BundleSource) -> str:
    lines = [
        "- The scores say nothing about images of other devices, protocols or patients than those above.",
        "- Images must be like the federation's in what they show and how they were taken; nothing checks that.",
    ]
    if not isinstance(source.description, ImageDescription | ClassificationDescription):
        lines.append(
            "- If a NIfTI header contradicts itself (voxel sizes against affine), the run says which part it takes, or "
            "refuses the file."
        )
    return "\n".join(lines)
