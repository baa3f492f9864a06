"""A site counts once where the server of `auto` compares sites, however many groups of annotators it has."""

from dataclasses import replace

import numpy as np
import pytest

from fedannot.custom.annotation_bias.estimate import Estimate
from fedannot.custom.annotation_bias.feature_names import FEATURES
from fedannot.custom.annotation_bias.image_features import ImageStatistics
from fedannot.custom.annotation_bias.profile.decision import ProfileEstimate
from fedannot.custom.annotation_bias.profile.fusion import fused_biases
from fedannot.custom.annotation_bias.votes import middle
from fedannot.custom.methods.auto.answers import BiasReport
from fedannot.custom.methods.auto.decisions import decide
from fedannot.custom.methods.auto.group_votes import GroupVotes
from fedannot.custom.methods.auto.settings import AutoSettings

SETTINGS = AutoSettings(rounds=9, warmup_rounds=3, correct=("offset",))
HONEST = {"a": 0.1, "b": -0.1, "c": 0.2, "d": 0.0}
LIARS = tuple(f"liar/{number}" for number in range(1, 9))
GROUPS = GroupVotes(dict.fromkeys(LIARS, "liar"))


def known(value, patients=12):
    return Estimate(patients, value, value - 0.3, value + 0.3, slope=1.0, auroc=0.9)


def answer(offset, *, patients=12, image=0.0, samples=12):
    unknown = (Estimate.unknown(),)
    images = ImageStatistics(patients, (image,) * len(FEATURES), (1.0,) * len(FEATURES))
    return BiasReport(
        samples, 1.0, images, (patients,), (known(offset, patients),), (known(0.0),), unknown, unknown, unknown
    )


def honest():
    return {name: answer(offset) for name, offset in HONEST.items()}


@pytest.mark.parametrize(
    "lie", [{"offset": 1.5}, {"offset": 9.0}, {"offset": 3.0, "image": 9.0}, {"offset": 3.0, "samples": 1}]
)
def test_eight_groups_of_a_site_that_lies_decide_no_more_than_the_site_alone(lie):
    in_groups = decide(honest() | {name: answer(**lie) for name in LIARS}, SETTINGS, seed=1, groups=GROUPS)
    claim = {"samples": 8 * lie.get("samples", 12)}
    alone = decide(honest() | {"liar": answer(**lie | claim)}, SETTINGS, seed=1)
    assert in_groups.reference_levels == alone.reference_levels
    assert in_groups.tolerated == alone.tolerated
    assert {name: in_groups.corrections[name] for name in HONEST} == dict.fromkeys(HONEST, ())
    # It would, were each group a site.
    counted = decide(honest() | {name: answer(**lie) for name in LIARS}, SETTINGS, seed=1)
    assert (counted.reference_levels, counted.tolerated) != (alone.reference_levels, alone.tolerated)


def test_the_middle_group_by_patients_stands_for_a_site_of_two_that_nearer_to_all():
    votes = GroupVotes({"a/1": "a", "a/2": "a", "b/1": "b", "b/2": "b", "b/3": "b"})
    answers = {"a/1": answer(3.0), "a/2": answer(0.0), "c": answer(0.2)}
    answers |= {"b/1": answer(-2.0, patients=5), "b/2": answer(0.4, patients=5), "b/3": answer(1.0, patients=20)}
    assert set(votes.one_of_each(answers, 1)) == {"a/2", "b/3", "c"}
    assert votes.votes(["a/1", "b/1", "b/2", "c"]) == {"a/1": 1.0, "b/1": 0.5, "b/2": 0.5, "c": 1.0}


def test_the_images_of_a_site_are_those_of_all_its_patients():
    values = np.random.default_rng(0).normal(size=(17, len(FEATURES)))
    parts = values[:5], values[5:]
    answers = {
        f"a/{number}": replace(
            answer(0.0), images=ImageStatistics(len(own), tuple(own.mean(axis=0)), tuple(own.std(axis=0, ddof=1)))
        )
        for number, own in enumerate(parts)
    }
    (pooled,) = GroupVotes(dict.fromkeys(answers, "a")).images(answers).values()
    assert pooled.patients == 17
    np.testing.assert_allclose(pooled.means, values.mean(axis=0))
    np.testing.assert_allclose(pooled.deviations, values.std(axis=0, ddof=1))


def test_the_scale_of_images_and_model_is_that_of_sites():
    def image(votes=1.0):
        return ProfileEstimate(12, 0.0, 0.1, 0.4, 1.0, 0.9, 0.99, votes=votes)

    model = {name: known(-0.4) for name in "abc"} | {name: known(4.0) for name in LIARS}
    images = {name: image() for name in "abc"} | {name: image(1 / 8) for name in LIARS}
    assert fused_biases(images, model).constant == pytest.approx(0.4)
    assert fused_biases({name: image() for name in images}, model).constant == pytest.approx(-4.0)
    # A site in eight groups is not three sites.
    assert not fused_biases({name: images[name] for name in LIARS}, model).is_model_used


def test_votes_are_those_of_repeated_values():
    generator = np.random.default_rng(1)
    values, votes = generator.normal(size=9), generator.integers(1, 6, 9)
    assert middle(values.tolist(), votes.tolist()) == pytest.approx(float(np.median(np.repeat(values, votes))))
