"""Identical images stay together, and classes are spread evenly over sites, test and validation."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedannot.apps.importing.case_groups import (
    CaseGroup,
    CaseTraits,
    case_groups,
    positions_of,
    spread,
    take,
    take_of_every_class,
)
from fedannot.apps.importing.plan import SiteChoice, make_plan
from fedannot.apps.importing.source import SourceCase
from fedannot.transforms.errors import DataError


def case(index, group=None, source=None, section=None):
    return SourceCase(Path(f"{index}.png"), Path(f"{index}_mask.png"), group=group, source=source, section=section)


def places(plan):
    """Position → where it went."""
    result = dict.fromkeys(plan.test, "test")
    for site, sections in plan.sites.items():
        result |= {index: f"{site} {section}" for section, positions in sections.items() for index in positions}
    return result


def plan_of(cases, traits, sites="3", *, test=0.25, validation=0.0, seed=0):
    choice = SiteChoice.parse(sites)
    return make_plan(cases, choice, test_share=test, validation_share=validation, seed=seed, traits=traits)


def of_classes(*classes):
    return [CaseTraits(None, frozenset([label]) if isinstance(label, int) else frozenset(label)) for label in classes]


# Identical images


digests = st.sampled_from([None, None, None, "a", "b", "c"])
group_names = st.sampled_from([None, None, "p1", "p2", "p3"])


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(digests, group_names, st.sampled_from(["north", "south"])), min_size=12, max_size=30))
def test_identical_images_are_never_parted(drawn):
    cases = [case(index, group, source) for index, (_, group, source) in enumerate(drawn)]
    traits = [CaseTraits(digest) for digest, _, _ in drawn]
    try:
        result = places(plan_of(cases, traits, "2", validation=0.3))
    except DataError:
        # Too few groups for two sites.
        assume(False)
    assert sorted(result) == list(range(len(cases)))
    by_digest = {}
    for index, (digest, _, _) in enumerate(drawn):
        if digest is not None:
            assert by_digest.setdefault(digest, result[index]) == result[index]


def test_groups_are_connected_by_patients_and_by_images():
    cases = [case(0, "p1"), case(1), case(2, "p2"), case(3, "p1"), case(4)]
    traits = [CaseTraits(digest) for digest in ("x", "y", "y", "z", None)]
    groups = case_groups(cases, traits, [], within_sources=False)
    assert [group.positions for group in groups] == [(0, 3), (1, 2), (4,)]
    joined = case_groups(cases, [CaseTraits("x")] * 4 + [CaseTraits()], [], within_sources=False)
    assert [group.positions for group in joined] == [(0, 1, 2, 3), (4,)]
    assert [group.positions for group in case_groups(cases, None, [], within_sources=False)] == [
        (0, 3),
        (1,),
        (2,),
        (4,),
    ]


def test_without_twins_a_plan_is_what_it_is_without_contents():
    cases = [case(index, source="ab"[index % 2]) for index in range(40)]
    traits = [CaseTraits(str(index), frozenset({1})) for index in range(40)]
    for sites in ("3", "2-per-source"):
        plans = [plan_of(cases, known, sites, validation=0.2, seed=5) for known in (traits, None)]
        assert plans[0] == plans[1]


def test_a_site_of_each_source_keeps_its_own_cases_and_twins_are_not_tested_with():
    sources = ["north"] * 10 + ["south"] * 10
    cases = [case(index, source=source) for index, source in enumerate(sources)]
    # Nine of each source are a twin of one of the other's.
    traits = [CaseTraits(str(index % 10) if index % 10 else None) for index in range(20)]
    for seed in range(5):
        plan = plan_of(cases, traits, "by-source", test=0.2, seed=seed)
        assert set(plan.test) <= {0, 10}
        assert {sources[index] for index in plan.sites["north"]["training"]} == {"north"}


def test_the_twin_of_a_published_test_case_is_tested_with():
    cases = [case(0, source="a", section="testing"), case(1, source="b", section="training")]
    cases += [case(index, source="ab"[index % 2]) for index in range(2, 12)]
    traits = [CaseTraits("same"), CaseTraits("same"), *[CaseTraits()] * 10]
    for sites in ("2", "by-source"):
        assert sorted(plan_of(cases, traits, sites, test=None).test) == [0, 1]


# Classes


@pytest.mark.parametrize("seed", range(4))
def test_sites_test_and_validation_have_their_fraction_of_every_class(seed):
    labels = [0] * 300 + [1] * 90 + [2] * 30 + [3] * 6
    cases = [case(index) for index in range(len(labels))]
    plan = plan_of(cases, of_classes(*labels), "3", test=0.2, validation=0.25, seed=seed)
    assert len(plan.test) == round(0.2 * len(labels))
    assert Counter(labels[index] for index in plan.test) == {0: 60, 1: 18, 2: 6, 3: 1}
    parts = [positions for sections in plan.sites.values() for positions in sections.values()]
    for sections in plan.sites.values():
        counts = {name: Counter(labels[index] for index in part) for name, part in sections.items()}
        assert [counts["training"][label] + counts["validation"][label] for label in range(3)] == pytest.approx(
            [80, 24, 8], abs=1
        )
        assert [counts["validation"][label] for label in range(3)] == pytest.approx([20, 6, 2], abs=1)
    assert sorted(index for part in (*parts, plan.test) for index in part) == list(range(len(labels)))


def test_by_chance_alone_a_rare_class_would_often_miss_the_test_set():
    labels = [0] * 96 + [1] * 4
    cases, with_rare = [case(index) for index in range(100)], {True: 0, False: 0}
    for seed in range(20):
        for known in (True, False):
            plan = plan_of(cases, of_classes(*labels) if known else None, "4", test=0.1, seed=seed)
            with_rare[known] += any(labels[index] for index in plan.test)
            assert len(plan.test) == 10
    assert with_rare[True] == 20
    assert with_rare[False] < 12


@pytest.mark.parametrize("seed", range(3))
def test_patients_of_several_images_are_spread_by_their_rarest_class(seed):
    generator = np.random.default_rng(seed)
    cases, traits = [], []
    for patient in range(60):
        rare = patient % 6 == 0
        for _ in range(int(generator.integers(1, 6))):
            cases.append(case(len(cases), group=f"p{patient}"))
            traits.append(CaseTraits(None, frozenset({1}) if rare else frozenset({0})))
    plan = plan_of(cases, traits, "4", test=0.2, seed=seed)
    patients = [
        {cases[index].group for index in part if 1 in traits[index].classes}
        for part in (plan.test, *(sections["training"] for sections in plan.sites.values()))
    ]
    assert all(1 <= len(found) <= 4 for found in patients)
    sizes = [len(sections["training"]) for sections in plan.sites.values()]
    assert np.ptp(sizes) <= 5


def test_a_case_of_several_classes_counts_for_the_rarest():
    traits = of_classes({1}, {1, 2}, {1, 2, 3}, {1}, set(), {2})
    groups = case_groups([case(index) for index in range(6)], traits, [], within_sources=False)
    assert [group.stratum for group in groups] == [1, 2, 3, 1, None, 2]


def group(*positions, stratum=None):
    return CaseGroup(positions, "training", stratum)


def test_fractions_of_strata_by_hand():
    groups = [group(index, stratum=0 if index < 8 else 1) for index in range(10)]
    assert positions_of(take_of_every_class(groups, 5)) == [0, 1, 2, 3, 8]
    # One of each, though a tenth of two is none.
    assert positions_of(take_of_every_class(groups, 2)) == [0, 8]
    # One of two stays to be trained on.
    assert positions_of(take_of_every_class(groups, 9)) == [0, 1, 2, 3, 4, 5, 6, 8]
    assert take_of_every_class(groups, 0) == take_of_every_class([], 3) == []
    # A class that one group has alone stays where it can be learnt.
    alone = [*groups[:8], group(8, stratum=1)]
    assert positions_of(take_of_every_class(alone, 3)) == [0, 1, 2]
    assert take_of_every_class(groups[:8], 3) == take(groups[:8], 3)


def test_spread_groups_keep_the_order_of_their_stratum_and_lie_evenly():
    groups = [group(index, stratum=int(index >= 12)) for index in range(16)]
    order = positions_of(spread(groups, seed=3))
    assert [index for index in order if index < 12] == list(range(12))
    assert [index for index in order if index >= 12] == [12, 13, 14, 15]
    for start in range(0, 16, 4):
        assert sum(index >= 12 for index in order[start : start + 4]) in (0, 1, 2)
    assert spread(groups[:12], seed=3) == groups[:12]
