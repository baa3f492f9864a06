"""A federation, or a site, becomes a raw data set of nnU-Net: to train the usual reference on the same cases."""

import gzip
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from ...custom.data.datalist import TESTING, TRAINING, VALIDATION, Case, read_datalist, require_decided
from ...custom.data.description import (
    DESCRIPTION_FILE,
    ImageDescription,
    SegmentationDescription,
    SliceDescription,
    VolumeDescription,
    read_site_description,
)
from ...custom.data.federation import FEDERATION_FILE, TEST_FOLDER, read_federation
from ...custom.data.masks import Mask, read_classes, write_classes
from ...custom.data.watch import Watch, watched
from ...custom.data.whole_files import new_folder, private_file, private_folder, write_text
from ...transforms.array_types import SingleFloats
from ...transforms.errors import DataError
from ...transforms.loading.picture_channels import read_picture_channels
from ...transforms.loading.volume_channels import read_image_volume
from ...transforms.loading.volume_files import Volume, as_image_lies, read_first_channel, write_voxels_like
from .channel_files import channel_name

_FOLDS = 5
_MOST: dict[np.dtype[np.uint8] | np.dtype[np.uint16], int] = {np.dtype(np.uint8): 255, np.dtype(np.uint16): 65535}


@dataclass(frozen=True)
class NnunetExport:
    """What was written.

    Attributes:
        training: number of cases to train on, validation cases among them.
        testing: number of cases of the test set.
        folds: number of folds, which keep a patient's cases together.
    """

    training: int
    testing: int
    folds: int


@dataclass(frozen=True)
class _Named:
    """A case with its name in the data set, and its patient."""

    name: str
    case: Case
    patient: tuple[str, str]
    description: SegmentationDescription


def export_nnunet(folder: Path, out: Path, watch: Watch | None = None) -> NnunetExport:
    """Write the cases of a federation, or of one site, as a raw data set of nnU-Net.

    All sites' cases are together in it: this leaves no site only where the federation's folder is on one machine
    already. Cases are named ``SITE_NAME``. ``splits_final.json`` has folds that part no patient; nnU-Net takes it from
    the folder of its prepared data.

    Args:
        folder: a federation's folder, or a site's; whole images, in the files' own voxels, are written.
        out: the data set's folder, ``Dataset501_NAME``, absent or empty.
        watch: learns how many cases are written.

    Raises:
        DataError: if the cases have classes in place of masks, sites differ in kind, or a file cannot be read.
    """
    cases = _found(folder)
    first = cases[TRAINING][0].description if cases[TRAINING] else None
    if first is None:
        raise DataError(f"{folder}: found no case to train on; expected some.")
    ending = ".png" if isinstance(first, ImageDescription) else ".nii.gz"
    with new_folder(out) as target:
        for part, own in ((("imagesTr", "labelsTr"), TRAINING), (("imagesTs", "labelsTs"), TESTING)):
            for named in watched(cases[own], f"Writing {part[0]}", watch):
                _write_image(named, private_folder(target / part[0]) / named.name, ending)
                _write_mask(named, private_folder(target / part[1]) / named.name)
        folds = _folds(cases[TRAINING])
        ignores = any(named.description.ignore for part in cases.values() for named in part)
        dataset = _dataset(out.resolve().name, first, ending, len(cases[TRAINING]), ignores=ignores)
        _write_json(target / "dataset.json", dataset)
        _write_json(target / "splits_final.json", folds)
    return NnunetExport(len(cases[TRAINING]), len(cases[TESTING]), len(folds))


def _found(folder: Path) -> dict[str, list[_Named]]:
    """The cases to train on and those to test with, of all sites."""
    is_federation = (folder / FEDERATION_FILE).is_file()
    sites = [*read_federation(folder).sites] if is_federation else [folder.resolve().name]
    folders = {site: folder / site if is_federation else folder for site in sites}
    if is_federation and (folder / TEST_FOLDER / DESCRIPTION_FILE).is_file():
        folders[TEST_FOLDER] = folder / TEST_FOLDER
    cases: dict[str, list[_Named]] = {TRAINING: [], TESTING: []}
    kinds: dict[tuple[object, ...], str] = {}
    for site, own in folders.items():
        description = read_site_description(own)
        if not isinstance(description, SegmentationDescription):
            raise DataError(f"{own}: found images with classes; expected masks, as nnU-Net needs them.")
        if description.unannotated_classes:
            raise DataError(
                f"{own / DESCRIPTION_FILE}: found that {', '.join(description.unannotated_classes)} is not annotated; "
                "expected all classes, as nnU-Net takes what is not annotated for background."
            )
        is_picture = isinstance(description, ImageDescription)
        kinds.setdefault((description.classes, description.in_channels, is_picture), site)
        if len(kinds) > 1:
            raise DataError(
                f"{own}: found other classes, channels or kinds of images than {next(iter(kinds.values()))}; expected "
                "the same at all sites."
            )
        datalist = read_datalist(own / description.datalist)
        for item in (one for refused in datalist.refused.values() for one in refused):
            raise DataError(f"Site {site}: {item.reason} Correct the datalist, or take the item out.")
        for section in (TRAINING, VALIDATION, TESTING):
            require_decided(
                datalist.section(section), own / description.datalist, "one label for each case, as nnU-Net needs it"
            )
            part = cases[TESTING if section == TESTING else TRAINING]
            for case in datalist.section(section):
                stem = case.image.name.removesuffix(".gz").rpartition(".")[0]
                part.append(_Named(f"{site}_{stem}", case, (site, case.unit), description))
    names = [named.name for part in cases.values() for named in part]
    if twice := {name for name in names if names.count(name) > 1}:
        raise DataError(f"{folder}: found two cases called {min(twice)}; expected a name for each.")
    return cases


def _write_image(named: _Named, target: Path, ending: str) -> None:
    """Write a file for every channel, as nnU-Net wants them; colours stay in one."""
    case, description = named.case, named.description
    files = [
        target.with_name(f"{channel_name(target.name, number)}{ending}") for number in range(description.in_channels)
    ]
    if isinstance(description, ImageDescription):
        channels = description.picture_channels
        for pixels, file in zip(read_picture_channels(case.image_files, channels), files, strict=False):
            _write_picture(case.image, np.moveaxis(pixels, 0, -1), file)
    elif description.in_channels == 1:
        _write_volume(case.image, files[0])
    else:
        image = read_image_volume(case.image_files, description.image_channels)
        for voxels, file in zip(image.voxels, files, strict=True):
            write_voxels_like(private_file(file), voxels, image.file)


def _write_volume(source: Path, file: Path) -> None:
    if source.name.lower().endswith(".nii.gz"):
        shutil.copyfile(source, private_file(file))
    else:
        with source.open("rb") as stream, gzip.open(private_file(file), "wb") as packed:
            shutil.copyfileobj(stream, packed)


def _write_picture(source: Path, pixels: SingleFloats, file: Path) -> None:
    kind = next(
        (
            kind
            for kind, most in _MOST.items()
            if pixels.min() >= 0 and pixels.max() <= most and (pixels == np.rint(pixels)).all()
        ),
        None,
    )
    if kind is None or (kind.itemsize > 1 and pixels.shape[-1] > 1):
        raise DataError(
            f"{source}: found intensities from {pixels.min():g} to {pixels.max():g}; expected whole numbers that PNG "
            "can hold, 0 to 65535, of colours 0 to 255."
        )
    values = pixels.astype(kind)
    Image.fromarray(values[..., 0] if values.shape[-1] == 1 else values).save(private_file(file))


def _write_mask(named: _Named, target: Path) -> None:
    """Write the classes 0, 1, … of a mask, whatever its file calls them, and the next number for ignored pixels.

    A volume's mask is written as its image lies.
    """
    if not isinstance(named.case.label, Path):
        raise DataError(f"{named.case.image}: found the class {named.case.label}; expected a mask.")
    classes = range(len(named.description.classes) + 1)
    # nnU-Net's own value of ignored pixels is the highest one.
    changes = {"labels": {label: label for label in classes}, "ignore": (len(classes),)}
    numbered = named.description.model_copy(update=changes)
    label = named.case.label
    mask, like = read_classes(label, named.description), label
    if mask.affine is not None:
        image, like = read_first_channel(named.case.image), named.case.image
        mask = Mask(
            as_image_lies(label, Volume(mask.classes, mask.affine), image).voxels.astype(np.uint8), image.affine
        )
    write_classes(target, mask, like, numbered)


def _dataset(
    name: str, description: SegmentationDescription, ending: str, count: int, *, ignores: bool
) -> dict[str, object]:
    ignored = ("ignore",) if ignores else ()
    one = "CT" if _is_ct(description) else "image"
    numbered = [one] if description.in_channels == 1 else [f"{one} {n + 1}" for n in range(description.in_channels)]
    channels = ["R", "G", "B"] if description.has_colours else description.channel_names or numbered
    return {
        "name": name,
        "channel_names": {str(index): channel for index, channel in enumerate(channels)},
        "labels": {"background": 0} | {name: index for index, name in enumerate((*description.classes, *ignored), 1)},
        "numTraining": count,
        "file_ending": ending,
    }


def _is_ct(description: SegmentationDescription) -> bool:
    """Whether intensities are Hounsfield units, which nnU-Net scales in its own way."""
    return isinstance(description, SliceDescription | VolumeDescription) and description.intensity == "window"


def _folds(cases: Sequence[_Named]) -> list[Mapping[str, list[str]]]:
    """Folds that take the patients in turn; as many as there are patients, if these are few."""
    patients = sorted({named.patient for named in cases})
    number = min(_FOLDS, len(patients))
    fold_of = {patient: index % number for index, patient in enumerate(patients)}
    return [
        {
            "train": [named.name for named in cases if fold_of[named.patient] != fold],
            "val": [named.name for named in cases if fold_of[named.patient] == fold],
        }
        for fold in range(number)
        if number > 1
    ]


def _write_json(file: Path, content: object) -> None:
    write_text(private_file(file), json.dumps(content, indent=1) + "\n")
