"""From a site's cases to those in its store: what is there by its content, and what is decoded."""

import hashlib
import json
import os
import re
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path

import torch

from ...transforms.errors import DataError
from ...transforms.printable import printable_logger
from ..consensus_rule import ConsensusRule
from .consensus import consensus_label
from .datalist import Case
from .description import OF_TRAINING, ClassificationDescription, ImageDescription, SiteDescription
from .file_digests import FileContent, FileDigests
from .preparation import ANNOTATIONS, GIVEN_LABEL, KINDS, LABEL, PREPARATION_VERSION, Preparation, build_preparation
from .prepared_pack import PreparedCase, StoredCase, WantedCase
from .prepared_store import Loaded, PreparedStore

_LOGGER = printable_logger(__name__)

_MAX_THREADS = 4
# Whose versions decide what a file becomes.
_DECODERS = ("fedannot", "monai", "nibabel", "numpy", "pillow", "scipy", "torch")
# Files that change while they are read are read again, so often.
_TRIES = 3


@dataclass(frozen=True)
class SiteCases:
    """The cases of a section, and what turns them into tensors.

    Attributes:
        site: the site's name, for messages.
        section: the list of the datalist.
        folder: of the site's data.
        description: the site's.
        cases: the cases, in order.
        consensus: the rule that makes the label of undecided cases; None where there are none.
    """

    site: str
    section: str
    folder: Path
    description: SiteDescription
    cases: Sequence[Case]
    consensus: ConsensusRule | None = None


class _FilesChangedError(Exception):
    """A file has changed since its digest was made."""


def prepared_cases(of_site: SiteCases, store: PreparedStore) -> Loaded:
    """Return cases and their flat tensors from the store, decoding those that it lacks.

    Cases that are left out are named in the site's log, of every run.

    Raises:
        DataError: if the store cannot be used, or files change again and again while they are read.
    """
    changed: Exception | None = None
    for _ in range(_TRIES):
        try:
            return _load(of_site, store)
        except _FilesChangedError as error:
            changed = error
    raise DataError(f"{changed}: changed while it was read, {_TRIES} times; expected files at rest. Start again then.")


def _load(of_site: SiteCases, store: PreparedStore) -> Loaded:
    folder = str(of_site.folder.resolve())
    digests = FileDigests(store.open(), f"{folder}\0{of_site.section}")
    paths = [_paths(case) for case in of_site.cases]
    contents = digests.contents(path for of_case in paths for path in of_case)
    start = _pipeline(of_site.description)
    wanted = [
        WantedCase(_key(start, case, contents, of_site.consensus), "\n".join((folder, *of_case)))
        for case, of_case in zip(of_site.cases, paths, strict=True)
    ]
    decoded: list[int] = []
    stored, flat = store.load(wanted, KINDS, lambda places: _prepare(of_site, places, contents, decoded))
    if decoded:
        _LOGGER.info("Site %s: %d of %d cases decoded.", of_site.site, len(decoded), len(wanted))
    _log_what_is_left_out(of_site, stored)
    return stored, flat


def _paths(case: Case) -> list[str]:
    return [str(file) for file in case.files]


def _pipeline(description: SiteDescription) -> str:
    """What a case's tensors depend on besides its files: the pipeline, its packages, how PyTorch uses the processor."""
    values = description.model_dump(mode="json", exclude={"datalist", *OF_TRAINING})
    if not values.get("ignore"):
        # What was prepared before there were ignored values is found again.
        values.pop("ignore", None)
    # As above, before images had several channels.
    if values.get("missing_channels") == "refuse":
        del values["missing_channels"]
    if values.get("channel_windows") is None:
        values.pop("channel_windows", None)
    if values.get("channels") == 1 and not isinstance(description, ImageDescription | ClassificationDescription):
        del values["channels"]
    processor = torch.backends.cpu.get_cpu_capability()
    return json.dumps([PREPARATION_VERSION, values, package_versions(_DECODERS), processor], sort_keys=True)


def _key(start: str, case: Case, contents: Mapping[str, FileContent], rule: ConsensusRule | None) -> str:
    given = () if case.given_label is None else (case.given_label,)
    channels = ("channels", *case.channels) if case.channels else ()
    annotations: tuple[Path | int | str, ...] = ()
    if case.annotations:
        made_by = rule.kind.value if rule is not None and case.is_undecided else "label"
        annotations = ("annotations", made_by, *(annotation.file for annotation in case.annotations))
    values = (case.image, case.label, case.clean_label, *given, *channels, *annotations)
    parts = (contents[str(value)].text if isinstance(value, Path) else repr(value) for value in values)
    return hashlib.sha256("\0".join((start, *parts)).encode(errors="surrogateescape")).hexdigest()[:32]


def _prepare(
    of_site: SiteCases, places: Sequence[int], contents: Mapping[str, FileContent], decoded: list[int]
) -> Iterator[PreparedCase | str]:
    """Decode the cases at these places, a few at a time, in their order; what cannot be used becomes the reason."""
    if not places:
        return
    preparation = build_preparation(of_site.description)
    threads = min(_MAX_THREADS, os.cpu_count() or 1)

    def decode_at(place: int) -> PreparedCase | str:
        case = of_site.cases[place]
        found = decode(preparation, case, of_site)
        for path in _paths(case):
            # Else other content would be found under the digest from now on.
            if not contents[path].is_still(path):
                raise _FilesChangedError(path)
        decoded.append(place)
        return found

    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[PreparedCase | str]] = deque()
        for place in places:
            waiting.append(pool.submit(decode_at, place))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def decode(preparation: Preparation, case: Case, of_site: SiteCases) -> PreparedCase | str:
    """Decode a case with its other labels, or without where only these cannot be used; else return the reason.

    A case fails twice before it counts as unusable: a disk that failed for a moment must not exclude it for ever.
    """
    result = _attempt(preparation, case, of_site)
    return _attempt(preparation, case, of_site) if isinstance(result, str) else result


def _attempt(preparation: Preparation, case: Case, of_site: SiteCases) -> PreparedCase | str:
    site = of_site.site
    try:
        if case.annotations:
            return _of_several(preparation, case, of_site)
        try:
            prepared = preparation(case)
        except DataError as error:
            if case.clean_label is None:
                raise
            prepared = preparation(replace(case, clean_label=None))
            _LOGGER.warning("Site %s: its clean labels are not used, one cannot be read: %s", site, error)
    except DataError as error:
        return str(error)
    return _with_given_label(preparation, case, prepared, site)


def _of_several(preparation: Preparation, case: Case, of_site: SiteCases) -> PreparedCase | str:
    """A case with all its annotations, whose label a rule makes of them where it has none of its own.

    Raises:
        DataError: if one of the files cannot be used.
    """
    single = replace(case, annotations=())
    if case.is_undecided:
        single = replace(single, label=case.annotations[0].file)
    prepared = _attempt(preparation, single, of_site)
    if isinstance(prepared, str):
        return prepared
    alone = [replace(single, label=annotation.file, clean_label=None) for annotation in case.annotations]
    labels = [
        prepared.tensors[LABEL] if of_one.label == single.label else preparation(of_one).tensors[LABEL]
        for of_one in alone
    ]
    tensors = prepared.tensors | {ANNOTATIONS: torch.stack(labels, dim=1)}
    if case.is_undecided:
        assert of_site.consensus is not None
        num_classes = len(of_site.description.classes)
        tensors[LABEL] = consensus_label(tensors[ANNOTATIONS], of_site.consensus, num_classes)
    return replace(prepared, tensors=tensors)


def _with_given_label(preparation: Preparation, case: Case, prepared: PreparedCase, site: str) -> PreparedCase:
    """A case with the mask or class that it had before its review, if that can be used."""
    if case.given_label is None:
        return prepared
    try:
        given = preparation(replace(case, label=case.given_label, clean_label=None)).tensors[LABEL]
    except DataError as error:
        _LOGGER.warning("Site %s: the label before a review is not used, it cannot be read: %s", site, error)
        return prepared
    return replace(prepared, tensors=prepared.tensors | {GIVEN_LABEL: given})


def _log_what_is_left_out(of_site: SiteCases, stored: Sequence[StoredCase]) -> None:
    """Name the cases in the site's log, in that of every run, and count those with channels of zeros."""
    num_filled = 0
    for case, entry in zip(of_site.cases, stored, strict=True):
        if entry.reason is not None:
            _LOGGER.warning("Site %s: case %s is left out: %s", of_site.site, case.image.name, entry.reason)
        elif case.num_missing_channels:
            num_filled += 1
    if num_filled:
        text = "Site %s: %d of %d cases of %r lack a channel, which is filled with zeros."
        _LOGGER.warning(text, of_site.site, num_filled, len(of_site.cases), of_site.section)


_FOLDER = re.compile(r"(?P<name>[A-Za-z0-9_.]+)-(?P<version>[^-]+)\.dist-info")


@cache
def package_versions(names: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of packages by their names.

    Raises:
        PackageNotFoundError: if one is not installed.

    >>> list(package_versions(("numpy", "torch")))
    ['numpy', 'torch']
    """
    result: dict[str, str] = {}
    for folder in filter(os.path.isdir, sys.path):
        for entry in os.listdir(folder):  # noqa: PTH208
            if entry.endswith(".dist-info") and (parts := _FOLDER.fullmatch(entry)):
                # The first on the path is what is imported.
                result.setdefault(parts["name"].lower(), parts["version"])
    return {name: result.get(name) or version(name) for name in names}
