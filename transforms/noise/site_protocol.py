"""By which protocol each site of a federation annotates: as the others, or with a bias of its own."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

_PARAMETERS = ("radius", "random_radius", "num_squares", "square_share")
# Lengths of a protocol hold for masks of this size; what is not given is that of the paper there.
REFERENCE_SIZE = 256.0
_RADIUS, _RANDOM_RADIUS, _NUM_SQUARES, _SQUARE_SHARE = 3.0, 4.0, 4, 0.25
# A disc of a smaller radius has but its middle.
_LEAST_RADIUS = 1.0


@dataclass(frozen=True)
class Discs:
    """The discs that a protocol uses in masks of one size, in their pixels.

    Attributes:
        systematic: radius of the disc of opening or closing.
        random: radius of the disc of the random erosion or dilation.
    """

    systematic: float
    random: float


@dataclass(frozen=True)
class SiteProtocol:
    """How one site's annotations differ from the generic ones; see Gao et al., MICCAI 2022, Sec. 3.1.

    Center C opens its annotations (thin parts go), and inside random squares on the boundary it erodes them; Center D
    closes them (gaps are filled), and dilates them inside such squares. The first of the two parts is systematic, the
    second random.

    Args:
        kind: ``none``, ``C`` or ``D``.
        radius: of the disc of opening or closing, in pixels at 256×256; None for 3, but at least one pixel of the mask.
        random_radius: of the disc of the random erosion or dilation, as above; None for 4.
        num_squares: squares on the boundary of each object.
        square_share: side of a square as a fraction of the longer side of the object's bounding box.

    Raises:
        ValueError: when a value is out of range.

    Example:
        >>> [str(protocol) for protocol in SiteProtocol.parse_sites("0-0-C-D(10)")]
        ['0', '0', 'C', 'D(10)']
    """

    kind: Literal["none", "C", "D"] = "none"
    radius: float | None = None
    random_radius: float | None = None
    num_squares: int = _NUM_SQUARES
    square_share: float = _SQUARE_SHARE

    def __post_init__(self) -> None:
        for name in ("radius", "random_radius"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= REFERENCE_SIZE:
                raise ValueError(f"Expected 0 to {REFERENCE_SIZE:g} pixels at 256×256, but got {name}={value:g}.")
        if self.num_squares < 0 or not float(self.num_squares).is_integer():
            raise ValueError(f"Expected a whole number of squares of at least 0, but got {self.num_squares}.")
        object.__setattr__(self, "num_squares", int(self.num_squares))
        if not 0 < self.square_share <= 1:
            raise ValueError(f"Expected a share from above 0 to 1, but got square_share={self.square_share}.")

    @classmethod
    def parse(cls, text: str) -> SiteProtocol:
        """Read ``0``, ``C``, ``D`` or ``C(3,4,4,0.25)``.

        Raises:
            ValueError: when the text has another form or a number is out of range.
        """
        if text.strip() == "0":
            return cls()
        result = re.fullmatch(r"([CD])(?:\(([^()]*)\))?", re.sub(r"\s", "", text))
        try:
            numbers = [float(part) for part in result[2].split(",")] if result and result[2] is not None else []
        except ValueError:
            result = None
        if result is None or len(numbers) > len(_PARAMETERS):
            raise ValueError(
                f"Found the protocol {text!r}; expected 0 (none), C (opening, then random erosion) or D (closing, then "
                f"random dilation), with parameters as C({','.join(_PARAMETERS)}), of which the last ones may be left "
                "out."
            )
        given: dict[str, Any] = dict(zip(_PARAMETERS, numbers, strict=False))
        try:
            return cls("C" if result[1] == "C" else "D", **given)
        except ValueError as error:
            raise ValueError(f"Found the protocol {text!r}: {error}") from None

    @classmethod
    def parse_sites(cls, text: str) -> tuple[SiteProtocol, ...]:
        """Read the protocols of several sites, ``0-0-C-D``.

        Raises:
            ValueError: as :meth:`parse`.
        """
        return tuple(cls.parse(part) for part in text.split("-"))

    def __str__(self) -> str:
        if self.kind == "none":
            return "0"
        # What was left out stays so: its length depends on the mask.
        if self.random_radius is None and (self.num_squares, self.square_share) == (_NUM_SQUARES, _SQUARE_SHARE):
            return self.kind if self.radius is None else f"{self.kind}({self.radius:g})"
        radius, random_radius = self._lengths()
        return f"{self.kind}({radius:g},{random_radius:g},{self.num_squares},{self.square_share:g})"

    def with_lengths(self) -> SiteProtocol:
        """Return the protocol with both lengths given, which is the same in masks that are not small."""
        radius, random_radius = self._lengths()
        return replace(self, radius=radius, random_radius=random_radius)

    def discs(self, shape: Sequence[float]) -> Discs:
        """Return the discs in masks ``(H, W[, D])``: lengths scaled with the geometric mean of H and W over 256.

        A length that was given is taken as it is, though a disc below one pixel changes nothing. One that was not given
        is at least one pixel, so that a protocol has its effect in small masks, too.
        """
        given, scale = (self.radius, self.random_radius), mask_scale(shape)
        systematic, random = (
            length * scale if asked is not None else max(length * scale, _LEAST_RADIUS)
            for asked, length in zip(given, self._lengths(), strict=True)
        )
        return Discs(systematic, random)

    def _lengths(self) -> tuple[float, float]:
        radius = _RADIUS if self.radius is None else self.radius
        return radius, _RANDOM_RADIUS if self.random_radius is None else self.random_radius


def mask_scale(shape: Sequence[float]) -> float:
    """Return how many pixels of a mask ``(H, W[, D])`` one pixel at 256×256 is."""
    return math.sqrt(shape[0] * shape[1]) / REFERENCE_SIZE
