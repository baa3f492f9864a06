"""A site's images and annotations as tensors: decoded once, mapped into memory from then on."""

import hashlib
import json
import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch

from ...transforms.errors import DataError
from ...transforms.printable import printable_logger
from .contained_paths import relative_name
from .datalist import TRAINING, Case, ExcludedCase, read_datalist
from .description import OF_TRAINING, SiteDescription, read_site_description
from .preparation import (
    CLEAN_LABEL,
    IMAGE,
    KINDS,
    LABEL,
    PREPARATION_VERSION,
    Preparation,
    build_preparation,
)
from .tensor_store import PreparedCase, StoredCase, TensorStore, view

_LOGGER = printable_logger(__name__)

_MAX_THREADS = 4


@dataclass(frozen=True)
class LoadedCase:
    """The samples of one case: an image, a whole volume, or the S slices of a volume in their order.

    Attributes:
        name: the image's file name, for messages at the site.
        unit: the patient or volume; see :attr:`Case.unit`.
        image: float32 ``(S, C, H, W[, D])``.
        label: the given annotation, uint8 ``(S, H, W[, D])``, 0 for background; ``(S,)`` for classification.
        clean_label: the annotation without noise, likewise, where it is known; for evaluation only.
        spacing: size of a voxel along the spatial axes of a sample in millimetres, None in pixels.
        slice_spacing: distance of neighbouring slices in millimetres; None where there are none or it is not known.
        files: where the tensors come from, None if not from files.
    """

    name: str
    unit: str
    image: torch.Tensor
    label: torch.Tensor
    clean_label: torch.Tensor | None
    spacing: tuple[float, ...] | None
    slice_spacing: float | None = None
    files: Case | None = None

    def image_name(self, data_folder: Path) -> str:
        """Return the image's file relative to the folder of the site's data, for records; the name without files."""
        return self.name if self.files is None else os.path.relpath(self.files.image, data_folder)

    def label_name(self, data_folder: Path) -> str:
        """Return the annotation's file likewise; empty without one."""
        if self.files is None or not isinstance(self.files.label, Path):
            return ""
        return os.path.relpath(self.files.label, data_folder)


@dataclass(frozen=True)
class SiteData:
    """The usable cases of one site in the order of its datalist; nothing of it leaves the site.

    Tensors are mapped from the site's disk: what is not used takes no memory.

    Attributes:
        site: the site's name.
        cases: the cases.
        description: the site's description.
        excluded: the cases left out.
    """

    site: str
    cases: tuple[LoadedCase, ...]
    description: SiteDescription
    excluded: tuple[ExcludedCase, ...]

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; for segmentation of the foreground classes."""
        return self.description.classes

    @property
    def channels(self) -> int:
        """Number of channels C."""
        return self.description.in_channels

    @property
    def spatial_dims(self) -> int:
        """Number of spatial axes of a sample."""
        return self.description.spatial_dims

    @cached_property
    def num_samples(self) -> int:
        """Number of samples N: images, volumes or slices."""
        return sum(len(case.image) for case in self.cases)

    @cached_property
    def units(self) -> tuple[str, ...]:
        """The patient or volume of every sample, in order."""
        return tuple(case.unit for case in self.cases for _ in range(len(case.image)))

    @cached_property
    def images(self) -> torch.Tensor:
        """All samples ``(N, C, H, W[, D])``; without a copy, so they take memory as far as they are used.

        Raises:
            ValueError: if the samples differ in size, as whole volumes may.
        """
        return _together([case.image for case in self.cases])

    @cached_property
    def labels(self) -> torch.Tensor:
        """The given annotations of all samples, ``(N, H, W[, D])`` or ``(N,)``; as :attr:`images`."""
        return _together([case.label for case in self.cases])

    @cached_property
    def clean_labels(self) -> torch.Tensor | None:
        """The annotations without noise, likewise, None unless they are known for every case."""
        known = [case.clean_label for case in self.cases if case.clean_label is not None]
        return _together(known) if len(known) == len(self.cases) else None


def count_cases(folder: Path, section: str) -> int:
    """Return how many cases a section of a site's datalist has, usable or not; 0 if there is no such section.

    Raises:
        DataError: if the description or the datalist cannot be used.
    """
    return len(read_datalist(folder / read_site_description(folder).datalist).section(section))


def load_site_data(
    folder: Path,
    cache_dir: Path,
    *,
    section: str = TRAINING,
    site: str,
    replaced_labels: Mapping[Path, Path] | None = None,
) -> SiteData:
    """Load a section of a site's data.

    The first time, the files are decoded and the tensors kept in the cache folder; later they are mapped from there. A
    case is decoded anew when the pipeline, or the name, size or a time of one of its files, has changed. A case with a
    missing or unreadable file, a mask that does not fit its image or has an unknown label value is left out, counted
    and logged at the site; it stops nothing.

    Args:
        folder: the folder with ``data.yaml``.
        cache_dir: where prepared tensors are kept; made if need be.
        section: list of the datalist, ``training``, ``validation`` or ``testing``.
        site: the site's name, for messages.
        replaced_labels: files that count in place of given annotations.

    Raises:
        DataError: if the description or the datalist cannot be used, or no case of the section can.

    Example:
        >>> from fedannot.custom import LesionImages, write_phantom_federation
        >>> write_phantom_federation(Path("three"), LesionImages(), num_sites=1, images_per_site=3, test_images=1)
        >>> data = load_site_data(Path("three/site-1"), Path("cache"), section="training", site="site-1")
        >>> len(data.cases), tuple(data.cases[0].image.shape)
        (3, (1, 1, 64, 64))
    """
    try:
        description = read_site_description(folder)
        datalist = read_datalist(folder / description.datalist)
    except DataError as error:
        raise DataError(f"Site {site}: {error}") from error
    cases, file = _with_labels(datalist.section(section), replaced_labels or {}), folder / description.datalist
    excluded = list(datalist.refused.get(section, []))
    if not cases and not excluded:
        raise DataError(f"Site {site}: {file} has no case in the list {section!r}; expected at least one.")
    for item in excluded:
        _LOGGER.warning("Site %s: an item is left out: %s", site, item.reason)
    store = TensorStore(cache_dir / f"{site}-{section}", KINDS)
    keys = _keys(description, cases, folder)
    stored, flat = store.load(keys, lambda positions: _prepare(description, [cases[p] for p in positions], site))
    excluded += [
        ExcludedCase(str(case.image), entry.reason)
        for case, entry in zip(cases, stored, strict=True)
        if entry.reason is not None
    ]
    loaded = tuple(
        _loaded(case, entry, flat) for case, entry in zip(cases, stored, strict=True) if entry.reason is None
    )
    if not loaded:
        total = len(excluded)
        raise DataError(f"Site {site}: no usable case in {file}: {total} of {total} excluded: {excluded[0].reason}")
    return SiteData(site, loaded, description, tuple(excluded))


def _with_labels(cases: Sequence[Case], replaced: Mapping[Path, Path]) -> list[Case]:
    """The cases, some with another annotation; files are the same however their paths are written."""
    if not replaced:
        return list(cases)
    files = {label.resolve(): file for label, file in replaced.items()}
    return [
        replace(case, label=files.get(case.label.resolve(), case.label)) if isinstance(case.label, Path) else case
        for case in cases
    ]


def _keys(description: SiteDescription, cases: Sequence[Case], folder: Path) -> list[str]:
    """Hash of everything that a case's tensors depend on."""
    pipeline = [PREPARATION_VERSION, description.model_dump(mode="json", exclude={"datalist", *OF_TRAINING})]
    start = json.dumps(pipeline, sort_keys=True)

    def key(case: Case) -> str:
        values = [case.image, case.label, case.clean_label]
        content = [[relative_name(v, folder), *_size_and_times(v)] if isinstance(v, Path) else v for v in values]
        return hashlib.sha256(f"[{start}, {json.dumps(content)}]".encode()).hexdigest()[:32]

    return [key(case) for case in cases]


def _size_and_times(file: Path) -> tuple[int, int, int]:
    """Size, time of the content, and time of the file's state, which changes with rights and with restored times."""
    try:
        status = file.stat()
    except OSError:
        return -1, -1, -1
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _prepare(description: SiteDescription, cases: Sequence[Case], site: str) -> Iterator[PreparedCase | str]:
    """Decode cases, a few at a time, in their order; what cannot be used becomes the reason."""
    if not cases:
        return
    preparation = build_preparation(description)
    threads = min(_MAX_THREADS, os.cpu_count() or 1)
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[PreparedCase | str]] = deque()
        for case in cases:
            waiting.append(pool.submit(_decode, preparation, case, site))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _decode(preparation: Preparation, case: Case, site: str) -> PreparedCase | str:
    """Decode a case with its clean label, or without where only that cannot be used."""
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
        _LOGGER.warning("Site %s: case %s is left out: %s", site, case.image.name, error)
        return str(error)


def _loaded(case: Case, entry: StoredCase, flat: dict[str, torch.Tensor]) -> LoadedCase:
    tensors = {kind: view(flat[kind], place) for kind, place in entry.tensors.items()}
    return LoadedCase(
        name=case.image.name,
        unit=case.unit,
        image=tensors[IMAGE],
        label=tensors[LABEL],
        clean_label=tensors.get(CLEAN_LABEL),
        spacing=entry.spacing,
        slice_spacing=entry.slice_spacing,
        files=case,
    )


def _together(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Consecutive views of one flat tensor as one view."""
    shapes = {part.shape[1:] for part in parts}
    if len(shapes) != 1:
        raise ValueError(f"Expected samples of one size, but found {sorted(map(tuple, shapes))}.")
    first, total = parts[0], sum(len(part) for part in parts)
    expected = first.storage_offset()
    for part in parts:
        if part.storage_offset() != expected or part.untyped_storage().data_ptr() != first.untyped_storage().data_ptr():
            return torch.cat(list(parts))
        expected += part.numel()
    return first.as_strided((total, *first.shape[1:]), first.stride())
