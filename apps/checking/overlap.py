"""How many images and groups hospitals have in common, from their files of salted fingerprints alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from ...transforms.errors import DataError
from .fingerprints import SiteFingerprints, read_fingerprints


@dataclass(frozen=True)
class Overlap:
    """What two lists of two sites have in common.

    Attributes:
        first: site and list.
        second: site and list.
        images: number of equal images.
        groups: number of equal groups, volumes or patients, of equal source.
    """

    first: tuple[str, str]
    second: tuple[str, str]
    images: int
    groups: int


def find_overlaps(files: Sequence[Path]) -> tuple[list[str], list[Overlap]]:
    """Compare the fingerprints of sites, each with each other.

    Args:
        files: what `fedannot data check --salt-file` wrote, at least two sites together.

    Returns:
        The sites' names, and the pairs of lists of different sites that have something in common.

    Raises:
        DataError: if a file cannot be used, there is only one site, or files were made with different salts.
    """
    sites = _read(files)
    if len(sites) < 2:
        raise DataError(f"Overlap: found {len(sites)} site in the files; expected at least two to compare.")
    overlaps = []
    for (first, own), (second, others) in combinations(sites.items(), 2):
        for section, own_list in own.lists.items():
            for other_section, other_list in others.lists.items():
                images = len(set(own_list.images) & set(other_list.images))
                groups = len(set(own_list.groups) & set(other_list.groups))
                if images or groups:
                    overlaps.append(Overlap((first, section), (second, other_section), images, groups))
    return list(sites), overlaps


def _read(files: Sequence[Path]) -> dict[str, SiteFingerprints]:
    """The sites of all files by name; where a name appears twice, with the file."""
    contents = [(file, read_fingerprints(file)) for file in files]
    different = [str(file) for file, content in contents if content.salt_check != contents[0][1].salt_check]
    if different:
        raise DataError(
            f"{', '.join(different)}: made with another salt than {files[0]}; nothing can be compared. Agree on one "
            "salt and run `fedannot data check --salt-file` again."
        )
    names = [site.site for _, content in contents for site in content.sites]
    return {
        site.site if names.count(site.site) == 1 else f"{site.site} ({file})": site
        for file, content in contents
        for site in content.sites
    }
