"""Which sites train in a round, and which of a site's cases are trained on (FedSelect)."""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import torch

from ...outbound.fields import MINIMUM_CASES

# The program's ⌊0.4 K⌋ is none of two sites.
_FEWEST_SITES = 2


def number_of_sites(num_sites: int, fraction: float, smallest: int) -> int:
    """Return how many of the sites train: ⌊fraction · K⌋, at least two and `smallest`, as far as there are so many.

    Example:
        >>> [number_of_sites(count, 0.4, 1) for count in (1, 2, 4, 7, 10)]
        [1, 2, 2, 2, 4]
    """
    # Rounded, so that 0.29 of 100 sites are 29.
    number = math.floor(round(fraction * num_sites, 9))
    return min(max(number, _FEWEST_SITES, smallest), num_sites)


def drawn_sites(weights: Mapping[str, float], number: int, seed: int, last: Collection[str] = ()) -> list[str]:
    """Return sites that are drawn one after the other in proportion to their weights, without replacement, sorted.

    Sites of weight 0 come last, at equal chances.

    Args:
        weights: by site, at least 0.
        number: how many are drawn.
        seed: of the draw.
        last: sites that are drawn after all others, in the same way.
    """
    generator = np.random.default_rng(seed)
    first = {site: weight for site, weight in weights.items() if site not in last}
    drawn = _drawn_in_turn(first, min(number, len(first)), generator)
    if len(drawn) < number:
        rest = {site: weight for site, weight in weights.items() if site in last}
        drawn += _drawn_in_turn(rest, number - len(drawn), generator)
    return sorted(drawn)


def _drawn_in_turn(weights: Mapping[str, float], number: int, generator: np.random.Generator) -> list[str]:
    names = sorted(weights)
    chances = np.array([weights[name] for name in names], dtype=np.float64)
    positive = np.flatnonzero(chances)
    drawn: list[int] = []
    if len(positive):
        shares = chances[positive] / chances[positive].sum()
        drawn += generator.choice(positive, min(number, len(positive)), replace=False, p=shares).tolist()
    if len(drawn) < number:
        rest = [index for index in range(len(names)) if index not in positive]
        drawn += generator.choice(rest, number - len(drawn), replace=False).tolist()
    return [names[index] for index in drawn]


def number_of_cases(num_cases: int, fraction: float) -> int:
    """Return how many of a site's cases are drawn: ⌊fraction · N⌋, at least one."""
    return max(math.floor(round(fraction * num_cases, 9)), 1)


def drawn_cases(
    weights: torch.Tensor,
    units: Sequence[str],
    fraction: float,
    seed: int,
    *,
    patients: int = MINIMUM_CASES,
    samples: int = 1,
    counts: Sequence[int] | None = None,
    is_capped: bool = False,
) -> list[int]:
    """Return cases drawn in proportion to their weights with replacement, sorted: ⌊fraction · N⌋, at least one.

    Where they are of fewer patients than an update of the site may be, further ones are drawn, too. With a cap no
    patient has more than a third of the draws, rounded up: what it has too many of is drawn among the others. Where
    there are fewer samples than an update may be of, cases that have not been drawn come, too.

    Args:
        weights: of N cases, at least 0; where all are 0 each has the same chance.
        units: the patient of each.
        fraction: of the cases.
        seed: of the draw.
        patients: the fewest patients.
        samples: the fewest samples; those of a case count once.
        counts: how many samples each case has; None for one.
        is_capped: whether no patient may have most of the draws.
    """
    number = number_of_cases(len(weights), fraction)
    generator = torch.Generator().manual_seed(seed)
    drawn = _drawn(weights, number, generator)
    while len(known := {units[case] for case in drawn}) < min(patients, len(set(units))):
        drawn += _drawn_among([unit not in known for unit in units], weights, generator)
    if is_capped:
        drawn = _without_a_majority(drawn, weights, units, generator)
    of_case = [1] * len(units) if counts is None else counts
    while sum(of_case[case] for case in set(drawn)) < samples and len(set(drawn)) < len(units):
        drawn += _drawn_among([case not in drawn for case in range(len(units))], weights, generator)
    return sorted(drawn)


def _without_a_majority(
    drawn: Sequence[int], weights: torch.Tensor, units: Sequence[str], generator: torch.Generator
) -> list[int]:
    """The draws, of which at most a third, rounded up, are of one patient; as they are where there are no three."""
    most = math.ceil(len(drawn) / MINIMUM_CASES)
    if len(set(units)) < MINIMUM_CASES:
        return list(drawn)
    kept: list[int] = []
    counts: Counter[str] = Counter()
    for case in drawn:
        if counts[units[case]] < most:
            kept.append(case)
            counts[units[case]] += 1
    while len(kept) < len(drawn):
        (case,) = _drawn_among([counts[unit] < most for unit in units], weights, generator)
        kept.append(case)
        counts[units[case]] += 1
    return kept


def _drawn_among(is_open: Sequence[bool], weights: torch.Tensor, generator: torch.Generator) -> list[int]:
    """One of the cases that are open."""
    others = torch.tensor(is_open)
    return _drawn(torch.where(others, weights, 0.0), 1, generator, otherwise=others)


def _drawn(
    weights: torch.Tensor, number: int, generator: torch.Generator, otherwise: torch.Tensor | None = None
) -> list[int]:
    """Cases by their weights; where all are 0, all at equal chances, or those of `otherwise`."""
    if not float(weights.sum()) > 0:
        weights = torch.ones_like(weights) if otherwise is None else otherwise
    cases: list[int] = torch.multinomial(weights.double(), number, replacement=True, generator=generator).tolist()
    return cases


def samples_of_cases(cases: Sequence[int], counts: Sequence[int], is_used: torch.Tensor | None) -> torch.Tensor:
    """Return the samples of drawn cases, ``(M,)`` int64; those of a case that was drawn twice come twice.

    Args:
        cases: the drawn cases.
        counts: how many samples each of the site's cases has.
        is_used: which samples are trained on at all, booleans; None for all.
    """
    starts = np.concatenate([[0], np.cumsum(counts)])
    parts = [torch.arange(int(starts[case]), int(starts[case + 1])) for case in cases]
    if is_used is not None:
        parts = [part[is_used[part]] for part in parts]
    return torch.cat(parts)


def first_of_patients(units: Sequence[str], smallest: int) -> list[int]:
    """Return the first case of each of the first patients: of so many, as far as there are."""
    first: dict[str, int] = {}
    for index, unit in enumerate(units):
        first.setdefault(unit, index)
    return list(first.values())[:smallest]
