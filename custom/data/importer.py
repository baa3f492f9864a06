"""A federation from two folders, images and masks: paired by name, checked, and split at random into sites."""

import fnmatch
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from ...transforms.errors import DataError, describe_validation_error
from ...transforms.image_files import IMAGE_SUFFIXES, check_same_size, map_mask, read_image, read_mask, show_values
from ..seeding import derive_seed
from .datalist import TESTING, TRAINING, VALIDATION, Case, write_datalist
from .federation import TEST_FOLDER, FederationDescription, SiteDescription, write_federation, write_site_description
from .folders import new_folder
from .manifest import Manifest, write_manifest

_LOGGER = logging.getLogger(__name__)

_SHOWN_NAMES = 5


@dataclass(frozen=True)
class ImportReport:
    """What did not come along.

    Attributes:
        unpaired: names of images without a mask and masks without an image.
        excluded: why a pair could not be used, one text each.
        labels: value in the mask files → class, as given or as found.
    """

    unpaired: tuple[str, ...]
    excluded: tuple[str, ...]
    labels: dict[int, int]


def import_federation(
    images: Path,
    labels: Path,
    out: Path,
    *,
    num_sites: int,
    test_share: float = 0.2,
    validation_share: float = 0.0,
    label_map: Mapping[int, int] | None = None,
    size: tuple[int, int] = (256, 256),
    channels: int = 1,
    classes: Sequence[str] = ("lesion",),
    include: Sequence[str] = (),
    seed: int = 0,
) -> ImportReport:
    """Copy pairs of image and mask with the same name into a new federation of sites of equal size, ±1.

    Files are copied as they are; sizes and label values are only described in each site's ``data.yaml``.

    Args:
        images: folder of the images.
        labels: folder of the masks.
        out: the federation's folder, absent or empty; it appears when everything is written.
        num_sites: number of sites K.
        test_share: share of the pairs that becomes the common test set.
        validation_share: share of each site's pairs that becomes its validation list.
        label_map: value in a mask → class, beside 0 → 0. None: masks with 0 and 1, or with 0 and 255, explain
            themselves.
        size: rows and columns that images are resized to when they are loaded.
        channels: 1 for grey, 3 for RGB.
        classes: names of the foreground classes.
        include: patterns of image file names such as ``benign_*``; empty takes all.
        seed: seed of the split.

    Raises:
        DataError: if there is no usable pair or too few for the sites, the label values do not explain themselves, or
            an argument is out of range.
    """
    _check_shares(num_sites, test_share, validation_share)
    pairs, unpaired = _pair(_files_by_stem(images, include), _files_by_stem(labels, ()), images, labels, include)
    readable, excluded = _readable(pairs)
    mapping = _labels_from_values(readable) if label_map is None else {0: 0} | dict(label_map)
    description = _description(size, channels, mapping, classes)
    usable = _with_known_values(readable, mapping, excluded)
    for reason in excluded:
        _LOGGER.warning("Left out: %s", reason)
    num_test = round(test_share * len(usable))
    if len(usable) - num_test < num_sites:
        first = f" First reason: {excluded[0]}" if excluded else ""
        raise DataError(
            f"{images}: found {len(usable)} usable of {len(pairs)} pairs, {num_test} of them for the test set; "
            f"expected at least one for each of {num_sites} sites.{first}"
        )
    order = np.random.default_rng(derive_seed(seed, "import")).permutation(len(usable))
    shuffled = [usable[index] for index in order]
    made = f"import of {images.name} and {labels.name}, split at random, seed {seed}"
    with new_folder(out) as folder:
        names = _write_sites(folder, description, shuffled[num_test:], num_sites, validation_share, seed)
        if num_test:
            _write_site(folder / TEST_FOLDER, description, {TESTING: shuffled[:num_test]}, seed)
        write_federation(folder, FederationDescription(name=out.resolve().name, sites=names, made=made))
    return ImportReport(tuple(unpaired), tuple(excluded), mapping)


def _check_shares(num_sites: int, test_share: float, validation_share: float) -> None:
    if num_sites < 1:
        raise DataError(f"Import: found {num_sites} sites, expected at least 1.")
    for name, share in (("test", test_share), ("validation", validation_share)):
        if not 0 <= share < 1:
            raise DataError(f"Import: found {name}={share}, expected a share from 0 to below 1.")


def _files_by_stem(folder: Path, include: Sequence[str]) -> dict[str, Path]:
    """The pictures of a folder whose name fits a pattern, by name without suffix."""
    if not folder.is_dir():
        raise DataError(f"{folder}: found no such folder; expected one with images.")
    found: dict[str, Path] = {}
    for file in sorted(folder.iterdir()):
        if file.suffix.lower() not in IMAGE_SUFFIXES or file.name.startswith("."):
            continue
        if include and not any(fnmatch.fnmatchcase(file.name, pattern) for pattern in include):
            continue
        if file.stem in found:
            raise DataError(f"{folder}: found {found[file.stem].name} and {file.name}; expected one file of each name.")
        found[file.stem] = file
    return found


def _pair(
    images: Mapping[str, Path],
    labels: Mapping[str, Path],
    image_folder: Path,
    label_folder: Path,
    include: Sequence[str],
) -> tuple[list[Case], list[str]]:
    """Pairs in the order of their names, and the names of files without a partner."""
    stems = sorted(images.keys() & labels.keys())
    if not stems:
        chosen = f" that fit {', '.join(include)}" if include else ""
        raise DataError(
            f"Found no pair: {_some_names(images)} in {image_folder}{chosen}, {_some_names(labels)} in {label_folder}; "
            "expected an image and a mask of the same name without suffix."
        )
    unpaired = [f"{image_folder.name}/{images[stem].name}" for stem in sorted(images.keys() - labels.keys())]
    # Masks of images that were not asked for are not missed.
    if not include:
        unpaired += [f"{label_folder.name}/{labels[stem].name}" for stem in sorted(labels.keys() - images.keys())]
    return [Case(images[stem], labels[stem]) for stem in stems], unpaired


def _some_names(files: Mapping[str, Path]) -> str:
    names = [file.name for file in files.values()]
    if not names:
        return "no pictures"
    return ", ".join(names[:_SHOWN_NAMES]) + (", …" if len(names) > _SHOWN_NAMES else "")


def _readable(pairs: Sequence[Case]) -> tuple[list[tuple[Case, NDArray[np.int64]]], list[str]]:
    """Pairs that can be read and fit each other, with the mask's values; and why the others cannot."""
    readable: list[tuple[Case, NDArray[np.int64]]] = []
    excluded: list[str] = []
    for case in pairs:
        try:
            values = read_mask(case.label)
            check_same_size(case.label, values.shape, read_image(case.image, channels=1).shape[1:])
        except DataError as error:
            excluded.append(str(error))
        else:
            readable.append((case, np.unique(values)))
    return readable, excluded


def _with_known_values(
    readable: Sequence[tuple[Case, NDArray[np.int64]]], labels: Mapping[int, int], excluded: list[str]
) -> list[Case]:
    """The pairs whose mask values all have a class; the others are added to the excluded."""
    usable: list[Case] = []
    for case, values in readable:
        try:
            map_mask(values, labels, case.label)
        except DataError as error:
            excluded.append(str(error))
        else:
            usable.append(case)
    return usable


def _labels_from_values(readable: Sequence[tuple[Case, NDArray[np.int64]]]) -> dict[int, int]:
    """The mapping that two-valued masks need no telling: 0 and 1, or 0 and 255."""
    found: set[int] = set()
    for case, values in readable:
        found |= {int(value) for value in values}
        if not (found <= {0, 1} or found <= {0, 255}):
            raise DataError(
                f"{case.label}: found the label values {show_values(values)}, in all masks so far "
                f"{show_values(sorted(found))}; without a label map expected 0 and 1, or 0 and 255, in all masks. "
                "Say what they mean, for example "
                '--label-map "85:1,170:2" --classes "lesion,cyst".'
            )
    if found <= {0}:
        raise DataError("Found only empty masks; expected some with a lesion, or a label map that says its value.")
    return {0: 0, max(found): 1}


def _description(
    size: tuple[int, int], channels: int, labels: Mapping[int, int], classes: Sequence[str]
) -> SiteDescription:
    values = {"size": size, "channels": channels, "labels": dict(labels), "classes": tuple(classes)}
    try:
        return SiteDescription.model_validate(values)
    except ValidationError as error:
        raise DataError(describe_validation_error(error, source="Import", model=SiteDescription)) from error


def _write_sites(
    folder: Path,
    description: SiteDescription,
    cases: Sequence[Case],
    num_sites: int,
    validation_share: float,
    seed: int,
) -> tuple[str, ...]:
    """Deal the cases out to the sites; return the sites' names."""
    names = tuple(f"site-{index + 1}" for index in range(num_sites))
    for name, part in zip(names, np.array_split(np.arange(len(cases)), num_sites), strict=True):
        own = [cases[index] for index in part]
        # A site keeps at least one case to train on.
        num_validation = min(round(validation_share * len(own)), len(own) - 1)
        sections = {TRAINING: own[num_validation:]}
        if num_validation:
            sections[VALIDATION] = own[:num_validation]
        _write_site(folder / name, description, sections, seed)
    return names


def _write_site(folder: Path, description: SiteDescription, sections: Mapping[str, Sequence[Case]], seed: int) -> None:
    def copy(file: Path, kind: str) -> Path:
        target = folder / kind / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copyfile(file, target))

    copied = {
        section: [Case(copy(case.image, "images"), copy(case.label, "labels")) for case in cases]
        for section, cases in sections.items()
    }
    write_datalist(folder / description.datalist, copied)
    write_site_description(folder, description)
    write_manifest(folder, Manifest(made="import", seed=seed))
