"""Which data sets a person names: two folders, a datalist, or public data sets by name."""

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ...transforms.errors import DataError
from .datalists import read_source_datalist
from .folders import read_folders
from .layouts import DATASETS
from .source import SourceDataset


def find_datasets(
    *,
    images: Path | None,
    labels: Path | None,
    label_suffix: str,
    datalist: Path | None,
    key: str | None,
    named: Sequence[str],
    include: Sequence[str],
    group: str | None,
    seed: int,
) -> list[SourceDataset]:
    """Find the cases where they lie.

    Args:
        images: folder of images; goes with `labels`.
        labels: folder of masks.
        label_suffix: what a mask's name has behind its image's.
        datalist: in place of folders, see :func:`~fedannot.apps.importing.datalists.read_source_datalist`.
        key: likewise.
        named: in place of both, ``name=folder`` of public data sets.
        include: patterns of image file names; empty takes all.
        group: regular expression whose first group, found in an image's name, is its volume or patient.
        seed: seed of what an importer draws, such as which of several annotators is taken.

    Raises:
        DataError: if not exactly one of the three is given, or nothing usable is found.
    """
    folders = images is not None or labels is not None
    if folders + (datalist is not None) + bool(named) != 1:
        raise DataError("Import: expected either --images with --labels, or --datalist, or --dataset NAME=DIR.")
    if key is not None and datalist is None:
        raise DataError("--key: names a list of a datalist; expected --datalist with it.")
    if label_suffix and not folders:
        raise DataError("--label-suffix: belongs to the names of masks; expected --images and --labels with it.")
    if images is not None and labels is not None:
        datasets = [read_folders(images, labels, label_suffix=label_suffix, include=include)]
    elif datalist is not None:
        datasets = [read_source_datalist(datalist, key=key)]
    elif named:
        datasets = [_named(text, seed) for text in named]
    else:
        raise DataError("Import: expected --images and --labels together.")
    return [_grouped(_included(dataset, include), group) for dataset in datasets]


def _included(dataset: SourceDataset, patterns: Sequence[str]) -> SourceDataset:
    """The cases whose image's file name fits a pattern; all without patterns."""
    if not patterns:
        return dataset
    chosen = tuple(
        case for case in dataset.cases if any(fnmatch.fnmatchcase(case.image.name, pattern) for pattern in patterns)
    )
    if not chosen:
        raise DataError(f"--include: no image of {dataset.name} fits {', '.join(patterns)}.")
    return replace(dataset, cases=chosen)


def _grouped(dataset: SourceDataset, pattern: str | None) -> SourceDataset:
    """The cases with the group that the pattern finds in the image's name, where they have none."""
    if pattern is None:
        return dataset
    cases = tuple(
        case if case.group else replace(case, group=_group_of(case.image.name, pattern)) for case in dataset.cases
    )
    return replace(dataset, cases=cases)


def _group_of(name: str, pattern: str) -> str | None:
    """Return what the first group of a regular expression finds in a name; None where it finds nothing."""
    try:
        found = re.search(pattern, name)
        return None if found is None else found.group(1)
    except (re.error, IndexError) as error:
        raise DataError(
            f"--group: found {pattern!r} ({error}); expected a regular expression with a group, such as '^([^_]+)_'."
        ) from error


def _named(text: str, seed: int) -> SourceDataset:
    name, separator, folder = text.partition("=")
    if not separator or name not in DATASETS:
        raise DataError(
            f"--dataset: found {text!r}, expected NAME=DIR with a name among {', '.join(sorted(DATASETS))}."
        )
    return DATASETS[name].read(Path(folder).expanduser(), seed=seed)
