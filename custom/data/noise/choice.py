"""The annotation noise of a federation as a person asks for it, drawn for its sites."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ....transforms.errors import DataError
from ....transforms.noise.class_noise import ClassNoise
from ....transforms.noise.federation_noise import ContourNoise, FederationNoise
from ....transforms.noise.site_protocol import SiteProtocol
from ...seeding import derive_seed

# How a federation's description of its noise begins where lesions are missing.
COMPLETENESS = "completeness"
# And where labels are wrong.
LABELS = "labels"
# And where sites follow protocols of their own.
PROTOCOLS = "protocols"


@dataclass(frozen=True)
class NoiseChoice:
    """Contour noise M(μ_max, μ_min, σ_max, p_d) and how it is drawn.

    Args:
        model: the noise as the papers write it, ``M(25,-25,10,0.2)``.
        exact: fix the number of sites that draw larger.
        stratified: fraction of the limit from which strengths go up in equal steps; None draws them.

    Raises:
        DataError: if the text or the share cannot be used.

    Example:
        >>> NoiseChoice("M(25,-25,10,0.25)", exact=True).model
        'M(25,-25,10,0.25)'
    """

    model: str
    exact: bool = False
    stratified: float | None = None

    def __post_init__(self) -> None:
        self.draw(1, seed=0)

    @property
    def limit(self) -> tuple[float, float]:
        """The largest mean, in whichever direction, and the largest spread that a site can have."""
        noise = FederationNoise.parse(self.model)
        return max(noise.max_mean, -noise.min_mean), noise.max_spread

    def asked_for(self, noise: ContourNoise) -> str | None:
        """Return the federation's noise and one site's own lengths; None where the site draws without noise."""
        if not (noise.mean or noise.spread):
            return None
        return f"{self.model}, here {noise.mean:.3g} ± {noise.spread:.3g} pixels"

    def draw(self, num_sites: int, seed: int) -> tuple[ContourNoise, ...]:
        """Draw the noise of every site; the same for the whole federation and for a site that makes its own data."""
        try:
            noise = FederationNoise.parse(self.model)
            return noise.draw(
                num_sites, derive_seed(seed, "federation noise"), exact=self.exact, stratified=self.stratified
            )
        except ValueError as error:
            raise DataError(f"Contour noise: {error}") from error


def contour_noise_seed(seed: int, *purpose: str | int) -> int:
    """Return the seed of one mask's noise, in the range that MONAI's transforms take."""
    return derive_seed(seed, "contour noise", *purpose) % 2**32


def missing_lesions_seed(seed: int, *purpose: str | int) -> int:
    """Return the seed of the lesions that one mask leaves out, in the range that MONAI's transforms take."""
    return derive_seed(seed, "missing lesions", *purpose) % 2**32


def check_completeness(completeness: Sequence[float] | None, num_sites: int) -> None:
    """Check the fractions of lesions that sites annotate.

    Raises:
        DataError: if there is not a share from 0 to 1 for every site.
    """
    if completeness is None:
        return
    if len(completeness) != num_sites:
        raise DataError(f"Completeness: found {len(completeness)} values for {num_sites} sites; expected one for each.")
    if wrong := [share for share in completeness if not 0 <= share <= 1]:
        raise DataError(f"Completeness: found {wrong}; expected shares from 0 to 1.")


def completeness_text(completeness: Sequence[float]) -> str:
    """Return the shares as a federation's description has them, ``completeness 0.4,0.6``."""
    return f"{COMPLETENESS} {','.join(f'{share:g}' for share in completeness)}"


def class_noise_of_sites(pattern: str, num_sites: int) -> tuple[ClassNoise, ...]:
    """Read the label noise of a federation's sites, ``0-S10-P10-C10``; a single one is that of all sites.

    Raises:
        DataError: if the text cannot be read or is not for this number of sites.
    """
    return _one_for_each("Label noise", pattern, ClassNoise.parse_sites, num_sites)


def protocols_of_sites(pattern: str, num_sites: int) -> tuple[SiteProtocol, ...]:
    """Read the annotation protocols of a federation's sites, ``0-0-C-D``; a single one is that of all sites.

    Raises:
        DataError: if the text cannot be read or is not for this number of sites.
    """
    return _one_for_each("Protocols", pattern, SiteProtocol.parse_sites, num_sites)


_Entry = TypeVar("_Entry")


def _one_for_each(
    what: str, pattern: str, parse: Callable[[str], tuple[_Entry, ...]], num_sites: int
) -> tuple[_Entry, ...]:
    try:
        entries = parse(pattern)
    except ValueError as error:
        raise DataError(str(error)) from error
    if len(entries) == 1:
        return entries * num_sites
    if len(entries) != num_sites:
        raise DataError(f"{what} {pattern}: found {len(entries)} entries for {num_sites} sites; expected 1 or all.")
    return entries


def protocol_seed(seed: int, *purpose: str | int) -> int:
    """Return the seed of one mask's random squares, in the range that MONAI's transforms take."""
    return derive_seed(seed, "site protocol", *purpose) % 2**32


def class_noise_seed(seed: int, *purpose: str | int) -> int:
    """Return the seed of a list of wrong labels, in the range that MONAI's transforms take."""
    return derive_seed(seed, "wrong labels", *purpose) % 2**32
