"""Pictures of a site's annotations before and after: corrected ones, and those of which something was undone."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...custom.data.corrections import CorrectedLabel
from ...custom.data.description import SegmentationDescription
from ...custom.data.given_annotations import find_given
from ...custom.data.masks import annotated_axis, plain_name, read_classes
from ...custom.data.site_data import LoadedCase
from ...custom.data.undone_files import segmentation_description
from ...custom.data.whole_files import private_folder
from ...transforms.array_types import Array, Classes
from ...transforms.ignored_label import IGNORED_LABEL
from ...transforms.loading.image_files import read_image
from ...transforms.loading.volume_files import is_volume, read_volume
from .before_and_after import BeforeAndAfter, draw_before_and_after
from .corrections import SiteCorrections, SiteUndone
from .undone_changes import CaseChange, count, moves_in_words, read_changes, relabelled_in_words

PICTURE_FOLDER = "pictures"


def draw_record(site: SiteCorrections | SiteUndone, out: Path, names: Sequence[str] | None = None) -> list[Path]:
    """Draw annotations before and after, a picture for every case that changes; shows patients' images.

    Args:
        site: what a site corrected or undid; its data must lie where they lay.
        out: folder of the pictures, made if need be.
        names: given annotations, by their path in the site's data or their file name; None for all that change.

    Returns:
        The files; of what was undone those first that change most.

    Raises:
        DataError: if a file cannot be read or a name is not that of exactly one annotation.
    """
    private_folder(out)
    return _draw_corrections(site, out, names) if isinstance(site, SiteCorrections) else _draw_undone(site, out, names)


def _draw_corrections(site: SiteCorrections, out: Path, names: Sequence[str] | None) -> list[Path]:
    corrected = [label for label in site.corrections.labels if label.file]
    if names is not None:
        known = [label.label for label in corrected]
        chosen = find_given(known, names, what="corrected", source=site.folder)
        corrected = [label for label in corrected if label.label in chosen]
    description = segmentation_description(Path(site.corrections.data), site.site)
    return [_draw_corrected(site, label, description, out) for label in corrected]


def _draw_corrected(
    site: SiteCorrections, label: CorrectedLabel, description: SegmentationDescription, out: Path
) -> Path:
    """Draw the planes of a case with the largest additions."""
    made, data = site.corrections, Path(site.corrections.data)
    planes = _planes_of_files(data / label.image, data / label.label, site.folder / label.counting_file, description)
    heading = (
        f"{site.site}: {label.label}{', reverted' if label.reverted else ', waits' if label.waits else ''}",
        f"{label.counting_voxels} voxels added, {label.new_lesions} new lesions; {made.method}, before "
        f"round {made.round_number}, {'probability above' if made.smallest_lesion is None else 'lesions above'} "
        f"{made.threshold:g}",
    )
    file = out / f"{plain_name(Path(label.file))}.png"
    return draw_before_and_after(file, planes, heading, after="corrected", marked_as="added")


def _draw_undone(site: SiteUndone, out: Path, names: Sequence[str] | None) -> list[Path]:
    known = [case.label for case in site.undone.cases]
    chosen = None if names is None else find_given(known, names, what="undone", source=site.folder)
    files = []
    with read_changes(site) as changes:
        moves = [*moves_in_words(site.undone, changes.description), *relabelled_in_words(site.undone)]
        # A case has the same number whichever are drawn.
        ranked = sorted(changes.cases(), key=lambda change: -change.changed_pixels)
        for rank, change in enumerate(ranked, start=1):
            if bool(change.changed_pixels) if chosen is None else change.record.label in chosen:
                file = out / f"{rank:04d}_{plain_name(Path(change.record.label))}.png"
                files.append(_draw_change(site, change, changes.labels(change.record), moves, file))
    return files


def _draw_change(
    site: SiteUndone, change: CaseChange, labels: tuple[LoadedCase, Classes], moves: Sequence[str], file: Path
) -> Path:
    """Draw the planes of a case that change most, as the network sees them."""
    case, counts = labels
    heading = (
        f"{site.site}: {change.record.label}{', reverted' if change.record.reverted else ''}",
        f"{count(change.moved_pixels or 0, 'pixel')} of another class, "
        f"{count(change.relabelled_objects, 'object')} relabelled, {change.record.ignored_objects} ignored; "
        f"{site.undone.method}, before round {site.undone.round_number}",
        *moves,
    )
    planes = _planes_of_case(case, counts, is_moved=bool(moves))
    return draw_before_and_after(file, planes, heading, after="undone", marked_as="ignored in training")


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
    return BeforeAndAfter(_without_single_channel(image), given, moved, ignored, aspect)


def _planes_of_files(
    image_file: Path, given_file: Path, corrected_file: Path, description: SegmentationDescription
) -> BeforeAndAfter:
    """A case's image and annotations as they lie in their files, as planes."""
    given, corrected = (read_classes(file, description) for file in (given_file, corrected_file))
    added = (given.classes == 0) & (corrected.classes != 0)
    if given.affine is None or not is_volume(image_file):
        pixels = np.moveaxis(read_image(image_file, description.in_channels), 0, -1)
        return BeforeAndAfter(_without_single_channel(pixels[None]), given.classes[None], None, added[None], 1.0)
    axis = annotated_axis(given, description)
    volume = read_volume(image_file)
    image, before, marked = (
        _as_volumes_are_shown(np.moveaxis(array, axis, 0)) for array in (volume.voxels, given.classes, added)
    )
    steps = [step for index, step in enumerate(volume.spacing) if index != axis]
    return BeforeAndAfter(image, before, None, marked, steps[1] / steps[0])


def _as_volumes_are_shown(planes: Array) -> Array:
    """Rows of a picture go down, axes of a volume to the right and up."""
    return np.rot90(planes, axes=(1, 2))


def _without_single_channel(pixels: Array) -> Array:
    return pixels if pixels.shape[-1] == 3 else pixels[..., 0]
