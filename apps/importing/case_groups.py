"""Cases that stay together, those of one patient or with identical images, and how groups are spread over classes."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from ...custom.data.datalist import TESTING, TRAINING
from ...custom.seeding import derive_seed
from .source import SourceCase


@dataclass(frozen=True)
class CaseTraits:
    """What a split has to know of a case's files.

    Attributes:
        digest: of its image's pixels; cases with the same one stay together. None for no such case.
        classes: the classes that it shows.
    """

    digest: str | None = None
    classes: frozenset[int] = frozenset()


@dataclass(frozen=True)
class CaseGroup:
    """Cases that stay together, and the part of the data set that they belong to.

    Attributes:
        positions: of the cases.
        section: the part.
        stratum: the rarest class that one of them shows, None where they show none or it does not matter.
        has_twin: another source has one of the images, too, so that it cannot be tested with.
    """

    positions: tuple[int, ...]
    section: str
    stratum: int | None = None
    has_twin: bool = False

    @property
    def size(self) -> int:
        """Number of cases."""
        return len(self.positions)


def case_groups(
    cases: Sequence[SourceCase],
    traits: Sequence[CaseTraits] | None,
    kept: Sequence[str],
    *,
    within_sources: bool,
) -> list[CaseGroup]:
    """Group cases of a volume or patient, and those with identical images.

    A group is in the last of the kept sections that one of its cases is in, else for training.

    Args:
        cases: the cases.
        traits: of each of them; None where contents do not count.
        kept: sections, the strongest last.
        within_sources: cases of two sources are never grouped; one that has the image of a case for testing is for
            testing, too.
    """
    # A case without a group is its own; patients of two sources can have one number.
    keys: list[list[Hashable]] = [[(case.source, case.group or index)] for index, case in enumerate(cases)]
    twins: list[list[Hashable]] = [list(own) for own in keys]
    for index, one in enumerate(traits or ()):
        if one.digest is not None:
            keys[index].append((cases[index].source if within_sources else None, "image", one.digest))
            twins[index].append(("image", one.digest))
    families = _sets_with_common(twins)
    family_of = {index: family for family in families for index in family}
    own = _sets_with_common(keys)
    strata = _strata(own, traits)
    groups = []
    for positions, stratum in zip(own, strata, strict=True):
        sections: set[str | None] = {cases[index].section for index in positions}
        if any(cases[index].section == TESTING for index in family_of[positions[0]]):
            sections.add(TESTING)
        result = [section for section in kept if section in sections]
        has_twin = len(family_of[positions[0]]) > len(positions)
        groups.append(CaseGroup(positions, result[-1] if result else TRAINING, stratum, has_twin))
    return groups


def take(groups: Sequence[CaseGroup], count: int) -> list[CaseGroup]:
    """The first groups that bring the number of cases nearer to the count; at least one where there is a count."""
    taken: list[CaseGroup] = []
    missing = count
    for group in groups:
        if abs(missing - group.size) < missing:
            taken.append(group)
            missing -= group.size
    if not taken and count and groups:
        return [min(groups, key=lambda group: group.size)]
    return taken


def take_of_every_class(groups: Sequence[CaseGroup], count: int) -> list[CaseGroup]:
    """Take groups as :func:`take` does, in their order, but of every stratum its share.

    A stratum of at least two groups gives at least one and keeps at least one, as far as the count goes.
    """
    strata = _by_stratum(groups)
    if len(strata) == 1:
        return take(groups, count)
    most = {stratum: _size(own) - max(group.size for group in own) for stratum, own in strata.items()}
    share = count / max(_size(groups), 1)
    exact = {stratum: share * _size(own) for stratum, own in strata.items()}
    counts = {stratum: min(max(int(exact[stratum]), int(bool(count))), most[stratum]) for stratum in strata}
    while sum(counts.values()) != count:
        step = 1 if sum(counts.values()) < count else -1
        able = [item for item in strata if (counts[item] < most[item] if step > 0 else counts[item] > 1)]
        if not able:
            break
        counts[max(able, key=lambda one: step * (exact[one] - counts[one]))] += step
    taken = {id(group) for stratum, own in strata.items() for group in take(own, counts[stratum])}
    return [group for group in groups if id(group) in taken]


def spread(groups: Sequence[CaseGroup], seed: int) -> list[CaseGroup]:
    """Put groups into an order in which every stratum is spread evenly; those of one stratum keep theirs."""
    strata = _by_stratum(groups)
    places: list[tuple[float, int, CaseGroup]] = []
    for stratum, own in strata.items():
        offset = np.random.default_rng(derive_seed(seed, "strata", str(stratum))).random()
        places += [((index + offset) / len(own), index, group) for index, group in enumerate(own)]
    return [group for _, _, group in sorted(places, key=lambda place: place[:2])]


def positions_of(groups: Iterable[CaseGroup]) -> list[int]:
    """Return the positions of the cases of groups, in their order."""
    return list(chain.from_iterable(group.positions for group in groups))


def _by_stratum(groups: Sequence[CaseGroup]) -> dict[int | None, list[CaseGroup]]:
    strata: dict[int | None, list[CaseGroup]] = {}
    for group in groups:
        strata.setdefault(group.stratum, []).append(group)
    return strata


def _sets_with_common(keys: Sequence[Sequence[Hashable]]) -> list[tuple[int, ...]]:
    """Sets of positions that are connected by common keys, each in order, by their first position."""
    parent = list(range(len(keys)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    first: dict[Hashable, int] = {}
    for index, own in enumerate(keys):
        for key in own:
            one, other = root(first.setdefault(key, index)), root(index)
            parent[max(one, other)] = min(one, other)
    members: dict[int, list[int]] = {}
    for index in range(len(keys)):
        members.setdefault(root(index), []).append(index)
    return [tuple(positions) for positions in members.values()]


def _strata(groups: Sequence[Sequence[int]], traits: Sequence[CaseTraits] | None) -> list[int | None]:
    """Of every group the class that the fewest groups show."""
    if traits is None:
        return [None] * len(groups)
    shown = [frozenset[int]().union(*(traits[index].classes for index in positions)) for positions in groups]
    count = Counter(label for classes in shown for label in classes)
    rarest: Callable[[int], tuple[int, int]] = lambda label: (count[label], label)  # noqa: E731
    return [min(classes, key=rarest, default=None) for classes in shown]


def _size(groups: Iterable[CaseGroup]) -> int:
    return sum(group.size for group in groups)
