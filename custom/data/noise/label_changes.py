"""How the labels of one site become imperfect, mask by mask, and the account of it for its manifest."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from ....transforms.array_types import Booleans, Classes
from ....transforms.noise.federation_noise import ContourNoise
from ....transforms.noise.site_protocol import REFERENCE_SIZE, SiteProtocol, mask_scale
from ..datalist import TRAINING
from ..description import SegmentationDescription, SliceDescription, VolumeDescription
from ..manifest import MissingLesionsManifest, ProtocolManifest, measured_noise
from ..masks import Mask, annotated_axis
from .choice import NoiseChoice, contour_noise_seed, missing_lesions_seed, protocol_seed
from .effect import (
    UnchangedSite,
    refuse_unchanged_completeness,
    report_unchanged_contours,
    report_unchanged_protocol,
)

_Pair = tuple[Classes, Classes]


class LabelChange(ABC):
    """Makes the labels of one site imperfect, one after the other, and keeps account of what it did.

    Args:
        seed: the copy's.

    Attributes:
        made: how the labels were made, for the manifest.
        num_masks: masks so far.
        num_changed: how many of them are not as they were.
    """

    made: ClassVar[str]

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
    def report_unchanged(self, unchanged: UnchangedSite) -> None:
        """Say why no label was changed.

        Raises:
            DataError: if it was not by chance.
        """


class ContourNoiseChange(LabelChange):
    """Contour noise on every mask, in volumes slice by slice.

    Args:
        noise: the site's.
        choice: the federation's.
        seed: the copy's.
    """

    made = "contour noise"

    def __init__(self, noise: ContourNoise, choice: NoiseChoice, seed: int) -> None:
        super().__init__(seed)
        self._noise, self._choice = noise, choice
        self._pairs: list[_Pair] = []
        self._scales: list[float] = []

    def _changed(self, given: Mask, clean: Mask, description: SegmentationDescription, *purpose: str) -> Mask:
        """Draw on a picture, or on a volume slice by slice, as an annotator draws."""
        # MONAI takes 2 s, scikit-image more, which a copy with other noise need not wait for; also below.
        from ....transforms.noise.contour_evolution import ContourEvolution  # noqa: PLC0415

        extents = trained_extents(given, description)
        # Lengths are scaled with what is trained on, not with the file, of which a crop may cut off most.
        reference = REFERENCE_SIZE * mask_scale(_slice_shape(given, description)) / mask_scale(extents)
        evolution = ContourEvolution(self._noise.mean, self._noise.spread, reference_size=reference)
        evolution.set_random_state(seed=contour_noise_seed(self.seed, *purpose))
        noisy = _drawn_on_slices(given, description, evolution)
        self._pairs.append((noisy.classes, clean.classes))
        self._scales.append(mask_scale(extents))
        return noisy

    def manifest(self) -> Mapping[str, Any]:
        """Compare the noisy with the clean masks."""
        choice = self._choice
        return {
            "noise": measured_noise(
                self._pairs, self._noise, model=choice.model, exact=choice.exact, stratified=choice.stratified
            )
        }

    def asked_for(self) -> str | None:
        """Return the federation's noise and the site's own lengths."""
        return self._choice.asked_for(self._noise)

    def report_unchanged(self, unchanged: UnchangedSite) -> None:
        """Say what kept the contours in place."""
        report_unchanged_contours(unchanged, self._choice.limit, self._scales, is_empty=not self._annotated)


class MissingLesionsChange(LabelChange):
    """Masks that lack lesions, in volumes whole ones.

    Args:
        completeness: fraction of the lesions that stay.
        seed: the copy's.
    """

    made = "missing lesions"

    def __init__(self, completeness: float, seed: int) -> None:
        super().__init__(seed)
        self._completeness = completeness
        self._cases: list[tuple[Classes, Classes, Booleans]] = []

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
        """Count the lesions that stayed."""
        return {"missing_lesions": MissingLesionsManifest.measured(self._completeness, self._cases)}

    def asked_for(self) -> str | None:
        """Return the share, None for all lesions."""
        return f"completeness {self._completeness:g}" if self._completeness < 1 else None

    def report_unchanged(self, unchanged: UnchangedSite) -> None:
        """Say what kept all lesions."""
        refuse_unchanged_completeness(unchanged, self._completeness, [len(kept) for _, _, kept in self._cases])


class ProtocolChange(LabelChange):
    """Masks drawn by a protocol, in volumes slice by slice; those of training with its random part.

    Args:
        protocol: the site's.
        seed: the copy's.
    """

    made = "site protocol"

    def __init__(self, protocol: SiteProtocol, seed: int) -> None:
        super().__init__(seed)
        self._protocol = protocol
        self._pairs: list[_Pair] = []
        self._shapes: list[tuple[float, ...]] = []

    def _changed(self, given: Mask, clean: Mask, description: SegmentationDescription, *purpose: str) -> Mask:
        """Draw a picture, or a volume slice by slice, by the protocol; the purpose names site, section and image."""
        from ....transforms.noise.follow_protocol import FollowProtocol  # noqa: PLC0415

        is_training = purpose[1] == TRAINING
        extents = trained_extents(given, description)
        follow = FollowProtocol(self._protocol, systematic_only=not is_training, extents=extents)
        follow.set_random_state(seed=protocol_seed(self.seed, *purpose))
        drawn = _drawn_on_slices(given, description, follow)
        self._shapes.append(extents)
        if is_training:
            self._pairs.append((drawn.classes, clean.classes))
        return drawn

    def manifest(self) -> Mapping[str, Any]:
        """Compare the site's with the generic masks of training."""
        discs = [self._protocol.discs(shape) for shape in self._shapes]
        return {"protocol": ProtocolManifest.measured(self._protocol, self._pairs, discs)}

    def asked_for(self) -> str | None:
        """Return the protocol, None for generic labels."""
        return str(self._protocol) if self._protocol.kind != "none" else None

    def report_unchanged(self, unchanged: UnchangedSite) -> None:
        """Say what kept the masks as they were."""
        report_unchanged_protocol(unchanged, self._protocol, self._shapes, is_empty=not self._annotated)


def trained_extents(given: Mask, description: SegmentationDescription) -> tuple[float, ...]:
    """Return rows and columns of what is trained on, in pixels of a mask's slices.

    A crop trains on a part of the file, in its own pixels or in those that it is resampled to. Else all of the slice is
    trained on, at whatever size.
    """
    shape = _slice_shape(given, description)
    if given.affine is None or not isinstance(description, SliceDescription | VolumeDescription):
        return shape
    if description.size is None or description.fit != "crop":
        return shape
    from nibabel.orientations import axcodes2ornt, io_orientation, ornt_transform  # noqa: PLC0415

    from ....transforms.loading.volume_geometry import voxel_spacing  # noqa: PLC0415

    size: list[int | None] = list(description.size)
    if isinstance(description, SliceDescription):
        size.insert(description.slice_axis, None)
    steps, across = voxel_spacing(given.affine), annotated_axis(given, description)
    turns = ornt_transform(io_orientation(given.affine), axcodes2ornt(description.orientation))
    extents = []
    for axis, (oriented, _) in enumerate(turns):
        length = size[int(oriented)]
        if axis == across:
            continue
        assert length is not None, "only the axis across the slices has no size"
        step = steps[axis] if description.spacing is None else description.spacing[int(oriented)]
        extents.append(length * step / steps[axis])
    return tuple(extents)


def _slice_shape(given: Mask, description: SegmentationDescription) -> tuple[int, ...]:
    """The shape ``(H, W)`` of what an annotator draws on."""
    if given.affine is None:
        return given.classes.shape
    axis = annotated_axis(given, description)
    return tuple(length for index, length in enumerate(given.classes.shape) if index != axis % given.classes.ndim)


def _drawn_on_slices(given: Mask, description: SegmentationDescription, draw: Callable[[Classes], Any]) -> Mask:
    """Apply what draws on slices along the last axis to a mask whose slices lie along another, as its file has them."""
    axis = -1 if given.affine is None else annotated_axis(given, description)
    slices_last = np.ascontiguousarray(np.moveaxis(given.classes, axis, -1))
    return Mask(np.moveaxis(np.asarray(draw(slices_last)), -1, axis), given.affine)
