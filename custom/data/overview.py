"""What a federation on disk holds, site by site, for the person who made it."""

from dataclasses import dataclass
from pathlib import Path

from .datalist import read_datalist
from .description import DESCRIPTION_FILE, read_site_description
from .federation import TEST_FOLDER, read_federation
from .manifest import ProtocolManifest, read_manifest


@dataclass(frozen=True)
class SiteOverview:
    """One site, or the test set; stays where the data are.

    Attributes:
        site: its name.
        cases: number of cases in all lists.
        excluded: number of cases that could not be used when the data were made.
        mean: μ of the noise in pixels at 256×256, None without noise.
        spread: σ, as above.
        completeness: fraction of the lesions that are annotated, None where none was left out on purpose.
        protocol: the annotation protocol, None where the site follows the generic one.
        discs: radii of the protocol's discs in pixels of the masks, ``1.0, 1.2-1.5``, as above.
        wrong: fraction of the cases whose given label is not the true one, None where none was changed on purpose.
        dice: mean Dice of the given against the clean labels, None where they are the same.
    """

    site: str
    cases: int
    excluded: int
    mean: float | None
    spread: float | None
    completeness: float | None
    protocol: str | None
    discs: str | None
    wrong: float | None
    dice: float | None


def federation_overview(folder: Path) -> tuple[SiteOverview, ...]:
    """Look through a federation's descriptions, datalists and manifests, the test set last.

    Raises:
        DataError: if one of them cannot be read.
    """
    names = list(read_federation(folder).sites)
    if (folder / TEST_FOLDER / DESCRIPTION_FILE).is_file():
        names.append(TEST_FOLDER)
    return tuple(_overview(folder / name, name) for name in names)


def _overview(folder: Path, name: str) -> SiteOverview:
    datalist = read_datalist(folder / read_site_description(folder).datalist)
    manifest = read_manifest(folder)
    noise = None if manifest is None else manifest.noise
    missing = None if manifest is None else manifest.missing_lesions
    protocol = None if manifest is None else manifest.protocol
    changed = noise or missing or protocol
    labels = None if manifest is None else manifest.class_noise
    return SiteOverview(
        site=name,
        cases=sum(len(cases) for cases in datalist.cases.values()),
        excluded=0 if manifest is None else len(manifest.excluded),
        mean=None if noise is None else noise.mean,
        spread=None if noise is None else noise.spread,
        completeness=None if missing is None or not missing.num_lesions else missing.num_kept / missing.num_lesions,
        protocol=None if protocol is None or protocol.protocol == "0" else protocol.protocol,
        discs=None if protocol is None else _discs(protocol),
        wrong=None if labels is None or not labels.num_cases else labels.num_wrong / labels.num_cases,
        dice=None if changed is None else changed.dice,
    )


def _discs(protocol: ProtocolManifest) -> str | None:
    if protocol.systematic_radius is None or protocol.random_radius is None:
        return None
    return ", ".join(
        f"{low:.1f}" if f"{low:.1f}" == f"{high:.1f}" else f"{low:.1f}-{high:.1f}"
        for low, high in (protocol.systematic_radius, protocol.random_radius)
    )
