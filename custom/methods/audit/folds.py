"""Which patients of a site which model of an audit learns, and which it predicts."""

from collections.abc import Collection

import numpy as np

from ...seeding import derive_seed

# A model that has learnt nothing predicts nothing.
_FEWEST_UNITS = 2


def fold_of_round(round_number: int, rounds_of_fold: int) -> int:
    """Return the fold, from 0, whose model a round trains.

    Args:
        round_number: the round, from 1.
        rounds_of_fold: rounds of each model.
    """
    return (round_number - 1) // rounds_of_fold


def parts(units: Collection[str], folds: int, *, seed: int, site: str) -> dict[str, int]:
    """Return for every patient the fold whose model predicts and does not learn it; the parts differ by one at most.

    Args:
        units: the site's patients or volumes.
        folds: number of parts.
        seed: the job's.
        site: the site's name.

    Returns:
        By patient. Without two patients or two parts it is empty: then every model learns all of them.
    """
    names = sorted(set(units))
    if folds < 2 or len(names) < _FEWEST_UNITS:
        return {}
    order = np.random.default_rng(derive_seed(seed, site, "folds")).permutation(len(names))
    return {names[index]: position % folds for position, index in enumerate(order)}
