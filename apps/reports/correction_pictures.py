"""Pictures of a site's annotations before and after their correction."""

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from ...custom.corrections.case_states import cases_named
from ...custom.corrections.in_files import segmentation_description
from ...custom.corrections.kinds import BoundaryShift, CasesRelabelled, MaskShift, ObjectsRelabelled, PixelsRelabelled
from ...custom.corrections.model import CORRECTIONS_FILE, CaseCorrection
from ...custom.corrections.store import StoredCorrections
from ...custom.data.description import SegmentationDescription
from ...custom.data.masks import Mask, annotated_axis, plain_name, read_classes, turned_to
from ...custom.data.site_data import LoadedCase
from ...custom.data.whole_files import private_folder
from ...transforms.array_types import Array, Classes
from ...transforms.errors import DataError
from ...transforms.ignored_label import IGNORED_LABEL
from ...transforms.loading.image_files import read_image
from ...transforms.loading.volume_files import is_volume, read_first_channel
from .before_and_after import BeforeAndAfter, draw_before_and_after
from .correction_changes import CaseChange, count, in_words, read_changes
from .shown_channels import shown_channels

PICTURE_FOLDER = "pictures"


def draw_record(site: StoredCorrections, out: Path, names: Sequence[str] | None = None) -> list[Path]:
    """Draw annotations before and after, a picture for every case that changes; shows patients' images.

    Args:
        site: its corrections; its data must lie where they lay.
        out: folder of the pictures, made if need be.
        names: given annotations, by their path in the site's data or their file name; None for all that change.

    Returns:
        The files; those that change most first, where contours or objects were changed.

    Raises:
        DataError: if a file cannot be read, a name is not that of exactly one annotation, or cases have classes and no
            masks.
    """
    if site.corrections.of(CasesRelabelled) is not None:
        raise DataError(
            f"{site.folder}: its cases have classes and no masks; draw them with: fedannot suspects --pictures"
        )
    private_folder(out)
    chosen = None if names is None else cases_named(site.corrections, names, site.folder / CORRECTIONS_FILE)
    masks = [case for case in site.corrections.cases if case.mask is not None]
    if masks:
        description = segmentation_description(Path(site.corrections.data), site.site)
        cases = masks if chosen is None else [case for case in masks if case.name in chosen]
        return [_draw_new_mask(site, case, description, out) for case in cases]
    return _draw_changes(site, out, chosen) if site.corrections.cases else []


def _draw_new_mask(
    site: StoredCorrections, case: CaseCorrection, description: SegmentationDescription, out: Path
) -> Path:
    """Draw the planes of a case with the largest additions."""
    made, data, mask = site.corrections, Path(site.corrections.data), case.mask
    assert mask is not None
    planes = _planes_of_files(data / case.image, data / case.label, site.folder / mask.counting_file, description)
    heading = (
        f"{site.site}: {case.label}{_state_of(case)}",
        f"{mask.counting_voxels} voxels added, {mask.new_lesions} new lesions; {_made(site)}",
        *in_words(made, description),
    )
    file = out / f"{plain_name(Path(mask.file))}.png"
    return draw_before_and_after(file, planes, heading, after="corrected", marked_as="added")


def _draw_changes(site: StoredCorrections, out: Path, chosen: Collection[str] | None) -> list[Path]:
    files = []
    changes = read_changes(site)
    applied = site.corrections.only(MaskShift, BoundaryShift, ObjectsRelabelled, PixelsRelabelled)
    words = in_words(applied, changes.description) if applied.every else []
    # A case has the same number whichever are drawn.
    ranked = sorted(changes.cases(), key=lambda change: -change.changed_pixels)
    for rank, change in enumerate(ranked, start=1):
        if bool(change.changed_pixels) if chosen is None else change.record.name in chosen:
            file = out / f"{rank:04d}_{plain_name(Path(change.record.name))}.png"
            files.append(_draw_change(site, change, changes.labels(change.record), words, file))
    return files


def _draw_change(
    site: StoredCorrections,
    change: CaseChange,
    labels: tuple[LoadedCase, Classes],
    words: Sequence[str],
    file: Path,
) -> Path:
    """Draw the planes of a case that change most, as the network sees them."""
    case, counts = labels
    heading = (
        f"{site.site}: {change.record.name}{_state_of(change.record)}",
        f"{count(change.moved_pixels or 0, 'pixel')} of another class, "
        f"{count(change.relabelled_objects, 'object')} relabelled, {change.record.ignored_objects} ignored; "
        f"{_made(site)}",
        *words,
    )
    planes = _planes_of_case(case, counts, is_moved=bool(words))
    return draw_before_and_after(file, planes, heading, after="corrected", marked_as="ignored in training")


def _state_of(case: CaseCorrection) -> str:
    return "" if case.is_active else f", {case.state}"


def _made(site: StoredCorrections) -> str:
    return f"{site.corrections.provenance.method}, before round {site.corrections.round_number}"


def _planes_of_case(case: LoadedCase, counts: Classes, *, is_moved: bool) -> BeforeAndAfter:
    """A case's image and annotations ``(S, H, W[, D])`` as planes."""
    image, given = np.moveaxis(case.image.numpy(), 1, -1), case.label.numpy()
    if given.ndim == 4:
        # Of a whole volume the planes across its last axis.
        image, given, counts = (np.moveaxis(array[0], 2, 0) for array in (image, given, counts))
    aspect = 1.0
    if case.spacing is not None:
        image, given, counts = (_as_volumes_are_shown(array) for array in (image, given, counts))
        aspect = case.spacing[1] / case.spacing[0]
    ignored = counts == IGNORED_LABEL
    moved = np.where(ignored, 0, counts) if is_moved else None
    image = shown_channels(image, of_volume=case.spacing is not None)
    return BeforeAndAfter(image, given, moved, ignored, aspect)


def _planes_of_files(
    image_file: Path, given_file: Path, corrected_file: Path, description: SegmentationDescription
) -> BeforeAndAfter:
    """A case's image and annotations as they lie in their files, as planes."""
    given, corrected = (read_classes(file, description) for file in (given_file, corrected_file))
    added = (given.classes == 0) & (corrected.classes != 0)
    if given.affine is None or not is_volume(image_file):
        pixels = np.moveaxis(read_image(image_file, description.shown_channels), 0, -1)[None]
        pixels = shown_channels(pixels, of_volume=False)
        return BeforeAndAfter(pixels, given.classes[None], None, added[None], 1.0)
    volume = read_first_channel(image_file)
    # A mask may be stored in another orientation than its image.
    marks = turned_to(Mask(added.astype(np.uint8), given.affine), volume.affine)
    given, added = turned_to(given, volume.affine), marks.classes != 0
    axis = annotated_axis(given, description)
    image, before, marked = (
        _as_volumes_are_shown(np.moveaxis(array, axis, 0)) for array in (volume.voxels, given.classes, added)
    )
    steps = [step for index, step in enumerate(volume.spacing) if index != axis]
    return BeforeAndAfter(image, before, None, marked, steps[1] / steps[0])


def _as_volumes_are_shown(planes: Array) -> Array:
    """Rows of a picture go down, axes of a volume to the right and up."""
    return np.rot90(planes, axes=(1, 2))
