"""Weighted averages of models in one streaming pass, with a result that no order of arrival changes."""

import math
from collections.abc import Mapping

import numpy as np
import torch

from ...transforms.array_types import AnyFloats, Floats, Labels
from ..refusals import RefusalCode, RefusalReason
from .sent_entries import names_refusal, shape_refusal

# The accumulator is a 64-bit integer: one sign bit, one bit of reserve, the rest for (headroom, weights, fraction).
_ACCUMULATOR_BITS = 62
_HEADROOM_BITS = 12
# Products are made in pieces that stay in the processor's cache: half the time of whole entries.
PIECE = 2**16
# Entries up to this number of values are added in one row: of most networks nine in ten are of some tens of values.
_SMALL = 2**12
# What the global model is called among the sites; none of them can have no name.
_GLOBAL_MODEL = ""
# Rounding of sums of weights, as a fraction of their bound.
_SLACK = 1e-9
# Types of floating numbers that can be compared and averaged; a message may come with others, such as float8.
_FLOATING = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})


def refusal_reason(
    params: Mapping[str, torch.Tensor],
    global_model: Mapping[str, torch.Tensor],
    limits: Mapping[str, float] | None = None,
) -> RefusalReason | None:
    """Return why a site's model cannot be aggregated, or None if it can.

    Checked are the entries' names, shapes and kinds against the global model, and that every number is finite and
    within 2^12 times the range of the global model's entry (beyond it training has diverged and the fixed-point sum
    would overflow).

    Args:
        params: the site's state dict.
        global_model: the state dict that the sites started from.
        limits: :func:`value_limits` of the global model, where they are known.
    """
    limits = value_limits(global_model) if limits is None else limits
    if (reason := names_refusal(params, global_model)) is not None:
        return reason
    for name, expected in global_model.items():
        tensor = params[name]
        if (reason := shape_refusal(name, tensor, expected.shape)) is not None:
            return reason
        comparable = tensor.dtype in _FLOATING and expected.is_floating_point()
        if not comparable and tensor.dtype != expected.dtype:
            types = str(tensor.dtype), str(expected.dtype)
            return RefusalReason.of(RefusalCode.OTHER_TYPE, entry=name, type=types[0], expected=types[1])
        if not expected.is_floating_point() or not tensor.numel():
            continue
        largest = _largest(tensor)
        if not math.isfinite(largest):
            return RefusalReason.of(RefusalCode.NOT_FINITE, entry=name)
        if largest > (limit := limits[name]):
            return RefusalReason.of(RefusalCode.DIVERGED, entry=name, largest=largest, limit=limit)
    return None


def value_limits(global_model: Mapping[str, torch.Tensor]) -> dict[str, float]:
    """Return the power of two up to which values of each floating entry count: 2^12 times its range, at least 2^12."""
    limits = {}
    for name, tensor in global_model.items():
        if tensor.is_floating_point():
            largest = _largest(tensor) if tensor.numel() else 0.0
            limits[name] = 2.0 ** (math.ceil(math.log2(max(largest, 1.0))) + _HEADROOM_BITS)
    return limits


def _largest(tensor: torch.Tensor) -> float:
    """Return the largest absolute value, NaN if there is a NaN, without a copy."""
    low, high = torch.aminmax(tensor.detach())
    return max(-float(low), float(high))


def stays_unchanged(num_unchanged: int, num_sites: int) -> bool:
    """Return whether an integer buffer stays as it is, since at least half of the sites return it so; not without any.

    Training changes counters at every site, and tables of indices at none: there who has changed one lies or is broken.
    """
    return 0 < num_sites <= 2 * num_unchanged


class StreamingAverage:
    """Average of models with a weight per site and layer block, holding one sum whatever the number of sites.

    For block j the result is Σ_i w_ij θ_ij / Σ_i w_ij over the added sites, so a site that is missing needs no second
    pass. Products are added as 64-bit integers in units of a power of two: integer sums do not depend on the order, so
    the same set of results gives the same bits. For entries with values
    up to 1 the rounding is below 2^-50 K for weights that sum to one, and below 2^-26 K / n for n samples as weights.
    Integer buffers are not averaged; the site with most samples (then the first by name) gives them. One that at least
    half of the sites return as it was stays so: tables of indices do, counters do not.

    Memory beyond the global model: two float32 models (the sum), which go while the result is made.

    Args:
        global_model: the global model that the sites started from; a block without any weight keeps its values.
        block_of: layer block of every entry.
        total_weight_bound: upper bound of the sum of weights in a block, 1 for weights that sum to one.

    Attributes:
        limits: the largest values that can be added, see :func:`value_limits`.

    Example:
        >>> global_model = {"w": torch.zeros(2)}
        >>> average = StreamingAverage(global_model, {"w": "block"})
        >>> average.add("site-1", {"w": torch.tensor([1.0, 0.0])}, {"block": 0.75}, num_samples=3)
        >>> average.add("site-2", {"w": torch.tensor([0.0, 1.0])}, {"block": 0.25}, num_samples=1)
        >>> average.result()["w"].tolist()
        [0.75, 0.25]
    """

    def __init__(
        self, global_model: Mapping[str, torch.Tensor], block_of: Mapping[str, str], total_weight_bound: float = 1.0
    ) -> None:
        self._global_model = dict(global_model)
        self._block_of = dict(block_of)
        self._weights: dict[str, dict[str, float]] = {}
        self._bound = total_weight_bound
        weight_bits = math.ceil(math.log2(total_weight_bound))
        self.limits = value_limits(global_model)
        self._exponent = {
            name: _ACCUMULATOR_BITS - weight_bits - math.ceil(math.log2(limit)) for name, limit in self.limits.items()
        }
        self._small = {name: numel for name in self.limits if (numel := global_model[name].numel()) <= _SMALL}
        self._row = torch.zeros(sum(self._small.values()), dtype=torch.int64)
        parts = dict(zip(self._small, torch.split(self._row, list(self._small.values())), strict=True))
        self._sums = {
            name: parts[name].view(global_model[name].shape)
            if name in parts
            else torch.zeros(global_model[name].shape, dtype=torch.int64)
            for name in self.limits
        }
        self._counters = {name: tensor for name, tensor in global_model.items() if not tensor.is_floating_point()}
        self._num_unchanged = dict.fromkeys(self._counters, 0)
        self._largest_site: tuple[int, str] | None = None
        self._is_over = False
        self._totals = dict.fromkeys(self._block_of.values(), 0.0)

    def __contains__(self, site: str) -> bool:
        """Return whether the site has been added."""
        return site in self._weights

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites that have been added, sorted."""
        return tuple(sorted(set(self._weights) - {_GLOBAL_MODEL}))

    def add(
        self, site: str, params: Mapping[str, torch.Tensor], weights: Mapping[str, float], num_samples: int
    ) -> None:
        """Add one site's model, which must have passed :func:`refusal_reason`.

        Args:
            site: the site's name.
            params: the site's state dict.
            weights: the site's weight for every layer block, finite and not negative.
            num_samples: the site's number of samples; decides who gives the integer buffers.

        Raises:
            ValueError: if the site was added before, a weight is negative, not finite or beyond the bound, or the
            result was given.
        """
        self._check_open()
        if site in self._weights:
            raise ValueError(f"Expected one model per site, but {site} was added twice.")
        self._add_weighted(site, params, weights)
        for name in self._num_unchanged:
            self._num_unchanged[name] += torch.equal(params[name].cpu(), self._global_model[name].cpu())
        if self._largest_site is None or (-num_samples, site) < self._largest_site:
            self._largest_site = (-num_samples, site)
            self._counters = {name: params[name].detach().to("cpu").clone() for name in self._counters}

    def add_global_model(self, weights: Mapping[str, float]) -> None:
        """Let the global model itself count, as where updates are scaled down: θ + f(θ_k − θ) = f θ_k + (1 − f) θ.

        Args:
            weights: its weight for every layer block.

        Raises:
            ValueError: as :meth:`add` does.
        """
        self._check_open()
        self._add_weighted(_GLOBAL_MODEL, self._global_model, weights)

    def merge(self, other: "StreamingAverage") -> None:
        """Add the models of another average, whose sum then is gone.

        Sums of any groups of sites, merged in any order and depth, give the bits of one sum over all sites: products
        are rounded before they are added, and integers add exactly.

        Args:
            other: an open average of the same kind, with the same global model, blocks and bound of weights.

        Raises:
            ValueError: if it is of another kind or model, a site is in both, the sums of weights are beyond the bound,
                or the result of one was given. Nothing is changed then.
        """
        self._check_mergeable(other)
        other._is_over = True
        self._weights |= other._weights
        for block, total in other._totals.items():
            self._totals[block] += total
        for name in self._sums:
            self._sums[name] += other._sums.pop(name)
        for name, number in other._num_unchanged.items():
            self._num_unchanged[name] += number
        if other._largest_site is not None and (self._largest_site is None or other._largest_site < self._largest_site):
            self._largest_site, self._counters = other._largest_site, other._counters

    def _check_mergeable(self, other: "StreamingAverage") -> None:
        self._check_open()
        other._check_open()
        if other is self or type(other) is not type(self) or not self._is_like(other):
            raise ValueError("Expected another average of the same kind, global model, blocks and bound of weights.")
        if both := sorted(set(self._weights) & set(other._weights)):
            raise ValueError(f"Expected one model per site, but {both[0] or 'the global model'} is in both averages.")
        for block, total in other._totals.items():
            if self._totals[block] + total > self._bound * (1 + _SLACK):
                raise ValueError(
                    f"Expected weights that sum to at most {self._bound}, but {block!r} has "
                    f"{self._totals[block] + total}."
                )

    def _is_like(self, other: "StreamingAverage") -> bool:
        """Whether sums of both are in the same units, of the same entries."""
        if (self._block_of, self._bound, self._exponent) != (other._block_of, other._bound, other._exponent):
            return False
        return set(self._global_model) == set(other._global_model) and all(
            entry.dtype == other._global_model[name].dtype and torch.equal(entry, other._global_model[name])
            for name, entry in self._global_model.items()
        )

    def _add_weighted(self, source: str, params: Mapping[str, torch.Tensor], weights: Mapping[str, float]) -> None:
        self._check_weights(source, weights)
        self._weights[source] = dict(weights)
        for block in self._totals:
            self._totals[block] += weights[block]
        scales = {
            name: math.ldexp(weights[self._block_of[name]], exponent) for name, exponent in self._exponent.items()
        }
        if any(scales[name] for name in self._small):
            row = torch.cat([params[name].detach().reshape(-1).cpu() for name in self._small])
            of_row = np.repeat([scales[name] for name in self._small], list(self._small.values()))
            _add_product(self._row.numpy(), as_array(row), of_row)
        for name, accumulator in self._sums.items():
            if name not in self._small and scales[name]:
                _add_product(accumulator.numpy(), as_array(params[name]), scales[name])

    def result(self) -> dict[str, torch.Tensor]:
        """Return the average of the added models as a state dict with the global model's types; once, then it is gone.

        Raises:
            ValueError: if no model was added, or the result was given before.
        """
        if not self._weights:
            raise ValueError("Expected at least one model to average, but none was added.")
        self._check_open()
        self._is_over = True
        # Summed in the order of the names; _totals has the order of arrival.
        of_block = {
            block: sum(self._weights[source][block] for source in sorted(self._weights)) for block in self._totals
        }
        averaged: dict[str, torch.Tensor] = {}
        for name, entry in self._global_model.items():
            if name in self._counters:
                stays = stays_unchanged(self._num_unchanged[name], len(self.sites))
                averaged[name] = entry.clone() if stays else self._counters[name]
                continue
            total_weight = of_block[self._block_of[name]]
            averaged[name] = entry.clone() if total_weight == 0.0 else self._averaged(name, total_weight)
        self._sums.clear()
        return averaged

    def _averaged(self, name: str, total_weight: float) -> torch.Tensor:
        """Return the average of an entry, whose sum then is gone."""
        factor = math.ldexp(1.0, -self._exponent[name]) / total_weight
        return _scaled(self._sums.pop(name), factor, self._global_model[name].dtype)

    def _check_open(self) -> None:
        if self._is_over:
            raise ValueError("Expected an average whose result has not been given, but it has.")

    def _check_weights(self, site: str, weights: Mapping[str, float]) -> None:
        for block, total in self._totals.items():
            weight = weights[block]
            if not math.isfinite(weight) or weight < 0:
                raise ValueError(f"Expected finite weights >= 0, but {site} has {weight} for block {block!r}.")
            if total + weight > self._bound * (1 + _SLACK):
                raise ValueError(
                    f"Expected weights that sum to at most {self._bound}, but {block!r} has {total + weight}."
                )


def as_array(tensor: torch.Tensor) -> AnyFloats:
    """Return a tensor's values in one row, in a type that NumPy has."""
    tensor = tensor.detach().reshape(-1).cpu()
    return (tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()).numpy()


def _add_product(accumulator: Labels, values: AnyFloats, scale: float | Floats) -> None:
    """Add `values` times `scale`, one for all or one for each, rounded to integers, in place."""
    accumulator = accumulator.reshape(-1)
    product = np.empty(min(PIECE, len(values)), dtype=np.float64)
    integers = np.empty_like(product, dtype=np.int64)
    for start in range(0, len(values), PIECE):
        piece = values[start : start + PIECE]
        factor = scale if isinstance(scale, float) else scale[start : start + PIECE]
        rounded, whole = product[: len(piece)], integers[: len(piece)]
        np.multiply(piece, factor, out=rounded, dtype=np.float64)
        np.rint(rounded, out=rounded)
        np.copyto(whole, rounded, casting="unsafe")
        accumulator[start : start + PIECE] += whole


def _scaled(accumulator: torch.Tensor, factor: float, dtype: torch.dtype) -> torch.Tensor:
    """Return the integers times a factor, with no other copy of them."""
    result = torch.empty(accumulator.shape, dtype=dtype)
    integers, values = accumulator.reshape(-1), result.view(-1)
    for start in range(0, len(values), PIECE):
        piece = slice(start, start + PIECE)
        values[piece] = integers[piece].to(torch.float64).mul_(factor)
    return result
