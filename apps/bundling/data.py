"""What a run's data were, for those who use its model elsewhere."""

from collections.abc import Iterator
from pathlib import Path

from ...custom.compatibility import check_compatibility, check_network
from ...custom.data.description import DESCRIPTION_FILE, AnyDescription, read_site_description
from ...custom.data.description_values import OF_FILES, description_of_values
from ...custom.data.federation import FEDERATION_FILE, read_federation
from ...custom.data.phantoms.choice import embedded_description
from ...custom.run.summary_record import Summary
from ...custom.settings import RunSettings
from ...transforms.errors import DataError
from ..reports.preparations import check_preparation


def find_description(
    run: Path, data: Path | None, site: str | None, summary: Summary | None, settings: RunSettings
) -> tuple[AnyDescription, str | None]:
    """Find what describes a run's data, and the name of the federation where it is known.

    First the named folder, then the federation in the run's output folder, then the one that the run was given, then
    the site's configuration in an NVFlare workspace, then the phantom that participants made for themselves, at last
    what all sites reported of themselves, which is without names of classes.

    Args:
        run: folder of the run.
        data: a federation's folder, or one with a ``data.yaml``; None for none.
        site: the site whose data count, None for all.
        summary: the run's, None where it is not here.
        settings: the run's settings.

    Raises:
        DataError: if nothing is found, or the sites' data are prepared in different ways, or in others than in the run,
            or do not fit the network.
    """
    for folder in [data] if data is not None else _candidates(run, summary, settings):
        described = _described_folders(folder, site)
        if not described:
            continue
        for part in described:
            check_compatibility(part, settings, site=part.name)
        common = _common(described)
        check_preparation(described[0], common, None if summary is None else summary.preparations, site)
        name = read_federation(folder).name if (folder / FEDERATION_FILE).is_file() else None
        return common, name
    if data is None and summary is not None and (reported := _reported(run, summary, settings)) is not None:
        check_network(reported, settings, place=f"{run}: what the sites report")
        return reported, None
    where = f"{run}: nothing in it says" if data is None else f"{data}: found no {DESCRIPTION_FILE} there that says"
    raise DataError(
        f"{where} how the images that the model was trained on were prepared; name the federation's folder, or a "
        f"site's with a {DESCRIPTION_FILE}, with --data FOLDER."
    )


def _reported(run: Path, summary: Summary, settings: RunSettings) -> AnyDescription | None:
    """The description that follows from what all sites of a run say of themselves, None where any says too little."""
    sites = list(summary.sites)
    if sites and all(report.embedded_data for report in summary.sites.values()):
        return embedded_description(settings.embedded)
    said = summary.preparations or {}
    if not sites or any(site not in said for site in sites):
        return None
    if differing := [site for site in sites if said[site] != said[sites[0]]]:
        raise DataError(
            f"{run}: {', '.join(differing)} prepare images in other ways than {sites[0]}, so that no one way is the "
            "model's; choose one with --data FOLDER-OF-A-SITE."
        )
    first = 0 if settings.task == "classification" else 1
    classes = [f"class {number + first}" for number in range(settings.network.num_classes)]
    return description_of_values(said[sites[0]], classes)


def _candidates(run: Path, summary: Summary | None, settings: RunSettings) -> Iterator[Path]:
    yield run / "data"
    if summary is not None and summary.data_folder is not None:
        yield summary.data_folder
    if settings.data:
        yield Path(settings.data)
    for pattern in (
        "local",
        "*/local",
        "*/*/local",
        "embedded/*",
        "*/embedded/*",
        "*/*/embedded/*",
        "*/*/*/embedded/*",
        "*/*/*/*/embedded/*",
    ):
        yield from sorted(run.glob(pattern))


def _described_folders(folder: Path, site: str | None) -> list[Path]:
    """The folders with a description: itself, or of a federation's sites the one or all."""
    if (folder / DESCRIPTION_FILE).is_file():
        return [folder]
    if not (folder / FEDERATION_FILE).is_file():
        return []
    sites = read_federation(folder).sites
    if site is not None and site not in sites:
        raise DataError(f"{folder}: has no site {site!r}; found {', '.join(sites)}.")
    return [folder / name for name in sites if site in (None, name)]


def _common(folders: list[Path]) -> AnyDescription:
    """The description that all folders share, but for label values and file names; one of all classes if there is."""
    described = [(folder, read_site_description(folder)) for folder in folders]
    first, *others = sorted(described, key=lambda one: bool(getattr(one[1], "unannotated_classes", ())))
    for folder, description in others:
        result, expected = (item.model_dump(exclude=set(OF_FILES)) for item in (description, first[1]))
        differing = sorted(key for key in result if result[key] != expected.get(key)) or ["pipeline"]
        if result != expected:
            raise DataError(
                f"{folder / DESCRIPTION_FILE}: differs from that of {first[0].name} in {', '.join(differing)}, so that "
                "no one way to prepare images is the model's; choose one with --data FOLDER-OF-A-SITE."
            )
    return first[1]
