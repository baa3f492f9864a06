"""Differential privacy of what a site reports of its annotations: bounded values and Gaussian noise.

What is protected is a patient's images and contours: two sites are neighbours if they differ in those of one patient,
with as many samples that count for every class. How many patients and samples there are is not protected; those numbers
are sent as they are.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...transforms.array_types import Floats, Labels
from .noise_source import RandomBytes, with_noise
from .values import OutboundValues

# The noise is larger by this part than what one patient can change asks for, so that rounding leads beyond in no way.
_MARGIN = 2.0**-20


@dataclass(frozen=True)
class SampleValues:
    """What a field of a report is the mean or the sum of, sample by sample; stays at the site.

    Attributes:
        values: ``(N, M)`` values of N samples for the M entries of the field, NaN where a sample does not count.
        units: ``(N,)`` patient or volume that each sample is of, as numbers.
        is_mean: whether the field is their mean; else it is their sum.
        is_signed: whether values may be negative, and are bounded by their absolute value; else below 0 counts as 0.
    """

    values: Floats
    units: Labels
    is_mean: bool
    is_signed: bool = False

    @classmethod
    def of(cls, values: Any, units: Any, *, is_mean: bool, is_signed: bool = False) -> "SampleValues":
        """Make them of ``(N, M)`` or ``(N,)`` values and the names of the units."""
        table = np.asarray(values, dtype=np.float64)
        numbers = np.unique(np.asarray(units, dtype=str), return_inverse=True)[1]
        return cls(table if table.ndim > 1 else table[:, np.newaxis], numbers.astype(np.int64), is_mean, is_signed)

    def smallest(self, largest: float) -> float:
        """Return the smallest value that counts as such."""
        return -largest if self.is_signed else 0.0

    def bounded(self, entry: int, largest: float) -> float:
        """Return an entry with every value cut to 0..largest, or −largest..largest where they are signed."""
        values = self.values[:, entry]
        bounded = np.clip(values[~np.isnan(values)], self.smallest(largest), largest)
        # Rounded once, so that it changes by no more than the exact one.
        total = math.fsum(bounded.tolist())
        return total / len(bounded) if self.is_mean else total

    def sensitivity(self, entry: int, largest: float) -> float:
        """Return by how much one patient can change an entry whose values are cut to that bound."""
        counts = ~np.isnan(self.values[:, entry])
        samples_of_one = np.bincount(self.units[counts]).max(initial=0)
        return float((largest - self.smallest(largest)) * samples_of_one / (counts.sum() if self.is_mean else 1))

    def noisy(self, entry: int, largest: float, deviation: float, random_bytes: RandomBytes) -> float:
        """Return an entry with noise of a deviation by what one patient can change, cut to the values it can have."""
        noise = deviation * self.sensitivity(entry, largest)
        (drawn,) = with_noise(np.array([self.bounded(entry, largest)]), noise, random_bytes).tolist()
        if self.is_mean:
            return float(min(max(drawn, self.smallest(largest)), largest))
        return float(max(0, round(drawn)))


@dataclass(frozen=True)
class PatientVectors(SampleValues):
    """Vectors of which a field is the mean over patients, cut to a length; stays at the site.

    A patient has a vector in each of several groups, or none in some. The entries of a group are 1 where the patient
    has one, else 0, and the vector, zero where there is none.

    A bound B is that of a vector's length: longer ones get that length. Of a patient in place of another the vector of
    a group changes by 2 B at most, from none to one by B. So the part of those with a vector may count √3 B times, and
    one patient still changes a group by 2 B / N, of G groups together √G 2 B / N.

    Attributes:
        size: entries of a vector.
    """

    size: int = 1

    @classmethod
    def of_patients(cls, vectors: Floats) -> "PatientVectors":
        """Make them of ``(N, G, size)`` vectors of N patients in G groups, with NaN for a patient without one.

        A vector that is not finite counts as none.
        """
        patients, groups, size = vectors.shape
        there = np.isfinite(vectors).all(axis=2, keepdims=True)
        table = np.concatenate([there.astype(np.float64), np.where(there, vectors, 0.0)], axis=2)
        return cls(table.reshape(patients, groups * (size + 1)), np.arange(patients), is_mean=True, size=size)

    def smallest(self, largest: float) -> float:
        """Return the smallest value of an entry."""
        return -largest

    def bounded(self, entry: int, largest: float) -> float:
        """Return an entry of the mean of vectors that are cut to a length."""
        first = entry - entry % (self.size + 1)
        if entry == first:
            return math.fsum(self.values[:, entry].tolist()) / len(self.values)
        of_group = self.values[:, first + 1 : first + 1 + self.size]
        # Scaled by the largest entry first: a square may overflow.
        greatest = np.abs(of_group).max(axis=1)
        lengths = greatest * np.linalg.norm(of_group / np.where(greatest > 0, greatest, 1.0)[:, np.newaxis], axis=1)
        parts = np.where(lengths > largest, largest / np.maximum(lengths, largest), 1.0)
        return math.fsum((parts * self.values[:, entry]).tolist()) / len(self.values)

    def sensitivity(self, entry: int, largest: float) -> float:
        """Return by how much one patient can change the whole, as if each of its M entries changed by a √M-th.

        Noise that hides such changes of M entries hides this one: it is the same length.
        """
        number = self.values.shape[1]
        groups = number / (self.size + 1)
        change = 2.0 * largest * math.sqrt(groups / number) / len(self.values)
        return change if entry % (self.size + 1) else change / (math.sqrt(3.0) * largest)

    def noisy(self, entry: int, largest: float, deviation: float, random_bytes: RandomBytes) -> float:
        """Return an entry with noise; nothing is cut off."""
        noise = deviation * self.sensitivity(entry, largest)
        return float(with_noise(np.array([self.bounded(entry, largest)]), noise, random_bytes)[0])


def private_report(
    report: Mapping[str, Any],
    samples: Mapping[str, SampleValues],
    largest: Mapping[str, float],
    *,
    noise_multiplier: float,
    random_bytes: RandomBytes = os.urandom,
) -> OutboundValues:
    """Return a report with noise in every entry that samples are known of: N(0, (σ √M Δ_j)²).

    Δ_j is by how much one patient can change entry j of all M; together they are one Gaussian mechanism with μ = 1/σ,
    like an update of :func:`fedannot.custom.outbound.private_updates.privatised`. Entries that are withheld (NaN) stay
    so. Every sum of value and noise is rounded to a grid, see :mod:`fedannot.custom.outbound.noise_source`. Means are
    cut to their bounds again, counts are rounded and not negative; neither spends anything.

    Args:
        report: fields of a site's answer; others than those of `samples` stay as they are.
        samples: what fields are made of.
        largest: bound of a single value of each of these fields.
        noise_multiplier: σ.
        random_bytes: where the noise comes from; whoever can repeat it can take the noise away.

    Raises:
        ValueError: if the samples are of another number of entries, or an entry has none. Neither follows from what a
            sample's value is: infinite ones count as their bound.
    """
    given = _entries(report, samples)
    for name, values in given.items():
        _check_samples(name, values, samples[name])
    deviation = _deviation(given, noise_multiplier)
    result = dict(report)
    for name in given:
        noisy = [
            math.nan if math.isnan(value) else samples[name].noisy(entry, largest[name], deviation, random_bytes)
            for entry, value in enumerate(given[name])
        ]
        result[name] = noisy if isinstance(report[name], list) else type(report[name])(noisy[0])
    return result


def noise_deviations(
    report: Mapping[str, Any],
    samples: Mapping[str, SampleValues],
    largest: Mapping[str, float],
    *,
    noise_multiplier: float,
) -> dict[str, list[float]]:
    """Return the standard deviation of the noise that :func:`private_report` puts into each entry, NaN where into none.

    It follows from numbers of patients and samples, which are not protected, and from what the site has chosen.

    Args:
        report: as there; as above the others.
        samples: what fields are made of.
        largest: bound of a single value of each of these fields.
        noise_multiplier: σ.
    """
    given = _entries(report, samples)
    deviation = _deviation(given, noise_multiplier)
    return {
        name: [
            math.nan if math.isnan(value) else deviation * samples[name].sensitivity(entry, largest[name])
            for entry, value in enumerate(values)
        ]
        for name, values in given.items()
    }


def _entries(report: Mapping[str, Any], samples: Mapping[str, SampleValues]) -> dict[str, list[float]]:
    """The entries of the fields that samples are known of."""
    return {
        name: report[name] if isinstance(report[name], list) else [report[name]]
        for name in sorted(set(samples) & set(report))
    }


def _deviation(given: Mapping[str, list[float]], noise_multiplier: float) -> float:
    """The standard deviation of all noise by what one patient can change an entry."""
    num_entries = sum(not math.isnan(value) for values in given.values() for value in values)
    return (1.0 + _MARGIN) * noise_multiplier * math.sqrt(num_entries)


def _check_samples(name: str, values: list[float], samples: SampleValues) -> None:
    num_entries = samples.values.shape[1]
    if num_entries != len(values):
        raise ValueError(f"Expected samples of {len(values)} entries of {name!r}, but got those of {num_entries}.")
    lacks_samples = np.isnan(samples.values).all(axis=0) & ~np.isnan(values)
    if lacks_samples.any():
        raise ValueError(f"Expected samples of every entry of {name!r} that is not withheld.")
