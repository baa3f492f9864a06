"""A site of `auto` that moves all its masks back on request, before its contours are assessed."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from support.disc_cases import disc_sites
from support.recalling import Recalls
from support.rounds import round_of
from support.shifted_discs import CASES, SHIFT, write_shifted_site
from support.site_views import HandmadeSite
from test_images_first import ImageSites, begun

from fedannot.custom.corrections.case_states import revert
from fedannot.custom.corrections.kinds import BoundaryShift, MaskShift, MissedObjectsIgnored
from fedannot.custom.corrections.targets import active_targets
from fedannot.custom.data.datalist import TRAINING
from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.methods.auto import METHOD, shift_site
from fedannot.custom.methods.auto.records import BiasRecord
from fedannot.custom.methods.auto.server import AutoServer
from fedannot.custom.methods.auto.settings import AutoSettings
from fedannot.custom.methods.auto.shift_site import with_masks_moved_back
from fedannot.custom.methods.auto.site import AutoSite
from fedannot.custom.methods.auto.site_corrections import site_corrections
from fedannot.custom.networks.described import described_network
from fedannot.custom.outbound.registry import OutboundError, OutboundRegistry
from fedannot.custom.task_names import (
    CORRECT_ANNOTATION_BIAS,
    ESTIMATE_ANNOTATION_BIAS,
    MEASURE_BOUNDARY_PROFILE,
    MEASURE_PROFILE_ERROR,
    TRAIN,
)
from fedannot.transforms.shift_mask import shifted_mask

REGISTRY = OutboundRegistry(METHOD.outbound_fields)
NETWORK = {"features": (4, 4, 8, 8, 8, 4)}


def method_of(*, correct_shift=True):
    values = {"rounds": 9, "warmup_rounds": 1, "network": NETWORK, "correct_shift": correct_shift}
    return AutoSite(AutoSettings.model_validate(values))


def asked(method, site, task=MEASURE_BOUNDARY_PROFILE, message=None, network=None):
    network = network or described_network(method.settings.network)
    answer = dict(method.answer(task, network, site.view(method, 1, message)).fields)
    REGISTRY.check(task, answer)
    return answer


def corrections_of(site, method):
    stored = site.view(method, 1).corrections.latest()
    return () if stored is None else stored.corrections.corrections


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_shifted_site(tmp_path_factory.mktemp("north") / "data", reviewed=1)


@pytest.fixture
def moved(data, tmp_path):
    """The method and a site that was asked once."""
    method, site = method_of(), HandmadeSite(tmp_path, data_folder=data)
    return method, site, asked(method, site)


def shift_of(site, method):
    (shift,) = (item for item in corrections_of(site, method) if isinstance(item, MaskShift))
    return shift


def test_by_default_nothing_is_moved(data, tmp_path):
    method, site = method_of(correct_shift=False), HandmadeSite(tmp_path, data_folder=data)

    answer = asked(method, site)

    assert "moved_patients" not in answer
    assert corrections_of(site, method) == ()
    assert not AutoSettings().correct_shift


def test_the_site_moves_its_masks_and_says_only_that_it_did(moved, data, tmp_path):
    method, site, answer = moved
    unmoved = asked(method_of(correct_shift=False), HandmadeSite(tmp_path / "other", data_folder=data))

    np.testing.assert_allclose(shift_of(site, method).shift, SHIFT, atol=0.3)
    assert set(answer) - set(unmoved) == {"moved_patients"}
    assert answer["num_samples"] == unmoved["num_samples"] == site.view(method, 1).load(TRAINING).num_samples
    assert answer["moved_patients"] == CASES
    # Contours lie where images change: the curve has a higher peak, at the contour.
    curve, before = (np.array(fields["profile_curve"]) for fields in (answer, unmoved))
    assert abs(np.nanargmax(curve) - 48) <= 2
    assert np.nanmax(curve) > 1.1 * np.nanmax(before)
    assert "all masks moved by -" in site.said[0]


def test_it_trains_on_masks_where_they_belong_but_for_reviewed_ones(moved, data):
    method, site, _ = moved
    view = site.view(method, 1)
    cases = view.load("training")

    labels = active_targets(view.corrections.latest(), cases, data).labels

    for number, (case, label) in enumerate(zip(cases.cases, labels, strict=True)):
        expected = case.label[0].numpy()
        if number > 0:
            expected = shifted_mask(expected, shift_of(site, method).moves)
        np.testing.assert_array_equal(label, expected)
    assert method.training_flags(view) == {"moved_patients": CASES}


def test_it_measures_once(moved, monkeypatch):
    method, site, answer = moved

    def measure(*args, **kwargs):
        raise AssertionError("It has measured before.")

    monkeypatch.setattr(shift_site, "estimate_site_shift", measure)
    np.testing.assert_equal(asked(method, site), answer)
    asked(method, site, message={"profile": {"halvings": 0, "biases": [1.0]}})
    asked(method, site, MEASURE_PROFILE_ERROR, {"profile": {"halvings": 0, "biases": [0.0], "templates": [None]}})


def test_what_the_server_asks_comes_on_top_and_a_rollback_leaves_the_shift(moved):
    method, site, _ = moved
    shift = shift_of(site, method)

    asked(method, site, CORRECT_ANNOTATION_BIAS, {"corrections": [{"kind": "boundary_shift", "bias": {"1": 1.0}}]})
    assert corrections_of(site, method) == (shift, BoundaryShift(bias={1: 1.0}))
    assert method.training_flags(site.view(method, 1)) == {"has_undone": True, "moved_patients": CASES}
    asked(method, site, CORRECT_ANNOTATION_BIAS, {"corrections": []})
    assert corrections_of(site, method) == (shift,)
    with pytest.raises(ValueError, match="to measure the shift of its masks itself"):
        asked(method, site, CORRECT_ANNOTATION_BIAS, {"corrections": [{"kind": "mask_shift", "shift": [9.0, 0.0]}]})
    assert corrections_of(site, method) == (shift,)


def test_a_site_that_has_lost_its_corrections_measures_again(moved, data, tmp_path):
    method, site, _ = moved
    lost = HandmadeSite(tmp_path / "lost", data_folder=data)

    asked(method, lost, CORRECT_ANNOTATION_BIAS, {"corrections": []})

    assert corrections_of(lost, method) == (shift_of(site, method),)


def test_a_model_is_compared_with_moved_masks(moved, data):
    method, site, _ = moved
    view = site.view(method, 1)
    cases = view.load("training")
    right = [shifted_mask(mask.numpy(), shift_of(site, method).moves) for mask in cases.labels[1:]]
    masks = torch.cat([cases.labels[:1], torch.from_numpy(np.stack(right))])

    answer = asked(method, site, ESTIMATE_ANNOTATION_BIAS, network=Recalls(cases.images, masks))

    assert answer["offset"] == [pytest.approx(0.0, abs=0.01)]
    # The given mask behind the reviewed one is moved, too, by a fraction that differs from the right one.
    assert answer["completeness"] == [1.0]


def test_masks_of_reviewers_and_reverted_ones_stay(moved, data):
    method, site, _ = moved
    shift = shift_of(site, method)
    revert(site.view(method, 1).corrections.latest().folder, ["labels/2.png"])
    view = site.view(method, 1)

    own = with_masks_moved_back(view, shift)

    for section, as_given in (("training", {0, 2}), ("validation", set()), ("reference", {0})):
        for number, (given, case) in enumerate(zip(view.load(section).cases, own.load(section).cases, strict=True)):
            assert torch.equal(given.label, case.label) == (number in as_given)
            if given.given_label is not None:
                expected = shifted_mask(given.given_label[0].numpy(), shift.moves)
                np.testing.assert_array_equal(case.given_label[0], expected)


def test_missed_objects_are_looked_for_beside_moved_masks(tmp_path):
    """Small objects are annotated 5 px off: the model's objects touch none of them, until they are moved back."""
    site_folder = write_shifted_site(tmp_path / "data", (0.0, 0.0))
    method, site = method_of(), HandmadeSite(tmp_path, data_folder=site_folder)
    view = site.view(method, 1)
    cases = view.load("training")
    seen = torch.zeros_like(cases.labels)
    seen[:, 20:24, 20:24] = 1
    labels = torch.roll(seen, 5, 1)
    data = replace(cases, cases=tuple(replace(case, label=labels[[index]]) for index, case in enumerate(cases.cases)))
    counts = {}
    for name, shift in (("unmoved", ()), ("moved", (MaskShift(shift=(5.0, 0.0)),))):
        missed = MissedObjectsIgnored(missed={1: 0.5}, ignored={1: 0.5})
        corrections, _ = site_corrections(
            Recalls(cases.images, seen),
            data,
            (*shift, missed),
            data_folder=site_folder,
            method="auto",
            round_number=1,
            inference=Inference.of(method.settings),
        )
        counts[name] = sum(case.ignored_objects for case in corrections.cases)
    assert counts == {"unmoved": CASES, "moved": 0}


@pytest.mark.parametrize("task", [MEASURE_BOUNDARY_PROFILE, ESTIMATE_ANNOTATION_BIAS])
def test_a_site_that_hides_patients_says_nothing_that_hangs_on_all_of_them(moved, data, tmp_path, task):
    """Noise is made for what one patient changes; by the shift one changes what is said of all others."""
    kept = method_of(correct_shift=False)
    unmoved = HandmadeSite(tmp_path / "unmoved", data_folder=data)
    cases = unmoved.view(kept, 1).load("training")
    network, message = Recalls(cases.images, cases.labels), {"profile": {"halvings": 0}}
    before = kept.answer(task, network, unmoved.view(kept, 1, message))
    assert before.samples or task == MEASURE_BOUNDARY_PROFILE

    method, site, _ = moved
    assert not method.answer(task, network, site.view(method, 1, message)).samples


def test_the_number_of_patients_is_never_small():
    with pytest.raises(OutboundError, match="moved_patients"):
        REGISTRY.check(MEASURE_BOUNDARY_PROFILE, {"moved_patients": 2})
    for task in (MEASURE_BOUNDARY_PROFILE, TRAIN):
        assert REGISTRY.without_counted(task, {"moved_patients": 9}) == {}


class MovingSites(ImageSites):
    """One of them has moved its masks."""

    def answer(self, task, name, message):
        moved = {"moved_patients": 8} if name == "b" and task == MEASURE_BOUNDARY_PROFILE else {}
        return super().answer(task, name, message) | moved


def test_the_record_says_which_sites_have_moved_their_masks():
    sites = MovingSites(disc_sites({"a": 0.0, "b": 0.0, "c": 0.0}))

    server, _ = begun(sites)

    assert server.estimates[0].moved_masks == {"b": 8}
    assert BiasRecord.model_validate(json.loads(json.dumps(server.estimates[0].plain()))) == server.estimates[0]
    again = AutoServer(server.settings)
    again.restore(server.state(), ())
    assert again.estimates[0].moved_masks == {"b": 8}
    other = server.estimates[0].model_copy(update={"moved_masks": {"c": 3}})
    assert server.estimates[0].with_sites(other).moved_masks == {"b": 8, "c": 3}
    assert server.estimates[0].of_sites({"a"}).moved_masks == {}


def test_a_site_that_has_lost_the_shift_is_asked_again():
    sites = MovingSites(disc_sites({"a": 0.0, "b": 0.0, "c": 0.0}))
    server, _ = begun(sites)
    reports = {name: {"num_samples": 8} | ({"moved_patients": 8} if name == "b" else {}) for name in "abc"}
    server.before_round(round_of(2, ask=sites, history=[{"round": 1, "sites": reports}], said=[]))
    assert sites.corrections == {}

    lost = reports | {"b": {"num_samples": 8}}
    server.before_round(round_of(3, ask=sites, history=[{"round": 2, "sites": lost}], said=[]))

    assert sites.corrections == {"b": []}


@pytest.mark.parametrize("other", [{"boundary_evidence": "model"}, {"treatment": "none"}])
def test_a_shift_needs_images(other):
    with pytest.raises(ValidationError, match="'correct_shift' is true: expected 'boundary_evidence' both or image"):
        AutoSettings.model_validate({"correct_shift": True} | other)
