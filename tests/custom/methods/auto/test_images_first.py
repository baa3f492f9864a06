"""`auto` before the first round: what images say is asked, decided on and corrected without a model."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from support.corrected_runs import bias_of
from support.disc_cases import disc_case, disc_sites
from support.rounds import round_of

from fedannot.custom.annotation_bias.profile import estimation
from fedannot.custom.annotation_bias.profile.curves import LARGEST_CHANGE, LEVELS
from fedannot.custom.annotation_bias.profile.decision import ProfileEstimate
from fedannot.custom.annotation_bias.profile.estimation import estimate_from_images, measure_curves
from fedannot.custom.annotation_bias.statuses import EvidenceCode, ReferenceKind, Status
from fedannot.custom.methods.auto import profile_site
from fedannot.custom.methods.auto.image_decisions import decide_by_images
from fedannot.custom.methods.auto.outbound import CURVE_LEVELS, OUTBOUND_FIELDS
from fedannot.custom.methods.auto.outbound import LARGEST_CHANGE as LARGEST_SENT
from fedannot.custom.methods.auto.profile_request import ProfileRequest
from fedannot.custom.methods.auto.profile_site import profile_curves, profile_errors
from fedannot.custom.methods.auto.server import AutoServer
from fedannot.custom.methods.auto.settings import AutoSettings
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.records.plain_values import check_restorable
from fedannot.custom.task_names import CORRECT_ANNOTATION_BIAS, MEASURE_BOUNDARY_PROFILE, MEASURE_PROFILE_ERROR

BIASES = {"a": 4.0, "b": -3.0, "c": 0.0, "d": 2.0, "e": 0.0}
REGISTRY = OutboundRegistry(OUTBOUND_FIELDS)


class ImageSites:
    """Sites that answer from their cases by the real code; messages and answers go through the guard and JSON."""

    def __init__(self, cases, *, deaf=(), liars=()):
        self.cases, self.deaf, self.liars = cases, set(deaf), set(liars)
        self.asked, self.corrections = [], {}

    def __call__(self, task, sites=None, own_messages=None):
        names = sorted(self.cases) if sites is None else sorted(sites)
        self.asked.append((task, names))
        messages = {name: json.loads(json.dumps((own_messages or {}).get(name, {}))) for name in names}
        if task == CORRECT_ANNOTATION_BIAS:
            self.corrections |= {name: messages[name]["corrections"] for name in names}
            return {name: {"has_undone": True} for name in names}
        answers = {name: self.answer(task, name, messages[name]) for name in names if name not in self.deaf}
        for name, answer in answers.items():
            if name not in self.liars:
                REGISTRY.check(task, answer)
            assert REGISTRY.refusal(task, answer, 1) is None
        return answers

    def answer(self, task, name, message):
        request = ProfileRequest.model_validate(message.get("profile", {}))
        if task == MEASURE_BOUNDARY_PROFILE:
            return dict(profile_curves(self.cases[name], request, 1).fields)
        assert task == MEASURE_PROFILE_ERROR
        return dict(profile_errors(self.cases[name], request, 1, seed=0).fields)


def begun(sites, *, number=1, server=None, history=(), **settings):
    server = server or AutoServer(AutoSettings.model_validate({"rounds": 9, "warmup_rounds": 5} | settings))
    this_round = round_of(number, ask=sites, history=history, said=[])
    server.before_round(this_round)
    return server, this_round


def moves(sites):
    return {name: asked[0]["bias"]["1"] for name, asked in sites.corrections.items() if asked}


def trained(*names):
    return [{"round": 1, "sites": {name: {"num_samples": 8, "has_undone": True} for name in names}}]


def test_the_fields_are_those_of_a_curve():
    assert (len(LEVELS), LARGEST_CHANGE) == (CURVE_LEVELS, LARGEST_SENT)


def test_sites_that_images_show_to_err_correct_before_the_first_round():
    sites = ImageSites(disc_sites(BIASES))

    server, this_round = begun(sites)

    assert moves(sites) == {site: pytest.approx(BIASES[site], abs=0.5) for site in ("a", "b", "d")}
    assert [task for task, _ in sites.asked] == [
        MEASURE_BOUNDARY_PROFILE,
        MEASURE_PROFILE_ERROR,
        CORRECT_ANNOTATION_BIAS,
    ]
    assert server.stage(this_round) == "corrected"
    record = server.estimates[0]
    assert record.is_of_images
    assert record.decision.corrected == ("a", "b", "d")
    assert record.witnesses[1].sites["a"].is_known
    assert bias_of(record.sites["a"].corrections)[1] == pytest.approx(4.0, abs=0.5)


def test_the_federation_s_estimate_is_that_of_cases_that_are_here():
    """Three digits of each number of a curve, and other draws, are all that differs."""
    cases = disc_sites(BIASES)
    server, _ = begun(ImageSites(cases))

    here = estimate_from_images(cases, 1, seed=0)

    for site, far in server.estimates[0].witnesses[1].sites.items():
        assert far.estimate == pytest.approx(here[site].bias, abs=0.02)
        assert far.prominence == pytest.approx(here[site].prominence, abs=0.01)
        assert far.high - far.estimate == pytest.approx(here[site].half_width, abs=0.05)


def test_coarse_scales_are_asked_one_after_the_other():
    cases = disc_sites({"a": 9.0, "b": -6.0, "c": 0.0}, size=128, radius=20.0)
    sites = ImageSites(cases)

    begun(sites)

    assert [task for task, _ in sites.asked][:3] == [
        MEASURE_BOUNDARY_PROFILE,
        MEASURE_BOUNDARY_PROFILE,
        MEASURE_PROFILE_ERROR,
    ]
    assert {"c": 0.0, **moves(sites)} == {
        site: pytest.approx(bias, abs=0.6) for site, bias in (("a", 9.0), ("b", -6.0), ("c", 0.0))
    }


def test_nothing_is_done_where_all_annotate_alike():
    sites = ImageSites(disc_sites(dict.fromkeys("abcde", 0.5)))
    server, this_round = begun(sites)
    assert not sites.corrections
    assert server.stage(this_round) == "warm-up"
    assert server.estimates[0].reference_levels[1].kind is ReferenceKind.CONVENTION


def test_a_common_bias_far_from_the_boundary_asks_for_a_word():
    """All draw 4 px too large: convention or error? Only a setting, or reviewed cases, say it."""
    cases = disc_sites(dict.fromkeys("abcde", 4.0))
    asking = ImageSites(cases)
    server, _ = begun(asking)
    assert not asking.corrections
    (found,) = server.estimates[0].sites["a"].parameters.values()
    assert found.status is Status.UNKNOWN
    assert found.has(EvidenceCode.REFERENCE_UNSURE)

    told = ImageSites(cases)
    begun(told, reference_level="image_boundary")
    assert moves(told) == {site: pytest.approx(4.0, abs=0.6) for site in "abcde"}


@pytest.mark.parametrize("settings", [{"boundary_evidence": "model"}, {"reference_level": "median"}, {"correct": []}])
def test_nothing_is_corrected_before_the_first_round_where_the_settings_do_not_ask_for_it(settings):
    sites = ImageSites(disc_sites(BIASES))
    server, _ = begun(sites, **settings)
    assert not sites.corrections
    assert (sites.asked == []) == (settings == {"boundary_evidence": "model"})
    assert server.rounds_of_averaging == (5 if settings == {"boundary_evidence": "model"} else 0)


def test_nothing_of_two_patients_leaves_and_the_others_go_on():
    cases = disc_sites(BIASES)
    cases["a"] = cases["a"][:2]
    sites = ImageSites(cases)
    server, _ = begun(sites)
    assert sorted(moves(sites)) == ["b", "d"]
    assert "a" not in server.estimates[0].sites


def test_a_site_without_objects_is_not_known():
    cases = disc_sites(BIASES)
    cases["a"] = [replace(case, annotation=np.zeros_like(case.annotation)) for case in cases["a"]]
    sites = ImageSites(cases)
    server, _ = begun(sites)
    (found,) = server.estimates[0].sites["a"].parameters.values()
    assert (found.status, found.has(EvidenceCode.BOUNDARY_NOT_SHOWN)) == (Status.UNKNOWN, True)
    assert sorted(moves(sites)) == ["b", "d"]


def test_a_site_that_joins_later_is_asked_after_its_first_round_and_the_others_keep_theirs():
    everyone = disc_sites(BIASES)
    sites = ImageSites({site: everyone[site] for site in "bcde"})
    server, _ = begun(sites)
    before = dict(server.estimates[0].sites)
    later, asked = ImageSites(everyone), "bcde"
    begun(later, number=2, server=server, history=trained(*asked))
    assert not later.asked

    begun(later, number=3, server=server, history=trained(*asked, "a"))

    assert [names for _, names in later.asked] == [["a"]] * 3
    assert moves(later) == {"a": pytest.approx(4.0, abs=0.5)}
    assert {site: of for site, of in server.estimates[0].sites.items() if site != "a"} == {
        site: of.model_copy(update={"corrected_before_round": server.estimates[0].sites[site].corrected_before_round})
        for site, of in before.items()
    }
    assert "a" in server.estimates[0].witnesses[1].sites
    assert server.estimates[0].decision.corrected == ("a", "b", "d")
    again = ImageSites(everyone)
    begun(again, number=4, server=server, history=trained(*asked, "a"))
    assert not again.asked


@pytest.mark.parametrize("version", ["this", "earlier", "earlier, and restarted since"])
def test_a_site_that_joins_is_compared_with_what_the_others_have_sent(version):
    """At two scales, after a restart: as if all were asked together. An earlier version has kept no curves."""
    biases = {"a": 9.0, "b": -6.0, "c": 0.0, "d": 4.0}
    everyone = disc_sites(biases, size=128, radius=20.0)
    together, _ = begun(ImageSites(everyone))
    server, _ = begun(ImageSites({site: everyone[site] for site in "bcd"}))
    state = json.loads(json.dumps(server.state()))
    check_restorable(state, "auto")
    if version != "this":
        del state["images"]["curves"]
    resumed = AutoServer(server.settings)
    resumed.restore(state, [])
    if "restarted" in version:
        again = AutoServer(server.settings)
        again.restore(json.loads(json.dumps(resumed.state())), [])
        resumed = again
    later = ImageSites(everyone)

    begun(later, number=3, server=resumed, history=trained(*biases))

    measured = [names for task, names in later.asked if task == MEASURE_BOUNDARY_PROFILE]
    assert measured == ([["a"]] * 2 if version == "this" else [list("abcd")] * 2)
    ours, theirs = (server.estimates[0].witnesses[1].sites["a"] for server in (resumed, together))
    assert ours.is_known
    assert ours.estimate == pytest.approx(theirs.estimate, abs=0.05)
    assert ours.high == pytest.approx(theirs.high, abs=0.1)
    assert set(resumed.state()["images"]["curves"]) == set(biases)


def test_a_site_that_never_answers_is_asked_twice_and_no_more():
    everyone = disc_sites(BIASES)
    sites = ImageSites(everyone, deaf="a")
    server, _ = begun(sites)
    for number in (2, 3, 4):
        begun(sites, number=number, server=server, history=trained(*BIASES))
    assert sum(task == MEASURE_BOUNDARY_PROFILE for task, _ in sites.asked) == 2


def test_a_resumed_run_knows_what_images_said():
    sites = ImageSites(disc_sites(BIASES))
    server, this_round = begun(sites)
    state = json.loads(json.dumps(server.state()))
    check_restorable(state, "auto")
    resumed = AutoServer(server.settings)
    resumed.restore(state, [])
    assert resumed.describe(this_round) == server.describe(this_round)
    asked = ImageSites(disc_sites(BIASES))
    begun(asked, number=2, server=resumed, history=trained(*BIASES))
    assert not asked.asked


def test_samples_that_sites_claim_are_kept_over_a_restart():
    class Claiming(ImageSites):
        def answer(self, task, name, message):
            claim = {"num_samples": 11} if name == "a" else {"num_samples": 8}
            return super().answer(task, name, message) | (claim if task == MEASURE_BOUNDARY_PROFILE else {})

    server, _ = begun(Claiming(disc_sites(BIASES)))
    resumed = AutoServer(server.settings)
    resumed.restore(json.loads(json.dumps(server.state())), [])
    for profiles in (server.state()["images"]["profiles"], resumed.state()["images"]["profiles"]):
        assert {site: one["samples"] for site, one in profiles[0].items()} == dict.fromkeys("bcde", 8) | {"a": 11}


def test_an_honest_site_with_other_contrast_stays_as_it_is():
    """Its images are inverted, and as weak again: a model would not know them, its own contours still lie on them."""
    cases = disc_sites(BIASES)
    cases["c"] = [replace(case, image=-0.5 * case.image) for case in cases["c"]]
    sites = ImageSites(cases)
    server, _ = begun(sites)
    assert server.estimates[0].witnesses[1].sites["c"].is_known
    assert sorted(moves(sites)) == ["a", "b", "d"]


@pytest.mark.parametrize(
    "message",
    [
        {"halvings": 99},
        {"biases": [math.inf]},
        {"biases": [0.0, 0.0]},
        {"templates": [[0.0] * 40]},
        {"templates": [[1e9] * 41]},
        {"folder": "/"},
    ],
)
def test_a_site_refuses_a_question_that_no_server_asks(message):
    with pytest.raises(ValueError, match=r"halvings|biases|Expected an entry|templates|folder"):
        profile_curves([disc_case(str(n), 0.0) for n in range(3)], ProfileRequest.model_validate(message), 1)


def test_an_effect_is_tested_over_all_sites_and_classes():
    """Two sites 2 px off with errors of 0.7 px, then of 1 px: known, and not significant over both (p = 0.046 each)."""
    far = ProfileEstimate(8, 2.0, 0.2, 0.7 * 1.895, 1.0, 0.6, 0.99)
    decisions = decide_by_images([{"a": far, "b": replace(far, bias=-2.0)}], AutoSettings(rounds=9))
    assert {found.status for of in decisions.findings.values() for found in of.values()} == {Status.CONFIRMED}
    unsure = replace(far, half_width=1.895)
    decisions = decide_by_images([{"a": unsure, "b": replace(unsure, bias=-2.0)}], AutoSettings(rounds=9))
    assert {found.status for of in decisions.findings.values() for found in of.values()} == {Status.NOT_SIGNIFICANT}


def test_three_patients_are_enough_where_hardly_any_of_the_error_is_theirs():
    """√(0.2² + 0.2²) has 2 · 2² = 8 degrees of freedom: t = 6.5, p = 0.0002; with 2 of three patients it is 0.02."""
    half_width = 2.92 * np.hypot(0.2, 0.2)
    few = ProfileEstimate(3, 1.84, 0.2, half_width, 1.0, 0.6, 0.99)
    assert few.degrees_of_freedom == pytest.approx(8, rel=0.01)
    sites = {f"site-{index}": replace(few, bias=few.bias * (-1) ** index) for index in range(10)}
    decisions = decide_by_images([sites], AutoSettings(rounds=9))
    assert {found.status for of in decisions.findings.values() for found in of.values()} == {Status.CONFIRMED}
    assert {round(found.p_value, 4) for of in decisions.findings.values() for found in of.values()} == {0.0019}


def test_a_site_sends_nothing_where_moved_contours_leave_out_a_case():
    """Six discs, one of which vanishes at 6 px: the difference of both means would be its curve."""
    cases = [disc_case(str(number), 0.0, radius=10.0 if number else 5.0, seed=number) for number in range(6)]
    for bias, patients in ((0.0, 6), (1.0, 6), (6.0, 0)):
        answer = profile_curves(cases, ProfileRequest(halvings=0, biases=(bias,)), 1).fields
        assert answer["profile_patients"] == [patients]
        assert np.isnan(answer["profile_curve"]).all() == (patients == 0)
    given = ProfileRequest.of_templates((6.0,), (None,))
    assert profile_errors(cases, given, 1, seed=0).fields["profile_error_patients"] == [0]


def test_contours_are_measured_once_as_they_are_moved_and_once_as_they_are_given(monkeypatch):
    cases, measured = [disc_case(str(number), 0.0, radius=10.0) for number in range(3)], []

    def measuring(cases, label, **asked):
        measured.append(asked.get("bias", 0.0))
        return measure_curves(cases, label, **asked)

    for module in (profile_site, estimation):
        monkeypatch.setattr(module, "measure_curves", measuring)
    curves = profile_curves(cases, ProfileRequest(halvings=0, biases=(1.0,)), 1)
    errors = profile_errors(cases, ProfileRequest.of_templates((1.0,), (None,)), 1, seed=0)
    assert (curves.fields["profile_patients"], errors.fields["profile_error_patients"]) == ([3], [3])
    assert measured == [1.0, 0.0] * 2


@pytest.fixture(scope="module")
def large_discs():
    """Cases of five sites, and the server after it has asked all of them, who are honest."""
    cases = disc_sites(BIASES, size=128, radius=20.0)
    server, _ = begun(ImageSites(cases))
    return cases, server


@pytest.mark.parametrize(
    "lie",
    [
        {"profile_unit": 1e3},
        {"profile_unit": 1e-6},
        # Fewer are refused: see the registry of what leaves.
        {"profile_patients": [3]},
        {"profile_patients": [10**12]},
        {"profile_halvings": 16},
        {"profile_radius": [0.0]},
        {"profile_radius": [1e6]},
        {"profile_radius": [math.nan]},
        {"profile_error": [1e-90]},
        {"profile_curve": [0.0] * 97},
        {"profile_curve": [6.0] * 48 + [0.0] * 49},
    ],
)
def test_a_site_that_lies_ends_no_run_and_moves_no_other_by_a_pixel(lie, large_discs):
    cases, before = large_discs

    class Lying(ImageSites):
        def answer(self, task, name, message):
            answer = super().answer(task, name, message)
            return answer | lie if name == "e" and lie.keys() <= answer.keys() else answer

    after, _ = begun(Lying(cases, liars="e"))
    for site in "abcd":
        one, other = (server.estimates[0].witnesses[1].sites[site] for server in (before, after))
        if other.is_known:
            assert other.estimate == pytest.approx(one.estimate, abs=1.0)


def test_what_the_model_has_said_of_a_site_is_kept_where_images_are_asked_later():
    """A state of a version that asked no images: the site goes on ignoring what it was asked to."""
    everyone = disc_sites(BIASES)
    sites = ImageSites(everyone)
    server, _ = begun(sites)
    state = json.loads(json.dumps(server.state()))
    del state["images"]
    (record,) = state["channels"]
    record |= {"is_of_images": False, "witnesses": {}}
    ignored = {"kind": "missed_objects_ignored", "missed": {"1": 0.4}, "ignored": {"1": 0.4}}
    record["sites"]["c"]["corrections"] = [ignored]
    resumed = AutoServer(server.settings)
    resumed.restore(state, [])
    later = ImageSites(everyone)

    begun(later, number=3, server=resumed, history=trained(*BIASES))

    assert not later.corrections
    (kept,) = resumed.estimates[0].sites["c"].corrections
    assert kept.model_dump(mode="json") == ignored
    assert resumed.estimates[0].witnesses[1].sites["c"].is_known


def test_another_reference_level_is_no_want_of_a_boundary():
    server, _ = begun(ImageSites(disc_sites(BIASES)), reference_level="median")
    (found,) = server.estimates[0].sites["a"].parameters.values()
    assert found.has(EvidenceCode.NO_REFERENCE_LEVEL)
    assert found.estimate == pytest.approx(4.0, abs=0.5)
