"""Where a site's data lie, and the server's test set: the same search in the simulator and in a hospital."""

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from ...transforms.errors import DataError
from .phantoms.settings import EmbeddedSettings

DATA_VARIABLE = "FEDANNOT_DATA"
_TEST = "test"


@dataclass(frozen=True)
class DataLocation:
    """Folder with a ``data.yaml``, and whether it is the embedded phantom."""

    folder: Path
    embedded: bool


def locate_site_data(
    site: str,
    data: str,
    embedded: EmbeddedSettings | None,
    config_folder: Path,
    run_folder: Path,
    sites: Collection[str] = (),
) -> DataLocation:
    """Find a site's data.

    First the environment variable ``FEDANNOT_DATA``, then ``data.yaml`` in the site's configuration folder, then the
    job's setting ``data``, at last the embedded phantom, which the site makes for itself. The variable and the setting
    name a federation's folder or a site's own.

    Args:
        site: the site's name.
        data: the job's setting ``data``; empty names nothing.
        embedded: the settings of the embedded phantom; None where the job asks for data.
        config_folder: NVFlare's ``local`` folder of the site.
        run_folder: where the embedded phantom is made.
        sites: all sites of the run, as far as the site knows them; they say which part of the phantom is whose.

    Raises:
        DataError: if the named folder has no data of the site, or none is named where the job asks for one.
    """
    for source, folder in _named_folders(data, config_folder):
        result = _in_folder(folder, site)
        if result is None:
            raise DataError(
                f"Site {site}: {source} names {folder}; expected there a data.yaml or a folder {site!r} that has one."
            )
        return DataLocation(result, embedded=False)
    return DataLocation(_embedded_site(site, embedded, run_folder, sites), embedded=True)


def locate_test_data(
    data: str, embedded: EmbeddedSettings | None, config_folder: Path, run_folder: Path
) -> Path | None:
    """Find the server's clean test set by the same search, or return None if it has none.

    Args:
        data: the job's setting ``data``; empty names nothing.
        embedded: the settings of the embedded phantom; None unless all sites run on it.
        config_folder: NVFlare's ``local`` folder of the server.
        run_folder: where the embedded test set is made.

    Raises:
        DataError: if the server's configuration folder names data that do not exist.
    """
    for _, folder in _named_folders(data, config_folder):
        return _in_folder(folder, _TEST, itself=folder == config_folder)
    if embedded is None:
        return None
    # Phantoms take a second, and a site with data of its own has none.
    from .phantoms.choice import write_embedded_test  # noqa: PLC0415

    folder = run_folder / "embedded" / _TEST
    if not folder.exists():
        write_embedded_test(folder, embedded)
    return folder


def names_data(data: str, config_folder: Path) -> bool:
    """Return whether a participant names data of its own, so that none needs the embedded phantom.

    Args:
        data: the job's setting ``data``; empty names nothing.
        config_folder: NVFlare's ``local`` folder of the participant.
    """
    return bool(_named_folders(data, config_folder))


def _named_folders(data: str, config_folder: Path) -> list[tuple[str, Path]]:
    named: list[tuple[str, Path]] = []
    if variable := os.environ.get(DATA_VARIABLE):
        named.append((f"the environment variable {DATA_VARIABLE}", Path(variable)))
    if (config_folder / "data.yaml").is_file():
        named.append(("the site's configuration", config_folder))
    if data:
        named.append(("the job's setting 'data'", Path(data)))
    return named


def _in_folder(folder: Path, name: str, *, itself: bool = True) -> Path | None:
    if (folder / name / "data.yaml").is_file():
        return folder / name
    if itself and (folder / "data.yaml").is_file():
        return folder
    return None


def _embedded_site(site: str, embedded: EmbeddedSettings | None, run_folder: Path, sites: Collection[str]) -> Path:
    # As above.
    from .phantoms.choice import write_embedded_site  # noqa: PLC0415
    from .phantoms.drawing import phantom_index  # noqa: PLC0415

    if embedded is None:
        raise _unnamed(site, "the job does not train on the embedded phantom (setting 'data_required')")
    index = phantom_index(site, embedded.sites, sites)
    if index is None:
        of_run = f" for the {len(sites)} sites of the run" if site in sites else ""
        raise _unnamed(site, f"the embedded phantom has only site-1 to site-{embedded.sites}{of_run}")
    folder = run_folder / "embedded" / site
    if not folder.exists():
        write_embedded_site(folder, index, embedded)
    return folder


def _unnamed(site: str, reason: str) -> DataError:
    return DataError(
        f"Site {site}: no data are named (environment variable {DATA_VARIABLE}, local/data.yaml or the job's setting "
        f"'data'), and {reason}."
    )
