"""A site's images and annotations as tensors: decoded and resized once, read from one file afterwards."""

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ...transforms.errors import DataError
from .datalist import TRAINING, Case, read_datalist
from .federation import SiteDescription, read_site_description

_LOGGER = logging.getLogger(__name__)

# Counts up when a change of the pipeline makes prepared files wrong.
_PREPARATION_VERSION = 1


@dataclass(frozen=True)
class ExcludedCase:
    """A case that cannot be used, and why; stays at the site."""

    file: str
    reason: str


@dataclass(frozen=True)
class SiteData:
    """The usable cases of one site in the order of its datalist; nothing of it leaves the site.

    Attributes:
        site: the site's name.
        images: float32 ``(N, C, H, W)``, z-scored.
        labels: the given annotations, uint8 ``(N, H, W)``, 0 for background.
        clean_labels: the annotations without noise, likewise, if they are known for every case; for evaluation only.
        classes: names of the foreground classes.
        channels: C, 1 for grey and 3 for RGB.
        excluded: the cases left out.
    """

    site: str
    images: torch.Tensor
    labels: torch.Tensor
    clean_labels: torch.Tensor | None
    classes: tuple[str, ...]
    channels: int
    excluded: tuple[ExcludedCase, ...]

    @property
    def num_samples(self) -> int:
        """Number of usable cases N."""
        return len(self.images)


def count_cases(folder: Path, section: str) -> int:
    """Return how many cases a section of a site's datalist has, usable or not; 0 if there is no such section.

    Raises:
        DataError: if the description or the datalist cannot be used.
    """
    return len(read_datalist(folder / read_site_description(folder).datalist).get(section, []))


def load_site_data(folder: Path, cache_dir: Path, *, section: str = TRAINING, site: str) -> SiteData:
    """Load a section of a site's data.

    The first time, the files are decoded and the tensors kept in the cache folder; later they are read from there as
    long as the settings and the files' sizes and times are the same. A case with a missing or unreadable file, a mask
    of another size than its image or an unknown label value is left out, counted and logged at the site; it stops
    nothing.

    Args:
        folder: the folder with ``data.yaml``.
        cache_dir: where prepared tensors are kept; made if need be.
        section: list of the datalist, ``training``, ``validation`` or ``testing``.
        site: the site's name, for messages.

    Raises:
        DataError: if the description or the datalist cannot be used, or no case of the section can.
    """
    try:
        description = read_site_description(folder)
        datalist = folder / description.datalist
        cases = read_datalist(datalist).get(section, [])
    except DataError as error:
        raise DataError(f"Site {site}: {error}") from error
    if not cases:
        raise DataError(f"Site {site}: {datalist} has no case in the list {section!r}; expected at least one.")
    prepared_file = cache_dir / f"{site}-{section}-{_fingerprint(description, section, cases, folder)}.pt"
    prepared = _read_prepared(prepared_file)
    if prepared is None:
        prepared = _prepare(description, cases, site)
        _write_prepared(prepared, prepared_file)
    excluded = tuple(ExcludedCase(*entry) for entry in prepared["excluded"])
    if len(excluded) == len(cases):
        raise DataError(
            f"Site {site}: no usable case in {datalist}: {len(excluded)} of {len(cases)} excluded: {excluded[0].reason}"
        )
    return SiteData(
        site=site,
        images=prepared["images"],
        labels=prepared["labels"],
        clean_labels=prepared["clean_labels"],
        classes=description.classes,
        channels=description.channels,
        excluded=excluded,
    )


def _fingerprint(description: SiteDescription, section: str, cases: Sequence[Case], folder: Path) -> str:
    """Hash of everything that the prepared tensors depend on."""
    files = [[os.path.relpath(file, folder), *_size_and_time(file)] for case in cases for file in case.files]
    structure = [len(case.files) for case in cases]
    content = [_PREPARATION_VERSION, description.model_dump(mode="json"), section, structure, files]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def _size_and_time(file: Path) -> tuple[int, int]:
    try:
        status = file.stat()
    except OSError:
        return -1, -1
    return status.st_size, status.st_mtime_ns


def _prepare(description: SiteDescription, cases: Sequence[Case], site: str) -> dict[str, Any]:
    """Decode all cases; what cannot be used is listed under ``excluded`` with file and reason."""
    # Importing MONAI takes seconds, which a site with prepared data need not spend.
    from ...transforms.image_pipeline import CLEAN_LABEL, IMAGE, LABEL, build_image_pipeline

    pipeline = build_image_pipeline(channels=description.channels, size=description.size, labels=description.labels)
    decoded: list[dict[str, Any]] = []
    excluded: list[tuple[str, str]] = []
    for case in cases:
        files = {IMAGE: case.image, LABEL: case.label}
        clean = {} if case.clean_label is None else {CLEAN_LABEL: case.clean_label}
        try:
            decoded.append(_decode(pipeline, files, clean, site))
        except DataError as error:
            excluded.append((str(case.image), str(error)))
            _LOGGER.warning("Site %s: case %s is left out: %s", site, case.image.name, error)
    clean_labels = [case[CLEAN_LABEL] for case in decoded if CLEAN_LABEL in case]
    return {
        "images": _stack([case[IMAGE] for case in decoded]),
        "labels": _stack([case[LABEL] for case in decoded]),
        "clean_labels": _stack(clean_labels) if clean_labels and len(clean_labels) == len(decoded) else None,
        "excluded": excluded,
    }


def _decode(pipeline: Callable[..., Any], files: dict[str, Path], clean: dict[str, Path], site: str) -> dict[str, Any]:
    """Decode a case with its clean label, or without where only that cannot be used."""
    from ...transforms.image_pipeline import decode_case

    try:
        return decode_case(pipeline, files | clean)
    except DataError as error:
        if not clean:
            raise
        case = decode_case(pipeline, files)
        _LOGGER.warning("Site %s: its clean labels are not used, one cannot be read: %s", site, error)
        return case


def _stack(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.stack(list(tensors)) if tensors else torch.empty(0)


def _read_prepared(file: Path) -> dict[str, Any] | None:
    if not file.is_file():
        return None
    try:
        prepared: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        # Whatever is wrong with a prepared file, it can be made again.
        _LOGGER.warning("The prepared data %s cannot be read and are made again: %s", file, error)
        return None
    return prepared


def _write_prepared(prepared: dict[str, Any], file: Path) -> None:
    """Write atomically: a reader sees the whole file or none."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=file.parent, prefix=f".{file.name}-", delete=False) as temporary:
        try:
            torch.save(prepared, temporary)
        except BaseException:
            Path(temporary.name).unlink()
            raise
    Path(temporary.name).replace(file)
