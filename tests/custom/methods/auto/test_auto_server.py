"""`auto` at the server: when it estimates, whom it tells what, and what it remembers."""

import json
import math

import pytest
from pydantic import TypeAdapter
from support.corrected_runs import bias_of, missed_of, relabelled_of
from support.rounds import round_of

from fedannot.custom.aggregation.weighting import LayerWeights
from fedannot.custom.annotation_bias.estimate import Estimate, sent
from fedannot.custom.annotation_bias.feature_names import FEATURES
from fedannot.custom.corrections.kinds import Correction, MissedObjectsIgnored, of_kind
from fedannot.custom.methods.auto.outbound import OUTBOUND_FIELDS
from fedannot.custom.methods.auto.server import AutoServer
from fedannot.custom.methods.auto.settings import AutoSettings
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.records.plain_values import check_restorable
from fedannot.custom.settings import SettingsError
from fedannot.custom.task_names import COMPARE_SCORES, CORRECT_ANNOTATION_BIAS, ESTIMATE_ANNOTATION_BIAS, KEEP_SCORES

OFFSETS = {"site-1": -4.0, "site-2": -4.6, "site-3": -5.0, "site-4": -4.2, "site-5": 4.4, "site-6": 5.0}
CLEAN = dict.fromkeys(OFFSETS, 0.0)
MODEL_ALONE = {"boundary_evidence": "model"}


def estimate(name, value, patients=12, calibrated=True, half=0.3):
    fields = {
        name: [value],
        f"{name}_low": [value - half],
        f"{name}_high": [value + half],
        f"{name}_patients": [patients],
    }
    return fields | ({f"{name}_slope": [1.0], f"{name}_auroc": [0.9]} if calibrated else {})


def answer(offset, found=12, completeness=0.9, num_samples=12, edges=0.0):
    return {
        "num_samples": num_samples,
        "num_patients": 12,
        "pixel_size": 1.0,
        "annotated_patients": [12],
        "image_means": [0.0] * len(FEATURES),
        "image_deviations": [1.0] * len(FEATURES),
        **estimate("offset", offset, found),
        **estimate("edge_offset", edges, calibrated=False),
        **estimate("reference_offset", math.nan, 0, calibrated=False),
        **estimate("reviewed_offset", math.nan, 0, calibrated=False),
        **estimate("completeness", completeness, half=0.05),
        **sent("swapped", [Estimate.unknown()], calibrated=True),
        "exchanged_part": [math.nan],
    }


NOTHING = {"offsets": {}, "missing": {}, "unannotated": {}, "swapped": 0.0}


def heard_as(message):
    """What a site reads from the plain values that were sent, JSON between them, by kind and class."""
    asked = TypeAdapter(tuple[Correction, ...]).validate_python(json.loads(json.dumps(message["corrections"])))
    missed = of_kind(asked, MissedObjectsIgnored)
    ignored = {} if missed is None else missed.ignored
    by_class = {"offsets": bias_of(asked), "missing": missed_of(asked), "unannotated": ignored}
    lengths = {kind: {str(label): value for label, value in values.items()} for kind, values in by_class.items()}
    return lengths | {"swapped": relabelled_of(asked)}


class Sites:
    """Answer the server's questions, and note what each is asked; the model draws outward by a distance."""

    def __init__(self, offsets, found=12, deaf=(), completeness=(), num_samples=()):
        self.offsets, self.found, self.deaf, self.completeness = offsets, found, set(deaf), dict(completeness)
        self.num_samples = dict(num_samples)
        self.instructions, self.asked, self.outward = {}, [], 0.0
        self.server, self.round = None, None

    def __call__(self, task, sites=None, own_messages=None):
        self.asked.append((self.round.number, task, sites))
        assert "corrections" not in self.server.message(self.round)
        if task == ESTIMATE_ANNOTATION_BIAS:
            assert (sites, own_messages) == (None, None)
            return {
                site: answer(
                    offset - self.outward,
                    self.found,
                    self.completeness.get(site, 0.9),
                    self.num_samples.get(site, 12),
                    edges=-self.outward,
                )
                for site, offset in self.offsets.items()
            }
        assert task == CORRECT_ANNOTATION_BIAS
        assert set(own_messages) == set(sites)
        # Nothing but these: no move of the model's own contours, as earlier versions asked for.
        asked = [item for message in own_messages.values() for item in message["corrections"]]
        assert {*(key for item in asked for key in item)} <= {"kind", "bias", "missed", "ignored", "fraction"}
        heard = {site: heard_as(own_messages[site]) for site in sites if site not in self.deaf}
        self.instructions |= heard
        return {site: {"has_undone": True} for site in heard}


def run(sites, rounds=range(1, 10), server=None, lost=(), num_samples=None, **settings):
    """Let rounds begin; sites report that they trained on what was corrected, but for those that lost it in a round."""
    server = server or AutoServer(
        AutoSettings.model_validate(MODEL_ALONE | {"rounds": 9, "warmup_rounds": 3} | settings)
    )
    sites.server, history, said = server, [], []
    for number in rounds:
        sites.round = round_of(number, history=history, ask=sites, said=said, num_samples=num_samples)
        server.before_round(sites.round)
        reports = {
            site: {"num_samples": 12}
            | ({"has_undone": (number, site) not in lost} if site in sites.instructions else {})
            for site in sites.offsets
        }
        history.append({"round": number, "sites": reports})
    return server, said


def tasks(sites):
    return [(number, task) for number, task, _ in sites.asked]


def test_an_answer_is_what_is_declared():
    registry = OutboundRegistry(OUTBOUND_FIELDS)
    registry.check(ESTIMATE_ANNOTATION_BIAS, answer(0.0))
    assert registry.refusal(ESTIMATE_ANNOTATION_BIAS, answer(0.0), 1) is None


def test_each_site_gets_its_own_instruction_and_nothing_goes_with_training():
    sites = Sites(OFFSETS)
    server, _ = run(sites, range(1, 5))
    zero = (sum(list(OFFSETS.values())[:4]) / 4 + 4.7) / 2
    assert {site: instructions["offsets"]["1"] for site, instructions in sites.instructions.items()} == {
        site: pytest.approx(offset - zero) for site, offset in OFFSETS.items()
    }
    assert server.message(sites.round) == {}
    assert server.stage(sites.round) == "corrected"
    assert server.weights(sites.round) is None


def test_estimates_are_made_after_the_warm_up_and_in_equal_steps():
    sites = Sites(OFFSETS)
    run(sites)
    assert [number for number, task in tasks(sites) if task == ESTIMATE_ANNOTATION_BIAS] == [4, 6, 8]
    assert {number for number, task in tasks(sites) if task == CORRECT_ANNOTATION_BIAS} == {4, 6, 8}
    alone = Sites(OFFSETS)
    run(alone, estimates=1)
    assert [number for number, task in tasks(alone) if task == ESTIMATE_ANNOTATION_BIAS] == [4]
    twice = Sites(OFFSETS)
    run(twice, estimates=2)
    assert [number for number, task in tasks(twice) if task == ESTIMATE_ANNOTATION_BIAS] == [4, 7]


@pytest.mark.parametrize(("rounds", "numbers"), [(4, [4]), (5, [4, 5]), (6, [4, 5, 6]), (12, [4, 7, 10])])
def test_few_rounds_have_as_many_estimates_as_there_can_be(rounds, numbers):
    sites, settings = Sites(OFFSETS), AutoSettings(boundary_evidence="model", rounds=rounds, warmup_rounds=3)
    run(sites, range(1, rounds + 1), AutoServer(settings))
    assert [number for number, task in tasks(sites) if task == ESTIMATE_ANNOTATION_BIAS] == numbers


def test_a_site_ignores_as_many_as_it_leaves_out_itself():
    """All others annotate 0.7 of the objects and are the most complete: nothing is confirmed of them."""
    sites = Sites(CLEAN, completeness=dict.fromkeys(CLEAN, 0.7) | {"site-2": 0.35})
    server, _ = run(sites, range(1, 5))
    shares = {"missing": {"1": pytest.approx(0.5)}, "unannotated": {"1": pytest.approx(0.65)}}
    assert sites.instructions == {"site-2": NOTHING | shares}
    resumed = AutoServer(server.settings)
    resumed.restore(server.state(), [])
    assert resumed.describe(sites.round) == server.describe(sites.round)


def test_a_state_without_what_is_not_annotated_goes_on_with_what_is_missing():
    sites = Sites(CLEAN, deaf=("site-2",), completeness={"site-2": 0.45})
    server, _ = run(sites, range(1, 5))
    state = server.state()
    for record in state["channels"][0]["sites"].values():
        record.update(heard_as(record) | {"undone_before_round": record.pop("corrected_before_round")})
        del record["corrections"]
        del record["unannotated"]
    resumed = AutoServer(server.settings)
    resumed.restore(state, [])
    later = Sites(CLEAN)
    run(later, range(5, 6), resumed)
    share = {"1": pytest.approx(0.5)}
    assert later.instructions == {"site-2": NOTHING | {"missing": share, "unannotated": share}}


def test_sites_that_leave_objects_out_count_less():
    sites = Sites(CLEAN, completeness={"site-2": 0.45})
    samples = dict.fromkeys(CLEAN, 10)
    server, _ = run(sites, range(1, 5), num_samples=samples, weighting="completeness")
    shares = {"missing": {"1": pytest.approx(0.5)}, "unannotated": {"1": pytest.approx(0.55)}}
    assert sites.instructions == {"site-2": NOTHING | shares}
    weights = server.weights(sites.round)
    assert weights.values[weights.sites.index("site-2"), 0] == pytest.approx(0.5 / 5.5)
    by_quantity, _ = run(Sites(CLEAN, completeness={"site-2": 0.45}), range(1, 5), num_samples=samples)
    assert by_quantity.weights(sites.round) is None
    measured = Sites(CLEAN, completeness={"site-2": 0.45})
    server, said = run(measured, range(1, 5), num_samples=samples, correct=("offset",))
    assert not measured.instructions
    assert server.stage(measured.round) == "federated averaging"
    assert "Annotation bias: measured" in said[0]


def test_where_the_model_draws_changes_no_instruction():
    """The second model draws 0.9 px further outside than the first, the third 0.65 px less; the sites are as before."""
    sites = Sites(OFFSETS)
    server, _ = run(sites, range(1, 6))
    first = dict(sites.instructions)
    for outward, rounds in ((0.9, range(6, 8)), (0.25, range(8, 10))):
        sites.outward = outward
        run(sites, rounds, server)
        assert sites.instructions == {
            site: {**asked, "offsets": {"1": pytest.approx(asked["offsets"]["1"])}} for site, asked in first.items()
        }
    assert len(server.estimates) == 3


def test_a_state_in_which_the_model_itself_was_moved_is_read_without_that():
    sites = Sites(OFFSETS)
    server, _ = run(sites, range(1, 5))
    state = json.loads(json.dumps(server.state()))
    assert state["corrected"]
    state["undone"] = state.pop("corrected")
    for record in state["channels"][0]["sites"].values():
        record["corrections"][0]["model_bias"] = {"1": 0.9}
    resumed = AutoServer(server.settings)
    resumed.restore(state, [])
    assert resumed.state() == server.state()


def test_clean_sites_get_no_instruction():
    sites = Sites(CLEAN)
    server, said = run(sites)
    assert not sites.instructions
    assert server.stage(sites.round) == "federated averaging"
    assert said[0] == "Annotation bias: nothing; 0 of 6 sites correct."


def test_what_no_longer_holds_is_rolled_back():
    sites = Sites(OFFSETS)
    server, _ = run(sites, range(1, 5))
    sites.offsets = CLEAN
    run(sites, range(5, 10), server)
    assert all(instructions == NOTHING for instructions in sites.instructions.values())


def test_a_site_that_misses_an_estimate_goes_on_with_what_it_was_instructed():
    sites = Sites(OFFSETS)
    server, _ = run(sites, range(1, 5))
    instructions, absent = dict(sites.instructions), "site-5"
    sites.offsets = {site: offset for site, offset in OFFSETS.items() if site != absent}
    sites.instructions = {}
    run(sites, range(5, 10), server)
    assert set(sites.instructions) == set(instructions) - {absent}
    record = server.describe(sites.round)["channels"][-1]["sites"][absent]
    assert heard_as(record) == instructions[absent]
    assert record["corrected_before_round"] == 4
    # When everything is rolled back it is instructed, too.
    server._roll_back()
    assert absent in server._pending


def test_a_site_that_was_not_reached_or_lost_its_corrections_is_instructed_again():
    sites = Sites(OFFSETS, deaf=["site-2"])
    _, said = run(sites, range(1, 7), lost={(4, "site-1")}, estimates=2)
    asked = {number: names for number, task, names in sites.asked if task == CORRECT_ANNOTATION_BIAS}
    assert asked == {4: sorted(OFFSETS), 5: ["site-1", "site-2"], 6: ["site-2"]}
    assert any("site-1 no longer has" in text for text in said)


def test_a_model_that_finds_little_is_not_believed():
    sites = Sites(OFFSETS, found=4)
    server, said = run(sites, range(1, 7), max_extra_warmup_rounds=2)
    assert [number for number, task in tasks(sites) if task == ESTIMATE_ANNOTATION_BIAS] == [4, 5, 6]
    assert "33%" in said[0]
    assert len(server.estimates) == 1


def test_state_and_summary_are_plain_and_come_back():
    sites = Sites(OFFSETS)
    server, _ = run(sites, range(1, 5))
    state = server.state()
    check_restorable(state, "the state")
    other = AutoServer(server.settings)
    other.restore(json.loads(json.dumps(state)), [])
    assert other.state() == state
    assert other.describe(sites.round) == server.describe(sites.round)
    site = server.describe(sites.round)["channels"][-1]["sites"]["site-5"]
    assert site["corrected_before_round"] == 4
    assert site["parameters"]["offset 1"]["status"] == "confirmed"


def test_nothing_is_corrected_where_the_settings_only_measure():
    sites = Sites(OFFSETS)
    server, _ = run(sites, treatment="none")
    assert not sites.instructions
    assert (
        server.describe(sites.round)["channels"][0]["sites"]["site-1"]["parameters"]["offset 1"]["status"]
        == "confirmed"
    )


MANY = {f"site-{index}": offset for index, offset in enumerate([0.0, 0.2, -0.1, 0.1, 0.0, -0.2, 5.0, 5.5, 6.0])}


class ScoringSites(Sites):
    """Sites that also score models; the one that comes last is better by a gain, the same for all of them."""

    def __init__(self, offsets, gain, reviewed=False, **options):
        super().__init__(offsets, **options)
        self.gain, self.messages = gain, []
        self.known, self.unknown = ("reviewed_gain", "held_out_gain")[:: 1 if reviewed else -1]

    def __call__(self, task, sites=None, params=None, own_messages=None):
        if task not in (KEEP_SCORES, COMPARE_SCORES):
            return super().__call__(task, sites, own_messages)
        self.messages.append((self.round.number, task, self.server.message(self.round)))
        if task == KEEP_SCORES:
            return {site: {"has_scored": True} for site in self.offsets}
        assert params in (None, "the shadow")
        sites = self.offsets
        unknown = estimate(self.unknown, math.nan, 0, calibrated=False)
        return {site: unknown | estimate(self.known, self.gain, calibrated=False, half=0.01) for site in sites}


def run_checked(gain, **settings):
    """Nine sites, three of which draw larger and have most images; the zero is the median, as the edges agree."""
    samples = {site: 60 if offset > 2 else 12 for site, offset in MANY.items()}
    sites = ScoringSites(MANY, gain, num_samples=samples)
    values = {"rounds": 12, "warmup_rounds": 3, "estimates": 1, "reference_level": "median"} | settings
    server = AutoServer(AutoSettings.model_validate(MODEL_ALONE | values))
    sites.server, history, seen, said = server, [], {}, []
    for number in range(1, 9):
        sites.round = round_of(number, history=history, ask=sites, num_samples=samples, said=said)
        server.before_round(sites.round)
        left_out = server.second_average_without(sites.round)
        seen[number] = left_out, server.message(sites.round), server.stage(sites.round), server.weights(sites.round)
        reports = {
            site: {"num_samples": samples[site]} | ({"has_undone": True} if site in sites.instructions else {})
            for site in MANY
        }
        made = round_of(number, reports=reports)
        sites.round.reports, sites.round.second_average = made.reports, "the shadow" if left_out is not None else None
        server.after_training(sites.round)
        history.append({"round": number, "sites": reports})
    return server, sites, seen, said


@pytest.mark.parametrize("rule", ["median", "multi_krum"])
def test_a_rule_without_a_second_average_needs_a_run_without_comparisons(rule):
    values = {"aggregation": {"rule": rule}, "min_sites": 5}
    with pytest.raises(SettingsError, match=f"key 'aggregation.rule' is '{rule}', expected 'mean' or 'trimmed_mean'"):
        AutoServer(AutoSettings.model_validate(values))
    AutoServer(AutoSettings.model_validate(values | {"rollback_rounds": 0}))


def test_a_model_of_before_that_is_better_takes_everything_back_for_good():
    server, sites, seen, _ = run_checked(-0.05)
    correcting = {"site-6", "site-7", "site-8"}
    assert [left_out for left_out, *_ in seen.values()] == [None] * 8
    assert [(number, task) for number, task, _ in sites.messages] == [(4, KEEP_SCORES)] + [
        (number, COMPARE_SCORES) for number in (4, 5, 6)
    ]
    assert {json.dumps(message) for *_, message in sites.messages} == {'{"kept_round": 4}'}
    assert [seen[number][2] for number in (3, 6, 7)] == ["warm-up", "corrected", "federated averaging"]
    assert {site: instructions for site, instructions in sites.instructions.items() if instructions["offsets"]} == {}
    assert set(sites.instructions) == correcting
    described = server.describe(sites.round)
    assert described["rollback"]["has_vetoed"]
    assert (described["rollback"]["rollback_of"], described["rollback"]["before_round"]) == ("model_before", 4)
    # What was corrected until then stays in the record.
    channel = described["channels"][0]["sites"]
    assert {site for site, of in channel.items() if of["corrected_before_round"] == 4} == correcting


def test_a_veto_ends_estimates_and_survives_a_restart():
    server, sites, *_ = run_checked(-0.05, estimates=4, rounds=9)
    assert len(server.estimates) == 2
    other = AutoServer(server.settings)
    other.restore(json.loads(json.dumps(server.state())), [])
    assert other.message(sites.round) == server.message(sites.round)
    assert other.describe(sites.round)["rollback"]["has_vetoed"]
    assert other.describe(sites.round) == server.describe(sites.round)


def test_a_shadow_that_is_no_better_changes_nothing():
    server, sites, seen, _ = run_checked(-0.001)
    assert seen[8][2] == "corrected"
    assert all(instructions["offsets"] for instructions in sites.instructions.values())
    assert not server.describe(sites.round)["rollback"]["has_vetoed"]


def test_without_rounds_to_check_nobody_is_asked():
    server, sites, seen, _ = run_checked(-0.05, rollback_rounds=0)
    assert not sites.messages
    assert all(left_out is None for left_out, *_ in seen.values())
    assert seen[8][2] == "corrected"
    assert server.describe(sites.round)["rollback"] is None


def test_where_nothing_is_corrected_there_is_nothing_to_check():
    sites = Sites(CLEAN)
    server, _ = run(sites, num_samples=dict.fromkeys(CLEAN, 9))
    assert server.second_average_without(sites.round) is None
    assert server.describe(sites.round)["rollback"] is None


def different_weights(sites):
    """Weights of which no two are alike."""
    total = len(sites) * (len(sites) + 1) / 2
    shares = {site: (index + 1) / total for index, site in enumerate(sites)}
    return LayerWeights.same_in_all_blocks(shares, ("first", "last"))


def test_other_weights_are_checked_against_those_by_quantity_and_rolled_back():
    missing = {"correct": ("offset", "missing"), "weighting": "completeness"}
    sites = ScoringSites(CLEAN, 0.05, completeness={"site-2": 0.45})
    samples = dict.fromkeys(CLEAN, 10)
    server, _ = run(sites, range(1, 5), num_samples=samples, rollback_rounds=1, **missing)
    assert server.weights(sites.round) is not None
    assert server.second_average_without(sites.round) == frozenset()
    sites.round.reports = round_of(4, reports={site: {"num_samples": 10} for site in CLEAN}).reports
    sites.round.second_average, sites.round.weighed = "the shadow", different_weights(CLEAN)
    server.after_training(sites.round)
    sites.round.number = 5
    server.before_round(sites.round)
    assert server.weights(sites.round) is None
    assert server.describe(sites.round)["rollback"]["rollback_of"] == "weights_by_samples"
