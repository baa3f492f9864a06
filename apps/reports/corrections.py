"""A site's corrected annotations for its data manager: what was changed, before and after, and back again."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from ...custom.data.corrections import CORRECTIONS_FILE, CorrectedLabel, Corrections, read_corrections
from ...custom.data.description import SegmentationDescription, read_site_description
from ...custom.data.masks import annotated_axis, plain_name, read_classes
from ...custom.data.whole_files import replaced
from ...custom.run.state import SUMMARY_FILE
from ...transforms.errors import DataError
from ...transforms.loading.image_files import read_image
from ...transforms.loading.volume_files import is_volume, read_volume
from ...transforms.natural_order import natural_order
from ...transforms.printable import drawable
from .output import read_summary

mpl.use("Agg")

PICTURE_FOLDER = "pictures"
_PLANES_PER_CASE = 4
_GIVEN, _ADDED = "tab:cyan", "tab:red"


@dataclass(frozen=True)
class SiteCorrections:
    """The corrections of one site and the folder that they lie in."""

    folder: Path
    corrections: Corrections


def find_corrections(folder: Path) -> list[SiteCorrections]:
    """Find all corrections in a folder: a site's own, a run's output, or a workspace.

    Raises:
        DataError: if there are none, or one cannot be read.
    """
    found = []
    for file in sorted(folder.rglob(CORRECTIONS_FILE)):
        corrections = read_corrections(file.parent)
        if corrections is not None:
            found.append(SiteCorrections(file.parent, corrections))
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder; expected that of a run, or a site's workspace.")
    if not found:
        raise DataError(
            f"{folder}: found no {CORRECTIONS_FILE} in it; expected the folder of a run in which annotations were "
            "corrected, a site's workspace, or the corrections themselves."
        )
    return sorted(found, key=lambda one: (natural_order(one.corrections.site), str(one.folder)))


def corrected_nothing(folder: Path, site: str | None = None) -> bool:
    """Return whether a folder is that of a run, or of one of its sites, in which no annotation was corrected.

    Args:
        folder: as for :func:`find_corrections`.
        site: only this site's.
    """
    sites = {app.name.removeprefix("app_") for app in folder.glob("**/app_*") if app.is_dir()} - {"server"}
    if (folder / SUMMARY_FILE).is_file():
        sites |= set(read_summary(folder).sites)
    if not sites or site not in {None, *sites}:
        return False
    records = (read_corrections(file.parent) for file in folder.rglob(CORRECTIONS_FILE))
    return all(record is None or site not in (None, record.site) for record in records)


def draw_corrections(site: SiteCorrections, out: Path, names: Sequence[str] | None = None) -> list[Path]:
    """Draw the annotation before and after the correction, a picture for every corrected case.

    Args:
        site: the corrections of a site; its data must lie where they lay.
        out: folder of the pictures, made if need be.
        names: given annotations, by their path in the site's data or their file name; None for all that are corrected.

    Returns:
        The files.

    Raises:
        DataError: if a file cannot be read or a name is not that of a corrected annotation.
    """
    corrected = [label for label in site.corrections.labels if label.file]
    if names is not None:
        known = [name for label in corrected for name in (label.label, Path(label.label).name)]
        if unknown := [name for name in names if name not in known]:
            listed = ", ".join(label.label for label in corrected) or "none"
            raise DataError(f"{site.folder}: found no corrected annotation {unknown}; expected one of: {listed}.")
        corrected = [label for label in corrected if {label.label, Path(label.label).name} & set(names)]
    data = Path(site.corrections.data)
    description = read_site_description(data)
    if not isinstance(description, SegmentationDescription):
        raise DataError(f"{data}: has the pipeline {description.pipeline!r}; expected one with masks.")
    out.mkdir(parents=True, exist_ok=True)
    return [_draw_case(site, label, description, out) for label in corrected]


def _draw_case(site: SiteCorrections, label: CorrectedLabel, description: SegmentationDescription, out: Path) -> Path:
    """Draw the planes of a case with the largest additions: above the given annotation, below the corrected one."""
    data = Path(site.corrections.data)
    image, given, corrected, aspect = _planes(
        data / label.image, data / label.label, site.folder / label.file, description
    )
    added = (given == 0) & (corrected != 0)
    sizes = added.sum(axis=(1, 2))
    chosen = sorted(np.argsort(-sizes, kind="stable")[: min(_PLANES_PER_CASE, int((sizes > 0).sum()))].tolist())
    figure = Figure(figsize=(3.2 * len(chosen), 7.2), layout="constrained")
    rows = figure.subplots(2, len(chosen), squeeze=False)
    low, high = (float(np.quantile(image, share)) for share in (0.01, 0.99))
    for column, plane in enumerate(chosen):
        for row, title in enumerate(("given", "corrected")):
            axes = rows[row, column]
            pixels = ((image[plane] - low) / max(high - low, 1e-6)).clip(0, 1)
            axes.imshow(pixels, cmap="gray", aspect=aspect)
            _outline(axes, given[plane] != 0, _GIVEN)
            if row:
                shade = np.zeros((*added[plane].shape, 4))
                shade[added[plane]] = mpl.colors.to_rgba(_ADDED, 0.45)
                axes.imshow(shade, aspect=aspect)
                _outline(axes, added[plane], _ADDED)
            axes.set_title(f"{title}, slice {plane + 1}" if len(image) > 1 else title, fontsize=9)
            axes.set_xticks([])
            axes.set_yticks([])
    state = ", reverted" if label.reverted else ""
    figure.suptitle(
        f"{drawable(f'{site.corrections.site}: {label.label}{state}')}\n"
        f"{label.added_voxels} voxels added, {label.new_lesions} new lesions; {site.corrections.method}, before "
        f"round {site.corrections.round_number}, probability above {site.corrections.threshold:g}",
        fontsize=9,
    )
    handles = [Line2D([], [], color=_GIVEN, label="given annotation"), Patch(color=_ADDED, alpha=0.6, label="added")]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=9)
    file = out / f"{plain_name(Path(label.file))}.png"
    with replaced(file) as temporary:
        figure.savefig(temporary, dpi=100)
    return file


def _planes(
    image_file: Path, given_file: Path, corrected_file: Path, description: SegmentationDescription
) -> tuple[NDArray[Any], NDArray[np.uint8], NDArray[np.uint8], float]:
    """Image and both annotations as planes ``(P, H, W[, 3])``, and the height of a pixel over its width."""
    given, corrected = (read_classes(file, description) for file in (given_file, corrected_file))
    if given.affine is None or not is_volume(image_file):
        pixels = np.moveaxis(read_image(image_file, description.in_channels), 0, -1)
        pixels = pixels if pixels.shape[-1] == 3 else pixels[..., 0]
        return pixels[None], given.classes[None], corrected.classes[None], 1.0
    axis = annotated_axis(given, description)
    volume = read_volume(image_file)
    # Rows of a picture go down, axes of a volume to the right and up.
    image, before, after = (
        np.rot90(np.moveaxis(array, axis, 0), axes=(1, 2))
        for array in (volume.voxels, given.classes, corrected.classes)
    )
    steps = [step for index, step in enumerate(volume.spacing) if index != axis]
    return image, before, after, steps[1] / steps[0]


def _outline(axes: Any, mask: NDArray[np.bool_], colour: str) -> None:
    if mask.any() and not mask.all():
        axes.contour(mask, levels=[0.5], colors=colour, linewidths=1.2)
