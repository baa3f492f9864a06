"""A run's model as a MONAI Bundle."""

import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from ...transforms.strict_files import JsonObject, read_json
from ..bundling.export import export_bundle as write_bundle
from ..bundling.metadata import Statements
from ..bundling.reading_code import PROGRAM
from ..bundling.source import read_source
from ..reports.html import html_paragraphs
from ..wording.shell_words import shell_word
from .runs import Run


@dataclass(frozen=True)
class Bundle:
    """An exported MONAI Bundle.

    Attributes:
        folder: the bundle's.
    """

    folder: Path

    @property
    def metadata(self) -> JsonObject:
        """What the bundle says of itself."""
        values: JsonObject = read_json(self.folder / "configs" / "metadata.json", "a bundle's metadata")
        return values

    @property
    def model_card(self) -> Path:
        """Who trained the model, what it scores, and what it is for."""
        return self.folder / "docs" / "README.md"

    @property
    def command(self) -> str:
        """How it is run, in a shell of this environment or of another with MONAI."""
        program = shell_word(self.folder / PROGRAM)
        return f"{_python()} {program} --dataset_dir IMAGES --output_dir RESULTS"

    def __str__(self) -> str:
        return f"{self.folder}: run it with: {self.command}"

    def _repr_html_(self) -> str:
        return html_paragraphs(self.model_card.read_text(encoding="utf-8").split("\n\n")[0], str(self))


def _python() -> str:
    """The interpreter that exports, by its whole path where a shell would start another one."""
    started = shutil.which("python")
    is_same = started is not None and Path(started).parent == Path(sys.executable).parent
    return "python" if is_same else shlex.quote(sys.executable)


def export_bundle(
    run: str | Path | Run,
    out: str | Path,
    *,
    data: str | Path | None = None,
    site: str | None = None,
    version: str = "0.1.0",
    intended_use: str = "",
    authors: str = "",
    licence: str | Path | None = None,
) -> Bundle:
    """Export a run's model with metadata, weights, model card and a configuration that segments a folder of images.

    Args:
        run: a run, its output folder, or an NVFlare workspace, of a site alone too.
        out: the bundle's folder, absent or empty.
        data: the federation's folder, or one with a ``data.yaml``; None for where the run had its data.
        site: export this site's own model, where the method has such; None for the global one.
        version: of the bundle.
        intended_use: what the model is for, and what not.
        authors: who made the model and holds the rights.
        licence: file with the terms of use; None for Apache-2.0.

    Raises:
        DataError: if there is no such model, nothing says what its data were, or there are files in `out`.
        OutputError: if the folder is not that of a run.

    >>> from fedannot.apps import export_bundle
    >>> export_bundle("nowhere", "bundle")
    Traceback (most recent call last):
    ...
    fedannot.transforms.data_error.DataError: nowhere: found no such folder; expected a run's output folder or an \
NVFlare workspace.
    """
    folder = run.folder if isinstance(run, Run) else Path(run)
    source = read_source(folder, None if data is None else Path(data), site)
    terms = None if licence is None else Path(licence)
    write_bundle(source, Path(out), Statements(version, intended_use, authors), terms)
    return Bundle(Path(out))
