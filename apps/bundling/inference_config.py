"""`configs/inference.json`: the pipelines of `data.yaml` in MONAI's own words, so that a bundle needs no fedannot."""

from collections.abc import Sequence

from ...custom.data.description import (
    AnyDescription,
    ClassificationDescription,
    ImageDescription,
    SliceDescription,
    VolumeDescription,
)
from ...custom.evaluation.inference import OVERLAP, Inference, mirrored_axes
from ...transforms.errors import DataError
from ...transforms.loading.dicom_header import DICOM_SUFFIX
from ...transforms.loading.image_channels import ImageChannels
from ...transforms.loading.image_files import IMAGE_SUFFIXES
from ...transforms.loading.volume_suffixes import VOLUME_FILE_SUFFIXES
from .fitting_config import UNFIT, fitting_config
from .preprocessing_config import IMAGE, OF_PICTURES, Config, fitted_size, keeps_extents, preprocessing, step
from .reading_code import PACKAGE

MODEL_FILE = "model.ts"
PREDICTIONS_FILE = "predictions.json"
POSTFIX, PROBABILITIES_POSTFIX = "seg", "prob"

_PREDICTION = "pred"


_IMPORTS = ("collections", "functools", "json", "math", "os", "pathlib", "pydoc", "sys")
# MONAI's command line puts the bundle's folder into the path where it runs a bundle; where it verifies or exports one,
# the folder is above the files that it is given.
_BUNDLE_ROOT = (
    "$next((str(folder) for folder in [sys.path[1], *(os.path.dirname(os.path.dirname(os.path.abspath(part))) "
    "for word in sys.argv for part in word.split('=', 1) if part.endswith('.json'))] "
    f"if os.path.isfile(os.path.join(folder, 'models', '{MODEL_FILE}'))), '.')"
)


def inference_config(description: AnyDescription, inference: Inference) -> Config:
    """Return the configuration that runs a bundle's network over the files of a folder.

    Images are prepared as :mod:`fedannot.custom.data.preparation` does and run through the network as
    :class:`Inference` does, to the same bits. Masks go back to the voxels of their image's file; a classifier's
    probabilities go to one file.

    Args:
        description: the data that the network was trained on.
        inference: how the network is run.
    """
    return {
        "imports": [f"$import {name}" for name in _IMPORTS],
        "bundle_root": _BUNDLE_ROOT,
        "dataset_dir": "input",
        "output_dir": "output",
        "device": "$torch.device('cuda' if torch.cuda.is_available() else 'cpu')",
        "reading_images": _own_module("folder_images"),
        "writing_results": _own_module("folder_results"),
        "found": "$@reading_images.find_images(str(@dataset_dir), "
        f"pictures={isinstance(description, OF_PICTURES)}, without=str(@output_dir){_counted_argument(description)})",
        "datalist": "$list(@found.files)",
        "network_def": f"$torch.jit.load(str(pathlib.Path(@bundle_root, 'models', '{MODEL_FILE}')), @device).eval()",
        **_own_reader(description),
        **(fitting_config(fitted_size(description), description.fit) if keeps_extents(description) else {}),
        "preprocessing": {"_target_": "Compose", "transforms": preprocessing(description)},
        "dataset": {
            "_target_": "$@reading_images.UsableImages",
            "files": "@datalist",
            "prepare": "@preprocessing",
            "key": IMAGE,
            "folder": "$str(@dataset_dir)",
            "left_out": "$@found.left_out",
            **({} if (channels := _counted(description)) == 1 else {"channels": channels}),
        },
        "dataloader": {
            "_target_": "DataLoader",
            "dataset": "@dataset",
            "batch_size": inference.batch_size if isinstance(description, OF_PICTURES) else 1,
            "collate_fn": "$list",
        },
        "inferer": _inferer(description, inference),
        **_prediction(description, inference),
        **_results(description),
    }


def _own_reader(description: AnyDescription) -> Config:
    """What reads a picture or a volume as import, check and run do."""
    if not isinstance(description, OF_PICTURES):
        return {"reading_volumes": _own_module("volume_transforms"), **_channels(description)}
    if isinstance(description.picture_channels, ImageChannels):
        return {
            "reading_pictures": _own_module("dicom_pictures"),
            **_channels(description),
            "with_meta": "$lambda file, pixels: monai.data.MetaTensor(torch.from_numpy(pixels), "
            "meta={'filename_or_obj': str(file), 'spatial_shape': np.array(pixels.shape[1:])})",
            "read_picture": "$lambda file: @with_meta(file, "
            "@reading_pictures.read_grey_channels(file, @image_channels))",
        }
    return {
        "reading_pictures": _own_module("dicom_pictures"),
        "with_meta": "$lambda file, pixels: monai.data.MetaTensor(torch.from_numpy(pixels), "
        "meta={'filename_or_obj': file, 'spatial_shape': np.array(pixels.shape[1:])})",
        "read_picture": "$lambda file: @with_meta(file, "
        f"@reading_pictures.read_any_picture(pathlib.Path(file), {description.channels}))",
    }


def _own_module(name: str) -> str:
    """What imports a module of the bundle's own code."""
    path = "sys.path.insert(1, str(pathlib.Path(@bundle_root).resolve()))"
    # MONAI takes every expression with the word "import" for a statement.
    return f"${path} or pydoc.locate('{PACKAGE}.loading.{name}')"


def _channels(description: AnyDescription) -> Config:
    """The channels that an image must have, where it has several, or one of a picture has a name."""
    is_named = isinstance(description, OF_PICTURES) and isinstance(description.picture_channels, ImageChannels)
    if description.in_channels == 1 and not is_named:
        return {}
    names, fills = description.channel_names, description.missing_channels == "zeros"
    return {
        "reading_channels": _own_module("image_channels"),
        "image_channels": f"$@reading_channels.ImageChannels({description.in_channels}, {names!r}, {fills})",
    }


def _counted(description: AnyDescription) -> int:
    """How many channels the files of an image have together; 1 where it is one file."""
    is_one_file = isinstance(description, OF_PICTURES) and isinstance(description.picture_channels, int)
    return 1 if is_one_file else description.in_channels


def _counted_argument(description: AnyDescription) -> str:
    channels = _counted(description)
    return "" if channels == 1 else f", channels={channels}"


def _suffixes(description: AnyDescription) -> Sequence[str]:
    suffixes = IMAGE_SUFFIXES if isinstance(description, OF_PICTURES) else VOLUME_FILE_SUFFIXES
    return (*suffixes, DICOM_SUFFIX)


def _inferer(description: AnyDescription, inference: Inference) -> Config:
    if isinstance(description, SliceDescription):
        if inference.inferer is not None:
            raise DataError(
                f"The run has the inferer {inference.inferer.target}, but a bundle of slices runs a volume by its "
                "slices; expected a run without an inferer. Leave the setting 'inferer' out."
            )
        return {
            "_target_": "SliceInferer",
            "roi_size": list(description.size),
            "sw_batch_size": inference.batch_size,
            "spatial_dim": description.slice_axis,
        }
    if inference.inferer is not None:
        return inference.inferer.table()
    if inference.window is None:
        return {"_target_": "SimpleInferer"}
    return {
        "_target_": "SlidingWindowInferer",
        "roi_size": list(inference.window),
        "sw_batch_size": inference.batch_size,
        "overlap": OVERLAP,
        "mode": "gaussian",
        "padding_mode": "replicate",
    }


def _prediction(description: AnyDescription, inference: Inference) -> Config:
    """From prepared images to the network's output, or with mirroring to log probabilities, in main memory."""
    images = f"torch.stack([item['{IMAGE}'].as_tensor() for item in items]).to(@device)"
    if not inference.mirroring:
        return {"predict": f"$lambda items: @inferer({images}, @network_def).cpu()"}
    is_volume = isinstance(description, SliceDescription | VolumeDescription)
    across = description.slice_axis if isinstance(description, SliceDescription) else None
    of_sample = [axis for axis in range(3 if is_volume else 2) if axis != across]
    back = "" if isinstance(description, ClassificationDescription) else ".flip(axes)"
    return {
        "mirrored_axes": mirrored_axes([of_sample[axis] for axis in inference.mirrored(len(of_sample))]),
        "log_probabilities": "$lambda images, axes: @inferer(images.flip(axes), @network_def)"
        f"{back}.log_softmax(dim=1)",
        "mean_of": "$lambda images: functools.reduce(torch.logaddexp, "
        "(@log_probabilities(images, axes) for axes in @mirrored_axes)) - math.log(len(@mirrored_axes))",
        "predict": f"$lambda items: @mean_of({images}).cpu()",
    }


def _results(description: AnyDescription) -> Config:
    """What becomes of the network's output, and the steps of a run."""
    checks = _checks(description)
    if isinstance(description, ClassificationDescription):
        return {
            "classes": list(description.classes),
            "probabilities": "$lambda items: @predict(items).to(torch.float64).softmax(dim=1).tolist()",
            "run": [
                *checks,
                "$pathlib.Path(@output_dir).mkdir(parents=True, exist_ok=True)",
                f"$pathlib.Path(@output_dir, '{PREDICTIONS_FILE}').write_text(json.dumps("
                "{item['shown']: dict(zip(@classes, row)) for items in @dataloader "
                "for item, row in zip(items, @probabilities(items))}, "
                "indent=2, ensure_ascii=False, allow_nan=False) + '\\n', encoding='utf-8')",
                "$@dataset.finish()",
            ],
        }
    item = f"{{**item, '{_PREDICTION}': monai.data.MetaTensor(logits, meta=item['{IMAGE}'].meta)}}"
    return {
        "write_probabilities": False,
        "postprocessing": {"_target_": "Compose", "transforms": _postprocessing(description)},
        "postprocessing_probabilities": {"_target_": "Compose", "transforms": _probabilities(description)},
        "results_of": "$[@postprocessing, *([@postprocessing_probabilities] "
        "if str(@write_probabilities).lower() in ('true', '1', 'yes') else [])]",
        "run": [
            *checks,
            # Nothing is kept of a case that has been written.
            f"$collections.deque((write({item}) for items in @dataloader "
            "for item, logits in zip(items, @predict(items)) for write in @results_of), maxlen=0)",
            "$@dataset.finish()",
        ],
    }


def _postprocessing(description: AnyDescription) -> list[Config]:
    """From logits to the labels of a file."""
    return [
        step("AsDiscreted", key=_PREDICTION, argmax=True),
        *_back_to_file(description),
        _writing("WriteLabelsd", POSTFIX),
    ]


def _probabilities(description: AnyDescription) -> list[Config]:
    """From logits to the probabilities of a file; a voxel takes those of the nearest one, as it does with labels."""
    probabilities = "$lambda logits: @writing_results.class_probabilities(logits)"
    return [
        step("Lambdad", key=_PREDICTION, func=probabilities),
        *_back_to_file(description),
        _writing("WriteProbabilitiesd", PROBABILITIES_POSTFIX),
    ]


def _back_to_file(description: AnyDescription) -> list[Config]:
    """From the network's pixels to those of the image's file, without new values."""
    keeps = keeps_extents(description)
    steps = [step("Lambdad", key=_PREDICTION, func=f"$lambda mask: {UNFIT}")] if keeps else []
    if not isinstance(description, ImageDescription):
        back = step("Invertd", key=_PREDICTION, transform="@preprocessing", orig_keys=IMAGE, nearest_interp=True)
        return [*steps, back]
    if not keeps:
        resized = "torch.nn.functional.interpolate(mask.as_tensor()[None], [int(n) for n in "
        resized += "mask.meta['spatial_shape']], mode='nearest-exact')[0]"
        func = f"$lambda mask: monai.data.MetaTensor({resized}).copy_meta_from(mask)"
        steps = [step("Lambdad", key=_PREDICTION, func=func)]
    return steps


def _writing(target: str, postfix: str) -> Config:
    return step(f"$@writing_results.{target}", key=_PREDICTION, output_dir="$str(@output_dir)", postfix=postfix)


def _checks(description: AnyDescription) -> list[str]:
    """What ends a run with a sentence: no folder, no file in it, or two files whose results would have one name."""
    listed = ", ".join(_suffixes(description))
    series = "" if isinstance(description, OF_PICTURES) else ", or folders with a DICOM series"
    checks = [
        _check(
            "pathlib.Path(@dataset_dir).is_dir()", "found no such folder; name the folder of images with --dataset_dir"
        ),
        _check(
            "len(@datalist) > 0",
            f"found no image in it; expected files that end with {listed}{series}",
            and_all="@found.left_out",
        ),
    ]
    if not isinstance(description, ClassificationDescription):
        shared = f"@reading_images.shared_names(@datalist, str(@dataset_dir){_counted_argument(description)})"
        what = "found files whose names differ in their ending alone, so that their masks would have the same name"
        checks.append(_check(f"not {shared}", what, and_all=shared))
    return checks


def _check(condition: str, what: str, *, and_all: str = "()") -> str:
    """What ends a run with a sentence, and all lines of a list."""
    return f"${condition} or sys.exit('\\n'.join([str(@dataset_dir) + {': ' + what + '.'!r}, *{and_all}]))"
