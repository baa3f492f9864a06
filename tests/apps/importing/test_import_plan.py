from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedannot.apps.importing.plan import SiteChoice, make_plan
from fedannot.apps.importing.source import SourceCase
from fedannot.custom.data.federation import FederationDescription
from fedannot.transforms.errors import DataError


def case(index, group=None, source=None, section=None):
    return SourceCase(Path(f"{index}.png"), Path(f"{index}_mask.png"), group=group, source=source, section=section)


def cases_of_sources(**sizes):
    sources = [source for source, size in sizes.items() for _ in range(size)]
    return [case(index, source=source) for index, source in enumerate(sources)]


def plan_of(cases, sites, *, test=None, validation=0.0, seed=0):
    return make_plan(cases, SiteChoice.parse(sites), test_share=test, validation_share=validation, seed=seed)


def places(plan):
    """Every position with where it went, one entry for each time it appears."""
    dealt = [
        (index, f"{site} {name}") for site, own in plan.sites.items() for name, part in own.items() for index in part
    ]
    return dealt + [(index, "test") for index in plan.test]


def size(plan, site):
    return sum(len(positions) for positions in plan.sites[site].values())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8", SiteChoice(8)),
        (" 12 ", SiteChoice(12)),
        ("by-source", SiteChoice(None, by_source=True)),
        ("2-per-source", SiteChoice(2, by_source=True, per_source=True)),
        ("50-by-source", SiteChoice(50, by_source=True)),
    ],
)
def test_forms_of_sites(text, expected):
    assert SiteChoice.parse(text) == expected


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "0-per-source", "00-by-source", "by-centre", "2.5", "per-source", "8 9"]
)
def test_other_forms_of_sites_are_errors(text):
    with pytest.raises(
        DataError, match=rf"--sites: found {text!r}, expected 8, by-source, 2-per-source or 50-by-source"
    ):
        SiteChoice.parse(text)


group_names = st.sampled_from([None, "", "p1", "p2", "p3", "p4", "p5"])
source_names = st.sampled_from(["north", "south", "test"])
sections = st.sampled_from([None, None, "training", "validation", "testing"])


@settings(max_examples=60, deadline=None)
@given(
    drawn=st.lists(st.tuples(group_names, source_names, sections), min_size=8, max_size=25),
    sites=st.sampled_from(["1", "2", "3", "by-source", "2-per-source", "4-by-source"]),
    test=st.sampled_from([None, 0.0, 0.2, 0.5]),
    validation=st.sampled_from([0.0, 0.3]),
)
def test_every_case_goes_to_one_place_and_no_group_to_two(drawn, sites, test, validation):
    cases = [case(index, *fields) for index, fields in enumerate(drawn)]
    try:
        plan = plan_of(cases, sites, test=test, validation=validation)
    except DataError:
        return  # Too few for so many sites.
    result = places(plan)
    assert Counter(index for index, _ in result) == Counter(range(len(cases)))
    homes = {}
    for index, place in result:
        if cases[index].group:
            homes.setdefault((cases[index].source, cases[index].group), set()).add(place)
    assert all(len(home) == 1 for home in homes.values())
    assert all(own["training"] for own in plan.sites.values())
    if "source" in sites:
        for own in plan.sites.values():
            assert len({cases[index].source for part in own.values() for index in part}) == 1
    where = dict(result)
    parted_by_publishers = {
        home for home in homes if len({c.section for c in cases if (c.source, c.group) == home}) > 1
    }
    for index, each in enumerate(cases):
        if (each.source, each.group) in parted_by_publishers:
            continue
        if each.section == "validation":
            assert where[index].endswith("validation")
        if test is None and any(c.section == "testing" for c in cases):
            assert (where[index] == "test") == (each.section == "testing")
    # The names can be those of a federation.
    FederationDescription(name="any", sites=tuple(plan.sites))


@pytest.mark.parametrize("sites", ["2-per-source", "by-source", "3"])
def test_the_test_set_is_of_the_sources_that_are_named(sites):
    cases = [*cases_of_sources(isbi=20, utah=40), case("published", source="isbi", section="testing")]
    choice = replace(SiteChoice.parse(sites), test_sources=("utah",))
    plan = make_plan(cases, choice, test_share=0.25, validation_share=0.0, seed=3)
    assert [cases[index].source for index in plan.test] == ["utah"] * 10
    # The others' published test case is trained on.
    assert Counter(index for index, _ in places(plan)) == Counter(range(len(cases)))
    without_share = make_plan(cases, choice, test_share=None, validation_share=0.0, seed=3)
    assert [cases[index].source for index in without_share.test] == ["utah"] * 8


def test_an_unknown_source_of_the_test_set_is_named():
    with pytest.raises(DataError, match="--test-source: found ohio; expected some of the sources isbi, utah"):
        make_plan(
            cases_of_sources(isbi=9, utah=9),
            SiteChoice(2, test_sources=("utah", "ohio")),
            test_share=0.2,
            validation_share=0.0,
            seed=0,
        )


def test_patients_are_parted_where_that_is_asked_for():
    """Two videos of 50 frames: together one of them is the test set, by frame a fifth of all frames is."""
    cases = [case(f"{video}-{frame}", group=video) for video in ("a", "b") for frame in range(50)]
    parted = make_plan(cases, SiteChoice(4, parts_patients=True), test_share=0.2, validation_share=0.125, seed=0)
    assert len(parted.test) == 20
    assert {cases[index].group for index in parted.test} == {"a", "b"}
    # 7 : 1 : 2, four sites alike.
    sizes = [(len(own["training"]), len(own["validation"])) for own in parted.sites.values()]
    assert [sum(counts) for counts in zip(*sizes, strict=True)] == [72, 8]
    assert set(sizes) == {(18, 2)}
    with pytest.raises(DataError, match="1 groups"):
        make_plan(cases, SiteChoice(4), test_share=0.2, validation_share=0.125, seed=0)


@settings(max_examples=60, deadline=None)
@given(num_cases=st.integers(1, 60), num_sites=st.integers(1, 8), test=st.sampled_from([0.0, 0.2, 0.37]))
def test_cases_without_groups_are_dealt_equally(num_cases, num_sites, test):
    expected_test = round(test * num_cases)
    assume(num_cases - expected_test >= num_sites)
    plan = plan_of([case(index) for index in range(num_cases)], str(num_sites), test=test)
    assert len(plan.test) == expected_test
    assert list(plan.sites) == [f"site-{index + 1}" for index in range(num_sites)]
    sizes = [size(plan, site) for site in plan.sites]
    assert max(sizes) - min(sizes) <= 1


@settings(max_examples=60, deadline=None)
@given(sizes=st.lists(st.integers(1, 7), min_size=4, max_size=14), num_sites=st.integers(1, 4))
def test_sites_of_groups_differ_by_one_group_at_most(sizes, num_sites):
    cases = [case(f"{group}-{index}", group=str(group)) for group, count in enumerate(sizes) for index in range(count)]
    plan = plan_of(cases, str(num_sites), test=0)
    result = [size(plan, site) for site in plan.sites]
    assert max(result) - min(result) <= max(sizes)


def test_same_seed_same_plan_and_other_seed_another():
    cases = [case(index, group=str(index // 2), source="ab"[index % 4 // 2]) for index in range(40)]
    for sites in ("4", "2-per-source"):
        first, again, other = (plan_of(cases, sites, validation=0.2, seed=seed) for seed in (1, 1, 2))
        assert first == again
        assert first.test != other.test
        assert first.sites != other.sites


def test_by_source_is_a_site_of_every_source_and_tests_with_a_fraction_of_each():
    cases = cases_of_sources(large=40, small=10)
    plan = plan_of(cases, "by-source")
    assert {site: size(plan, site) for site in plan.sites} == {"large": 32, "small": 8}
    assert Counter(cases[index].source for index in plan.test) == {"large": 8, "small": 2}


def test_sources_of_equal_size_are_not_split_alike():
    tested = plan_of(cases_of_sources(a=20, b=20), "by-source").test
    assert sorted(index for index in tested if index < 20) != sorted(index - 20 for index in tested if index >= 20)


def test_number_per_source():
    plan = plan_of(cases_of_sources(a=9, b=4), "2-per-source", test=0)
    assert {site: size(plan, site) for site in plan.sites} == {"a-1": 5, "a-2": 4, "b-1": 2, "b-2": 2}


@settings(max_examples=40, deadline=None)
@given(sizes=st.lists(st.integers(1, 12), min_size=1, max_size=3), extra=st.integers(0, 6))
def test_sites_in_all_go_to_sources_so_that_the_largest_site_is_as_small_as_can_be(sizes, extra):
    total = len(sizes) + extra
    assume(total <= sum(sizes))
    cases = cases_of_sources(**{f"s{index}": size for index, size in enumerate(sizes)})
    plan = plan_of(cases, f"{total}-by-source", test=0)
    counts = Counter(site.partition("-")[0] for site in plan.sites)
    assert counts.total() == total
    allowed = [range(1, size + 1) for size in sizes]
    possible = [numbers for numbers in product(*allowed) if sum(numbers) == total]
    best = min(max(size / number for size, number in zip(sizes, numbers, strict=True)) for numbers in possible)
    assert max(size / counts[f"s{index}"] for index, size in enumerate(sizes)) == pytest.approx(best)


def test_sites_in_all_go_where_there_are_patients():
    # 20 slices of two patients can be two sites only, however many they are.
    cases = [case(index, group=str(index % 2), source="a") for index in range(20)]
    cases += [case(f"b{index}", source="b") for index in range(4)]
    plan = plan_of(cases, "5-by-source", test=0)
    assert {site: size(plan, site) for site in plan.sites} == {"a-1": 10, "a-2": 10, "b-1": 2, "b-2": 1, "b-3": 1}


def test_patients_of_two_sources_with_one_number_are_two_patients():
    cases = [case(index, group="1", source=source) for index, source in enumerate("ab")]
    assert len(plan_of(cases, "2", test=0).sites) == 2
    # A source and a group that read alike when written together are not mixed up either.
    cases = [case(0, group="b c", source="a"), case(1, group="c", source="a b")]
    assert len(plan_of(cases, "2", test=0).sites) == 2


def test_the_publishers_sections_are_kept():
    parts = ["training"] * 6 + ["validation"] * 3 + ["testing"] * 5
    cases = [case(index, section=section) for index, section in enumerate(parts)]
    plan = plan_of(cases, "2", validation=0.5)
    assert sorted(plan.test) == [9, 10, 11, 12, 13]
    assert sorted(index for own in plan.sites.values() for index in own["training"]) == [0, 1, 2, 3, 4, 5]
    assert sorted(index for own in plan.sites.values() for index in own["validation"]) == [6, 7, 8]
    assert sorted(size(plan, site) for site in plan.sites) == [4, 5]


def test_every_site_trains_where_many_cases_are_published_for_validation():
    cases = [case(index, section="training" if index < 4 else "validation") for index in range(30)]
    for seed in range(5):
        plan = plan_of(cases, "4", test=0, seed=seed)
        assert [len(own["training"]) for own in plan.sites.values()] == [1, 1, 1, 1]


def test_a_share_overrules_the_published_test_part_but_not_the_validation_part():
    parts = ["testing"] * 4 + ["validation"] * 2 + ["training"] * 4
    cases = [case(index, section=section) for index, section in enumerate(parts)]
    assert plan_of(cases, "1", test=0).test == []
    for seed in range(5):
        plan = plan_of(cases, "1", test=0.3, seed=seed)
        assert len(plan.test) == 3
        assert sorted(plan.sites["site-1"]["validation"]) == [4, 5]


@pytest.mark.parametrize(
    ("sections", "place"),
    [
        (("training", "testing"), "test"),
        (("validation", "testing"), "test"),
        (("training", "validation"), "site-1 validation"),
        ((None, "training"), "site-1 training"),
    ],
)
def test_a_patient_whom_the_publishers_parted_goes_to_one_place(sections, place):
    cases = [case(index, group="p", section=section) for index, section in enumerate(sections)]
    cases += [case(2, section="training"), case(3, section="testing")]
    where = dict(places(plan_of(cases, "1")))
    assert where == {0: place, 1: place, 2: "site-1 training", 3: "test"}


def test_shares_come_as_near_as_whole_groups_do():
    # 100 cases: one patient with 90 and ten with one; a fifth is 20, nearest to which are the ten.
    cases = [case(index, group="large" if index < 90 else str(index)) for index in range(100)]
    for seed in range(6):
        assert sorted(plan_of(cases, "1", seed=seed).test) == list(range(90, 100))
    # Two patients of 5: a fifth of 10 is 2, and one patient is the least there is.
    halves = [case(index, group=str(index % 2)) for index in range(10)]
    assert len(plan_of(halves, "1").test) == 5


@pytest.mark.parametrize(("num_cases", "share", "expected"), [(10, 0.3, 3), (2, 0.9, 1), (1, 0.9, 0), (10, 0.04, 0)])
def test_validation_takes_its_fraction_of_a_site_but_not_all(num_cases, share, expected):
    plan = plan_of([case(index) for index in range(num_cases)], "1", test=0, validation=share)
    own = plan.sites["site-1"]
    assert len(own.get("validation", [])) == expected
    assert len(own["training"]) == num_cases - expected


def test_validation_is_drawn_from_all_groups_not_from_the_largest():
    # A fifth of 15 is 3: the patient with three cases, or three of the patients with one.
    cases = [case(index, group=str(max(index, 2))) for index in range(15)]
    sites = [plan_of(cases, "1", test=0, validation=0.2, seed=seed).sites["site-1"] for seed in range(10)]
    drawn = {tuple(sorted(site["validation"])) for site in sites}
    assert all(len(positions) == 3 for positions in drawn)
    assert len(drawn - {(0, 1, 2)}) > 3


@pytest.mark.parametrize(
    ("source", "site"),
    [
        ("Hôpital A/2", "Hopital-A-2"),
        ("../../etc", "etc"),
        ("st. mary's", "st-mary-s"),
        ("test", "source-test"),
        ("Test", "source-Test"),
        ("server", "source-server"),
        ("federation.yaml", "federation-yaml"),
        ("医院", "source"),
        ("_x_", "x"),
        ("a" * 300, "a" * 60),
    ],
)
def test_names_of_sources_become_names_of_sites(source, site):
    cases = [case(index, source=source) for index in range(2)]
    assert list(plan_of(cases, "by-source", test=0).sites) == [site]
    FederationDescription(name="any", sites=(site,))


@pytest.mark.parametrize(
    ("sources", "sites", "expected"),
    [
        (("A 1", "A/1"), "by-source", {"A-1", "A-1-2"}),
        (("Nord", "nord"), "by-source", {"Nord", "nord-2"}),
        (("医", "院"), "by-source", {"source", "source-2"}),
        # The second site of "a" would be called like the source "a-2".
        (("a", "a-2"), "3-by-source", {"a-1", "a-2", "a-2-2"}),
    ],
)
def test_sources_whose_names_become_the_same_stay_apart(sources, sites, expected):
    sizes = (5, 3)
    cases = [case(index, source=source) for source, count in zip(sources, sizes, strict=True) for index in range(count)]
    plan = plan_of(cases, sites, test=0)
    assert set(plan.sites) == expected
    assert sum(size(plan, site) for site in plan.sites) == 8
    for own in plan.sites.values():
        assert len({cases[index].source for index in own["training"]}) == 1


ten = [case(index) for index in range(10)]


@pytest.mark.parametrize(
    ("cases", "sites", "options", "message"),
    [
        (
            ten,
            "9",
            {},
            r"found 10 usable cases, 2 of them for the test set; .* each of 9 sites, where 8 cases are left",
        ),
        (ten, "1", {"test": 1.0}, r"found test=1\.0, expected a share from 0 to below 1"),
        (ten, "1", {"test": -0.1}, r"found test=-0\.1"),
        (ten, "1", {"test": float("nan")}, "found test=nan"),
        (ten, "1", {"validation": 1.5}, r"found validation=1\.5"),
        (ten, "by-source", {}, "found 10 cases without a source, 0.png for one; expected the centre of each"),
        (cases_of_sources(a=2, b=2), "1-by-source", {}, "found 1 sites for 2 sources; expected at least one each"),
        (cases_of_sources(a=2, b=2), "5-by-source", {"test": 0}, "each of 5 sites, where 4 cases are left"),
        (cases_of_sources(a=9, b=1), "2-per-source", {}, "each of 2 sites of b, where 1 cases are left"),
        (cases_of_sources(a=9, b=1), "9999999999-by-source", {}, "each of 9999999999 sites"),
        (
            [replace(each, group="p") for each in ten],
            "2",
            {"test": 0},
            r"2 sites, where 1 groups \(volumes or patients\)",
        ),
        ([replace(each, section="testing") for each in ten], "1", {}, "10 usable cases, 10 of them .* to train on"),
        ([replace(each, section="validation") for each in ten], "1", {"test": 0}, "0 of them .* some to train on"),
        (
            [replace(each, section="testing") for each in cases_of_sources(a=2, b=1)],
            "by-source",
            {},
            "3 usable cases, 3 of them for the test set; expected some to train on",
        ),
        ([], "by-source", {}, "found 0 usable cases"),
        ([], "3", {}, "found 0 usable cases"),
    ],
)
def test_what_cannot_be_planned_is_said(cases, sites, options, message):
    with pytest.raises(DataError, match=message):
        plan_of(cases, sites, **options)
