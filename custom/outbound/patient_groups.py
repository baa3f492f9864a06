"""Which groups of a site's patients may have figures of their own that leave: no difference is of too few patients."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from .fields import MINIMUM_CASES


def released_groups(
    groups: Sequence[AbstractSet[str]],
    others: AbstractSet[str] = frozenset(),
    *,
    minimum: int = MINIMUM_CASES,
) -> tuple[bool, ...]:
    """Return for each group whether its figures may leave besides those of all patients of the site together.

    Who knows the figures of all, and of some groups, has those of the rest by subtraction. So not only each group that
    leaves, but also the rest has at least the minimum number of patients, or nobody. Where it has fewer the
    smallest groups are withheld with it until it has enough.

    Args:
        groups: patients of each group. Their cases are disjoint; a patient may be in several groups.
        others: patients with cases in the figures of all that are in no group.
        minimum: patients of a group, and of the rest.

    Example:
        >>> ten, four, one = set(map(str, range(10))), {"a", "b", "c", "d"}, {"e"}
        >>> released_groups([ten, four, one])
        (True, False, False)
        >>> released_groups([ten, four, set()])
        (True, True, False)
    """
    released = [len(group) >= minimum for group in groups]
    # Of equal groups it hangs on nothing but their patients, so that the order of names says nothing.
    smallest_first = sorted(range(len(groups)), key=lambda index: (len(groups[index]), sorted(groups[index])))
    for index in smallest_first:
        rest = set(others).union(*(group for group, leaves in zip(groups, released, strict=True) if not leaves))
        if not rest or len(rest) >= minimum:
            break
        released[index] = False
    return tuple(released)
