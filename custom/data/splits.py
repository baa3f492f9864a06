"""Splits of a federation for cross-validation: by patient within sites, or by leaving out a site.

Each split is a federation's folder of its own, whose server tests on cases that its sites do not have. The datalists
are the record of the split. Images are hard links where the disk has them, else copies.
"""

import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ...transforms.errors import DataError
from ..seeding import derive_seed
from .datalist import REFERENCE, TESTING, TRAINING, VALIDATION, Case, read_datalist, write_datalist
from .description import DATALIST_FILE, SiteDescription, read_site_description, write_site_description
from .federation import TEST_FOLDER, FederationDescription, read_federation, write_federation
from .manifest import read_manifest, write_manifest
from .whole_files import new_folder, private_folder

# Patients of a site by number of their fold.
Folds = Sequence[frozenset[str]]


@dataclass(frozen=True)
class _Site:
    name: str
    folder: Path
    description: SiteDescription
    lists: Mapping[str, Sequence[Case]]

    @classmethod
    def read(cls, folder: Path) -> "_Site":
        description = read_site_description(folder)
        return cls(folder.name, folder, description, read_datalist(folder / description.datalist).cases)

    @property
    def images(self) -> Path:
        """The folder that paths of the datalist are relative to."""
        return (self.folder / self.description.datalist).parent

    @property
    def patients(self) -> list[str]:
        """Patients of the training cases, by first appearance."""
        return list(dict.fromkeys(case.unit for case in self.lists.get(TRAINING, ())))


def patient_folds(patients: Sequence[str], count: int, seed: int, site: str) -> Folds:
    """Assign each of a site's patients to a fold; sizes differ by one at most.

    Args:
        patients: names of patients that differ.
        count: number of folds.
        seed: decides the assignment.
        site: the site's name, so that sites differ.

    Example:
        >>> [len(fold) for fold in patient_folds(["a", "b", "c", "d"], 2, 0, "site-1")]
        [2, 2]
    """
    generator = np.random.default_rng(derive_seed(seed, site, "folds"))
    order, first = generator.permutation(len(patients)), int(generator.integers(count))
    chosen: list[set[str]] = [set() for _ in range(count)]
    for place, index in enumerate(order):
        # Sites with few patients have these in different folds.
        chosen[(first + place) % count].add(patients[index])
    return [frozenset(fold) for fold in chosen]


def folds_of_sites(patients: Mapping[str, Sequence[str]], count: int, seed: int) -> dict[str, Folds]:
    """Assign the patients of all sites to folds; a name that several sites have is in the same fold at all of them.

    It may be one patient there. A name of a single site goes by :func:`patient_folds`; where sites share names, the
    others even out the folds of their site.

    Args:
        patients: names of each site's patients, which differ within the site.
        count: number of folds.
        seed: decides the assignment.

    Raises:
        DataError: if the names that a site shares leave it no patient outside a fold.

    Example:
        >>> folds = folds_of_sites({"a": ["p", "q", "r"], "b": ["q", "s"]}, 2, 0)
        >>> ["q" in fold for fold in folds["a"]] == ["q" in fold for fold in folds["b"]]
        True
    """
    times = Counter(name for names in patients.values() for name in names)
    shared = [name for name, number in times.items() if number > 1]
    if not shared:
        return {site: patient_folds(names, count, seed, site) for site, names in patients.items()}
    chosen: dict[str, list[set[str]]] = {site: [set() for _ in range(count)] for site in patients}
    generator = np.random.default_rng(derive_seed(seed, "shared", "folds"))
    for index in generator.permutation(len(shared)):
        _assign(shared[index], [chosen[site] for site, names in patients.items() if shared[index] in names])
    for site, names in patients.items():
        own = [name for name in names if times[name] == 1]
        generator = np.random.default_rng(derive_seed(seed, site, "folds"))
        for index in generator.permutation(len(own)):
            _assign(own[index], [chosen[site]])
        if any(len(fold) == len(names) for fold in chosen[site]):
            raise DataError(
                f"{site}: found all of its {len(names)} patients in one fold of {count}, as other sites have the same "
                "names; expected patients outside it to train on. Take fewer folds, or an import that keeps the cases "
                "of a patient in one site."
            )
    return {site: [frozenset(fold) for fold in folds] for site, folds in chosen.items()}


def _assign(name: str, sites: Sequence[Sequence[set[str]]]) -> None:
    """Put a patient into the fold that is the smallest at its sites."""
    sizes = [[len(folds[number]) for folds in sites] for number in range(len(sites[0]))]
    smallest = min(range(len(sizes)), key=lambda number: (max(sizes[number]), sum(sizes[number])))
    for folds in sites:
        folds[smallest].add(name)


def write_folds(source: Path, out: Path, count: int, seed: int) -> list[Path]:
    """Write a federation for each fold, in which every site has all patients but those of the fold.

    The fold's training cases are the test set, with the annotations without noise where these are known. No list of
    any site has a case of these patients: a name that several sites have is in the same fold at all of them. The
    source's own test sets are left out.

    Args:
        source: the federation's folder.
        out: folder for ``fold-1``, ``fold-2``, …; one that is there already stays.
        count: number of folds, 2 or more.
        seed: decides who is in which fold.

    Raises:
        DataError: if the federation cannot be used, a site has fewer than two patients, a fold is empty or leaves a
            site no patient, or sites describe their data differently.
    """
    sites = _read_sites(source)
    if count < 2:
        raise DataError(f"Expected at least 2 folds, but got {count}.")
    for site in sites:
        if len(site.patients) < 2:
            raise DataError(f"{site.folder}: found {len(site.patients)} patient; expected at least 2 for folds.")
    folds = folds_of_sites({site.name: site.patients for site in sites}, count, seed)
    written = []
    for number in range(count):
        of_fold = {site.name: folds[site.name][number] for site in sites}
        # Whoever is tested is in no list of another site, either.
        held_out = frozenset[str]().union(*of_fold.values())
        if not held_out:
            raise DataError(f"{source}: fold {number + 1} of {count} has no patient; expected fewer folds.")
        tested = {
            site.name: [case for case in site.lists[TRAINING] if case.unit in of_fold[site.name]] for site in sites
        }
        target = out / f"fold-{number + 1}"
        _write_split(source, target, sites, sites, held_out, tested, f"fold {number + 1} of {count}, seed {seed}")
        written.append(target)
    return written


def write_left_out_sites(source: Path, out: Path) -> list[Path]:
    """Write a federation for each site, which has all others; the site's cases of all lists are the test set.

    Args:
        source: the federation's folder.
        out: folder for ``without-SITE``; one that is there already stays.

    Raises:
        DataError: as above, or if there are fewer than two sites, or patients were dealt out to several ones.
    """
    sites = _read_sites(source)
    _check_whole_patients(source, sites)
    if len(sites) < 2:
        raise DataError(f"{source}: found {len(sites)} site; expected at least 2, of which one is left out at a time.")
    written = []
    for left_out in sites:
        others = [site for site in sites if site is not left_out]
        lists = [left_out.lists.get(name, ()) for name in (TRAINING, VALIDATION, TESTING)]
        tested = {left_out.name: [case for of_list in lists for case in of_list]}
        target = out / f"without-{left_out.name}"
        _write_split(source, target, others, sites, frozenset(), tested, f"without {left_out.name}")
        written.append(target)
    return written


def _check_whole_patients(source: Path, sites: Sequence[_Site]) -> None:
    """Raises DataError if cases of a patient were dealt out to several sites: others would train on a left out one."""
    if not read_federation(source).patients_parted:
        return
    known: dict[str, str] = {}
    for site in sites:
        for name in dict.fromkeys(case.unit for cases in site.lists.values() for case in cases):
            if known.setdefault(name, site.name) != site.name:
                raise DataError(
                    f"{source}: found cases of the same patient at {known[name]} and {site.name}, since the import "
                    "dealt cases out one by one; expected each patient at one site, as the others train on what is "
                    "tested. Import without --part-patients."
                )


def _read_sites(source: Path) -> list[_Site]:
    sites = [_Site.read(source / name) for name in read_federation(source).sites]
    values = [site.description.model_dump(mode="json", exclude={"datalist"}) for site in sites]
    for site, of_site in zip(sites[1:], values[1:], strict=True):
        if differing := sorted(key for key in of_site | values[0] if of_site.get(key) != values[0].get(key)):
            raise DataError(
                f"{site.folder}: key {differing[0]!r} differs from that of {sites[0].name}; expected the same "
                "description at all sites, as their cases are one test set."
            )
    return sites


def _write_split(
    source: Path,
    target: Path,
    training: Sequence[_Site],
    sites: Sequence[_Site],
    held_out: frozenset[str],
    tested: Mapping[str, Sequence[Case]],
    made: str,
) -> None:
    """Write a federation of sites without the patients that are held out, and its test set."""
    if target.is_dir():
        return
    private_folder(target.parent)
    # Links have the modes of their files, which stay as they are; nobody else enters the parent.
    with new_folder(target, shared=True) as folder:
        for site in training:
            kept = {
                name: [case for case in cases if case.unit not in held_out]
                for name, cases in site.lists.items()
                if name in (TRAINING, VALIDATION, REFERENCE)
            }
            _write_site(folder / site.name, site, {name: cases for name, cases in kept.items() if cases})
            if (manifest := read_manifest(site.folder)) is not None:
                write_manifest(folder / site.name, manifest)
        federation = read_federation(source)
        # A patient of several sites counts once.
        start = {site.name: "" if federation.patients_parted else f"{site.name}/" for site in sites}
        of_test = [
            _linked(_clean(case), site.images, folder / TEST_FOLDER / site.name, group=f"{start[site.name]}{case.unit}")
            for site in sites
            for case in tested.get(site.name, ())
        ]
        write_site_description(
            folder / TEST_FOLDER, sites[0].description.model_copy(update={"datalist": DATALIST_FILE})
        )
        write_datalist(folder / TEST_FOLDER / DATALIST_FILE, {TESTING: of_test})
        texts = "; ".join(text for text in (federation.made, made) if text)
        values = {"name": target.name, "sites": [site.name for site in training], "made": texts}
        write_federation(folder, FederationDescription.model_validate(federation.model_dump() | values))


def _write_site(target: Path, site: _Site, lists: Mapping[str, Sequence[Case]]) -> None:
    private_folder(target)
    linked = {name: [_linked(case, site.images, target) for case in cases] for name, cases in lists.items()}
    write_site_description(target, site.description.model_copy(update={"datalist": DATALIST_FILE}))
    write_datalist(target / DATALIST_FILE, linked)


def _clean(case: Case) -> Case:
    """A case with the annotation without noise, where it is known; its annotators count no longer then."""
    if case.clean_label is None:
        return replace(case, given_label=None)
    return replace(case, label=case.clean_label, clean_label=None, given_label=None, annotator=None, annotations=())


def _linked(case: Case, images: Path, target: Path, group: str | None = None) -> Case:
    """A case whose files are below another folder, at the same places."""

    def link(file: Path) -> Path:
        place = target / file.relative_to(images)
        if not place.exists() and file.is_file():
            private_folder(place.parent)
            _link(file, place)
        return place

    clean, given = case.clean_label, case.given_label
    return replace(
        case,
        image=link(case.image),
        label=link(case.label) if isinstance(case.label, Path) else case.label,
        clean_label=link(clean) if isinstance(clean, Path) else clean,
        given_label=link(given) if isinstance(given, Path) else given,
        annotations=tuple(
            replace(annotation, file=link(annotation.file)) if isinstance(annotation.file, Path) else annotation
            for annotation in case.annotations
        ),
        channels=tuple(None if file is None else link(file) for file in case.channels),
        group=case.group if group is None else group,
    )


def _link(file: Path, place: Path) -> None:
    try:
        os.link(file, place)
    except OSError:
        # Another disk, or one without links.
        shutil.copyfile(file, place)
