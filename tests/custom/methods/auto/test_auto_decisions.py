"""What the server of `auto` concludes: whose zero counts, who corrects what, and when nothing can be tested."""

import math
from dataclasses import replace

import numpy as np
import pytest
from support.corrected_runs import bias_of, missed_of, relabelled_of

from fedannot.custom.annotation_bias.estimate import Estimate
from fedannot.custom.annotation_bias.feature_names import FEATURES
from fedannot.custom.annotation_bias.fedavg_boundary import FedAvgBoundary
from fedannot.custom.annotation_bias.image_features import ImageStatistics
from fedannot.custom.annotation_bias.parameters import CONFUSED_OBJECTS, ParameterKey, ParameterKind
from fedannot.custom.annotation_bias.statuses import Evidence, EvidenceCode, Status
from fedannot.custom.corrections.kinds import ObjectsRelabelled
from fedannot.custom.methods.auto.answers import BiasReport
from fedannot.custom.methods.auto.bias_record import bias_record
from fedannot.custom.methods.auto.decisions import decide, detected_fraction
from fedannot.custom.methods.auto.group_votes import GroupVotes
from fedannot.custom.methods.auto.records import Outcome
from fedannot.custom.methods.auto.settings import AutoSettings
from fedannot.custom.methods.auto.site_reference_levels import middle

UNKNOWN = (Estimate.unknown(),)
SETTINGS = AutoSettings(rounds=9, warmup_rounds=3)
OFFSET, MISSING = ParameterKey(ParameterKind.OFFSET, 1), ParameterKey(ParameterKind.MISSING, 1)


def codes(result):
    return [item.code for item in result.evidence]


def known(value, half=0.3, patients=12):
    return (Estimate(patients, value, value - half, value + half, slope=1.0, auroc=0.9),)


def images(mean=0.0):
    return ImageStatistics(12, (mean,) * len(FEATURES), (1.0,) * len(FEATURES))


def answer(offset, *, edges=0.0, reference=None, reviewed=None, completeness=None, pixel_size=1.0, image=0.0):
    optional = {"reviewed_from_model": reference, "given_from_reviewed": reviewed, "completeness": completeness}
    return BiasReport(
        num_samples=12,
        pixel_size=pixel_size,
        images=images(image),
        annotated_patients=(12,),
        offset=known(offset),
        edges=known(edges),
        **{name: UNKNOWN if value is None else known(value, 0.05) for name, value in optional.items()},
    )


def sites(*offsets, **common):
    return {f"site-{index}": answer(offset, **common) for index, offset in enumerate(offsets)}


TWO_GROUPS = (-4.0, -4.6, -5.0, -4.2, -4.4, -5.1, 4.4, 5.0)


def test_sites_that_say_nothing_of_their_images_are_predicted_where_the_settings_ask():
    nothing = ImageStatistics.unknown()
    silent = {site: replace(one, images=nothing) for site, one in sites(*TWO_GROUPS).items()}
    assert not any(decide(silent, SETTINGS, seed=100).corrections.values())
    typical = SETTINGS.model_copy(update={"unknown_images": "in_domain"})
    assert decide(silent, typical, seed=100).corrections == decide(sites(*TWO_GROUPS), typical, seed=100).corrections
    # Who says that its images are others is not assessed all the same.
    mixed = sites(*TWO_GROUPS) | {"site-7": answer(5.0, image=9.0), "site-6": silent["site-6"]}
    result = decide(mixed, typical, seed=100)
    assert not result.corrections["site-7"]
    assert result.corrections["site-6"]


def test_two_groups_correct_their_distance_from_half_way():
    result = decide(sites(*TWO_GROUPS), SETTINGS, seed=100)
    zero = (sum(TWO_GROUPS[:6]) / 6 + 4.7) / 2
    assert result.reference_levels[0].kind == "balanced"
    assert all(bias_of(result.corrections[f"site-{i}"])[1] == pytest.approx(o - zero) for i, o in enumerate(TWO_GROUPS))
    assert not any(missed_of(asked) for asked in result.corrections.values())


def test_equal_sites_correct_nothing():
    result = decide(sites(0.1, -0.1, 0.2, 0.0, -0.2), SETTINGS, seed=100)
    assert not any(result.corrections.values())
    assert set(result.corrections) == {f"site-{index}" for index in range(5)}


def test_one_site_that_differs_is_confirmed_and_left_as_federated_averaging_does_not_follow_it():
    result = decide(sites(0.1, -0.1, 0.2, 0.0, 3.0), SETTINGS, seed=100)
    assert result.findings["site-4"][OFFSET].is_confirmed
    assert not any(result.corrections.values())
    # Zero is the median site's 0.1; the second and the third of five offsets are its 40 and 60 % quantiles.
    assert result.tolerated[1] == FedAvgBoundary(pytest.approx(-0.1), pytest.approx(0.0))
    decision = bias_record(result, 4).decision
    assert (decision.outcome, decision.confirmed, decision.corrected) == (Outcome.TOLERATED, ("site-4",), ())
    assert decision.tolerated == {1: (pytest.approx(-0.1), pytest.approx(0.0))}


def test_one_site_that_differs_corrects_alone_where_it_has_most_of_the_images():
    answers = sites(0.1, -0.1, 0.2, 0.0) | {"large": replace(answer(3.0), num_samples=100)}
    result = decide(answers, SETTINGS, seed=100)
    assert [site for site, asked in result.corrections.items() if asked] == ["large"]
    assert bias_of(result.corrections["large"])[1] == pytest.approx(2.9)
    assert not result.tolerated


def test_a_site_whose_images_are_of_another_kind_is_no_minority_of_the_others():
    """A model that can tell its images follows its contours there."""
    answers = sites(0.1, -0.1, 0.2, 0.0, 3.0) | {"other": answer(0.0, reviewed=3.0, image=9.0)}
    result = decide(answers, SETTINGS, seed=100)
    assert [site for site, asked in result.corrections.items() if asked] == ["other"]


def test_an_error_common_to_all_sites_cannot_be_determined_by_the_image_boundary():
    result = decide(sites(4.8, 5.2, 5.0, 5.0, 7.4, edges=0.0), SETTINGS, seed=100)
    assert not any(result.corrections.values())
    assert result.findings["site-4"][OFFSET].status is Status.UNKNOWN


def test_a_site_with_reviewed_cases_needs_no_other():
    answers = sites(4.8, 5.2, 5.0, 5.0, 7.4) | {"known": answer(5.0, reviewed=5.1)}
    result = decide(answers, SETTINGS, seed=100)
    assert bias_of(result.corrections["known"])[1] == pytest.approx(5.1)


def test_reviewed_cases_of_some_are_zero_for_all():
    answers = sites(4.8, 5.2, 5.0) | {"known": answer(5.4, reference=0.2)}
    result = decide(answers, SETTINGS, seed=100)
    assert result.reference_levels[0].kind == "reference"
    assert bias_of(result.corrections["site-0"])[1] == pytest.approx(4.6)
    assert bias_of(result.corrections["known"])[1] == pytest.approx(5.2)


def reviewed_site(offset, *, half, reviewed=None, reference=None):
    """A site with 14 cases, and what three reviewed ones say."""
    of_three = {
        "given_from_reviewed": UNKNOWN if reviewed is None else known(reviewed, 1.9, 3),
        "reviewed_from_model": UNKNOWN if reference is None else known(reference, 1.0, 3),
    }
    return replace(answer(offset, edges=0.0), offset=known(offset, half, 14), annotated_patients=(14,), **of_three)


BIASES = (5.98, 5.2, 4.6, 6.3, 5.5, 4.9)


def test_three_reviewed_cases_at_every_site_refine_what_its_fourteen_say():
    """A t-test of three patients refuses 5.98: t = 5.98 / 1.155 = 5.18 with two degrees of freedom, 6 p = 0.21.

    By hand: the level of 18 patients has a standard error of 1 / 1.6449 · 2.92 / 1.6449 · √(π / 12) = 0.552, the offset
    one of 0.730, together 0.915; three patients have one of √((1.155 · 1.775)² + 0.2²) = 2.06. That is 0.836 of both.
    """
    answers = {
        f"site-{index}": reviewed_site(bias, half=1.2, reviewed=bias, reference=0.0)
        for index, bias in enumerate(BIASES)
    }
    result = decide(answers, SETTINGS, seed=100)
    assert {site: bias_of(asked) for site, asked in result.corrections.items()} == {
        f"site-{index}": {1: pytest.approx(bias)} for index, bias in enumerate(BIASES)
    }
    assert result.findings["site-0"][OFFSET].standard_error == pytest.approx(0.836, abs=0.002)
    assert result.reference_levels[0].standard_error == pytest.approx(0.552, abs=0.001)
    (reason, _) = result.reference_levels[0].reasons
    assert reason == Evidence(EvidenceCode.REVIEWED, {"patients": 18, "at_server": 0})


def test_reviewed_cases_of_other_sites_set_the_level_of_a_site_as_its_own_do():
    """The reviewed cases of each site alone lie 0.8 px to one side or the other of those of all."""
    levels = (0.8, -0.8, 0.0, 0.8, -0.8, 0.0)
    answers = {
        f"site-{index}": reviewed_site(bias, half=0.3, reference=level)
        for index, (bias, level) in enumerate(zip(BIASES, levels, strict=True))
    }
    result = decide(answers, SETTINGS, seed=100)
    assert [bias_of(asked)[1] for asked in result.corrections.values()] == [pytest.approx(bias) for bias in BIASES]


def test_reviewed_cases_that_were_left_as_they_are_acquit_no_site():
    """Two groups err by 4.5 px; at one site three cases were reviewed, and nothing was changed."""
    answers = sites(*TWO_GROUPS)
    confirmed = decide(answers, SETTINGS, seed=100).findings["site-7"][OFFSET].effect
    answers["site-7"] = replace(answers["site-7"], given_from_reviewed=known(0.0, 0.0, 3))
    result = decide(answers, SETTINGS, seed=100)
    stays = result.findings["site-7"][OFFSET]
    assert stays.evidence[-1].code is EvidenceCode.REVIEWED_AGREE
    assert 0.5 < stays.effect < confirmed


def agreeing(generator, value, half):
    """An estimate of three to nine patients whose interval holds a value."""
    own = half * generator.uniform(0.5, 3.0)
    return known(value + own * generator.uniform(-0.9, 0.9), own, int(generator.integers(3, 10)))


@pytest.mark.parametrize("seed", range(30))
def test_reviewed_cases_that_agree_remove_no_correction(seed):
    """Federations at two levels; any site may have reviewed cases, and all of these agree with what is estimated."""
    generator = np.random.default_rng(seed)
    values = [*generator.normal(-4.5, 0.7, 5), *generator.normal(3.5, 0.7, 4)]
    edges = float(np.mean(values[:5]) + np.mean(values[5:])) / 2
    answers = {
        site: replace(one, offset=known(one.offset[0].value, 1.5)) for site, one in sites(*values, edges=edges).items()
    }
    without = decide(answers, SETTINGS, seed=100)
    assert any(without.corrections.values())
    level = without.reference_levels[0].value
    for site in generator.choice(sorted(answers), generator.integers(1, 10), replace=False):
        effect = answers[site].offset[0].value - level
        answers[site] = replace(
            answers[site],
            reviewed_from_model=agreeing(generator, level, 1.0),
            given_from_reviewed=agreeing(generator, effect, 1.5) if generator.random() < 0.5 else UNKNOWN,
        )
    result = decide(answers, SETTINGS, seed=100)
    for site, asked in without.corrections.items():
        before, after = bias_of(asked), bias_of(result.corrections[site])
        assert set(before) <= set(after)
        assert all(before[label] * after[label] > 0 for label in before)


def test_a_site_with_other_images_is_not_assessed_and_moves_no_zero():
    answers = sites(*TWO_GROUPS) | {"other": answer(-9.0, image=9.0)}
    result = decide(answers, SETTINGS, seed=100)
    assert not result.corrections["other"]
    assert codes(result.findings["other"][OFFSET]) == [EvidenceCode.IMAGES_DIFFER]
    without = decide(sites(*TWO_GROUPS), SETTINGS, seed=100)
    assert result.reference_levels == without.reference_levels
    answers["other"] = answer(-9.0, reviewed=1.5, image=9.0)
    assert bias_of(decide(answers, SETTINGS, seed=100).corrections["other"])[1] == pytest.approx(1.5)


def test_missing_objects_count_from_the_most_complete_site():
    shares = {"a": 0.8, "b": 0.4, "c": 0.79, "d": 0.2}
    answers = {site: answer(0.0, completeness=share) for site, share in shares.items()}
    result = decide(answers, SETTINGS, seed=100)
    assert {site: missed_of(asked) for site, asked in result.corrections.items()} == {
        "a": {},
        "b": {1: pytest.approx(0.5)},
        "c": {},
        "d": {1: pytest.approx(0.75)},
    }


def with_completeness(given, **changes):
    return {
        site: replace(answer(0.0), completeness=(replace(known(share, 0.05)[0], **changes.get(site, {})),))
        for site, share in given.items()
    }


# Site b leaves half out by the first estimate; what the second says of it, and whether that stands.
@pytest.mark.parametrize(
    ("later", "stands"),
    [
        ({"slope": 0.5}, True),
        ({"slope": math.nan}, True),
        ({"auroc": 0.6}, True),
        ({}, True),  # by itself
        ({"slope": 0.5, "value": 0.75, "low": 0.7, "high": 0.8}, True),  # what it says cannot be believed
        ({"value": 0.79, "low": 0.77, "high": 0.81}, False),  # it contradicts: 0.04 is missing at most
        ({"value": math.nan}, True),  # it says nothing
    ],
)
def test_what_was_confirmed_missing_stays_where_a_later_estimate_does_not_contradict(later, stands):
    shares = {"a": 0.8, "b": 0.4, "c": 0.79}
    before = bias_record(decide(with_completeness(shares), SETTINGS, seed=100), 5)
    result = decide(with_completeness(shares, b=later), SETTINGS, seed=100, before=before)
    assert {site: missed_of(asked) for site, asked in result.corrections.items() if asked} == (
        {"b": {1: pytest.approx(0.5)}} if stands else {}
    )
    if later and stands:
        assert result.findings["b"][MISSING].evidence[-1] == Evidence(
            EvidenceCode.EARLIER_AGREES, {"effect": pytest.approx(0.5)}
        )
        assert not decide(with_completeness(shares, b=later), SETTINGS, seed=100).corrections["b"]


def test_what_was_confirmed_stays_where_a_later_model_is_unfit():
    shares = {"a": 0.8, "b": 0.4, "c": 0.79}
    before = bias_record(decide(with_completeness(shares), SETTINGS, seed=100), 5)
    later = {
        site: replace(one, annotated_patients=(1000,))
        for site, one in with_completeness(shares, b={"slope": 0.5}).items()
    }
    result = decide(later, SETTINGS, seed=100, before=before)
    assert missed_of(result.corrections["b"]) == {1: pytest.approx(0.5)}
    assert codes(result.findings["b"][MISSING]) == [EvidenceCode.MODEL_UNFIT, EvidenceCode.EARLIER_AGREES]


def with_small_bias(small, **changes):
    """Three sites at 3.0, one with reviewed cases at 0, and one with a small bias: the minimum effect is 0.5."""
    own = replace(known(small, 0.1)[0], **changes)
    return sites(3.0, 3.0) | {"known": answer(3.0, reference=0.0), "small": replace(answer(0.0), offset=(own,))}


# Half the interval is 0.1, with the error of the reference level 0.11.
@pytest.mark.parametrize(
    ("later", "size"),
    [
        pytest.param({"small": 0.7, "auroc": 0.68}, 0.7, id="an AUROC that falls from 0.9"),
        pytest.param({"small": 0.7, "slope": 0.55}, 0.7, id="a slope that leaves its range"),
        pytest.param({"small": 0.48, "low": 0.28, "high": 0.68}, 0.687, id="a value just below the minimum effect"),
        pytest.param({"small": 0.3}, None, id="an interval below the minimum effect"),
        pytest.param({"small": -0.7}, -0.7, id="the other sign, which is confirmed by itself"),
        pytest.param({"small": -0.3}, None, id="the other sign"),
    ],
)
def test_a_boundary_bias_stays_unless_its_interval_contradicts(later, size):
    first = decide(with_small_bias(0.7), SETTINGS, seed=100)
    assert bias_of(first.corrections["small"]) == {1: pytest.approx(0.7)}
    result = decide(with_small_bias(**later), SETTINGS, seed=100, before=bias_record(first, 5))
    assert bias_of(result.corrections["small"]) == ({} if size is None else {1: pytest.approx(size, abs=0.001)})


def test_contours_that_were_moved_are_not_left_for_federated_averagings_sake():
    """The large site has most of the images at first; later others have, and the average lies near zero."""
    answers = sites(0.1, -0.1, 0.2, 0.0) | {"large": replace(answer(3.0), num_samples=100)}
    first = decide(answers, SETTINGS, seed=100)
    later = answers | {"large": answer(3.0)}
    assert decide(later, SETTINGS, seed=100).tolerated
    result = decide(later, SETTINGS, seed=100, before=bias_record(first, 5))
    assert bias_of(result.corrections["large"]) == {1: pytest.approx(2.9)}
    contradicted = later | {"large": answer(0.3)}
    assert not any(decide(contradicted, SETTINGS, seed=100, before=bias_record(first, 5)).corrections.values())


def test_a_share_that_cannot_be_determined_is_no_reference_for_others():
    answers = with_completeness({"a": 0.7, "b": 0.7, "c": 1.0}, c={"slope": math.nan})
    assert not any(decide(answers, SETTINGS, seed=100).corrections.values())


# True offsets −5.7 and on. In the second, on a scale that lies 5.4 lower, the fourth site falls to the other group.
FIRST = (-2.5, 8.4, -2.6, 5.5, -1.0, -0.9, -2.7, -1.8, -2.3, -2.5)
SECOND = (-8.8, 3.9, -8.1, -1.3, -6.0, -6.6, -7.6, -8.0, -7.6, -7.8)


def test_a_second_zero_that_contradicts_the_first_is_of_both_estimates():
    first = decide(sites(*FIRST, edges=1.6), SETTINGS, seed=100)
    assert first.reference_levels[0].value == pytest.approx((6.95 - 2.04) / 2, abs=0.01)
    alone = decide(sites(*SECOND, edges=-2.5), SETTINGS, seed=100)
    assert alone.reference_levels[0].groups[0] == ("site-1",)
    both = decide(sites(*SECOND, edges=-2.5), SETTINGS, seed=100, before=bias_record(first, 5)).reference_levels[0]
    assert both.groups[0] == ("site-1", "site-3")
    # Half-way between the groups' means of both estimates, the first ones 5.4 lower: 1.3 and 6.95, −7.5625 and −2.0375.
    upper, lower = (1.3 + 6.95 - 5.4) / 2, (-7.5625 - 2.0375 - 5.4) / 2
    assert both.value == pytest.approx((upper + lower) / 2)
    assert EvidenceCode.MEAN_OF_ESTIMATES in [reason.code for reason in both.reasons]


def test_an_estimate_beside_which_an_earlier_effect_stays_tells_no_zero():
    """As above, but the first estimate of site-0 could not be believed, and what was confirmed still earlier stayed."""
    first = bias_record(decide(sites(*FIRST, edges=1.6), SETTINGS, seed=100), 5)
    stays = (Evidence(EvidenceCode.SLOPE_OFF, {"slope": 0.1}), Evidence(EvidenceCode.EARLIER_AGREES, {"effect": -5.0}))
    found = first.sites["site-0"].parameters
    found[OFFSET] = found[OFFSET].model_copy(update={"estimate": -40.0, "effect": -5.0, "evidence": stays})
    both = decide(sites(*SECOND, edges=-2.5), SETTINGS, seed=100, before=first).reference_levels[0]
    assert both.groups[0] == ("site-1", "site-3")
    # The scale of the other nine is 5.3 lower by their median; site-0 counts with its second estimate alone.
    upper, lower = (1.3 + 6.95 - 5.3) / 2, ((-51.7 - 13.8 - 7 * 5.3) / 2 - 8.8) / 8
    assert both.value == pytest.approx((upper + lower) / 2)


def test_a_zero_that_was_reviewed_before_is_no_other_estimate():
    """Of six sites at 5 one has reviewed cases at 3; later it does not answer."""
    first = decide(sites(5.0) | {"known": answer(5.0, reference=3.0)} | sites(*[5.0] * 6), SETTINGS, seed=100)
    record = bias_record(first, 5)
    assert not any(level.is_inferred for level in record.reference_levels.values() if level)
    later = decide(sites(*[5.0] * 6, edges=4.0), SETTINGS, seed=100, before=record)
    assert EvidenceCode.MEAN_OF_ESTIMATES not in [reason.code for reason in later.reference_levels[0].reasons]


@pytest.mark.parametrize(
    ("later", "edges", "kind", "zero"),
    [
        pytest.param((-1.0, -3.2, 0.6, 4.8), 0.4, "balanced", 1.8, id="groups that are no longer found by themselves"),
        pytest.param((-1.0, -3.2, 0.6, 4.8), -0.15, "median", -1.0, id="edges that lie near the median"),
        pytest.param((-1.0, -3.2, 0.6, 0.8), 0.4, "median", -1.0, id="groups on one side of the edges"),
    ],
)
def test_two_groups_stay_where_a_later_estimate_has_the_median_alone(later, edges, kind, zero):
    """Seven sites, of which one draws larger. At first the others agree, later each has its own offset."""
    alike = sites(*(0.0, 0.1, -0.1, 0.0, 0.1, -0.1), edges=3.0)
    # Of whom injected errors cannot be known is in a group all the same.
    alone = replace(answer(8.0, edges=3.0), offset=(replace(known(8.0)[0], auroc=0.6),))
    first = decide(alike | {"site-6": alone}, SETTINGS, seed=100)
    assert (first.reference_levels[0].kind, first.reference_levels[0].groups[0]) == ("balanced", ("site-6",))
    again = sites(*(later[0], later[1], later[2], later[0], later[1], later[2], later[3]), edges=edges)
    assert decide(again, SETTINGS, seed=100).reference_levels[0].kind == "median"
    result = decide(again, SETTINGS, seed=100, before=bias_record(first, 5)).reference_levels[0]
    assert result.kind == kind
    assert result.value == pytest.approx(zero, abs=0.05)
    assert (EvidenceCode.GROUPS_OF_EARLIER in [reason.code for reason in result.reasons]) == (kind == "balanced")


def test_two_estimates_whose_means_have_no_two_levels_tell_no_zero():
    settings = SETTINGS.model_copy(update={"reference_level": "balanced", "group_level": 1.0})
    first = decide(sites(*FIRST, edges=1.6), settings, seed=100)
    opposite = [-value for value in FIRST]
    assert decide(sites(*opposite), settings, seed=100).reference_levels[0].is_confident
    strict = settings.model_copy(update={"group_level": 0.05})
    result = decide(sites(*opposite, edges=-1.6), strict, seed=100, before=bias_record(first, 5))
    assert result.reference_levels[0] is None or not result.reference_levels[0].is_confident


def test_a_second_zero_that_agrees_with_the_first_stands_by_itself():
    first = bias_record(decide(sites(*TWO_GROUPS), SETTINGS, seed=100), 5)
    later = sites(*(offset - 3.0 for offset in TWO_GROUPS), edges=-3.0)
    assert (
        decide(later, SETTINGS, seed=100, before=first).reference_levels
        == decide(later, SETTINGS, seed=100).reference_levels
    )


def with_auroc(offset, auroc, *, half=0.3, found=12):
    return replace(answer(offset), offset=(replace(known(offset, half, found)[0], auroc=auroc),))


def test_a_systematic_bias_is_confirmed_where_errors_of_single_cases_are_not_distinguished():
    """Six of ten sites draw 4.5 to 6.3 px too large, two to three half-widths off zero; an AUROC of 0.55 each.

    One site has cases that were reviewed at 0 ± 0.05. By hand for the first: its standard error is 2.1 / 1.6449, so
    that t = 4.5 / 1.277 = 3.52 with 11 degrees of freedom: p = 0.0048, times ten tests at most 0.048.
    """
    biases = {f"large-{i}": with_auroc(value, 0.55, half=2.1) for i, value in enumerate((4.5, 4.9, 5.4, 5.8, 6.1, 6.3))}
    answers = biases | sites(0.1, -0.1, 0.0) | {"known": answer(0.0, reference=0.0)}
    result = decide(answers, SETTINGS, seed=100)
    assert {site for site, asked in result.corrections.items() if asked} == set(biases)
    assert result.findings["large-0"][OFFSET].p_value < 0.048
    assert bias_of(result.corrections["large-5"]) == {1: pytest.approx(6.3)}


@pytest.mark.parametrize(
    ("found", "auroc", "confirmed"), [(5, 0.55, False), (6, 0.55, True), (5, 0.9, True), (5, 0.7, True)]
)
def test_where_they_are_not_the_model_finds_half_of_the_sites_patients(found, auroc, confirmed):
    answers = sites(*TWO_GROUPS[:7]) | {"few": with_auroc(5.0, auroc, found=found)}
    result = decide(answers, SETTINGS, seed=100).findings["few"][OFFSET]
    assert result.is_confirmed == confirmed
    if not confirmed:
        (why,) = result.evidence
        assert why == Evidence(EvidenceCode.MODEL_UNFIT, {"found": pytest.approx(5 / 12), "expected": 0.5})


def test_the_slope_of_an_injected_shift_stays_a_condition():
    answers = sites(*TWO_GROUPS[:7])
    answers["off"] = replace(answer(5.0), offset=(replace(known(5.0)[0], slope=0.55, auroc=0.95),))
    assert codes(decide(answers, SETTINGS, seed=100).findings["off"][OFFSET]) == [EvidenceCode.SLOPE_OFF]


def test_what_the_settings_leave_out_is_measured_and_not_corrected():
    settings = SETTINGS.model_copy(update={"correct": ("missing",)})
    result = decide(sites(*TWO_GROUPS), settings, seed=100)
    assert not any(result.corrections.values())
    assert result.findings["site-0"][OFFSET].is_confirmed


@pytest.mark.parametrize(
    ("others", "own", "floor"),
    [
        pytest.param({}, {"offset": 6.0}, 8, id="zero of all sites: as wrong as it may be, 2 pixels"),
        pytest.param({}, {"offset": 0.0, "reviewed": 1.2}, 2, id="reviewed at the site: half a pixel"),
        pytest.param({"reference": 0.0}, {"offset": 1.2}, 2, id="reviewed elsewhere"),
    ],
)
def test_the_floor_is_in_pixels_of_four_millimetres(others, own, floor):
    answers = sites(0.0, 0.1, -0.1, 0.05, pixel_size=4.0, **others) | {"far": answer(**own, pixel_size=4.0)}
    result = decide(answers, SETTINGS, seed=100)
    assert not any(result.corrections.values())
    (thresholds,) = result.findings["far"][OFFSET].evidence
    assert thresholds.numbers["minimum_effect"] == floor


def test_a_site_that_is_the_protocol_has_no_error_of_zero():
    settings = SETTINGS.model_copy(update={"reference_level": "site:site-0"})
    result = decide(sites(0.0, 1.1, 1.2), settings, seed=100)
    assert [site for site, asked in result.corrections.items() if asked] == ["site-1", "site-2"]


def test_several_sites_zero_is_the_middle_one():
    three = [Estimate(10, 1.0, 0.7, 1.3), Estimate(30, 2.0, 1.6, 2.4), Estimate(10**9, 40.0, 39.9, 40.1)]
    result = middle([*three, Estimate.unknown()])
    assert (result.value, result.low, result.high) == (2.0, pytest.approx(1.7), pytest.approx(2.3))
    assert middle([Estimate.unknown()]) is None


@pytest.mark.parametrize("lie", [1e6, -1e6, 30.0, -30.0])
def test_a_site_that_lies_moves_no_honest_one(lie):
    honest = sites(0.1, -0.2, 0.0, 0.3, -0.1)
    claims = replace(answer(lie), edges=known(lie, patients=10**6), reviewed_from_model=known(lie, patients=10**6))
    for liar in (claims, replace(claims, reviewed_from_model=UNKNOWN)):
        result = decide(honest | {"liar": liar}, SETTINGS, seed=100)
        assert not any(result.corrections[site] for site in honest)


def test_a_site_with_pixels_of_a_kilometre_changes_nobodys_floor():
    answers = sites(*TWO_GROUPS)
    result = decide(answers | {"liar": answer(0.0, pixel_size=1e4)}, SETTINGS, seed=100)
    assert {site for site, asked in result.corrections.items() if asked} == set(answers)


def test_a_model_is_fit_as_a_reference_for_what_it_finds():
    half = replace(answer(0.0), offset=known(0.0, patients=3))
    assert detected_fraction({"a": half, "b": half}, GroupVotes()) == 0.25
    assert detected_fraction({}, GroupVotes()) == 0.0


def test_what_one_site_claims_to_annotate_makes_no_model_unfit_and_none_fit():
    whole, none = answer(0.0), replace(answer(0.0), offset=known(0.0, patients=0))
    most, found = (replace(whole, annotated_patients=(10**9,)), replace(whole, offset=known(0.0, patients=10**9)))
    empty = replace(most, offset=known(0.0, patients=0))
    assert detected_fraction(dict.fromkeys("abc", whole) | {"liar": empty}, GroupVotes()) == 0.75
    assert detected_fraction(dict.fromkeys("abc", none) | {"liar": found}, GroupVotes()) == 0.25
    # What honest sites find counts by patients.
    few = replace(whole, annotated_patients=(6,), offset=known(0.0, patients=3))
    assert detected_fraction({"a": few, "b": whole, "c": whole}, GroupVotes()) == pytest.approx(27 / 30)
    # A site has one vote, however many groups of annotators it names.
    groups = {f"liar-{number}": most for number in range(8)}
    votes = GroupVotes(dict.fromkeys(groups, "liar"))
    assert detected_fraction(dict.fromkeys("abc", whole) | groups, votes) == pytest.approx(0.75)
    result = decide(sites(*TWO_GROUPS) | {"liar": replace(most, images=images(0.0))}, SETTINGS, seed=100)
    assert any(result.corrections.values())


def test_a_model_that_finds_little_establishes_nothing_but_what_was_reviewed():
    few = {site: replace(one, annotated_patients=(60,)) for site, one in sites(*TWO_GROUPS).items()}
    few["known"] = replace(answer(5.0, reviewed=5.1), annotated_patients=(60,))
    result = decide(few, SETTINGS, seed=100)
    assert [site for site, asked in result.corrections.items() if asked] == ["known"]
    assert result.findings["site-0"][OFFSET].evidence == (
        Evidence(EvidenceCode.MODEL_UNFIT, {"found": pytest.approx(0.2), "expected": 0.5}),
    )


def test_no_answers_decide_nothing():
    result = decide({}, SETTINGS, seed=100)
    assert (result.reference_levels, result.corrections) == ((None,), {})


def test_a_reference_level_that_cannot_be_had_is_said_and_nothing_is_corrected():
    for reference_level in ("reference", "site:elsewhere"):
        result = decide(sites(*TWO_GROUPS), SETTINGS.model_copy(update={"reference_level": reference_level}), seed=100)
        assert not any(result.corrections.values())
        assert codes(result.findings["site-0"][OFFSET]) == [EvidenceCode.REFERENCE_UNSURE]
        assert [reason.code for reason in result.reference_levels[0].reasons] in (["reviewed_absent"], ["site_absent"])


TWO_CLASSES = AutoSettings(rounds=9, warmup_rounds=3, network={"num_classes": 2})


def of_two_classes(confused, half=0.05, auroc=0.9, image=0.0):
    estimates = dict.fromkeys(("reviewed_from_model", "given_from_reviewed", "completeness"), 2 * UNKNOWN)
    share = Estimate(12, confused, confused - half, confused + half, slope=1.0, auroc=auroc)
    one = answer(0.0, image=image)
    return replace(
        one, annotated_patients=(12, 12), offset=2 * one.offset, edges=2 * one.edges, confused=share, **estimates
    )


def test_a_site_that_swaps_classes_corrects_what_it_swaps_more_than_the_best_one():
    shares = {"site-1": 0.02, "site-2": 0.06, "site-3": 0.95, "site-4": 0.09}
    result = decide({site: of_two_classes(share) for site, share in shares.items()}, TWO_CLASSES, seed=100)
    assert {site: relabelled_of(asked) for site, asked in result.corrections.items()} == pytest.approx(
        {"site-1": 0.0, "site-2": 0.0, "site-3": 0.93, "site-4": 0.0}
    )
    assert result.findings["site-3"][CONFUSED_OBJECTS].is_confirmed
    record = bias_record(result, 4)
    assert record.sites["site-3"].of(ObjectsRelabelled).fraction == pytest.approx(0.93)
    assert (record.decision.outcome, record.decision.corrected) == (Outcome.CORRECTED, ("site-3",))


@pytest.mark.parametrize(
    ("share", "part", "corrected"),
    [
        (0.25, 1.0, 0.0),  # a quarter of all objects, of all classes
        (0.25, 0.25, 0.25),  # all objects of two of eight classes
        (0.12, 0.25, 0.0),  # less than half of them
        (0.09, 0.09, 0.0),  # all objects of two rare classes
        (0.12, 0.12, 0.12),  # and of less rare ones
    ],
)
def test_the_floor_of_confused_classes_is_of_those_whose_codes_are_exchanged(share, part, corrected):
    right = {f"site-{i}": of_two_classes(0.0, half=0.01) for i in range(1, 6)}
    exchanged = replace(of_two_classes(share, half=0.01), exchanged_part=part)
    result = decide(right | {"site-6": exchanged}, TWO_CLASSES, seed=100)
    assert [relabelled_of(result.corrections[site]) for site in result.corrections] == [0.0] * 5 + [
        pytest.approx(corrected)
    ]


@pytest.mark.parametrize("share", [0.4, 0.6])
def test_a_model_that_mixes_classes_up_at_all_sites_establishes_nothing(share):
    result = decide({f"site-{i}": of_two_classes(share + 0.01 * i) for i in range(5)}, TWO_CLASSES, seed=100)
    assert not any(result.corrections.values())
    assert result.reference_levels[0] is not None


def test_confused_classes_cannot_be_determined_by_a_model_that_does_not_see_them_or_on_other_images():
    right = {f"site-{i}": of_two_classes(0.0) for i in range(1, 5)}
    blind = decide(right | {"site-5": of_two_classes(0.9, auroc=0.6)}, TWO_CLASSES, seed=100)
    assert blind.findings["site-5"][CONFUSED_OBJECTS].evidence == (Evidence(EvidenceCode.AUROC_LOW, {"auroc": 0.6}),)
    other = decide(right | {"site-5": of_two_classes(0.9, image=9.0)}, TWO_CLASSES, seed=100)
    assert codes(other.findings["site-5"][CONFUSED_OBJECTS]) == [EvidenceCode.IMAGES_DIFFER]
    assert not any((*blind.corrections.values(), *other.corrections.values()))


def test_confused_classes_stay_where_the_settings_ask_and_nothing_is_said_of_a_single_class():
    answers = {f"site-{i}": of_two_classes(0.0) for i in range(1, 5)} | {"site-5": of_two_classes(0.9)}
    measured = TWO_CLASSES.model_copy(update={"correct": ("offset",)})
    result = decide(answers, measured, seed=100)
    assert result.findings["site-5"][CONFUSED_OBJECTS].is_confirmed
    assert not any(result.corrections.values())
    assert CONFUSED_OBJECTS not in decide(sites(0.0, 0.1, -0.1), SETTINGS, seed=100).findings["site-1"]


def test_nothing_else_is_determined_of_a_site_most_of_whose_objects_have_another_class():
    def too_large(share):
        return replace(of_two_classes(share), offset=2 * known(4.0))

    right = {f"site-{i}": of_two_classes(0.0) for i in range(1, 6)}
    few, most = (decide(right | {"site-6": too_large(share)}, TWO_CLASSES, seed=100) for share in (0.3, 0.9))
    assert few.findings["site-6"][OFFSET].is_confirmed
    assert not most.findings["site-6"][OFFSET].is_confirmed
    assert codes(most.findings["site-6"][OFFSET]) == [EvidenceCode.MISLABELLED]
    assert codes(most.findings["site-1"][OFFSET]) != [EvidenceCode.MISLABELLED]
    assert relabelled_of(most.corrections["site-6"]) == pytest.approx(0.9)


@pytest.mark.parametrize("recall", [0.83, 0.95, 1.0])
def test_a_relabelled_site_may_annotate_more_than_those_that_others_are_compared_with(recall):
    typical = {f"site-{i}": replace(of_two_classes(0.0), completeness=2 * known(0.75, 0.03)) for i in range(1, 4)}
    relabelled = replace(of_two_classes(0.9), completeness=2 * known(recall, 0.03), is_relabelled=True)
    result = decide(typical | {"site-4": relabelled}, TWO_CLASSES, seed=100)
    assert not any(
        result.findings["site-4"][ParameterKey(ParameterKind.MISSING, label)].is_confirmed for label in (1, 2)
    )
    assert missed_of(result.corrections["site-4"]) == {}
    assert relabelled_of(result.corrections["site-4"]) == pytest.approx(0.9)


def test_contours_are_tested_where_objects_were_relabelled_before():
    offsets = TWO_GROUPS[:-1]
    typical = {
        f"site-{index}": replace(of_two_classes(0.0), offset=2 * known(offset)) for index, offset in enumerate(offsets)
    }
    confused = replace(of_two_classes(0.9), offset=2 * known(TWO_GROUPS[-1]))
    before, after_relabelling = (
        decide(typical | {"site-7": replace(confused, is_relabelled=is_relabelled)}, TWO_CLASSES, seed=100)
        for is_relabelled in (False, True)
    )
    assert (bias_of(before.corrections["site-7"]), relabelled_of(before.corrections["site-7"])) == (
        {},
        pytest.approx(0.9),
    )
    zero = (sum(offsets[:6]) / 6 + offsets[6]) / 2
    assert bias_of(after_relabelling.corrections["site-7"]) == {
        label: pytest.approx(TWO_GROUPS[-1] - zero) for label in (1, 2)
    }
    assert relabelled_of(after_relabelling.corrections["site-7"]) == pytest.approx(0.9)
    # It moves nobody's zero all the same.
    assert after_relabelling.reference_levels == before.reference_levels
    other_images = decide(
        typical | {"site-7": replace(confused, is_relabelled=True, images=images(9.0))}, TWO_CLASSES, seed=100
    )
    assert not other_images.corrections["site-7"]


def test_a_site_most_of_whose_objects_have_another_class_is_no_measure_for_others():
    """The few objects that keep their class are all annotated there; the others would look incomplete beside it."""
    typical = {f"site-{i}": replace(of_two_classes(0.0), completeness=2 * known(0.7, 0.02)) for i in range(1, 6)}
    confused = replace(of_two_classes(0.9), completeness=2 * known(1.0, 0.0), offset=2 * known(9.0))
    result = decide(typical | {"site-6": confused}, TWO_CLASSES, seed=100)
    assert not any(result.corrections[site] for site in typical)
    assert relabelled_of(result.corrections["site-6"]) == pytest.approx(0.9)
    assert result.reference_levels[0] == decide(typical, TWO_CLASSES, seed=100).reference_levels[0]


def test_a_site_whose_confused_fraction_cannot_be_determined_is_a_reference_for_others():
    """Else a site could take itself out of everybody's zero by an estimate that says nothing."""
    typical = {f"site-{i}": of_two_classes(0.0) for i in range(1, 6)}
    blind = of_two_classes(0.9, auroc=0.5)
    zero = decide(typical | {"site-6": of_two_classes(0.0)}, TWO_CLASSES, seed=100).reference_levels[0]
    assert decide(typical | {"site-6": blind}, TWO_CLASSES, seed=100).reference_levels[0] == zero


def test_what_was_confirmed_missing_does_not_stand_where_most_classes_are_confused():
    typical = {f"site-{i}": replace(of_two_classes(0.0), completeness=2 * known(1.0, 0.02)) for i in range(1, 6)}
    incomplete = replace(of_two_classes(0.0), completeness=2 * known(0.42, 0.02))
    before = decide(typical | {"site-6": incomplete}, TWO_CLASSES, seed=100)
    assert missed_of(before.corrections["site-6"])
    later = replace(incomplete, confused=of_two_classes(0.9).confused)
    result = decide(typical | {"site-6": later}, TWO_CLASSES, seed=100, before=bias_record(before, 4))
    assert not missed_of(result.corrections["site-6"])
    assert relabelled_of(result.corrections["site-6"]) == pytest.approx(0.9)
