"""The federations of a paper's table: imported and made noisy as in the paper, or generated images in their place."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...custom.data.noise.choice import COMPLETENESS, LABELS, PROTOCOLS, NoiseChoice
from ...custom.data.noise.mislabelled_copy import mislabel_cases
from ...custom.data.noise.noisy_copy import add_contour_noise, follow_protocols, leave_lesions_out
from ...custom.data.phantoms.choice import DRAWINGS
from ...custom.data.phantoms.drawing import Drawing
from ...custom.data.phantoms.writer import write_phantom_federation
from ...custom.data.whole_files import private_folder
from ..functions.data import import_found
from ..importing.find import Named, find_datasets
from ..importing.layouts import DATASETS
from ..importing.options import ImportOptions
from ..runs.progress import Progress
from .reading import NamedTable, PaperError
from .records import Condition, PaperData
from .small import SMALL

# Of split, noise and generated images.
_SEED = 0
# Below the folder of all federations: those without noise.
_IMPORTED = "imported"


def check_sources(named: NamedTable, folder: Path) -> None:
    """Check that all data sets that a table needs are in a folder, before the first of them is read.

    Args:
        named: the table, with the conditions that are run.
        folder: with a folder for each published data set, by the name of its layout; of a single one its own will do.

    Raises:
        PaperError: if one is absent, with the layout that is expected.
    """
    wanted = dict.fromkeys(
        source for key in named.conditions for source in named.paper.data[named.condition(key).data].sources
    )
    if missing := [name for name in wanted if not _source_folder(folder, name, only=len(wanted) == 1).is_dir()]:
        expected = "\n".join(f"{folder / name}: {DATASETS[name].title}\n{DATASETS[name].expected}" for name in missing)
        raise PaperError(
            f"{named.name} needs data that you get from their publishers (docs/datasets.md); {folder} lacks "
            f"{', '.join(missing)}. Unpack each unchanged into a folder of its own; expected:\n{expected}"
        )


def _source_folder(folder: Path, name: str, *, only: bool) -> Path:
    own = folder / name
    return folder if only and not own.is_dir() and folder.is_dir() else own


def make_federation(named: NamedTable, key: str, data: Path, out: Path, progress: Progress) -> Path:
    """Make the federation of a condition, where it is not there from an earlier call, and return its folder.

    Args:
        named: the table.
        key: of the condition.
        data: folder with the published data sets, see :func:`check_sources`.
        out: folder of all federations; one appears when it is complete.
        progress: is told what is being made.

    Raises:
        DataError: if a data set cannot be imported.
    """
    condition = named.condition(key)
    described = named.paper.data[condition.data]
    clean = out / _IMPORTED / condition.data
    if not clean.exists():
        progress.tell(f"Importing {described.what}.")
        only = len({source for other in named.conditions for source in _sources(named, other)}) == 1
        _import(described, data, clean, progress, only=only)
    if condition.noise is None:
        return clean
    noisy = out / key
    if not noisy.exists():
        progress.tell(f"{condition.title}: making the annotations {condition.noise}.")
        _add_noise(clean, noisy, condition.noise, described.confusions, progress)
    return noisy


def _sources(named: NamedTable, key: str) -> tuple[str, ...]:
    return named.paper.data[named.condition(key).data].sources


def _import(described: PaperData, data: Path, out: Path, progress: Progress, *, only: bool) -> None:
    names = [f"{name}={_source_folder(data, name, only=only)}" for name in described.sources]
    keys = {key: tuple(value) if isinstance(value, list) else value for key, value in described.keys.items()}
    private_folder(out.parent)
    import_found(
        find_datasets(Named(named=names, seed=_SEED)),
        out,
        sites=described.sites,
        test=described.test,
        test_sources=described.test_sources,
        parts_patients=described.parts_patients,
        validation=described.validation,
        options=ImportOptions(pipeline=described.pipeline, keys=keys),
        seed=_SEED,
        on_progress=progress,
    )


def _add_noise(clean: Path, noisy: Path, noise: str, confusions: str | None, progress: Progress) -> None:
    watch = progress.state
    if noise.startswith(COMPLETENESS):
        leave_lesions_out(clean, noisy, completeness_of(noise), seed=_SEED, watch=watch)
    elif noise.startswith(LABELS):
        mislabel_cases(clean, noisy, _rest(noise, LABELS), table=confusions, seed=_SEED, watch=watch)
    elif noise.startswith(PROTOCOLS):
        follow_protocols(clean, noisy, _rest(noise, PROTOCOLS), seed=_SEED, watch=watch)
    else:
        add_contour_noise(clean, noisy, NoiseChoice(noise), seed=_SEED, watch=watch)


def completeness_of(noise: str) -> list[float]:
    """Return the fractions of lesions that sites annotate, of ``completeness 0.4,0.6``."""
    return [float(fraction) for fraction in _rest(noise, COMPLETENESS).split(",")]


def _rest(noise: str, kind: str) -> str:
    return noise.removeprefix(kind).strip()


# What is wrong with the annotations of the generated images, by their task.
_IMPERFECTIONS: dict[str, Callable[[str], dict[str, Any]]] = {
    # Of few sites an exact number draws larger, with strengths from half the limit: some noise in any case.
    "lesions2d": lambda noise: {"noise": noise, "exact": True, "stratified": 0.5},
    "lesions3d": lambda noise: {"completeness": completeness_of(noise)},
    "chambers3d": lambda noise: {"protocols": _rest(noise, PROTOCOLS)},
    "cells2d": lambda noise: {"label_noise": _rest(noise, LABELS)},
}


def phantom_of(described: PaperData, condition: Condition) -> Drawing:
    """Return the generated images that stand for a condition's, with its noise."""
    noise = condition.phantom_noise or condition.noise
    return DRAWINGS[described.phantom](**({} if noise is None else _IMPERFECTIONS[described.phantom](noise)))


def make_phantom(named: NamedTable, key: str, out: Path, progress: Progress) -> Path:
    """Make a small generated federation in place of a condition's, where it is not there, and return its folder."""
    condition = named.condition(key)
    described = named.paper.data[condition.data]
    folder, small = out / key, SMALL[described.phantom]
    if not folder.exists():
        progress.tell(f"{condition.title}: generating images.")
        private_folder(out)
        write_phantom_federation(
            folder,
            phantom_of(described, condition),
            num_sites=described.phantom_sites,
            seed=_SEED,
            images_per_site=small.images_per_site,
            test_images=small.test_images,
            watch=progress.state,
        )
    return folder
