"""Federations some of whose annotations have injected errors, of several kinds, each case at most one."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from benchmark_tables.feda3i import phantom
from real_federations import (
    hippocampus_dataset_options,
    write_breast_lesions,
    write_hippocampi,
    write_majority_cells,
)

from fedannot.custom.audit.case_errors import AnotherCasesAnnotation, DrawnTooLargeOrSmall, Movement, ShiftedOrFlipped
from fedannot.custom.audit.injected_errors import Chance, KnownError
from fedannot.custom.audit.object_errors import ClassTakenForAnother, ObjectLeftOut, ObjectWhereNoneIs
from fedannot.custom.data.datalist import TRAINING
from fedannot.custom.data.description import read_site_description
from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.masks import Mask, plain_name, read_classes, write_classes
from fedannot.custom.seeding import derive_seed
from fedannot.transforms.array_types import Classes

# Pixels of a mask's file for one of an object that the network can see: files are larger than what it is given.
LEAST_PIXELS_IN_FILES = 80
TRUTH_FILE = "errors.json"


@dataclass(frozen=True)
class Pack:
    """One kind of data of the benchmark.

    Attributes:
        write: writes a federation into a folder for a seed.
        settings: of the short training.
        kinds: errors that are put in.
        least_pixels: of an object, in its file.
    """

    write: Callable[[Path, int], None]
    settings: Mapping[str, Any]
    kinds: tuple[str, ...] = ("boundary", "missing", "spurious", "misaligned", "wrong_pair")
    least_pixels: int = LEAST_PIXELS_IN_FILES


def _hippocampi(folder: Path, seed: int, *, sliced: bool) -> None:
    options = hippocampus_dataset_options(sliced=sliced, together=False)
    write_hippocampi(folder, seed, options=options, num_sites=6, volumes_per_site=12)


class Shifted(ShiftedOrFlipped):
    """The annotation is shifted, never mirrored."""

    share_flipped = 0.0


class Flipped(ShiftedOrFlipped):
    """The annotation is mirrored, never shifted; of one that is symmetrical along both axes there is none."""

    share_flipped = 1.0

    def make_params(self, annotation: Classes, chance: Chance) -> Movement | None:
        """Draw an axis along which mirroring changes the annotation."""
        for _ in range(4):
            movement = super().make_params(annotation, chance)
            if movement is not None and movement.flipped:
                return movement
        return None


class HalfAVolume(KnownError[int]):
    """Of the slices with an annotation the second half has none, as if somebody had not come back to it."""

    def make_params(self, annotation: Classes, chance: Chance) -> int | None:
        """Return the first slice without an annotation; None of images and of volumes of one annotated slice."""
        slices = np.flatnonzero(annotation.any(axis=(0, 1))) if annotation.ndim == 3 else np.zeros(0, int)
        return int(slices[len(slices) // 2]) if len(slices) > 1 else None

    def apply(self, annotation: Classes, params: int) -> Classes:
        """Empty the slices."""
        changed = annotation.copy()
        changed[..., params:] = 0
        return changed


_HIPPOCAMPUS = {
    "rounds": 6,
    "network.features": [8, 16, 32, 64, 64, 8],
    "training.loss": "ce_dice",
    "training.local_epochs": 1,
    "training.learning_rate": 0.005,
}
_HIPPOCAMPUS_KINDS = ("boundary", "missing", "spurious", "swapped", "misaligned", "wrong_pair")

PACKS = {
    "phantom": Pack(phantom(None), {"rounds": 5}),
    "busi": Pack(write_breast_lesions, {"rounds": 6, "training.local_epochs": 5}),
    "cells": Pack(write_majority_cells, {"rounds": 6}),
    "hippocampus": Pack(partial(_hippocampi, sliced=True), _HIPPOCAMPUS, _HIPPOCAMPUS_KINDS, least_pixels=10),
    "hippocampus_volumes": Pack(
        partial(_hippocampi, sliced=False),
        # A volume is one sample: more passes over the 12 of a site, in small batches, for as many steps.
        {
            **_HIPPOCAMPUS,
            "network.spatial_dims": 3,
            "training.local_epochs": 5,
            "training.batch_size": 2,
            "training.patch": [16, 32, 16],
        },
        _HIPPOCAMPUS_KINDS,
        least_pixels=10,
    ),
}


def put_errors(federation: Path, pack: Pack, share: float, seed: int) -> None:
    """Put errors into a fraction of every site's training cases, kinds in turn, and write down which case has which.

    Args:
        federation: its masks and lists are changed.
        pack: what it is of.
        share: of the cases, all kinds together, at least one case in the federation for each kind.
        seed: decides cases and errors.
    """
    generator = np.random.default_rng(derive_seed(seed, "errors", str(share)))
    cases = [
        (site, index)
        for site in read_federation(federation).sites
        for index in range(len(_items(federation / site)[TRAINING]))
    ]
    count = max(len(pack.kinds), round(share * len(cases)))
    waiting = [cases[index] for index in generator.permutation(len(cases))]
    truth: dict[str, dict[str, str]] = {}
    done = 0
    while done < count and waiting:
        site, index = waiting.pop()
        kind = pack.kinds[done % len(pack.kinds)]
        image = _put_error(errors_of(pack)[kind], federation / site, index, generator)
        if image is not None:
            truth.setdefault(site, {})[image] = kind
            done += 1
    (federation / TRUTH_FILE).write_text(json.dumps(truth, indent=2))


def errors_of(pack: Pack) -> dict[str, KnownError[Any]]:
    """Return the errors of a pack by the kind that is to find them."""
    return {
        "boundary": DrawnTooLargeOrSmall(),
        "missing": ObjectLeftOut(pack.least_pixels),
        "spurious": ObjectWhereNoneIs(pack.least_pixels),
        "swapped": ClassTakenForAnother(pack.least_pixels),
        "misaligned": ShiftedOrFlipped(),
        "shifted": Shifted(),
        "flipped": Flipped(),
        "half_volume": HalfAVolume(),
        "wrong_pair": AnotherCasesAnnotation(),
    }


def _items(site: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((site / "datalist.json").read_text(encoding="utf-8"))
    return content


def _put_error(error: KnownError[Any], site: Path, index: int, generator: np.random.Generator) -> str | None:
    """Put an error into the mask of a case; return its image, None where it cannot have one."""
    description, items = read_site_description(site), _items(site)[TRAINING]
    mask = read_classes(site / items[index]["label"], description)
    others = [other for other in range(len(items)) if other != index]
    other = read_classes(site / items[int(generator.choice(others))]["label"], description).classes if others else None
    changed = error(mask.classes, Chance(generator, len(description.classes), other))
    if changed is None:
        return None
    file = site / items[index]["label"]
    written = write_classes(file.with_name(f"{plain_name(file)}-error"), Mask(changed, mask.affine), file, description)
    assert written.suffixes == file.suffixes, f"expected a mask in the format that the project writes, found {file}"
    # What an import has linked to is not written through.
    written.replace(file)
    return str(items[index]["image"])
