"""From a site's cases to those in its store: what is there by its content, and what is decoded."""

import hashlib
import json
import os
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
from .datalist import Case
from .description import OF_TRAINING, SiteDescription
from .file_digests import FileContent, FileDigests
from .preparation import KINDS, PREPARATION_VERSION, Preparation, build_preparation
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
    """

    site: str
    section: str
    folder: Path
    description: SiteDescription
    cases: Sequence[Case]


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
    digests = FileDigests(store.open(), f"{of_site.folder.resolve()}\0{of_site.section}")
    contents = digests.contents(file for case in of_site.cases for file in _files(case))
    wanted = _wanted(of_site.description, of_site.cases, contents)
    decoded: list[int] = []
    stored, flat = store.load(wanted, KINDS, lambda places: _prepare(of_site, places, contents, decoded))
    if decoded:
        _LOGGER.info("Site %s: %d of %d cases decoded.", of_site.site, len(decoded), len(wanted))
    _log_what_is_left_out(of_site, stored)
    return stored, flat


def _files(case: Case) -> list[Path]:
    return [value for value in (case.image, case.label, case.clean_label) if isinstance(value, Path)]


def _wanted(
    description: SiteDescription, cases: Sequence[Case], contents: Mapping[Path, FileContent]
) -> list[WantedCase]:
    """Hash of everything that a case's tensors depend on, and of where its files lie."""
    of_pipeline = description.model_dump(mode="json", exclude={"datalist", *OF_TRAINING})
    start = json.dumps([PREPARATION_VERSION, *_decoders(), of_pipeline], sort_keys=True)

    def wanted(case: Case) -> WantedCase:
        values = [case.image, case.label, case.clean_label]
        parts = [contents[value].parts if isinstance(value, Path) else value for value in values]
        origin = "\n".join(map(os.path.abspath, _files(case)))
        return WantedCase(_hash(f"[{start}, {json.dumps(parts)}]"), _hash(origin))

    return [wanted(case) for case in cases]


@cache
def _decoders() -> tuple[str, ...]:
    """What decides the bits of decoded images beside the pipeline: packages, and how PyTorch uses the processor."""
    return (*(f"{name} {version(name)}" for name in _DECODERS), torch.backends.cpu.get_cpu_capability())


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:32]


def _prepare(
    of_site: SiteCases, places: Sequence[int], contents: Mapping[Path, FileContent], decoded: list[int]
) -> Iterator[PreparedCase | str]:
    """Decode the cases at these places, a few at a time, in their order; what cannot be used becomes the reason."""
    if not places:
        return
    preparation = build_preparation(of_site.description)
    threads = min(_MAX_THREADS, os.cpu_count() or 1)

    def decode_at(place: int) -> PreparedCase | str:
        case = of_site.cases[place]
        found = decode(preparation, case, of_site.site)
        for file in _files(case):
            # Else other content would be found under the digest from now on.
            if not contents[file].is_still(file):
                raise _FilesChangedError(file)
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


def decode(preparation: Preparation, case: Case, site: str) -> PreparedCase | str:
    """Decode a case with its clean label, or without where only that cannot be used; else return the reason.

    A case fails twice before it counts as unusable: a disk that failed for a moment must not exclude it for ever.
    """
    found = _attempt(preparation, case, site)
    return _attempt(preparation, case, site) if isinstance(found, str) else found


def _attempt(preparation: Preparation, case: Case, site: str) -> PreparedCase | str:
    try:
        try:
            return preparation(case)
        except DataError as error:
            if case.clean_label is None:
                raise
            prepared = preparation(replace(case, clean_label=None))
            _LOGGER.warning("Site %s: its clean labels are not used, one cannot be read: %s", site, error)
            return prepared
    except DataError as error:
        return str(error)


def _log_what_is_left_out(of_site: SiteCases, stored: Sequence[StoredCase]) -> None:
    """Name the cases in the site's log, in that of every run."""
    for case, entry in zip(of_site.cases, stored, strict=True):
        if entry.reason is not None:
            _LOGGER.warning("Site %s: case %s is left out: %s", of_site.site, case.image.name, entry.reason)
