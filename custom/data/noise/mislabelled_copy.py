"""A copy of a federation whose cases are partly labelled with a wrong class; the true ones are kept beside."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ....transforms.errors import DataError
from ....transforms.noise.class_noise import ClassNoise, Confusions
from ....transforms.noise.confusion_table import read_confusions
from ....transforms.noise.mislabel import Mislabel
from ..datalist import Case, write_datalist
from ..description import DATALIST_FILE, DESCRIPTION_FILE, ClassificationDescription
from ..federation import read_federation
from ..manifest import ClassNoiseManifest, Manifest, read_manifest, write_manifest
from ..watch import Watch
from .choice import LABELS, class_noise_of_sites, class_noise_seed
from .effect import UnchangedSite, report_unchanged_labels
from .federation_copy import SiteCopy, write_federation_copy


def mislabel_cases(
    source: Path, out: Path, pattern: str, *, table: str | Path | None = None, seed: int = 0, watch: Watch | None = None
) -> None:
    """Write a copy of a federation with wrong labels among every site's training and validation cases.

    A case that has a true label already keeps it, so that noise adds up. The test set stays untouched; nothing is
    changed in the source.

    Args:
        source: the federation's folder.
        out: the copy's folder, absent or empty; it appears when everything is written.
        pattern: the noise of each site, ``0-S10-P10-C10``, or of all, ``S40``.
        table: for clinical noise which classes are confused; see
            :func:`fedannot.transforms.noise.confusion_table.read_confusions`.
        seed: seed of every site's wrong labels.
        watch: learns how far it is.

    Raises:
        DataError: if the federation cannot be read, is not for classification, has a reviewed case, the output folder
            holds files, the pattern or the table cannot be used, or a site has no class that can become another.

    Example:
        >>> from fedannot.custom import Cells, read_federation, write_phantom_federation
        >>> write_phantom_federation(Path("cells"), Cells(), num_sites=2, images_per_site=8, test_images=8)
        >>> mislabel_cases(Path("cells"), Path("mislabelled"), "0-S40")
        >>> read_federation(Path("mislabelled")).noise
        'labels 0-S40'
    """
    noise = class_noise_of_sites(pattern, len(read_federation(source).sites))

    def copy_site(index: int, copy: SiteCopy) -> None:
        _copy_mislabelled(copy, noise[index], table, seed)

    named = f", table {table}" if table is not None else ""
    write_federation_copy(
        source,
        out,
        copy_site,
        what=f"{LABELS} {pattern}",
        made=f"wrong labels {pattern}{named}, seed {seed}",
        watch=watch,
    )


def mislabelled(
    labels: Sequence[int],
    classes: Sequence[str],
    noise: ClassNoise,
    table: str | Path | None,
    seed: int,
    *purpose: str | int,
) -> list[int]:
    """Return the labels that cases with the given ones get.

    Args:
        labels: the index of each case's class.
        classes: names of the classes.
        noise: kind and rate.
        table: see :func:`mislabel_cases`.
        seed: the federation's.
        purpose: what the labels are for; they decide what is random.

    Raises:
        DataError: if clinical noise has no table, or it cannot be used.
    """
    mislabel = Mislabel(noise, len(classes), _confusions(noise, table, classes))
    mislabel.set_random_state(seed=class_noise_seed(seed, *purpose))
    return [int(label) for label in mislabel(np.asarray(labels, dtype=np.int64))]


def _confusions(noise: ClassNoise, table: str | Path | None, classes: Sequence[str]) -> Confusions | None:
    if noise.kind != "clinical" or not noise.rate:
        return None
    if table is None:
        raise DataError(f"Label noise {noise}: clinical noise needs a table of the classes that are confused.")
    return read_confusions(table, classes)


def _copy_mislabelled(copy: SiteCopy, noise: ClassNoise, table: str | Path | None, seed: int) -> None:
    description = copy.description
    if not isinstance(description, ClassificationDescription):
        raise DataError(
            f"Site {copy.site}: {copy.source / DESCRIPTION_FILE} has the pipeline {description.pipeline!r}; wrong "
            "labels need cases with one class each, pipeline 'classification'."
        )
    copy.require_single_annotations()
    copy.require_no_review()
    copied: dict[str, list[Case]] = {}
    pairs: list[tuple[int, int]] = []
    seen: set[int] = set()
    num_changed = 0
    for section, cases in copy.datalist.cases.items():
        usable = [(case, label) for case in cases if (label := _class_of(copy, case, description)) is not None]
        given = mislabelled([label for _, label in usable], description.classes, noise, table, seed, copy.site, section)
        seen.update(label for _, label in usable)
        num_changed += sum(assigned != label for (_, label), assigned in zip(usable, given, strict=True))
        copied[section] = []
        for (case, label), assigned in zip(usable, given, strict=True):
            true = case.clean_label if isinstance(case.clean_label, int) else label
            pairs.append((assigned, true))
            image, channels = copy.copy_image(case)
            copied[section].append(
                Case(image, assigned, true, case.group, case.source, case.annotator, channels=channels)
            )
    if noise.rate and pairs and not num_changed:
        matrix = noise.transition_matrix(len(description.classes), _confusions(noise, table, description.classes))
        report_unchanged_labels(
            UnchangedSite(copy.site, str(noise), len(pairs)),
            can_change=any(matrix[label, label] < 1 for label in seen),
        )
    write_datalist(copy.target / DATALIST_FILE, copied)
    before = read_manifest(copy.source)
    manifest = Manifest(
        made="wrong labels",
        seed=seed,
        class_noise=ClassNoiseManifest.measured(noise, pairs),
        excluded=tuple(copy.left_out),
        before=None if before is None else before.model_dump(mode="json"),
    )
    write_manifest(copy.target, manifest)


def _class_of(copy: SiteCopy, case: Case, description: ClassificationDescription) -> int | None:
    """The given class of a case; one whose label is none of the classes is left out."""
    if isinstance(case.label, int) and 0 <= case.label < len(description.classes):
        return case.label
    last = len(description.classes) - 1
    error = DataError(f"{case.image}: found the class {str(case.label)!r}; expected 0 to {last}.")
    copy.leave_out(str(case.image), error)
    return None
