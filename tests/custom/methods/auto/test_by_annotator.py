"""`auto` by annotator: groups of a site's cases are asked, tested and corrected each by itself."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from pydantic import ValidationError
from support.rounds import round_of
from support.site_views import HandmadeSite

from fedannot.apps.reports.correction_changes import in_words
from fedannot.apps.wording.decisions import decision_in_words, unit_noun, witness_in_words
from fedannot.custom.annotation_bias.profile.decision import profile_reference_level
from fedannot.custom.annotation_bias.statuses import ReferenceKind
from fedannot.custom.corrections.export import export_corrections
from fedannot.custom.corrections.targets import active_targets
from fedannot.custom.data.datalist import TRAINING
from fedannot.custom.methods.auto import METHOD
from fedannot.custom.methods.auto.annotator_groups import drawn_groups, site_groups
from fedannot.custom.methods.auto.asked_groups import GroupAsking
from fedannot.custom.methods.auto.image_estimates import ImageEstimates
from fedannot.custom.methods.auto.server import AutoServer
from fedannot.custom.methods.auto.settings import AutoSettings
from fedannot.custom.methods.auto.site import AutoSite
from fedannot.custom.networks.described import described_network
from fedannot.custom.outbound.registry import OutboundRegistry
from fedannot.custom.records.plain_values import check_restorable
from fedannot.custom.task_names import CORRECT_ANNOTATION_BIAS, MEASURE_BOUNDARY_PROFILE

REGISTRY = OutboundRegistry(METHOD.outbound_fields)
NETWORK = {"features": (4, 4, 8, 8, 8, 4)}
BY_ANNOTATOR = {"bias_unit": "annotator", "boundary_evidence": "image", "correct": ["offset"]}
# Else federated averaging tolerates the few masks that err.
BY_ANNOTATOR["reference_level"] = "image_boundary"
# By site the annotators of its cases with their biases in pixels.
EXACT = [(None, 0.0)] * 6
SITES = {"north": [("large", 3.0)] * 6 + [("exact", 0.0)] * 6, "south": EXACT, "east": EXACT}


def settings_of(**changes):
    return AutoSettings.model_validate({"rounds": 9, "warmup_rounds": 1, "network": NETWORK} | BY_ANNOTATOR | changes)


def write_site(folder, annotators, seed):
    """Bright discs with a blurred edge, of one patient each."""
    generator, entries = np.random.default_rng(seed), []
    for part in ("images", "labels"):
        (folder / part).mkdir(parents=True)
    for number, (name, bias) in enumerate(annotators):
        grid = np.indices((48, 48)) - 24 - generator.uniform(-2, 2, (2, 1, 1))
        away = np.hypot(*grid) - 9
        image = 40 + 150 / (1 + np.exp(away)) + generator.normal(scale=8, size=away.shape)
        for part, values in {"images": image.clip(0, 255), "labels": 200 * (away <= bias)}.items():
            Image.fromarray(values.astype(np.uint8)).save(folder / part / f"{number}.png")
        entry = {"image": f"images/{number}.png", "label": f"labels/{number}.png", "patient": f"p{number}"}
        entries.append(entry if name is None else entry | {"annotator": name})
    (folder / "datalist.json").write_text(json.dumps({"training": entries}))
    (folder / "data.yaml").write_text("channels: 1\nclasses: [lesion]\nsize: [48, 48]\nlabels: {0: 0, 200: 1}\n")


class Federation:
    """Sites that answer by the real code; messages and answers go through JSON and the guard."""

    def __init__(self, folder, data, settings, names=tuple(SITES)):
        self.method, self.network = AutoSite(settings), described_network(settings.network)
        self.sites = {name: HandmadeSite(folder / name, data_folder=data / name, name=name) for name in names}
        self.asked = []

    def __call__(self, task, sites=None, own_messages=None):
        return {
            name: self.answer(task, name, (own_messages or {}).get(name, {})) for name in sorted(sites or self.sites)
        }

    def answer(self, task, name, message):
        self.asked.append((task, name, message))
        answer = dict(self.method.answer(task, self.network, self.view(name, message)).fields)
        REGISTRY.check(task, answer)
        assert REGISTRY.refusal(task, answer, 1) is None
        return answer

    def view(self, name, message=None):
        return self.sites[name].view(self.method, 1, json.loads(json.dumps(message or {})))

    def moved(self, name):
        """The site's given labels, those that it trains on, and which differ."""
        view = self.view(name)
        data = view.load(TRAINING)
        given = [case.label[0].numpy() for case in data.cases]
        labels = active_targets(view.corrections.latest(), data, view.locate().folder).labels
        trained = given if labels is None else [label.numpy() for label in labels]
        return given, trained, [not np.array_equal(*two) for two in zip(given, trained, strict=True)]


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


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"boundary_evidence": "both"}, "expected 'boundary_evidence' image"),
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
