"""By which protocol each site of a federation annotates: as the others, or with a bias of its own."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Literal

_PARAMETERS = ("radius", "random_radius", "num_squares", "square_share")
_EXPECTED_FORM = (
    "0 (none), C (opening, then random erosion) or D (closing, then random dilation), with parameters as "
    f"C({','.join(_PARAMETERS)}), of which the last ones may be left out"
)


@dataclass(frozen=True)
class SiteProtocol:
    """How one site's annotations differ from the generic ones; see Gao et al., MICCAI 2022, Sec. 3.1.

    Center C opens its annotations (thin parts go), and inside random squares on the boundary it erodes them; Center D
    closes them (gaps are filled), and dilates them inside such squares. The first of the two parts is systematic, the
    second random.

    Args:
        kind: ``none``, ``C`` or ``D``.
        radius: of the disc of opening or closing, in pixels at 256×256.
        random_radius: of the disc of the random erosion or dilation, likewise.
        num_squares: squares on the boundary of each object.
        square_share: side of a square as a share of the longer side of the object's bounding box.

    Raises:
        ValueError: when a value is out of range.

    Example:
        >>> [str(protocol) for protocol in SiteProtocol.parse_sites("0-0-C-D(10)")]
        ['0', '0', 'C(3,4,4,0.25)', 'D(10,4,4,0.25)']
    """

    kind: Literal["none", "C", "D"] = "none"
    radius: float = 3.0
    random_radius: float = 4.0
    num_squares: int = 4
    square_share: float = 0.25

    def __post_init__(self) -> None:
        for name in ("radius", "random_radius"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"Expected a finite number of at least 0 pixels, but got {name}={value}.")
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
        found = re.fullmatch(r"([CD])(?:\(([^()]*)\))?", re.sub(r"\s", "", text))
        try:
            numbers = [float(part) for part in found[2].split(",")] if found and found[2] is not None else []
        except ValueError:
            found = None
        if found is None or len(numbers) > len(_PARAMETERS):
            raise ValueError(f"Found the protocol {text!r}; expected {_EXPECTED_FORM}.")
        given: dict[str, Any] = dict(zip(_PARAMETERS, numbers, strict=False))
        try:
            return cls("C" if found[1] == "C" else "D", **given)
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
        return f"{self.kind}({self.radius:g},{self.random_radius:g},{self.num_squares},{self.square_share:g})"
