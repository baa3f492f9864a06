"""A site's images and annotations as tensors: decoded once, mapped into memory from then on."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch

from ...transforms.errors import DataError
from ...transforms.printable import printable_logger
from ..consensus_rule import ConsensusRule
from .case_preparation import SiteCases, prepared_cases
from .datalist import TRAINING, Case, ExcludedCase, read_datalist
from .decided_labels import OtherAnnotatorError, with_rule
from .description import SegmentationDescription, SiteDescription, read_site_description
from .preparation import ANNOTATIONS, CLEAN_LABEL, GIVEN_LABEL, IMAGE, LABEL
from .prepared_pack import StoredCase, case_tensors
from .prepared_store import PreparedStore

_LOGGER = printable_logger(__name__)


@dataclass(frozen=True)
class LoadedCase:
    """The samples of one case: an image, a whole volume, or the S slices of a volume in their order.

    Attributes:
        name: the image's file name, for messages at the site.
        unit: the patient or volume; see :attr:`Case.unit`.
        image: float32 ``(S, C, H, W[, D])``.
        label: the annotation in use, uint8 ``(S, H, W[, D])``, 0 for background, 255 for ignored pixels; ``(S,)`` for
            classification.
        clean_label: the annotation without noise, as above, where it is known; for evaluation only.
        spacing: size of a voxel along the spatial axes of a sample in millimetres, None in pixels.
        slice_spacing: distance of neighbouring slices in millimetres; None where there are none or it is not known.
        files: where the tensors come from, None if not from files.
        given_label: what the site had given before a review replaced it, a mask or class as `label`, where it is known.
        annotations: of several annotators, uint8 ``(S, R, H, W[, D])``, ``(S, R)`` for classification, in the order of
            the case's annotations in `files`; None of a single one.
    """

    name: str
    unit: str
    image: torch.Tensor
    label: torch.Tensor
    clean_label: torch.Tensor | None
    spacing: tuple[float, ...] | None
    slice_spacing: float | None = None
    files: Case | None = None
    given_label: torch.Tensor | None = None
    annotations: torch.Tensor | None = None

    @property
    def open_annotations(self) -> torch.Tensor | None:
        """The annotations `(S, R, …)` that a rule may choose from; None of a single one, and after a review."""
        return None if self.is_reviewed else self.annotations

    @property
    def is_reviewed(self) -> bool:
        """Whether a review has decided the label, by changing or by keeping it."""
        return self.given_label is not None or (self.files is not None and self.files.is_reviewed)

    def image_name(self, data_folder: Path) -> str:
        """Return the image's file relative to the folder of the site's data, for records; the name without files."""
        return self.name if self.files is None else os.path.relpath(self.files.image, data_folder)

    def label_name(self, data_folder: Path) -> str:
        """Return the annotation's file as above; empty without one."""
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
        consensus: the rule for cases with several annotations; None where the job names none.
    """

    site: str
    cases: tuple[LoadedCase, ...]
    description: SiteDescription
    excluded: tuple[ExcludedCase, ...]
    consensus: ConsensusRule | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; for segmentation of the foreground classes."""
        return self.description.classes

    @property
    def annotated_labels(self) -> tuple[int, ...] | None:
        """Numbers of the foreground classes that the site annotates; None for all of them, and in classification."""
        if not isinstance(self.description, SegmentationDescription) or not self.description.unannotated_classes:
            return None
        return self.description.annotated_labels

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
        """The annotations without noise, as above, None unless they are known for every case."""
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
    store: PreparedStore | Path,
    *,
    section: str = TRAINING,
    site: str,
    replaced_labels: Mapping[Path, Path] | None = None,
    consensus: ConsensusRule | str | None = None,
) -> SiteData:
    """Load a section of a site's data.

    The first time, the files are decoded and the tensors kept in the store; later they are mapped from there, by every
    run on the same data, wherever they lie. A case is decoded again when the pipeline, or the content of one of its
    files, has changed. A case with a missing or unreadable file, a mask that does not fit its image or has an unknown
    label value is left out, counted and logged at the site; it stops nothing.

    Args:
        folder: the folder with ``data.yaml``.
        store: where prepared tensors are kept; a folder is a store with the default limits, made if need be.
        section: list of the datalist, ``training``, ``validation`` or ``testing``.
        site: the site's name, for messages.
        replaced_labels: files that count in place of given annotations.
        consensus: the rule that makes one label of several annotations; None if all cases have one.

    Raises:
        DataError: if the description, the datalist or the store cannot be used, no case of the section can, or a case
            needs a rule and there is none.

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
        rule = ConsensusRule.parse(consensus) if isinstance(consensus, str) else consensus
        by_rule, others = _by_rule(datalist.section(section), rule, section)
        cases, file = _with_labels(by_rule, replaced_labels or {}), folder / description.datalist
        excluded = [*datalist.refused.get(section, []), *others]
        if not cases and not excluded:
            raise DataError(f"{file} has no case in the list {section!r}; expected at least one.")
        for item in excluded:
            _LOGGER.warning("Site %s: an item is left out: %s", site, item.reason)
        used = store if isinstance(store, PreparedStore) else PreparedStore(store)
        stored, flat = prepared_cases(SiteCases(site, section, folder, description, cases, rule), used)
    except DataError as error:
        raise DataError(f"Site {site}: {error}") from error
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
    return SiteData(site, loaded, description, tuple(excluded), rule)


def _by_rule(cases: Sequence[Case], rule: ConsensusRule | None, section: str) -> tuple[list[Case], list[ExcludedCase]]:
    """The cases with the labels that count, and those that somebody else has annotated."""
    kept: list[Case] = []
    others: list[ExcludedCase] = []
    for case in cases:
        try:
            kept.append(with_rule(case, rule, section))
        except OtherAnnotatorError as error:
            others.append(ExcludedCase(str(case.image), str(error)))
    return kept, others


def _with_labels(cases: Sequence[Case], replaced: Mapping[Path, Path]) -> list[Case]:
    """The cases, some with another annotation; files are the same however their paths are written."""
    if not replaced:
        return list(cases)
    files = {label.resolve(): file for label, file in replaced.items()}
    return [
        replace(case, label=files.get(case.label.resolve(), case.label)) if isinstance(case.label, Path) else case
        for case in cases
    ]


def _loaded(case: Case, entry: StoredCase, flat: dict[str, torch.Tensor]) -> LoadedCase:
    tensors = case_tensors(entry, flat)
    return LoadedCase(
        name=case.image.name,
        unit=case.unit,
        image=tensors[IMAGE],
        label=tensors[LABEL],
        clean_label=tensors.get(CLEAN_LABEL),
        spacing=entry.spacing,
        slice_spacing=entry.slice_spacing,
        files=case,
        given_label=tensors.get(GIVEN_LABEL),
        annotations=tensors.get(ANNOTATIONS),
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
