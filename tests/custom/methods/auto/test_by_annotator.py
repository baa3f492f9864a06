"""`auto` by annotator: groups of a site's cases are asked, tested and corrected each by itself."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError
from support.annotator_federation import EXACT, SITES, DiscModel, Federation, settings_of, write_site
from support.rounds import round_of

from fedannot.apps.reports.correction_changes import in_words
from fedannot.apps.wording.decisions import decision_in_words, unit_noun, witness_in_words
from fedannot.custom.annotation_bias.profile.decision import is_shown, profile_reference_level
from fedannot.custom.annotation_bias.statuses import ReferenceKind
from fedannot.custom.corrections.export import export_corrections
from fedannot.custom.data.datalist import TRAINING
from fedannot.custom.methods.auto.annotator_groups import drawn_groups, site_groups, without_few
from fedannot.custom.methods.auto.asked_groups import GroupAsking
from fedannot.custom.methods.auto.image_estimates import ImageEstimates
from fedannot.custom.methods.auto.server import AutoServer
from fedannot.custom.records.plain_values import check_restorable
from fedannot.custom.task_names import CORRECT_ANNOTATION_BIAS, ESTIMATE_ANNOTATION_BIAS, MEASURE_BOUNDARY_PROFILE


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    for seed, (name, annotators) in enumerate(SITES.items()):
        write_site(folder / name, annotators, seed)
    return folder


def begun(federation, server=None, history=(), number=1):
    server = server or AutoServer(federation.method.settings)
    this_round = round_of(number, ask=federation, history=history, said=[])
    server.before_round(this_round)
    return server, this_round


@pytest.fixture(scope="module")
def corrected(data, tmp_path_factory):
    federation = Federation(tmp_path_factory.mktemp("run"), data, settings_of())
    return federation, *begun(federation)


def test_only_the_masks_of_the_annotator_who_errs_are_corrected(corrected):
    federation, server, _ = corrected

    given, trained, moved = federation.moved("north")

    assert moved == [True] * 6 + [False] * 6
    record = server.estimates[0]
    (key,) = record.decision.corrected
    assert record.groups[key].site == "north"
    shift = record.sites[key].corrections[0].bias[1]
    assert shift == pytest.approx(3.0, abs=0.5)
    for one, other in zip(given[:6], trained[:6], strict=True):
        areas = [float(np.sqrt(mask.sum() / np.pi)) for mask in (one, other)]
        assert areas[0] - areas[1] == pytest.approx(shift, abs=0.3)
    assert not any(federation.moved("south")[2] + federation.moved("east")[2])


def test_by_site_all_masks_are_corrected_or_none(data, tmp_path):
    federation = Federation(tmp_path, data, settings_of(bias_unit="site"))
    begun(federation)
    assert len({*federation.moved("north")[2]}) == 1
    assert all("annotator_group" not in message for _, _, message in federation.asked)


def test_no_name_and_no_small_group_leaves(corrected):
    federation, server, _ = corrected
    said = json.dumps([server.state(), federation.asked])
    assert not {"large", "exact"} & {*said.split(chr(34))}
    view = federation.view("north")
    groups = site_groups(view, view.load(TRAINING))
    assert sorted(groups.numbers.values()) == [1, 2]
    assert site_groups(federation.view("south"), federation.view("south").load(TRAINING)).numbers == {}


def test_groups_are_those_of_five_patients_with_no_rest_of_few(data, tmp_path):
    cases = Federation(tmp_path, data, settings_of()).view("north").load(TRAINING)
    files, folder = cases.cases, data / "north"

    def numbers(names):
        named = [
            replace(case, files=replace(case.files, annotator=name)) for case, name in zip(files, names, strict=True)
        ]
        return drawn_groups(replace(cases, cases=tuple(named)), folder, seed=0)

    # A rest of four is hidden among another five; of a rest of nobody all may leave.
    assert numbers(["a"] * 8 + ["b"] * 4).numbers == {}
    assert len(numbers(["a"] * 7 + ["b"] * 5).numbers) == 2
    kept = numbers(["a"] * 7 + [None] * 5)
    assert kept.numbers == {"a": 1}
    assert sorted(kept.cases.values()) == [0] * 5 + [1] * 7
    # Names decide nothing.
    other = numbers(["z"] * 7 + ["b"] * 5).cases
    assert other == numbers(["a"] * 7 + ["b"] * 5).cases


def test_groups_stay_in_a_run_and_are_found_again_by_a_site_that_has_lost_them(corrected, data, tmp_path):
    federation, _, _ = corrected
    view = federation.view("north")
    cases = view.load(TRAINING)
    kept = site_groups(view, replace(cases, cases=cases.cases[:7]))
    fresh = Federation(tmp_path, data, settings_of()).view("north")
    assert site_groups(fresh, cases) == kept
    lacking = kept.model_copy(update={"cases": {}})
    assert not lacking.of(cases, 0, view.locate().folder).cases


def test_a_restarted_server_asks_nobody_twice_and_one_that_joins_alone(corrected, data, tmp_path):
    _, first, _ = corrected
    state = json.loads(json.dumps(first.state()))
    check_restorable(state, "the state")
    server = AutoServer(first.settings)
    server.restore(state, ())
    assert server.state() == first.state()
    shutil.copytree(data / "north", tmp_path / "data" / "west")
    for name in SITES:
        (tmp_path / "data" / name).symlink_to(data / name)
    federation = Federation(tmp_path, tmp_path / "data", first.settings, (*SITES, "west"))
    trained = {name: {"num_samples": 8, "has_undone": True} for name in (*SITES, "west")}

    begun(federation, server, [{"round": 1, "sites": trained}], 2)

    assert {name for _, name, _ in federation.asked} == {"west"}
    assert federation.moved("west")[2] == [True] * 6 + [False] * 6


def test_who_has_lost_corrections_is_asked_again(corrected, data, tmp_path):
    _, first, _ = corrected
    server = AutoServer(first.settings)
    server.restore(json.loads(json.dumps(first.state())), ())
    federation = Federation(tmp_path, data, first.settings)
    trained = {"north": {"num_samples": 12}, "south": {"num_samples": 6}, "east": {"num_samples": 6}}

    begun(federation, server, [{"round": 1, "sites": trained}], 2)

    assert [(task, name) for task, name, _ in federation.asked] == [(CORRECT_ANNOTATION_BIAS, "north")]
    assert federation.moved("north")[2] == [True] * 6 + [False] * 6


def test_a_claim_of_groups_is_no_larger_than_the_site_s(corrected):
    _, server, _ = corrected
    of_north = [
        one.samples for name, one in server._images.profiles[0].items() if server._images.site_of(name) == "north"
    ]
    assert of_north == [6, 6]


def test_a_site_that_claims_more_for_its_groups_has_what_it_has_alone():
    def ask(task, sites=None, own_messages=None):
        number = (own_messages or {}).get("liar", {}).get("annotator_group")
        return {"liar": {"num_samples": 10 if number is None else 8, "annotator_groups": 2}}

    answers = GroupAsking(ask, groups := {})(MEASURE_BOUNDARY_PROFILE)

    assert {name: one["num_samples"] for name, one in answers.items()} == {"liar/0": 0, "liar/1": 8, "liar/2": 2}
    assert {group.number for group in groups.values()} == {0, 1, 2}


def test_files_and_words_are_those_of_each_annotator(corrected, data, tmp_path):
    federation, server, _ = corrected
    stored = federation.view("north").corrections.latest()

    exported = export_corrections(tmp_path, stored)

    assert {one.given for one in exported.annotations} == {f"labels/{number}.png" for number in range(6)}
    (key,) = server.estimates[0].decision.corrected
    number = server.estimates[0].groups[key].number
    assert [words.split(":")[0] for words in in_words(stored.corrections, None)] == [f"annotator {number}"]
    assert exported.moved == {}
    assert exported.moved_by_annotator[number]["lesion"] == pytest.approx(-3.0, abs=0.5)


def test_sentences_are_of_groups(corrected):
    _, server, _ = corrected
    record = server.estimates[0]
    assert f"Corrected at 1 of 4 groups of annotators: {record.decision.corrected[0]}." == decision_in_words(record)
    (witness,) = record.witnesses.values()
    assert "4 of 4 groups of annotators" in witness_in_words(witness, unit_noun(record))


@pytest.mark.parametrize("message", [{"annotator_group": 3}, {"annotator_group": -1}, {"annotator_group": True}])
def test_a_group_that_is_not_there_is_refused(corrected, message):
    federation, _, _ = corrected
    with pytest.raises(ValueError, match="Expected the number of a group"):
        federation.answer(MEASURE_BOUNDARY_PROFILE, "north", message)


def test_what_the_job_does_not_say_is_refused(corrected, data, tmp_path):
    federation, _, _ = corrected
    shift = [{"kind": "boundary_shift", "bias": {"1": 1.0}}]
    whole, own = {"corrections": shift}, {"corrections": [], "by_annotator": {"1": shift}}
    by_site = Federation(tmp_path, data, settings_of(bias_unit="site"))
    with pytest.raises(ValueError, match="by annotator as the job says"):
        federation.answer(CORRECT_ANNOTATION_BIAS, "north", whole)
    with pytest.raises(ValueError, match="by annotator as the job says"):
        by_site.answer(CORRECT_ANNOTATION_BIAS, "north", own)
    with pytest.raises(ValueError, match="question to the whole site"):
        by_site.answer(MEASURE_BOUNDARY_PROFILE, "north", {"annotator_group": 1})
    with pytest.raises(ValueError, match="question to the whole site"):
        by_site.answer(ESTIMATE_ANNOTATION_BIAS, "north", {"annotator_group": 1})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"weighting": "completeness"}, "expected 'weighting' quantity"),
        ({"correct": ["offset", "missing"]}, r"'correct' \[offset\]"),
        ({"correct_shift": True}, "expected 'correct_shift' false"),
    ],
)
def test_what_is_not_known_of_annotators_is_refused(changes, expected):
    with pytest.raises(
        ValidationError, match=f"'bias_unit' is annotator: expected .*{expected.split('expected ')[-1]}"
    ):
        settings_of(**changes)


def test_groups_of_which_nothing_is_known_take_no_vote_from_the_others():
    def plain(bias, *, is_known=True):
        numbers = {"standard_error": 0.2, "half_width": 0.5, "unit": 1.0, "prominence": 0.6, "correlation": 0.97}
        return {"patients": 10, "bias": bias, **numbers} if is_known else {"patients": 0}

    # Two sites, each with one annotator who is known, another who is not, and a rest without patients.
    names = [(site, number) for site in ("a", "b") for number in range(3)]
    groups = {f"{site}/{number}": {"site": site, "number": number} for site, number in names}
    profile = {f"{site}/{number}": plain(0.3, is_known=number == 1) for site, number in names}
    estimates = ImageEstimates(settings_of())
    estimates.restore({"asked": ["a", "b"], "groups": groups, "profiles": [profile]})
    known = {name: one for name, one in estimates.profiles[0].items() if one.is_known}
    assert {name: one.votes for name, one in known.items()} == {"a/1": 1, "b/1": 1}
    # They are two sites with one convention, not one site alone.
    assert profile_reference_level(estimates.profiles[0]).kind is ReferenceKind.CONVENTION


def test_groups_whose_curves_do_not_fit_have_one_vote_against_what_images_show():
    numbers = {"standard_error": 0.2, "half_width": 0.5, "unit": 1.0, "prominence": 0.6}
    groups = {f"liar/{number}": {"site": "liar", "number": number} for number in range(8)}
    profile = {name: {"patients": 9, "bias": 0.1, **numbers, "correlation": 0.97} for name in ("a", "b", "c")}
    profile |= {name: {"patients": 9, "bias": 0.1, **numbers, "correlation": 0.2} for name in groups}
    estimates = ImageEstimates(settings_of())
    estimates.restore({"asked": ["a", "b", "c", "liar"], "groups": groups, "profiles": [profile]})
    assert sum(one.votes for name, one in estimates.profiles[0].items() if name in groups) == 1
    assert is_shown(estimates.profiles[0])


def trained(federation):
    return [{"round": 1, "sites": {name: {"num_samples": 9, "has_undone": True} for name in federation.sites}}]


def test_images_and_model_together_correct_the_same_annotator(data, tmp_path):
    federation = Federation(tmp_path, data, settings_of(boundary_evidence="both"), network=DiscModel())
    server, _ = begun(federation)
    begun(federation, server, trained(federation), 2)

    images, both = server.estimates
    assert images.is_of_images
    assert not both.is_of_images
    assert both.witnesses[1].is_model_used
    assert both.decision.corrected == images.decision.corrected
    assert {both.groups[name].site for name in both.decision.corrected} == {"north"}
    assert federation.moved("north")[2] == [True] * 6 + [False] * 6
    assert not any(federation.moved("south")[2] + federation.moved("east")[2])
    said = json.dumps([server.state(), server.describe(None), federation.asked])
    assert not {"large", "exact"} & {*said.split(chr(34))}
    assert {"south/0", "north/1", "north/2", "east/0"} == both.sites.keys()


MOSTLY_LARGE = [("large", 3.0)] * 8 + [("exact", 0.0)] * 5


@pytest.fixture(scope="module")
def by_model(tmp_path_factory):
    """Corrected by what a model predicts, after a warm-up of one round; one site has cases that somebody reviewed."""
    folder = tmp_path_factory.mktemp("model")
    write_site(folder / "data" / "north", MOSTLY_LARGE, 1)
    write_site(folder / "data" / "south", EXACT * 2, 2)
    file = folder / "data" / "south" / "datalist.json"
    cases = json.loads(file.read_text())["training"]
    file.write_text(json.dumps({"training": cases[:6], "reference": cases[6:]}))
    settings = settings_of(boundary_evidence="model", reference_level="auto")
    federation = Federation(folder, folder / "data", settings, ("north", "south"), DiscModel())
    server, _ = begun(federation)
    assert not federation.asked
    return federation, *begun(federation, server, trained(federation), 2)


def test_by_the_model_alone_the_annotator_who_errs_is_corrected_from_what_is_reviewed(by_model):
    federation, server, _ = by_model
    (record,) = server.estimates
    (key,) = record.decision.corrected
    assert record.reference_levels[1].kind == "reference"
    assert record.sites[key].corrections[0].bias[1] == pytest.approx(3.0, abs=0.3)
    assert federation.moved("north")[2] == [True] * 8 + [False] * 5
    assert not any(federation.moved("south")[2])


def test_who_deviates_is_not_asked_which_model_is_better_and_a_veto_takes_all_back(by_model, tmp_path):
    federation, first, this_round = by_model
    server = AutoServer(first.settings)
    server.restore(json.loads(json.dumps(first.state())), ())
    assert server.state() == first.state()
    asked = []
    server._rollback.compare = lambda _, sites: asked.append(sites)
    server.after_training(this_round)
    assert asked == [["south"]]
    server._roll_back()
    begun(federation, server, trained(federation), 3)
    assert not any(federation.moved("north")[2])


def test_a_class_of_an_annotator_leaves_of_five_patients_only():
    fields = {"offset": [1.0, 2.0], "offset_low": [0.5, 1.5], "offset_patients": [4, 5], "annotated_patients": [4, 6]}
    fields |= {"reference_offset": [1.0, 1.0], "reference_offset_patients": [3, 3], "num_patients": 6}
    curves = {"profile_curve": [*range(97), *range(97)], "profile_patients": [3, 6]}
    left = without_few(fields | curves)
    assert np.isnan([left["offset"][0], left["offset_low"][0], *left["profile_curve"][:97]]).all()
    assert [left["offset"][1], left["offset_low"][1], *left["profile_curve"][97:]] == [2.0, 1.5, *range(97)]
    assert (left["offset_patients"], left["annotated_patients"], left["profile_patients"]) == ([0, 5], [0, 6], [0, 6])
    assert {name: left[name] for name in fields if "reference" in name or name == "num_patients"} == {
        name: fields[name] for name in fields if "reference" in name or name == "num_patients"
    }


def test_a_given_mask_is_compared_with_a_review_of_its_own_image_and_the_model_with_all(data, tmp_path):
    shutil.copytree(data / "north", tmp_path / "data" / "north")
    file = tmp_path / "data" / "north" / "datalist.json"
    cases = json.loads(file.read_text())["training"]
    # The exact annotator's masks of other cases review those of the one who draws too large: of five patients.
    reviewed = [{**cases[n], "label": cases[n + 6]["label"], "annotator": "reviewer"} for n in range(5)]
    file.write_text(json.dumps({"training": cases, "reference": reviewed}))
    settings = settings_of(boundary_evidence="model")
    federation = Federation(tmp_path, tmp_path / "data", settings, ("north",), DiscModel())
    groups = site_groups(federation.view("north"), federation.view("north").load(TRAINING)).numbers

    large, exact = (
        federation.answer(ESTIMATE_ANNOTATION_BIAS, "north", {"annotator_group": groups[name]})
        for name in ("large", "exact")
    )

    assert (large["reviewed_offset_patients"], exact["reviewed_offset_patients"]) == ([5], [0])
    assert large["reference_offset_patients"] == exact["reference_offset_patients"] == [5]
    assert large["reference_offset"] == exact["reference_offset"]
