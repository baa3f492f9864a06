"""A site's labels that do not look right, for its data manager: listed and drawn."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from ...custom.corrections.kinds import CasesRelabelled
from ...custom.corrections.model import CaseCorrection, Corrections
from ...custom.data.whole_files import private_folder, replaced
from ...transforms.loading.image_files import read_image
from ...transforms.printable import drawable
from ..terminal import Terminal
from .correction_changes import CaseChange
from .correction_lists import trained_as

mpl.use("Agg")

_COLUMNS = 6


def other_class(record: Corrections) -> tuple[CaseCorrection, ...]:
    """Return the doubted cases that the model takes for another class than the given one, the most confident first.

    Of the other doubted cases it is only not confident.
    """
    cases = [
        case for case in record.cases if case.new_class is not None and case.new_class.predicted != case.new_class.given
    ]
    # Of equals the least probable label stays first.
    return tuple(sorted(cases, key=_doubt))


def _doubt(case: CaseCorrection) -> float:
    confidence = None if case.new_class is None else case.new_class.confidence
    return 0.0 if confidence is None else -confidence


def print_suspects(record: Corrections, limit: int, console: Terminal) -> None:
    """Print a site's doubted cases that look like another class, at most so many."""
    listed, relabelled = other_class(record), record.of(CasesRelabelled)
    noise_level = 0.0 if relabelled is None else relabelled.noise_level
    console.print_named(
        record.site,
        f": {len(record.cases)} labels ({100 * noise_level:z.1f} %) do not look right to the model of round "
        f"{record.round_number} ({record.provenance.method}); {len(listed)} look like another class",
    )
    console.print(f"  images: {record.data}", soft_wrap=True)
    table = Table(box=None)
    for heading in ("image", "given", "looks like", "confidence, %", "trained as"):
        table.add_column(heading, justify="right" if heading == "confidence, %" else "left")
    for case in listed[:limit]:
        doubted = case.new_class
        assert doubted is not None
        confidence = "-" if doubted.confidence is None else f"{100 * doubted.confidence:z.0f}"
        table.add_row(case.image, doubted.given, doubted.predicted, confidence, trained_as(CaseChange(case)))
    console.print(table)
    if len(listed) > limit:
        console.print(f"  … and {len(listed) - limit} more (--limit)")


def draw_suspects(record: Corrections, suspects: Sequence[CaseCorrection], file: Path) -> Path:
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
        doubted = suspect.new_class
        assert doubted is not None
        confidence = "" if doubted.confidence is None else f" ({doubted.confidence:z.2f})"
        axes.imshow(np.clip((image - low) / max(high - low, 1e-6), 0, 1))
        axes.set_title(
            f"{drawable(Path(suspect.image).name)}\ngiven: {drawable(doubted.given)}\n"
            f"{drawable(doubted.predicted)}?{confidence}",
            fontsize=7,
        )
    private_folder(file.parent)
    with replaced(file) as temporary:
        figure.savefig(temporary, dpi=110)
    return file
