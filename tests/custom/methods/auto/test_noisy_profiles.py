"""`auto` asks sites that hide single patients for noisy curves: through the filter, its account and the server."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from support.disc_cases import disc_sites
from support.rounds import round_of

from fedannot.custom.annotation_bias.noisy_fields import noise_of
from fedannot.custom.flare.at_hand import note_samples, note_task
from fedannot.custom.flare.messages import METHOD_TASK
from fedannot.custom.flare.outbound_filter import OutboundFilter
from fedannot.custom.flare.privacy_filter import PrivacyFilter, StatisticsPrivacyFilter
from fedannot.custom.flare.privacy_ledger import LEDGER_FILE
from fedannot.custom.flare.task_process import SiteContext
from fedannot.custom.methods.auto.outbound import OUTBOUND_FIELDS, PROFILE_VECTOR, VECTOR_ENTRIES
from fedannot.custom.methods.auto.profile_request import ProfileRequest
from fedannot.custom.methods.auto.profile_site import profile_curves, profile_errors
from fedannot.custom.methods.auto.server import AutoServer
from fedannot.custom.methods.auto.settings import AutoSettings
from fedannot.custom.outbound.registry import OutboundError, OutboundRegistry
from fedannot.custom.records.plain_values import check_restorable
from fedannot.custom.task_names import CORRECT_ANNOTATION_BIAS, MEASURE_BOUNDARY_PROFILE, MEASURE_PROFILE_ERROR

BIASES = {"a": 4.0, "b": -3.0, "c": 0.0, "d": 2.0}
PATIENTS = 40
REGISTRY = OutboundRegistry(OUTBOUND_FIELDS)
# What leaves without noise, of a site that hides its patients.
EXACT = {
    "num_patients",
    "profile_patients",
    "profile_curve",
    "profile_radius",
    "profile_unit",
    "grid_halvings",
    "grid_micrometres",
}


def hiding(noise, **options):
    """The filter of a site that hides single patients."""
    made = StatisticsPrivacyFilter(noise_multiplier=noise, **options)
    made.random_bytes = np.random.default_rng(7).bytes
    return made


def left(folder, task, answer, *filters):
    """The fields that leave by a site's filters, and the guard behind them."""
    for needed in ("startup", "local"):
        (folder / needed).mkdir(parents=True, exist_ok=True)
    context = SiteContext("site-1", "job", str(folder)).context()
    context.set_prop("__task_name__", METHOD_TASK, private=True, sticky=False)
    note_task(task, AutoSettings(rounds=9, warmup_rounds=5), context)
    note_samples(answer.samples, context)
    reply = DXO(DataKind.METRICS, data=dict(answer.fields)).to_shareable()
    for each in (*filters, OutboundFilter()):
        reply = each.process(reply, context)
    return from_shareable(reply).data


def spent(folder):
    """How many statistics are in a site's account, and Σ 1/σ²."""
    file = folder / LEDGER_FILE
    if not file.is_file():
        return 0, 0.0
    account = json.loads(file.read_text(encoding="utf-8"))["statistics"]
    return account["results"], account["mu_squared"]


class Sites:
    """Sites that answer by the real code, each behind its filter, if it has one; all goes through JSON."""

    def __init__(self, cases, folder, filters):
        self.cases, self.folder, self.filters = cases, folder, filters
        self.asked, self.corrections = [], {}

    def __call__(self, task, sites=None, own_messages=None):
        names = sorted(self.cases) if sites is None else sorted(sites)
        self.asked.append((task, "".join(names)))
        messages = {name: json.loads(json.dumps((own_messages or {}).get(name, {}))) for name in names}
        if task == CORRECT_ANNOTATION_BIAS:
            self.corrections |= {name: messages[name]["corrections"] for name in names}
            return {name: {"has_undone": True} for name in names}
        answers = {name: self.answer(task, name, messages[name]) for name in names}
        return {name: answer for name, answer in answers.items() if answer is not None}

    def answer(self, task, name, message):
        request = ProfileRequest.model_validate(message.get("profile", {}))
        if task == MEASURE_BOUNDARY_PROFILE:
            answer = profile_curves(self.cases[name], request, 1, has_fixed_grid=True)
        else:
            answer = profile_errors(self.cases[name], request, 1, seed=0)
        try:
            data = left(self.folder / name, task, answer, *self.filters.get(name, ()))
        except OutboundError:
            return None
        assert REGISTRY.refusal(task, data, 1) is None
        return json.loads(json.dumps(data))

    def moves(self):
        return {name: asked[0]["bias"]["1"] for name, asked in self.corrections.items() if asked}


def begun(sites, *, number=1, server=None, history=()):
    server = server or AutoServer(AutoSettings(rounds=9, warmup_rounds=5))
    server.before_round(round_of(number, ask=sites, history=history, said=[]))
    return server


def trained(names):
    return [{"round": 1, "sites": {name: {"num_samples": 8, "has_undone": True} for name in names}}]


@pytest.fixture(scope="module")
def many():
    """Sites of forty patients with ten copies of four discs each."""
    few = disc_sites(BIASES, cases=4, size=48, radius=9.0)
    return {
        site: [replace(case, patient=f"{case.patient}-{again}") for again in range(PATIENTS // 4) for case in cases]
        for site, cases in few.items()
    }


def test_sites_that_all_hide_their_patients_are_corrected_before_the_first_round(tmp_path, many):
    sites = Sites(many, tmp_path, {site: [hiding(0.7)] for site in BIASES})

    server = begun(sites)

    # The first question, for the scale, has no noise and costs nothing; nobody is asked for a standard error.
    assert [task for task, _ in sites.asked] == [MEASURE_BOUNDARY_PROFILE] * 2 + [CORRECT_ANNOTATION_BIAS]
    assert {site: spent(tmp_path / site) for site in BIASES} == dict.fromkeys(BIASES, (1, pytest.approx(0.7**-2)))
    assert sites.moves() == {site: pytest.approx(BIASES[site], abs=1.0) for site in ("a", "b", "d")}
    for site, found in server.estimates[0].witnesses[1].sites.items():
        assert found.is_known
        assert found.low <= BIASES[site] <= found.high
        # 2 / √40 by patients who may spread, and more by noise.
        assert found.high - found.estimate > 1.68 * math.hypot(2 / math.sqrt(PATIENTS), 0.2)


def test_a_site_that_hides_its_patients_stands_beside_others_and_is_asked_once(tmp_path, many):
    sites = Sites(many, tmp_path, {"a": [hiding(0.7)]})
    server = begun(sites)
    assert sites.asked[:3] == [
        (MEASURE_BOUNDARY_PROFILE, "abcd"),
        (MEASURE_BOUNDARY_PROFILE, "a"),
        (MEASURE_PROFILE_ERROR, "bcd"),
    ]
    assert sites.moves()["a"] == pytest.approx(4.0, abs=1.0)

    # A run that goes on, and a site that joins: what the first has said is kept.
    state = json.loads(json.dumps(server.state()))
    check_restorable(state, "auto")
    resumed = AutoServer(server.settings)
    resumed.restore(state, [])
    more = Sites({**many, "e": many["c"]}, tmp_path, {"a": [hiding(0.7)], "e": [hiding(0.7)]})
    begun(more, number=3, server=resumed, history=trained("abcde"))
    assert (MEASURE_BOUNDARY_PROFILE, "e") in more.asked
    assert {site: spent(tmp_path / site)[0] for site in "abe"} == {"a": 1, "b": 0, "e": 1}
    assert resumed.estimates[0].witnesses[1].sites["e"].is_known
    assert resumed.state()["images"]["noisy"]["a"] == server.state()["images"]["noisy"]["a"]


def test_every_scale_spends(tmp_path):
    """Large images begin coarsely; each scale is an answer with noise of its own."""
    few = disc_sites(dict.fromkeys("abc", 0.0), cases=3, size=128, radius=20.0)
    sites = Sites(few, tmp_path, {"a": [hiding(0.1)]})
    begun(sites)
    assert spent(tmp_path / "a") == (2, pytest.approx(2 * 0.1**-2))


def test_where_the_budget_is_spent_the_site_has_no_estimate_and_the_others_go_on(tmp_path, many):
    sites = Sites(many, tmp_path, {"a": [hiding(0.7, max_epsilon=0.5)]})
    server = begun(sites)
    assert "a" not in server.estimates[0].sites
    assert set(sites.moves()) == {"b", "d"}
    assert spent(tmp_path / "a") == (0, 0.0)


def test_of_a_few_patients_images_say_nothing(tmp_path):
    few = disc_sites(BIASES, cases=8, size=48, radius=9.0)
    sites = Sites(few, tmp_path, {site: [hiding(1.0)] for site in BIASES})
    server = begun(sites)
    assert not sites.corrections
    witnesses = server.estimates[0].witnesses.get(1) if server.estimates else None
    assert witnesses is None or not any(found.is_known for found in witnesses.sites.values())


def fields_of(cases, *, halvings=0, fixed=True):
    return profile_curves(cases, ProfileRequest(halvings=halvings), 1, has_fixed_grid=fixed)


def test_nothing_leaves_but_noisy_vectors_and_what_follows_from_no_patient(tmp_path, many):
    answer = fields_of(many["a"])
    data = left(tmp_path, MEASURE_BOUNDARY_PROFILE, answer, hiding(1.0))
    assert set(data) == EXACT | {PROFILE_VECTOR, noise_of(PROFILE_VECTOR)}
    assert answer.fields["profile_radius"] == [pytest.approx(12.5, abs=0.5)]
    assert np.isnan([data["profile_unit"], *data["profile_radius"], *data["profile_curve"]]).all()
    assert data["profile_patients"] == [0]
    assert (data["num_patients"], data["grid_halvings"], data["grid_micrometres"]) == (PATIENTS, 0, 1000)
    # σ 2 · 3 / 40 in each cosine.
    assert data[noise_of(PROFILE_VECTOR)][1:] == pytest.approx([6 / PATIENTS] * (VECTOR_ENTRIES - 1), rel=1e-5)
    error = profile_errors(many["a"], ProfileRequest.of_templates((0.0,), (None,)), 1, seed=0)
    assert math.isfinite(error.fields["profile_error"][0])
    data = left(tmp_path, MEASURE_PROFILE_ERROR, error, hiding(1.0))
    assert np.isnan(data["profile_error"]).all()
    assert data["profile_error_patients"] == [0]
    assert spent(tmp_path)[0] == 1


@pytest.mark.parametrize("made", [{"halvings": None}, {"fixed": False}])
def test_without_a_scale_by_the_server_or_a_grid_by_data_yaml_nothing_is_spent(tmp_path, many, made):
    data = left(tmp_path, MEASURE_BOUNDARY_PROFILE, fields_of(many["a"], **made), hiding(1.0))
    assert PROFILE_VECTOR not in data
    assert "profile_halvings" not in data
    assert np.isnan(data["profile_curve"]).all()
    assert spent(tmp_path) == (0, 0.0)


def test_with_private_updates_alone_no_curve_leaves(tmp_path, many):
    data = left(tmp_path, MEASURE_BOUNDARY_PROFILE, fields_of(many["a"]), PrivacyFilter(1.0, 2.0))
    assert set(data) == EXACT
    assert np.isnan(data["profile_radius"] + data["profile_curve"]).all()


def test_of_two_patients_not_even_noise_leaves(tmp_path, many):
    data = left(tmp_path, MEASURE_BOUNDARY_PROFILE, fields_of(many["a"][:2]), hiding(1.0))
    assert set(data) == EXACT - {"grid_halvings", "grid_micrometres"}


def test_a_patient_whose_objects_vanish_by_the_server_s_number_changes_no_field_that_has_no_noise(tmp_path, many):
    """The fields of an answer are the same whether or not moved contours leave a curve in a case."""
    small = [replace(case, annotation=np.zeros_like(case.annotation)) for case in many["a"][:1]]
    answers = [
        left(tmp_path / name, MEASURE_BOUNDARY_PROFILE, fields_of(cases), hiding(1.0))
        for name, cases in (("all", many["a"]), ("one less", small + many["a"][1:]))
    ]
    without = [{name: value for name, value in of.items() if name != PROFILE_VECTOR} for of in answers]
    assert repr(without[0]) == repr(without[1])
    # The generator is the same, and so is the noise: the rest is what one patient changes.
    change = np.subtract(answers[0][PROFILE_VECTOR], answers[1][PROFILE_VECTOR])
    assert 0 < np.linalg.norm(change[1:]) <= 3 / PATIENTS * 1.01
    assert change[0] == pytest.approx(1 / PATIENTS, abs=1e-3)


@pytest.mark.parametrize(
    "lie",
    [
        {PROFILE_VECTOR: [1e6] * VECTOR_ENTRIES, "grid_micrometres": 10**6},
        {PROFILE_VECTOR: [1e-9] + [1e6] * 12, "num_patients": 10**12},
        {noise_of(PROFILE_VECTOR): [0.0] * VECTOR_ENTRIES, PROFILE_VECTOR: [1.0, *[-1.0, 1.0] * 6]},
        # None takes the field out.
        {"grid_halvings": None, "grid_micrometres": None},
    ],
)
def test_a_site_that_lies_with_noise_moves_no_other_by_a_pixel(tmp_path, many, lie):
    class Lying(Sites):
        def answer(self, task, name, message):
            answer = super().answer(task, name, message)
            lies = answer | lie if name == "c" and PROFILE_VECTOR in answer else answer
            said = {field: value for field, value in lies.items() if value is not None}
            assert REGISTRY.refusal(task, said, 1) is None
            return said

    sites = Lying(many, tmp_path, {"c": [hiding(0.7)]})
    server = begun(sites)
    for site in "abd":
        found = server.estimates[0].witnesses[1].sites[site]
        assert not found.is_known or found.estimate == pytest.approx(BIASES[site], abs=1.0)
