"""`configs/metadata.json`: what a bundle is, for programs and for the reader, in the schema that MONAI publishes."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TypedDict

from ...custom.data.description import AnyDescription, ClassificationDescription, SliceDescription, VolumeDescription
from ...custom.evaluation.inference import Inference
from ...custom.evaluation.score_records import Evaluated
from ...custom.evaluation.scoring import Scoring
from ...custom.methods.feda3i.records import QualityFindings
from ...custom.methods.fedia.records import CompletenessFindings
from ...custom.methods.personal.own_threshold import AtThreshold
from ...custom.records.round_records import SiteReport
from ...custom.run.summary_record import Summary
from ...transforms.strict_files import JsonObject
from ..reports.output import noise_level
from .source import BundleSource

SCHEMA = "https://github.com/Project-MONAI/MONAI-extra-test-data/releases/download/0.8.1/meta_schema_20240725.json"
# MONAI's command line needs it; neither fedannot nor a bundle's own program does.
_FIRE_VERSION = "0.7.1"
# Of a description, what says something of one site's files alone.
_OF_A_SITE = {"datalist", "ignore", "annotated_classes"}
# Settings that name files.
_OF_THIS_MACHINE: dict[str, bool | set[str]] = {
    "data": True,
    "resume_from": True,
    "start_model": True,
    "network": {"checkpoint"},
}
# What a site reports of its annotations with its models; see fedannot.custom.outbound.registry.
_REPORTED_QUALITY = ("noise_level", "dice_loss", "train_loss")


@dataclass(frozen=True)
class Statements:
    """What only a person knows of a bundle.

    Attributes:
        version: the bundle's version.
        intended_use: what the model is for, and what not; empty for the cautious default.
        authors: who made it, and holds the rights.
    """

    version: str = "0.1.0"
    intended_use: str = ""
    authors: str = ""


class SiteWeights(TypedDict, total=False):
    """With what weights models were added up: by site, or by site and layer block, one weight per block then."""

    by: str
    blocks: list[str]
    values: dict[str, float] | dict[str, list[float]]


class NoiseEstimates(TypedDict, total=False):
    """What a run concluded of the sites' annotations; what it did not estimate is not there."""

    estimate: JsonObject
    completeness: JsonObject
    noise_level: dict[str, float]


def metadata(source: BundleSource, statements: Statements) -> JsonObject:
    """Return a bundle's metadata.

    Args:
        source: what the bundle is made of.
        statements: what a person says of it.
    """
    summary = source.summary
    authors = statements.authors or f"the sites of the federation {source.federation or ''}".strip()
    finished = source.settings.rounds if summary is None else summary.rounds_finished
    return {
        "schema": SCHEMA,
        "version": statements.version,
        "changelog": {statements.version: f"exported after round {finished} of a run of {source.settings.method}"},
        "monai_version": _version("monai"),
        "pytorch_version": _version("torch"),
        "numpy_version": _version("numpy"),
        "required_packages_version": {name: _version(name) for name in _packages(source)} | {"fire": _FIRE_VERSION},
        "name": bundle_name(source),
        "task": task_of(source),
        "description": description_of(source),
        "authors": authors,
        "copyright": f"Copyright (c) {authors}",
        "data_source": f"{len(_reports(source)) or 'several'} sites; the images never left them",
        "data_type": "nibabel" if _is_volume(source) else "png",
        "image_classes": _image_classes(source.description),
        "pred_classes": ", ".join(f"{number}: {name}" for number, name in _classes(source).items()),
        "eval_metrics": dict(scores(source)),
        "intended_use": statements.intended_use or _default_use(source),
        "network_data_format": _network_data_format(source),
        "fedannot": {
            "fedannot_version": _version("fedannot"),
            "method": source.settings.method,
            "task": source.settings.task,
            "seed": source.settings.seed,
            "rounds": finished,
            "model_of": source.site or "federation",
            **({"threshold": source.network.threshold} if isinstance(source.network, AtThreshold) else {}),
            "federation": {"name": source.federation, "sites": _sites(source)},
            "weights": site_weights(source),
            "noise_estimates": {} if summary is None else noise_estimates(summary),
            "data": source.description.model_dump(mode="json", exclude=_OF_A_SITE, exclude_none=True),
            "settings": source.settings.model_dump(mode="json", exclude=_OF_THIS_MACHINE),
        },
    }


def bundle_name(source: BundleSource) -> str:
    """Return what a bundle is called: classes, method, and the site of a personal model."""
    parts = (*source.description.classes[:3], source.settings.method, source.site)
    return " ".join(part for part in parts if part)


def task_of(source: BundleSource) -> str:
    """Return what the model does in a sentence."""
    names = ", ".join(source.description.classes)
    if isinstance(source.description, ClassificationDescription):
        return f"Classification of pictures: {names}"
    what = {SliceDescription: "volumes, slice by slice", VolumeDescription: "volumes"}
    return f"Segmentation of {names} in {what.get(type(source.description), 'pictures')}"


def description_of(source: BundleSource) -> str:
    """Return how the model came about in a sentence."""
    whose = f"The own model of {source.site}" if source.site else "The global model"
    reports = _reports(source)
    sites = f" by {len(reports)} sites" if reports else ""
    return f"{whose} of a federation, trained with {source.settings.method}{sites}; no image left its site."


def scores(source: BundleSource) -> dict[str, float | str]:
    """Return what the model scores, with what it was scored on; empty where nothing was measured."""
    if source.site is not None:
        local = source.local_scores
        if local is None:
            return {}
        own = local.models["local"]
        measured = {"dice": own.dice, "left_empty": own.left_empty, "hd95": own.hd95}
        measured |= {"hd95_undefined": own.hd95_undefined}
        where = f"{local.num_cases} validation cases of {source.site}"
    else:
        record = source.record
        if record is None:
            return {}
        # A mean of models is scored by itself.
        final = None if source.summary is None else source.summary.final_scores
        last = final if isinstance(final, Evaluated) else record
        measured = {name: getattr(last, name) for name in Scoring.of(source.settings.task).names}
        on = {"test": "the federation's test set", "sites": "the sites' validation cases"}.get(last.evaluated_on or "")
        where = f"{last.num_cases or 'all'} cases of {on}" if on else "not stated"
        if names := getattr(last, "unscored_classes", None):
            where += f", none of which shows {', '.join(names)}"
    result: dict[str, float | str] = {name: value for name, value in measured.items() if value is not None}
    return result | {"evaluated_on": where} if result else {}


def site_weights(source: BundleSource) -> SiteWeights:
    """Return the weights with which the sites' models were added up in the round that the model is of.

    Per site and layer block where they differ between blocks, else one number per site; fractions of samples for
    federated averaging. A site's own model has none.
    """
    if source.site is not None or source.summary is None:
        return {}
    quality = source.summary.added(QualityFindings)
    if quality is not None and quality.weights is not None:
        matrix = quality.weights
        rows = zip(matrix.sites, matrix.values, strict=True)
        return {
            "by": "site and layer block",
            "blocks": list(matrix.blocks),
            "values": {site: list(weights) for site, weights in rows},
        }
    of_round = None if source.record is None else source.record.weights
    if of_round is not None:
        return {"by": "site", "values": of_round}
    counts = {site: report.num_samples for site, report in source.summary.sites.items()}
    total = sum(counts.values())
    return {"by": "site", "values": {site: count / total for site, count in counts.items()}} if total else {}


def noise_estimates(summary: Summary) -> NoiseEstimates:
    """Return what the run concluded of the sites' annotations; empty for a method that draws no conclusion."""
    quality, completeness = summary.added(QualityFindings), summary.added(CompletenessFindings)
    estimates: NoiseEstimates = {}
    if quality is not None and quality.estimate is not None:
        estimates["estimate"] = quality.estimate.plain()
    if completeness is not None and completeness.completeness:
        estimates["completeness"] = completeness.plain()["completeness"]
    levels = {site: level for site, report in summary.sites.items() if (level := noise_level(report)) is not None}
    if levels:
        estimates["noise_level"] = levels
    return estimates


def _reports(source: BundleSource) -> Mapping[str, SiteReport]:
    return {} if source.summary is None else source.summary.sites


def _sites(source: BundleSource) -> dict[str, JsonObject]:
    kept = ("num_samples", "num_excluded", *_REPORTED_QUALITY)
    return {
        site: {name: report.named(name) for name in kept if report.has(name)}
        for site, report in _reports(source).items()
    }


def _network_data_format(source: BundleSource) -> dict[str, dict[str, JsonObject]]:
    """Inputs and outputs of the network in ``models``; images are those after the preprocessing."""
    description = source.description
    window = Inference.of(source.settings).window
    size = list(window or getattr(description, "size", None) or ())
    shared = {"spatial_shape": size, "dtype": "float32", "is_patch_data": window is not None}
    channels = _channel_names(description)
    is_classes = isinstance(description, ClassificationDescription)
    classes = {str(number): name for number, name in _classes(source).items()}
    image = {
        "type": "image",
        "format": "rgb" if description.has_colours else "magnitude",
        "modality": "n/a",
        "num_channels": description.in_channels,
        # Of a z-score no range is known.
        "value_range": [0, 1] if getattr(description, "intensity", None) == "window" else [],
        "channel_def": {str(number): name for number, name in enumerate(channels)},
    }
    prediction: JsonObject = {
        "type": "probabilities" if is_classes else "image",
        "format": "classification" if is_classes else "segmentation",
        "num_channels": len(classes),
        "value_range": [],
        "channel_def": classes,
    }
    result: dict[str, dict[str, JsonObject]] = {
        "inputs": {"image": image | shared},
        "outputs": {"pred": prediction | shared | ({"spatial_shape": []} if is_classes else {})},
    }
    if not is_classes:
        result["post_processed_outputs"] = {
            "pred": prediction
            | shared
            | {"num_channels": 1, "dtype": "uint8", "value_range": [0, len(classes) - 1], "is_patch_data": False}
            | {"spatial_shape": ["*"] * len(size), "channel_def": {"0": "class"}}
        }
    return result


def _channel_names(description: AnyDescription) -> tuple[str, ...]:
    """What the channels of an image are called, for a reader."""
    if description.has_colours:
        return ("red", "green", "blue")
    if description.channel_names or description.in_channels == 1:
        return description.channel_names or ("intensity",)
    return tuple(f"intensity of channel {number}" for number in range(1, description.in_channels + 1))


def _image_classes(description: AnyDescription) -> str:
    """What an image holds, in a few words."""
    if description.has_colours:
        return "RGB channels"
    if description.in_channels == 1:
        return "one channel of intensities"
    names = f": {', '.join(description.channel_names)}" if description.channel_names else ""
    return f"{description.in_channels} channels of intensities{names}"


def _classes(source: BundleSource) -> dict[int, str]:
    names = source.description.classes
    if not isinstance(source.description, ClassificationDescription):
        names = ("background", *names)
    return dict(enumerate(names))


def _default_use(source: BundleSource) -> str:
    return (
        f"{task_of(source)}, for research, on images like those of the federation. It is no medical device: no "
        "decision about a patient may rest on it."
    )


def _is_volume(source: BundleSource) -> bool:
    return isinstance(source.description, SliceDescription | VolumeDescription)


def _packages(source: BundleSource) -> tuple[str, ...]:
    if not _is_volume(source):
        return ("pillow", "SimpleITK")
    # SciPy resamples channels on other grids.
    resampling = ("scipy",) if source.description.in_channels > 1 else ()
    return ("nibabel", "pillow", "SimpleITK", *resampling)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
