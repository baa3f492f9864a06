"""A copy of a federation whose training and validation labels are imperfect; the clean ones are kept beside."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....transforms.errors import DataError
from ....transforms.noise.federation_noise import ContourNoise
from ....transforms.noise.site_protocol import SiteProtocol, mask_scale
from ....transforms.printable import printable_logger
from ..datalist import TRAINING, Case, write_datalist
from ..description import DATALIST_FILE, DESCRIPTION_FILE, SegmentationDescription
from ..federation import read_federation
from ..manifest import (
    Manifest,
    MissingLesionsManifest,
    ProtocolManifest,
    measured_noise,
    read_manifest,
    write_manifest,
)
from ..masks import Mask, annotated_axis, plain_name, read_classes, write_classes
from .choice import (
    PROTOCOLS,
    NoiseChoice,
    check_completeness,
    completeness_text,
    contour_noise_seed,
    missing_lesions_seed,
    protocol_seed,
    protocols_of_sites,
)
from .effect import (
    NoEffect,
    completeness_without_effect,
    contour_noise_without_effect,
    protocol_without_effect,
    report_no_effect,
)
from .federation_copy import CLEAN_LABELS, IMAGES, LABELS, SiteCopy, write_federation_copy

_LOGGER = printable_logger(__name__)

_Pair = tuple[NDArray[np.uint8], NDArray[np.uint8]]


def add_contour_noise(source: Path, out: Path, choice: NoiseChoice, *, seed: int = 0) -> None:
    """Write a copy of a federation with contour noise on every site's training and validation labels.

    Noise is drawn class by class at each mask's own size, in volumes slice by slice. A case that has a clean label
    already keeps it, so that noise adds up. Masks that cannot be read are copied as they are; items of a datalist that
    are no case with a mask are left out. Both are listed in the manifest. The test set stays untouched; nothing is
    changed in the source.

    Args:
        source: the federation's folder.
        out: the copy's folder, absent or empty; it appears when everything is written.
        choice: which noise.
        seed: seed of the sites' noise and of every mask's.

    Raises:
        DataError: if the federation cannot be read, the output folder holds files, or the noise is too weak for the
            images to change anything.
    """
    if not any(choice.limit):
        raise DataError(f"The noise {choice.model} moves no contour at any site; expected lengths above 0.")
    drawn = choice.draw(len(read_federation(source).sites), seed)
    how = f"{', exact count' if choice.exact else ''}"
    how += "" if choice.stratified is None else f", stratified from {choice.stratified}"
    changes = [_ContourNoise(noise, choice, seed) for noise in drawn]
    _write_copy(source, out, changes, what=choice.model, made=f"contour noise {choice.model}{how}, seed {seed}")


def leave_lesions_out(source: Path, out: Path, completeness: Sequence[float], *, seed: int = 0) -> None:
    """Write a copy of a federation whose sites annotate only a share of each case's lesions.

    Lesions are dropped in the whole mask, a volume's before it is cut into slices; see
    :class:`fedannot.transforms.noise.missing_lesions.DropLesions`. For the rest as :func:`add_contour_noise`.

    Args:
        source: the federation's folder.
        out: the copy's folder, absent or empty; it appears when everything is written.
        completeness: share of the lesions that stay annotated, one for every site.
        seed: seed of every mask's lesions.

    Raises:
        DataError: if the federation cannot be read, the output folder holds files, the shares cannot be used, or one
            below 1 leaves nothing out at its site.
    """
    check_completeness(completeness, len(read_federation(source).sites))
    what = completeness_text(completeness)
    changes = [_MissingLesions(share, seed) for share in completeness]
    _write_copy(source, out, changes, what=what, made=f"{what}, seed {seed}")


def follow_protocols(source: Path, out: Path, protocols: str, *, seed: int = 0) -> None:
    """Write a copy of a federation whose sites annotate by protocols of their own.

    Training labels get both parts of a site's protocol, those of other sections the systematic part alone: what a site
    keeps to validate with counts as right there. In volumes masks are drawn slice by slice; see
    :class:`fedannot.transforms.noise.follow_protocol.FollowProtocol`. For the rest as :func:`add_contour_noise`.

    Args:
        source: the federation's folder.
        out: the copy's folder, absent or empty; it appears when everything is written.
        protocols: the protocol of each site, ``0-0-C-D``, or of all.
        seed: seed of every mask's random part.

    Raises:
        DataError: if the federation cannot be read, the output folder holds files, the protocols cannot be used, or
            one changes nothing at its site.
    """
    chosen = protocols_of_sites(protocols, len(read_federation(source).sites))
    what = f"{PROTOCOLS} {protocols}"
    changes = [_Protocol(protocol, seed) for protocol in chosen]
    _write_copy(source, out, changes, what=what, made=f"{what}, seed {seed}")


def _write_copy(source: Path, out: Path, changes: Sequence["_LabelChange"], *, what: str, made: str) -> None:
    write_federation_copy(
        source, out, lambda index, copy: _copy_with_changed_labels(copy, changes[index]), what=what, made=made
    )


class _LabelChange(ABC):
    """Makes the labels of one site imperfect, one after the other, and keeps account of what it did."""

    made: str

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.num_masks = self.num_changed = 0
        self._annotated = False

    def __call__(self, given: Mask, clean: Mask, description: SegmentationDescription, *purpose: str) -> Mask:
        """Return the imperfect mask; the clean one is for the account, the purpose decides what is random."""
        changed = self._changed(given, clean, description, *purpose)
        self.num_masks += 1
        self.num_changed += not np.array_equal(changed.classes, given.classes)
        self._annotated |= bool(given.classes.any())
        return changed

    @abstractmethod
    def _changed(self, given: Mask, clean: Mask, description: SegmentationDescription, *purpose: str) -> Mask: ...

    @abstractmethod
    def manifest(self) -> Mapping[str, Any]:
        """Return the manifest's fields that say what was done."""

    @abstractmethod
    def asked_for(self) -> str | None:
        """Return the noise that the site was to have, None for none."""

    @abstractmethod
    def without_effect(self) -> NoEffect:
        """Say why no label was changed."""


class _ContourNoise(_LabelChange):
    made = "contour noise"

    def __init__(self, noise: ContourNoise, choice: NoiseChoice, seed: int) -> None:
        super().__init__(seed)
        self._noise, self._choice = noise, choice
        self._pairs: list[_Pair] = []
        self._scales: list[float] = []

    def _changed(self, given: Mask, clean: Mask, description: SegmentationDescription, *purpose: str) -> Mask:
        """Draw on a picture, or on a volume slice by slice, as an annotator draws."""
        # MONAI takes 2 s, scikit-image more, which a copy with other noise need not wait for; likewise below.
        from ....transforms.noise.contour_evolution import ContourEvolution  # noqa: PLC0415

        evolution = ContourEvolution(self._noise.mean, self._noise.spread)
        evolution.set_random_state(seed=contour_noise_seed(self.seed, *purpose))
        noisy = _drawn_on_slices(given, description, evolution)
        self._pairs.append((noisy.classes, clean.classes))
        self._scales.append(mask_scale(_slice_shape(given, description)))
        return noisy

    def manifest(self) -> Mapping[str, Any]:
        choice = self._choice
        return {
            "noise": measured_noise(
                self._pairs, self._noise, model=choice.model, exact=choice.exact, stratified=choice.stratified
            )
        }

    def asked_for(self) -> str | None:
        noise = self._noise
        if not (noise.mean or noise.spread):
            return None
        return f"{self._choice.model}, here {noise.mean:.3g} ± {noise.spread:.3g} pixels"

    def without_effect(self) -> NoEffect:
        return contour_noise_without_effect(self._choice.limit, self._scales, is_empty=not self._annotated)


class _MissingLesions(_LabelChange):
    made = "missing lesions"

    def __init__(self, completeness: float, seed: int) -> None:
        super().__init__(seed)
        self._completeness = completeness
        self._cases: list[tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.bool_]]] = []

    def _changed(self, given: Mask, clean: Mask, description: SegmentationDescription, *purpose: str) -> Mask:
        """Drop lesions of a picture or of a whole volume."""
        from ....transforms.noise.missing_lesions import DropLesions  # noqa: PLC0415

        del description
        drop = DropLesions(self._completeness).set_random_state(seed=missing_lesions_seed(self.seed, *purpose))
        params = drop.make_params(given.classes)
        incomplete = np.asarray(drop.apply_transform(given.classes, params))
        self._cases.append((incomplete, clean.classes, params.kept))
        return Mask(incomplete, given.affine)

    def manifest(self) -> Mapping[str, Any]:
        return {"missing_lesions": MissingLesionsManifest.measured(self._completeness, self._cases)}

    def asked_for(self) -> str | None:
        return f"completeness {self._completeness:g}" if self._completeness < 1 else None

    def without_effect(self) -> NoEffect:
        return completeness_without_effect(self._completeness, [len(kept) for _, _, kept in self._cases])


class _Protocol(_LabelChange):
    made = "site protocol"

    def __init__(self, protocol: SiteProtocol, seed: int) -> None:
        super().__init__(seed)
        self._protocol = protocol
        self._pairs: list[_Pair] = []
        self._shapes: list[tuple[int, ...]] = []

    def _changed(self, given: Mask, clean: Mask, description: SegmentationDescription, *purpose: str) -> Mask:
        """Draw a picture, or a volume slice by slice, by the protocol; the purpose names site, section and image."""
        from ....transforms.noise.follow_protocol import FollowProtocol  # noqa: PLC0415

        is_training = purpose[1] == TRAINING
        follow = FollowProtocol(self._protocol, systematic_only=not is_training)
        follow.set_random_state(seed=protocol_seed(self.seed, *purpose))
        drawn = _drawn_on_slices(given, description, follow)
        self._shapes.append(_slice_shape(given, description))
        if is_training:
            self._pairs.append((drawn.classes, clean.classes))
        return drawn

    def manifest(self) -> Mapping[str, Any]:
        discs = [self._protocol.discs(shape) for shape in self._shapes]
        return {"protocol": ProtocolManifest.measured(self._protocol, self._pairs, discs)}

    def asked_for(self) -> str | None:
        return str(self._protocol) if self._protocol.kind != "none" else None

    def without_effect(self) -> NoEffect:
        return protocol_without_effect(self._protocol, self._shapes, is_empty=not self._annotated)


def _slice_shape(given: Mask, description: SegmentationDescription) -> tuple[int, ...]:
    """The shape ``(H, W)`` of what an annotator draws on."""
    if given.affine is None:
        return given.classes.shape
    axis = annotated_axis(given, description)
    return tuple(length for index, length in enumerate(given.classes.shape) if index != axis % given.classes.ndim)


def _drawn_on_slices(
    given: Mask, description: SegmentationDescription, draw: Callable[[NDArray[np.uint8]], Any]
) -> Mask:
    """Apply what draws on slices along the last axis to a mask whose slices lie along another, as its file has them."""
    axis = -1 if given.affine is None else annotated_axis(given, description)
    slices_last = np.ascontiguousarray(np.moveaxis(given.classes, axis, -1))
    return Mask(np.moveaxis(np.asarray(draw(slices_last)), -1, axis), given.affine)


def _copy_with_changed_labels(copy: SiteCopy, change: _LabelChange) -> None:
    """Copy a site with changed labels, and write what the change did to the manifest."""
    description = copy.description
    if not isinstance(description, SegmentationDescription):
        raise DataError(
            f"Site {copy.site}: {copy.source / DESCRIPTION_FILE} has the pipeline {description.pipeline!r}; imperfect "
            "contours and missing lesions need masks."
        )
    sections = _cases_with_masks(copy)
    excluded = list(copy.left_out)
    copied: dict[str, list[Case]] = {}
    for section, cases in sections.items():
        copied[section] = []
        for case in cases:
            clean_file = copy.copy(_file(case.clean_label or case.label), CLEAN_LABELS)
            try:
                given = read_classes(_file(case.label), description)
                clean = read_classes(clean_file, description)
                changed = change(given, clean, description, copy.site, section, case.image.name)
                label = _written(copy, changed, case, description)
            except DataError as error:
                excluded.append((str(case.label), str(error)))
                _LOGGER.warning("Site %s: a label is copied as it is: %s", copy.site, error)
                label = copy.copy(_file(case.label), LABELS)
            image = copy.copy(case.image, IMAGES)
            copied[section].append(Case(image, label, clean_file, case.group, case.source))
    if change.num_masks and not change.num_changed and (asked := change.asked_for()) is not None:
        report_no_effect(copy.site, asked, change.num_masks, change.without_effect())
    write_datalist(copy.target / DATALIST_FILE, copied)
    before = read_manifest(copy.source)
    manifest = Manifest(
        made=change.made,
        seed=change.seed,
        excluded=tuple(excluded),
        before=None if before is None else before.model_dump(mode="json"),
        **change.manifest(),
    )
    write_manifest(copy.target, manifest)


def _written(copy: SiteCopy, mask: Mask, case: Case, description: SegmentationDescription) -> Path:
    target = copy.target / LABELS / plain_name(_file(case.label))
    for suffix in (".png", ".nii.gz"):
        copy.free(target.with_name(target.name + suffix))
    return write_classes(target, mask, description)


def _cases_with_masks(copy: SiteCopy) -> dict[str, list[Case]]:
    """The cases of every section whose labels are files; the others are left out."""
    sections: dict[str, list[Case]] = {}
    for section, cases in copy.datalist.cases.items():
        sections[section] = []
        for case in cases:
            numbers = [label for label in (case.label, case.clean_label) if isinstance(label, int)]
            if numbers:
                copy.leave_out(str(case.image), f"{case.image}: found the label {numbers[0]}; expected a mask file.")
            else:
                sections[section].append(case)
    return sections


def _file(label: Path | int) -> Path:
    assert isinstance(label, Path)
    return label
