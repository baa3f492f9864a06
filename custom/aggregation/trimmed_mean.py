"""Coordinate-wise trimmed means of models in one streaming pass, with a result that no order of arrival changes."""

import math
from collections.abc import Mapping

import numpy as np
import torch

from ...transforms.array_types import AnyFloats, Booleans, Indices
from .streaming_average import PIECE, StreamingAverage, as_array

# What is left of a coordinate's weight where all that counts was trimmed is rounding.
_NOTHING_LEFT = 1e-9


class TrimmedMean(StreamingAverage):
    """Mean of every coordinate without its b smallest and its b largest values (Yin et al., ICML 2018).

    The others count with their weights, Σ_i w_ij θ_ij / Σ_i w_ij over the sites i that are left in the coordinate; with
    equal weights it is the published mean. Of equal values the one of the first site by name is the smaller. A
    coordinate in which all sites with any weight are trimmed keeps the global model's value.

    The products are added as :class:`StreamingAverage` adds them, and those of the trimmed values are then taken out,
    exactly. Memory beyond the sum: 2b values and 2b numbers of sites per coordinate, whatever the number of sites.

    Args:
        reference: the global model that the sites started from.
        block_of: layer block of every entry.
        total_weight_bound: upper bound of the sum of weights in a block.
        trim: b; more than 2b models are needed.

    Example:
        >>> average = TrimmedMean({"w": torch.zeros(1)}, {"w": "block"}, trim=1)
        >>> for site, value in (("a", 1.0), ("b", 2.0), ("c", 3.0), ("d", 4.0), ("e", 100.0)):
        ...     average.add(site, {"w": torch.tensor([value])}, {"block": 0.2}, num_samples=1)
        >>> average.result()["w"].tolist()
        [3.0]
    """

    def __init__(
        self,
        reference: Mapping[str, torch.Tensor],
        block_of: Mapping[str, str],
        total_weight_bound: float = 1.0,
        *,
        trim: int,
    ) -> None:
        super().__init__(reference, block_of, total_weight_bound)
        self._trim = trim
        self._arrived: list[str] = []
        floating = {name: as_array(tensor) for name, tensor in reference.items() if tensor.is_floating_point()}
        self._low, self._high = (
            {name: _Extremes(trim, len(array), array.dtype, sign) for name, array in floating.items()}
            for sign in (1, -1)
        )

    def add(
        self, site: str, params: Mapping[str, torch.Tensor], weights: Mapping[str, float], num_samples: int
    ) -> None:
        """Add one site's model; see :meth:`StreamingAverage.add`."""
        super().add(site, params, weights, num_samples)
        is_later = np.array([name > site for name in self._arrived], dtype=bool)
        number = len(self._arrived)
        self._arrived.append(site)
        for name in self._low:
            values = as_array(params[name])
            self._low[name].insert(values, number, is_later)
            self._high[name].insert(values, number, ~is_later)

    def merge(self, other: StreamingAverage) -> None:
        """Add the models of another trimmed mean that drops as many; see :meth:`StreamingAverage.merge`."""
        super().merge(other)
        assert isinstance(other, TrimmedMean), "checked above"
        shift = len(self._arrived)
        self._arrived += other._arrived
        ranks = np.argsort(sorted(range(len(self._arrived)), key=self._arrived.__getitem__))
        for name, low in self._low.items():
            # A free place comes after all sites.
            low.merge(other._low.pop(name), shift, np.append(ranks, len(ranks)))
            self._high[name].merge(other._high.pop(name), shift, np.append(-ranks, 1))

    def _is_like(self, other: StreamingAverage) -> bool:
        return isinstance(other, TrimmedMean) and other._trim == self._trim and super()._is_like(other)

    def result(self) -> dict[str, torch.Tensor]:
        """Return the trimmed mean; once, then it is gone.

        Raises:
            ValueError: if there are too few models to trim, or the result was given before.
        """
        if len(self._arrived) <= 2 * self._trim:
            raise ValueError(
                f"Expected more than {2 * self._trim} models to drop {self._trim} at each end, but got "
                f"{len(self._arrived)}."
            )
        return super().result()

    def _averaged(self, name: str, total_weight: float) -> torch.Tensor:
        sums, reference, block = self._sums.pop(name), self._global_model[name], self._block_of[name]
        of_sites = np.array([self._weights[site][block] for site in self._arrived])
        scales = np.array([math.ldexp(weight, self._exponent[name]) for weight in of_sites])
        result = torch.empty(reference.shape, dtype=reference.dtype)
        integers, values, unchanged = sums.numpy().reshape(-1), result.view(-1), as_array(reference)
        trimmed = (self._low.pop(name), self._high.pop(name))
        for start in range(0, len(integers), PIECE):
            piece = slice(start, start + PIECE)
            total, left = integers[piece], np.full(len(integers[piece]), total_weight)
            for extremes in trimmed:
                for row, sites in zip(extremes.values[:, piece], extremes.sites[:, piece], strict=True):
                    total -= np.rint(row.astype(np.float64) * scales[sites]).astype(np.int64)
                    left -= of_sites[sites]
            counts = left > _NOTHING_LEFT * total_weight
            mean = total.astype(np.float64) * math.ldexp(1.0, -self._exponent[name]) / np.where(counts, left, 1.0)
            values[piece] = torch.from_numpy(np.where(counts, mean, unchanged[piece]))
        return result


class _Extremes:
    """The b smallest (sign 1) or largest (sign -1) values of every coordinate, with the numbers of their sites."""

    def __init__(self, rows: int, length: int, dtype: np.dtype[np.floating], sign: int) -> None:
        self._sign = sign
        self.values = np.full((rows, length), sign * np.inf, dtype=dtype)
        self.sites = np.full((rows, length), -1, dtype=np.int32)

    def insert(self, values: AnyFloats, number: int, goes_first: Booleans) -> None:
        """Take a site's values in where they belong.

        Args:
            values: of the site, ``(n,)``.
            number: of the site.
            goes_first: by number of the sites before it, whether of two equal values the new one goes first.
        """
        # The last entry is that of -1, of a place that is free.
        of_numbers = np.append(goes_first, True)
        reaches = np.less_equal if self._sign > 0 else np.greater_equal
        for start in range(0, len(values), PIECE):
            piece = slice(start, start + PIECE)
            # Of many sites most values are beyond none of those that are kept.
            places = np.flatnonzero(reaches(values[piece], self.values[-1, piece]))
            if len(places):
                self._insert_at(start + places, values[start + places], number, of_numbers)

    def _insert_at(self, places: Indices, moving: AnyFloats, number: int, of_numbers: Booleans) -> None:
        """Take values in at some coordinates; see :meth:`insert`."""
        sites = np.full(len(places), number, dtype=np.int32)
        for row, of_row in zip(self.values, self.sites, strict=True):
            kept, of_kept = row[places], of_row[places]
            # What was moved out goes before all that stands behind it; only the new value is compared by name.
            is_new = sites == number
            is_before = (self._sign * moving < self._sign * kept) | ((moving == kept) & (~is_new | of_numbers[of_kept]))
            row[places], of_row[places] = np.where(is_before, moving, kept), np.where(is_before, sites, of_kept)
            moving, sites = np.where(is_before, kept, moving), np.where(is_before, of_kept, sites)

    def merge(self, other: "_Extremes", shift: int, ranks: Indices) -> None:
        """Take in the extremes of other sites.

        Args:
            other: theirs, as many of every coordinate.
            shift: what is added to the others' numbers of sites.
            ranks: by number of a site, and at the end for a free place, which of two equal values goes first.
        """
        rows, length = self.values.shape
        for start in range(0, length, PIECE):
            piece = slice(start, start + PIECE)
            values = np.concatenate([self.values[:, piece], other.values[:, piece]])
            of_others = other.sites[:, piece]
            sites = np.concatenate([self.sites[:, piece], np.where(of_others < 0, -1, of_others + shift)])
            order = np.lexsort((ranks[sites], self._sign * values), axis=0)[:rows]
            self.values[:, piece] = np.take_along_axis(values, order, axis=0)
            self.sites[:, piece] = np.take_along_axis(sites, order, axis=0)
