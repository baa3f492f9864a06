"""Which case goes to which site, which to the test set: groups stay together, sources where it is asked for."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...custom.data.datalist import TESTING, TRAINING, VALIDATION
from ...custom.data.phantoms.drawing import phantom_site_names
from ...custom.seeding import derive_seed
from ...transforms.errors import DataError
from .case_groups import CaseGroup, CaseTraits, case_groups, positions_of, spread, take_of_every_class
from .site_names import site_names
from .source import SourceCase

_FORMS = "8, by-source, 2-per-source or 50-by-source"
_TEST_SHARE = 0.2


@dataclass(frozen=True)
class SiteChoice:
    """How a data set is split into sites.

    Attributes:
        count: number of sites; in all, or of every source.
        by_source: a site has cases of one source only.
        per_source: the number is that of every source.
        by_content: what images and annotations show counts: pixel-identical images stay together, and every class is
            spread evenly over sites, test and validation, as far as whole groups allow it.
        parts_patients: cases are dealt out one by one, whatever their volume, video or patient, as some papers do. The
            test set then holds patients that were trained on.
        test_sources: sources that the common test set is drawn from; empty for all. The published test cases of the
            others are trained on.
    """

    count: int | None
    by_source: bool = False
    per_source: bool = False
    by_content: bool = True
    parts_patients: bool = False
    test_sources: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "SiteChoice":
        """Read ``8`` (sites of equal size), ``by-source`` (one of every source), ``2-per-source`` or ``50-by-source``.

        Raises:
            DataError: if the text has another form or a number is below 1.
        """
        result = re.fullmatch(r"(\d+)|by-source|(\d+)-per-source|(\d+)-by-source", text.strip())
        if result is None or any(number == 0 for number in map(int, filter(None, result.groups()))):
            raise DataError(f"--sites: found {text!r}, expected {_FORMS}.")
        plain, per_source, by_source = (None if number is None else int(number) for number in result.groups())
        if plain is not None:
            return cls(plain)
        return cls(per_source or by_source, by_source=True, per_source=per_source is not None)


@dataclass(frozen=True)
class Plan:
    """Positions of cases.

    Attributes:
        sites: site → section → positions.
        test: positions of the common test set.
    """

    sites: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    test: list[int] = field(default_factory=list)


def make_plan(
    cases: Sequence[SourceCase],
    choice: SiteChoice,
    *,
    test_share: float | None,
    validation_share: float,
    seed: int,
    traits: Sequence[CaseTraits] | None = None,
) -> Plan:
    """Deal cases out at random; those with identical images never part, nor cases of a group unless `choice` says so.

    Without a test share, cases that their publishers put into a test part are the test set. With one, or where there is
    no such part, the test set takes its fraction of the cases at random, of every source where sites have one source
    each. Cases that their publishers put into a validation part are never trained on or tested with; a site that has
    some draws no others. A group that its publishers have parted goes into their test part, else into their validation
    part.

    The sites of a source get equal numbers of cases, ±1 where every case is its own group. Where cases are dealt out by
    their content, a site, the test set and a validation list have every class in its fraction of all cases; a case of
    several classes counts for the rarest. Where sites have one source each, an image that two sources have is never
    drawn for the test.

    Args:
        cases: the usable cases.
        choice: how many sites, and of what.
        test_share: fraction of the cases for the common test set, as near as whole groups come to it; None takes the
            publishers', else a fifth.
        validation_share: fraction of each site's cases that becomes its validation list, as above.
        seed: seed of the split.
        traits: what each case shows; None where contents do not count.

    Raises:
        DataError: if a share is out of range, a source is not known where it decides, or there are too few cases.
    """
    for name, value in (("test", test_share), ("validation", validation_share)):
        if value is not None and not 0 <= value < 1:
            raise DataError(f"Import: found {name}={value}, expected a share from 0 to below 1.")
    cases = _as_chosen(cases, choice)
    published = test_share is None and any(case.section == TESTING for case in cases)
    share = 0.0 if published else (_TEST_SHARE if test_share is None else test_share)
    kept = [VALIDATION, TESTING] if published else [VALIDATION]
    groups = case_groups(cases, traits if choice.by_content else None, kept, within_sources=choice.by_source)
    test = [group for group in groups if group.section == TESTING]
    pools = _pools(cases, choice, [group for group in groups if group.section != TESTING])
    for source, pool in pools.items():
        shuffled = _shuffled(pool, derive_seed(seed, "import", *([source] if source else [])))
        eligible = _of_sources(shuffled, cases, choice.test_sources)
        drawable = [group for group in _of_section(eligible, TRAINING) if not group.has_twin]
        drawn = take_of_every_class(drawable, round(share * _size(eligible)))
        test += drawn
        pools[source] = _without(shuffled, drawn)
    counts = _site_counts(choice, pools, f"found {len(cases)} usable cases, {_size(test)} of them for the test set")
    names = site_names(counts) if choice.by_source else {"": phantom_site_names(counts[""])}
    sites = {
        name: _with_validation(own, validation_share, derive_seed(seed, "import", "validation", name))
        for source, pool in pools.items()
        for name, own in zip(names[source], _deal(spread(pool, seed), counts[source]), strict=True)
    }
    return Plan(sites, positions_of(test))


def _as_chosen(cases: Sequence[SourceCase], choice: SiteChoice) -> Sequence[SourceCase]:
    """The cases without what does not count for the split.

    Raises:
        DataError: if the test set is to be drawn from a source that there is not.
    """
    if choice.parts_patients:
        cases = [replace(case, group=None) for case in cases]
    if not choice.test_sources:
        return cases
    known = {case.source for case in cases if case.source}
    if unknown := [source for source in choice.test_sources if source not in known]:
        raise DataError(
            f"--test-source: found {', '.join(unknown)}; expected some of the sources "
            f"{', '.join(sorted(known)) or '(none is known)'}."
        )
    return [
        replace(case, section=None) if case.section == TESTING and case.source not in choice.test_sources else case
        for case in cases
    ]


def _of_sources(
    groups: Sequence[CaseGroup], cases: Sequence[SourceCase], sources: Sequence[str]
) -> Sequence[CaseGroup]:
    """The groups all of whose cases are of some sources; all groups where none is named."""
    if not sources:
        return groups
    return [group for group in groups if all(cases[position].source in sources for position in group.positions)]


def _pools(cases: Sequence[SourceCase], choice: SiteChoice, groups: Sequence[CaseGroup]) -> dict[str, list[CaseGroup]]:
    """Groups by source, or all under an empty name where sources do not matter."""
    if not choice.by_source:
        return {"": list(groups)}
    unknown = [cases[index].image.name for index in positions_of(groups) if not cases[index].source]
    if unknown:
        raise DataError(
            f"--sites: found {len(unknown)} cases without a source, {unknown[0]} for one; expected the centre of each: "
            "--source '^([^/]+)/' finds it in the paths of images, --source-column in a table, the key 'source' in a "
            "datalist. Else give a number of sites."
        )
    pools: dict[str, list[CaseGroup]] = {}
    for group in groups:
        pools.setdefault(str(cases[group.positions[0]].source), []).append(group)
    return dict(sorted(pools.items()))


def _site_counts(choice: SiteChoice, pools: Mapping[str, Sequence[CaseGroup]], found: str) -> dict[str, int]:
    """Number of sites of every source; each of them needs a group to train on."""
    most = {source: len(_of_section(pool, TRAINING)) for source, pool in pools.items()}
    if not any(most.values()):
        raise DataError(f"Import: {found}; expected some to train on.")
    if not choice.by_source or choice.count is None or choice.per_source:
        counts = dict.fromkeys(pools, choice.count or 1)
    elif choice.count < len(pools):
        raise DataError(f"--sites: found {choice.count} sites for {len(pools)} sources; expected at least one each.")
    elif choice.count > sum(most.values()):
        raise _too_few(found, choice.count, "", [group for pool in pools.values() for group in pool])
    else:
        counts = _proportional(choice.count, {source: _size(pool) for source, pool in pools.items()}, most)
    for source, count in counts.items():
        if most[source] < count:
            raise _too_few(found, count, f" of {source}" if source else "", pools[source])
    return counts


def _too_few(found: str, count: int, where: str, groups: Sequence[CaseGroup]) -> DataError:
    left = _of_section(groups, TRAINING)
    kind = "cases" if len(left) == _size(left) else "groups (volumes or patients)"
    return DataError(
        f"Import: {found}; expected at least one for each of {count} sites{where}, where {len(left)} {kind} are left "
        "to train on."
    )


def _proportional(total: int, sizes: Mapping[str, int], most: Mapping[str, int]) -> dict[str, int]:
    """Number of sites of every source such that the largest sites are as small as can be."""
    counts = dict.fromkeys(sizes, 1)
    for _ in range(total - len(sizes)):
        # The next site goes to the source whose sites are the largest.
        able = [source for source in sizes if counts[source] < most[source]]
        if able:
            counts[max(able, key=lambda source: sizes[source] / counts[source])] += 1
    return counts


def _deal(groups: Sequence[CaseGroup], count: int) -> list[list[CaseGroup]]:
    """Split into sites of nearly equal size; those to train on come first, for every site needs some."""
    if all(group.size == 1 and group.section == TRAINING for group in groups):
        return [[groups[place] for place in part] for part in np.array_split(np.arange(len(groups)), count)]
    sites: list[list[CaseGroup]] = [[] for _ in range(count)]
    sizes = [0] * count
    of_stratum: Counter[tuple[int, int | None]] = Counter()
    for group in sorted(groups, key=lambda group: (group.section != TRAINING, -group.size)):
        # Of the sites that would be no larger than the smallest one with this group, the one that lacks it most.
        able = [site for site in range(count) if sizes[site] < min(sizes) + group.size]
        chosen = min(able, key=lambda site: (of_stratum[site, group.stratum], sizes[site]))
        sites[chosen].append(group)
        sizes[chosen] += group.size
        of_stratum[chosen, group.stratum] += group.size
    return sites


def _with_validation(own: Sequence[CaseGroup], share: float, seed: int) -> dict[str, list[int]]:
    """A site's sections; it keeps at least one group to train on."""
    training, validation = _of_section(own, TRAINING), _of_section(own, VALIDATION)
    if not validation:
        validation = take_of_every_class(_shuffled(training, seed)[:-1], round(share * _size(training)))
        training = _without(training, validation)
    sections = {TRAINING: positions_of(training), VALIDATION: positions_of(validation)}
    return {section: positions for section, positions in sections.items() if positions}


def _shuffled(groups: Sequence[CaseGroup], seed: int) -> list[CaseGroup]:
    return [groups[place] for place in np.random.default_rng(seed).permutation(len(groups))]


def _of_section(groups: Iterable[CaseGroup], section: str) -> list[CaseGroup]:
    return [group for group in groups if group.section == section]


def _without(groups: Iterable[CaseGroup], taken: Iterable[CaseGroup]) -> list[CaseGroup]:
    left_out = set(taken)
    return [group for group in groups if group not in left_out]


def _size(groups: Iterable[CaseGroup]) -> int:
    return sum(group.size for group in groups)
