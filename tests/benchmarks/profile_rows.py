"""The federations on which the boundary profile is measured, their cases beside the truth, and a command's options."""

import argparse
import json
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from auto_estimates import with_true_classes
from benchmark_tables.feda3i import NOISE_LARGER, NOISE_SMALLER, one_bad_site, phantom
from benchmark_tables.many_objects import ManyObjects
from benchmark_tables.rows import MakeData
from compare_on_real_images import NOISE_LARGER as REAL_LARGER
from compare_on_real_images import NOISE_OF_CELLS, real
from compare_on_real_images import NOISE_SMALLER as REAL_SMALLER
from real_federations import (
    hippocampus_dataset_options,
    write_breast_lesions,
    write_cells,
    write_hippocampi,
    write_majority_cells,
)
from simulated_scanners import with_scanners

from fedannot.apps.importing.options import ImportOptions
from fedannot.custom.annotation_bias.boundary_bias import mask_offset
from fedannot.custom.annotation_bias.profile.scales import ProfileCase, profile_cases
from fedannot.custom.data.description import VolumeDescription, write_site_description
from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.noise.choice import NoiseChoice
from fedannot.custom.data.noise.noisy_copy import add_contour_noise
from fedannot.custom.data.phantoms.drawing import Drawing
from fedannot.custom.data.phantoms.lesion_volumes import LesionVolumes
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.data.site_data import SiteData, load_site_data
from fedannot.custom.seeding import derive_seed
from fedannot.transforms.connected_lesions import label_lesions
from fedannot.transforms.move_contour import MoveContour
from fedannot.transforms.noise.federation_noise import ContourNoise

RANDOM, ALL_LARGER, WEAK = "M(0,0,10,0.5)", "M(25,-25,10,1)", "M(8,-8,4,0.5)"
# Of objects with a radius of 2.5 to 6 pixels, each moved by a distance of its own.
NOISE_OF_OBJECTS = "M(2,-1.5,0.5,0.5)"
NOISE_OF_LESIONS = "M(8,-6,2,0.5)"
_SLICES_OF_A_SLAB = 3

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class KnownCase:
    """A case as the profile takes it, and its clean classes where they are known."""

    case: ProfileCase
    clean: Array | None


Sites = dict[str, list[KnownCase]]
ChangeCases = Callable[[Sites, int], Sites]


def _as_they_are(sites: Sites, seed: int) -> Sites:
    del seed
    return sites


@dataclass(frozen=True)
class ProfileRow:
    """One kind of federation.

    Attributes:
        make: writes it for a seed.
        labels: classes that are estimated.
        change: what is done with the cases of its sites before they are measured, for a seed.
    """

    make: MakeData
    labels: tuple[int, ...] = (1,)
    change: ChangeCases = _as_they_are


def in_thick_slices(sites: Sites, seed: int, *, axis: int = 2) -> Sites:
    """Return volumes in slabs of three slices along an axis, which becomes the last one.

    A slab has the mean of the image, and in each voxel the class of most of the three.
    """
    del seed
    return {site: [_in_slabs(known, axis) for known in cases] for site, cases in sites.items()}


def _in_slabs(known: KnownCase, axis: int) -> KnownCase:
    case, clean = known.case, known.clean
    in_plane = [length for other, length in enumerate(case.spacing) if other != axis]
    spacing = (*in_plane, _SLICES_OF_A_SLAB * case.spacing[axis])
    count = case.image.shape[1 + axis] // _SLICES_OF_A_SLAB

    def slabs(array: Array) -> Array:
        whole = np.moveaxis(array, axis - 3, -1)[..., : count * _SLICES_OF_A_SLAB]
        return whole.reshape(*whole.shape[:-1], count, _SLICES_OF_A_SLAB).mean(axis=-1)

    def majority(classes: Array) -> Array:
        parts = np.stack([slabs(classes == label) for label in range(int(classes.max()) + 1)])
        return parts.argmax(axis=0).astype(np.uint8)

    thick = ProfileCase(case.patient, slabs(case.image), majority(case.annotation), spacing)
    return KnownCase(thick, None if clean is None else majority(clean))


def by_object(sites: Sites, seed: int) -> Sites:
    """Return a case for each object, annotated by its own id; every site moves its objects' contours.

    The estimator takes classes, no ids: the object is class 1 and the other objects, of class 2, do not count.
    """
    noises = NoiseChoice(NOISE_OF_OBJECTS, exact=True, stratified=0.5).draw(len(sites), seed)
    changed: Sites = {}
    for (site, cases), noise in zip(sites.items(), noises, strict=True):
        generator = np.random.default_rng(derive_seed(seed, "objects", site))
        changed[site] = [item for known in cases for item in _objects(known, noise, generator)]
    return changed


def _objects(known: KnownCase, noise: ContourNoise, generator: np.random.Generator) -> Iterator[KnownCase]:
    case = known.case
    clean, count = label_lesions(case.annotation)
    ids = range(1, count + 1)
    distances = {number: case.unit * generator.normal(noise.mean, noise.spread) for number in ids}
    given = MoveContour(distances)(clean.astype(np.uint8), case.spacing)
    for number in ids:
        annotation, right = (
            np.where(objects == number, 1, np.where(objects > 0, 2, 0)).astype(np.uint8) for objects in (given, clean)
        )
        yield KnownCase(replace(case, annotation=annotation), right)


def _phantom_of(drawing: Drawing, *, num_sites: int, whole: bool = False) -> MakeData:
    """Sites of a phantom without noise; volumes whole or as they are described."""

    def make(folder: Path, seed: int) -> None:
        write_phantom_federation(folder, drawing, num_sites=num_sites, seed=seed)
        if whole:
            described = drawing.description
            for site in read_federation(folder).sites:
                write_site_description(
                    folder / site, VolumeDescription(labels=described.labels, classes=described.classes)
                )

    return make


def _hippocampi(
    noise: str | None, *, sliced: bool = False, together: bool = True, thick: int | None = None
) -> ProfileRow:
    options = hippocampus_dataset_options(sliced=sliced, together=together)
    if thick is not None:
        keys = {"spacing": (1.0, 1.0, 1.0)}
        options = ImportOptions(pipeline="volume", keys=keys, labels=options.labels, classes=options.classes)
    return ProfileRow(
        real(partial(write_hippocampi, options=options), noise),
        (1,) if together else (1, 2),
        _as_they_are if thick is None else partial(in_thick_slices, axis=thick),
    )


_LESION_VOLUMES = _phantom_of(LesionVolumes(), num_sites=4, whole=True)


def _noisy_volumes(folder: Path, seed: int) -> None:
    clean = folder.with_name(f"{folder.name}-clean")
    _LESION_VOLUMES(clean, seed)
    add_contour_noise(clean, folder, NoiseChoice(NOISE_OF_LESIONS, exact=True, stratified=0.5), seed=seed)


ROWS: dict[str, ProfileRow] = {
    "busi-ns": ProfileRow(real(write_breast_lesions, REAL_SMALLER)),
    "busi-ne": ProfileRow(real(write_breast_lesions, REAL_LARGER)),
    "busi-clean": ProfileRow(write_breast_lesions),
    "busi-ns-scanners": ProfileRow(with_scanners(real(write_breast_lesions, REAL_SMALLER))),
    "busi-ns-no-gamma": ProfileRow(with_scanners(real(write_breast_lesions, REAL_SMALLER), gamma=False)),
    "phantom-ns": ProfileRow(phantom(NOISE_SMALLER)),
    "phantom-ne": ProfileRow(phantom(NOISE_LARGER)),
    "phantom-random": ProfileRow(phantom(RANDOM, stratified=None)),
    "phantom-weak": ProfileRow(phantom(WEAK, stratified=None)),
    "phantom-clean": ProfileRow(phantom(None)),
    "phantom-larger": ProfileRow(phantom(ALL_LARGER)),
    "phantom-one-bad": ProfileRow(one_bad_site),
    "phantom-ns-scanners": ProfileRow(with_scanners(phantom(NOISE_SMALLER))),
    "phantom-ns-no-gamma": ProfileRow(with_scanners(phantom(NOISE_SMALLER), gamma=False)),
    "slices-ns": _hippocampi(REAL_SMALLER, sliced=True),
    "slices-ne": _hippocampi(REAL_LARGER, sliced=True),
    "slices-two-ns": _hippocampi(REAL_SMALLER, sliced=True, together=False),
    "volumes-ns": _hippocampi(REAL_SMALLER),
    "volumes-two-ns": _hippocampi(REAL_SMALLER, together=False),
    "thick-ns": _hippocampi(REAL_SMALLER, thick=2),
    "thick-two-ns": _hippocampi(REAL_SMALLER, thick=2, together=False),
    "thick-clean": _hippocampi(None, thick=2),
    "thick-two-clean": _hippocampi(None, thick=2, together=False),
    "coronal-ns": _hippocampi(REAL_SMALLER, thick=1),
    "coronal-two-ns": _hippocampi(REAL_SMALLER, thick=1, together=False),
    "thick-lesions": ProfileRow(_noisy_volumes),
    "objects": ProfileRow(_phantom_of(ManyObjects(), num_sites=4), change=by_object),
    "objects-volumes": ProfileRow(_LESION_VOLUMES, change=by_object),
    "cells-offsets": ProfileRow(real(write_majority_cells, NOISE_OF_CELLS)),
    "cells-crowd": ProfileRow(write_cells),
}

# They show where the image boundary lies, and are not in the table.
OUTSIDE_TABLE = ("thick-clean", "thick-two-clean")


def row_sites(name: str, seed: int) -> Iterator[Sites]:
    """Yield the cases of each site of a row's federation, whose files are there until the next one."""
    row = ROWS[name]
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) / "federation"
        row.make(folder, seed)
        data = {
            site: load_site_data(folder / site, Path(temporary) / "store", site=site)
            for site in read_federation(folder).sites
        }
        yield row.change({site: known_cases(loaded) for site, loaded in data.items()}, seed)


def known_cases(data: SiteData) -> list[KnownCase]:
    """Return the samples of a site beside their clean classes."""
    return [
        KnownCase(profile, None if case.clean_label is None else case.clean_label[index].numpy())
        for case in data.cases
        for index, profile in enumerate(profile_cases([case]))
    ]


def without_truth(cases: Sequence[KnownCase]) -> list[ProfileCase]:
    """Return cases as the profile takes them."""
    return [known.case for known in cases]


def true_bias(cases: Sequence[KnownCase], label: int) -> float:
    """Return the mean bias of a site's masks of a class against the clean ones; 0 without any."""
    offsets = [
        mask_offset(
            with_true_classes(known.case.annotation, known.clean) == label, known.clean == label, known.case.spacing
        )
        for known in cases
        if known.clean is not None
    ]
    result = [item.offset for item in offsets if item is not None]
    return statistics.fmean(result) if result else 0.0


def row_options(description: str, *, seeds: int) -> argparse.ArgumentParser:
    """Return what the commands on these rows take: the rows, the seeds and a file for the figures."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--rows", default=",".join(name for name in ROWS if name not in OUTSIDE_TABLE))
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--out", type=Path, help="a line of JSON per figure")
    return parser


def asked_runs(asked: argparse.Namespace) -> dict[str, range]:
    """Return the rows that were asked for, with their seeds."""
    return dict.fromkeys(asked.rows.split(","), range(asked.first_seed, asked.first_seed + asked.seeds))


def measured_rows(
    asked: argparse.Namespace,
    measure: Callable[[str, int], Iterable[Mapping[str, Any]]],
    line: Callable[[str, Sequence[Mapping[str, Any]]], str],
) -> list[Mapping[str, Any]]:
    """Measure each row and seed, print a row's line as soon as it is done, and write all figures to the file."""
    figures: list[Mapping[str, Any]] = []
    for name, seeds in asked_runs(asked).items():
        of_row = [figure for seed in seeds for figure in measure(name, seed)]
        print(line(name, of_row), flush=True)
        figures += of_row
    if asked.out:
        asked.out.write_text("".join(json.dumps(figure) + "\n" for figure in figures))
    return figures
