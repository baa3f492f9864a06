"""Which annotation noise each site of a federation gets: the noise model M of FedA³I (Sec. 3.2, Eq. 1)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Settings are checked without NumPy; also below.
    import numpy as np

    from ..array_types import Booleans, Floats

_EXPECTED_FORM = "M(max_mean,min_mean,max_spread,probability_larger), for example M(25,-25,10,0.2)"


@dataclass(frozen=True)
class ContourNoise:
    """One site's contour evolution model C(μ_i, σ_i), in pixels at 256×256.

    Args:
        mean: the annotator's preference μ_i; positive draws every object larger, negative smaller.
        spread: the annotator's randomness σ_i.

    Raises:
        ValueError: when a value is not finite or the spread is negative.
    """

    mean: float
    spread: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.mean):
            raise ValueError(f"A site's mean displacement must be a finite number of pixels, found {self.mean}.")
        if not (math.isfinite(self.spread) and self.spread >= 0):
            raise ValueError(f"A site's spread must be finite and not negative, found {self.spread}.")

    def __str__(self) -> str:
        return f"C({_shortest(self.mean)},{_shortest(self.spread)})"


@dataclass(frozen=True)
class FederationNoise:
    """Heterogeneous annotation noise M(μ_max, μ_min, σ_max, p_d) over the sites of a federation (FedA³I, Eq. 1).

    With probability p_d a site draws larger, μ_i ~ U(0, μ_max), else smaller, μ_i ~ U(μ_min, 0);
    σ_i ~ U(σ_max/2, σ_max). Lengths are pixels at 256×256.

    Args:
        max_mean: μ_max, at least 0.
        min_mean: μ_min, at most 0.
        max_spread: σ_max, at least 0.
        probability_larger: p_d, in [0, 1].

    Raises:
        ValueError: when a value lies outside its range.

    Example:
        >>> noise = FederationNoise.parse("M(25,-25,10,0.2)")
        >>> [site.mean > 0 for site in noise.draw(10, seed=0, exact=True)].count(True)
        2
    """

    max_mean: float
    min_mean: float
    max_spread: float
    probability_larger: float

    def __post_init__(self) -> None:
        ranges = {
            "max_mean": (0.0, math.inf),
            "min_mean": (-math.inf, 0.0),
            "max_spread": (0.0, math.inf),
            "probability_larger": (0.0, 1.0),
        }
        for name, (lowest, highest) in ranges.items():
            value = getattr(self, name)
            if not (math.isfinite(value) and lowest <= value <= highest):
                raise ValueError(
                    f"{name} must be a finite number in [{lowest:g}, {highest:g}], found {value}. "
                    f"The form is {_EXPECTED_FORM}."
                )

    @classmethod
    def parse(cls, text: str) -> FederationNoise:
        """Read the papers' notation, ``M(25,-25,10,0.2)``.

        Spaces are ignored and a typographic minus sign counts as a minus.

        Raises:
            ValueError: when the text has another form or a number lies outside its range; the message shows both.
        """
        match = re.fullmatch(r"M\(([^()]*)\)", re.sub(r"\s", "", text).replace("−", "-"))
        parts = match.group(1).split(",") if match else []
        try:
            numbers = [float(part) for part in parts]
        except ValueError:
            numbers = []
        if len(numbers) != 4:
            raise ValueError(f"Found {text!r} as a federation noise, expected {_EXPECTED_FORM}.")
        try:
            return cls(*numbers)
        except ValueError as error:
            raise ValueError(f"Found {text!r} as a federation noise: {error}") from None

    def __str__(self) -> str:
        values = (self.max_mean, self.min_mean, self.max_spread, self.probability_larger)
        return f"M({','.join(_shortest(value) for value in values)})"

    def draw(
        self, num_sites: int, seed: int, *, exact: bool = False, stratified: float | None = None
    ) -> tuple[ContourNoise, ...]:
        """Draw the contour noise of every site (Eq. 1); the same arguments give the same values.

        Args:
            num_sites: K, at least 1.
            seed: seed of the draw.
            exact: exactly ``round(p_d · K)`` sites draw larger, because the count of a small federation varies much.
            stratified: None draws strengths from U(0, limit). A fraction LO in [0, 1) gives the sites of one direction
                equal steps over [LO · limit, limit] in random order, ends included; a site alone gets the middle.

        Raises:
            ValueError: when ``num_sites`` or ``stratified`` is out of range.
        """
        # Settings read the text of a noise alone, and load no NumPy.
        import numpy as np  # noqa: PLC0415

        if num_sites < 1:
            raise ValueError(f"A federation has at least one site, found num_sites={num_sites}.")
        if stratified is not None and not 0 <= stratified < 1:
            raise ValueError(f"stratified must be None or a fraction in [0, 1), found {stratified}.")
        generator = np.random.default_rng(seed)
        larger = self._draw_directions(num_sites, generator, exact)
        strengths = np.empty(num_sites)
        for sites in (np.flatnonzero(larger), np.flatnonzero(~larger)):
            strengths[sites] = _draw_strengths(len(sites), generator, stratified)
        means = strengths * np.where(larger, self.max_mean, self.min_mean)
        spreads = generator.uniform(self.max_spread / 2, self.max_spread, num_sites)
        return tuple(ContourNoise(float(mean), float(spread)) for mean, spread in zip(means, spreads, strict=True))

    def _draw_directions(self, num_sites: int, generator: np.random.Generator, exact: bool) -> Booleans:
        """Which sites draw larger, (K,)."""
        import numpy as np  # noqa: PLC0415

        if not exact:
            return generator.random(num_sites) < self.probability_larger
        larger = np.arange(num_sites) < round(self.probability_larger * num_sites)
        return generator.permutation(larger)


def _draw_strengths(count: int, generator: np.random.Generator, stratified: float | None) -> Floats:
    """Strengths of the sites of one direction as a fraction of that direction's limit, (count,)."""
    import numpy as np  # noqa: PLC0415

    if stratified is None:
        return generator.random(count)
    if count == 1:
        return np.array([(stratified + 1) / 2])
    return generator.permutation(np.linspace(stratified, 1.0, count))


def _shortest(value: float) -> str:
    """The shortest text that reads back as the same number."""
    return repr(float(value)).removesuffix(".0")
