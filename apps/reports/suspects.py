"""A site's labels that do not look right, for its data manager: found in a run's folders, and drawn."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from ...custom.data.json_record import read_record
from ...custom.data.label_suspicions import SUSPICIONS_FILE, LabelSuspicions, SuspectCase
from ...custom.data.participant_folder import with_private_folder
from ...custom.data.whole_files import private_folder, replaced
from ...transforms.errors import DataError
from ...transforms.loading.image_files import read_image
from ...transforms.natural_order import natural_order
from ...transforms.printable import drawable
from ..terminal import Terminal

mpl.use("Agg")

_COLUMNS = 6


def find_suspicions(folder: Path, site: str | None = None) -> list[LabelSuspicions]:
    """Find what sites suspect in a folder: a site's own, a run's output, or a workspace.

    Args:
        folder: where to look, at any depth.
        site: only this site's.

    Raises:
        DataError: if there is none, or a file cannot be read.
    """
    found = [record for file in _files(folder) if (record := read_record(file, LabelSuspicions))]
    chosen = [record for record in found if site in (None, record.site)]
    if not chosen:
        sites = ", ".join(record.site for record in found)
        what = f"found none of site {site!r}, but of: {sites}" if found else f"found no {SUSPICIONS_FILE} in it"
        raise DataError(f"{folder}: {what}; expected the folder of a run that selected samples (FedGSCA).")
    return sorted(chosen, key=lambda record: natural_order(record.site))


def has_suspicions(folder: Path) -> bool:
    """Return whether a folder holds any, at any depth; also where there is no such folder, which is another error."""
    return not folder.is_dir() or bool(_files(folder))


def _files(folder: Path) -> list[Path]:
    return sorted(file for place in with_private_folder(folder) for file in place.rglob(SUSPICIONS_FILE))


def print_suspects(record: LabelSuspicions, limit: int, console: Terminal) -> None:
    """Print a site's suspect cases that look like another class, at most so many."""
    listed = record.other_class
    console.print_named(
        record.site,
        f": {len(record.suspects)} labels ({100 * record.noise_level:.1f} %) do not look "
        f"right to the model of round {record.round_number} ({record.method}); {len(listed)} look like another class",
    )
    console.print(f"  images: {record.data}", soft_wrap=True)
    table = Table(box=None)
    for heading in ("image", "given", "looks like", "sure, %", "trained as"):
        table.add_column(heading, justify="right" if heading == "sure, %" else "left")
    for suspect in listed[:limit]:
        trained = suspect.predicted if suspect.relabelled else "not used"
        table.add_row(suspect.image, suspect.given, suspect.predicted, f"{100 * suspect.confidence:.0f}", trained)
    console.print(table)
    if len(listed) > limit:
        console.print(f"  … and {len(listed) - limit} more (--limit)")


def draw_suspects(record: LabelSuspicions, suspects: Sequence[SuspectCase], file: Path) -> Path:
    """Draw suspect cases with their given class and the one that the model takes them for; shows patients' images.

    Args:
        record: what they are of.
        suspects: those to draw.
        file: the picture.

    Raises:
        DataError: if an image cannot be read.
    """
    rows = -(-len(suspects) // _COLUMNS)
    figure = Figure(figsize=(2.2 * _COLUMNS, 2.7 * max(rows, 1)), layout="constrained")
    grid = figure.subplots(max(rows, 1), _COLUMNS, squeeze=False).ravel()
    for axes in grid:
        axes.axis("off")
    for axes, suspect in zip(grid, suspects, strict=False):
        image = np.moveaxis(read_image(Path(record.data) / suspect.image, channels=3), 0, -1)
        low, high = np.percentile(image, (1, 99))
        axes.imshow(np.clip((image - low) / max(high - low, 1e-6), 0, 1))
        axes.set_title(
            f"{drawable(Path(suspect.image).name)}\ngiven: {drawable(suspect.given)}\n"
            f"{drawable(suspect.predicted)}? ({suspect.confidence:.2f})",
            fontsize=7,
        )
    private_folder(file.parent)
    with replaced(file) as temporary:
        figure.savefig(temporary, dpi=110)
    return file
