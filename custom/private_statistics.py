"""Differential privacy of what a site reports of its annotations: bounded values and Gaussian noise.

What is protected is a patient's images and contours: two sites are neighbours if they differ in those of one patient,
with as many samples that count for every class. How many patients and samples there are is not protected; those numbers
are sent as they are.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class SampleValues:
    """What a field of a report is the mean or the sum of, sample by sample; stays at the site.

    Attributes:
        values: ``(N, M)`` values of N samples for the M entries of the field, NaN where a sample does not count.
        units: ``(N,)`` patient or volume that each sample is of, as numbers.
        is_mean: whether the field is their mean; else it is their sum.
    """

    values: NDArray[np.float64]
    units: NDArray[np.int64]
    is_mean: bool

    @classmethod
    def of(cls, values: Any, units: Any, *, is_mean: bool) -> "SampleValues":
        """Make them of ``(N, M)`` or ``(N,)`` values and the names of the units."""
        table = np.asarray(values, dtype=np.float64)
        numbers = np.unique(np.asarray(units, dtype=str), return_inverse=True)[1]
        return cls(table if table.ndim > 1 else table[:, np.newaxis], numbers.astype(np.int64), is_mean)

    def bounded(self, entry: int, largest: float) -> float:
        """Return an entry with every value cut to 0..largest."""
        values = self.values[:, entry]
        bounded = np.clip(values[~np.isnan(values)], 0.0, largest)
        return float(bounded.mean() if self.is_mean else bounded.sum())

    def sensitivity(self, entry: int, largest: float) -> float:
        """Return by how much one patient can change an entry whose values lie in 0..largest."""
        counts = ~np.isnan(self.values[:, entry])
        samples_of_one = np.bincount(self.units[counts]).max(initial=0)
        return float(largest * samples_of_one / (counts.sum() if self.is_mean else 1))


def private_report(
    report: Mapping[str, Any],
    samples: Mapping[str, SampleValues],
    largest: Mapping[str, float],
    *,
    noise_multiplier: float,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Return a report with noise in every entry that samples are known of: N(0, (σ √M Δ_j)²).

    Δ_j is by how much one patient can change entry j of all M; together they are one Gaussian mechanism with μ = 1/σ,
    like an update of :func:`fedannot.custom.privacy.privatised`. Entries that are withheld (NaN) stay so. Means are cut
    to 0..largest again, counts are rounded and not negative; neither spends anything.

    Args:
        report: fields of a site's answer; others than those of `samples` stay as they are.
        samples: what fields are made of.
        largest: bound of a single value of each of these fields.
        noise_multiplier: σ.
        rng: of the noise; whoever can repeat it can take the noise away.
    """
    fields = sorted(set(samples) & set(report))
    given = {name: report[name] if isinstance(report[name], list) else [report[name]] for name in fields}
    num_entries = sum(not math.isnan(value) for values in given.values() for value in values)
    result = dict(report)
    for name in fields:
        of_field, bound = samples[name], largest[name]
        noisy: list[float] = []
        for entry, value in enumerate(given[name]):
            if math.isnan(value):
                noisy.append(math.nan)
                continue
            deviation = noise_multiplier * math.sqrt(num_entries) * of_field.sensitivity(entry, bound)
            drawn = of_field.bounded(entry, bound) + deviation * rng.standard_normal()
            noisy.append(min(max(drawn, 0.0), float(bound)) if of_field.is_mean else float(max(0, round(drawn))))
        if isinstance(report[name], list):
            result[name] = noisy
        else:
            result[name] = type(report[name])(noisy[0])
    return result
