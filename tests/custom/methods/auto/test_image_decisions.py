"""What the server of `auto` concludes of images and model together: scales, reference level, sites out of domain."""

from dataclasses import replace

import pytest
from support.corrected_runs import bias_of
from test_auto_decisions import OFFSET, SETTINGS, answer, codes, known, sites
from test_auto_decisions import images as images_of

from fedannot.custom.annotation_bias.profile.decision import ProfileEstimate
from fedannot.custom.annotation_bias.statuses import EvidenceCode, ReferenceKind, Status
from fedannot.custom.methods.auto.bias_record import bias_record
from fedannot.custom.methods.auto.decisions import decide
from fedannot.custom.methods.auto.image_decisions import decide_by_images

# The model draws 1.5 px inside the image boundary.
BIASES = (4.0, -3.0, 0.2, 2.0, -2.5, 0.9)
CONSTANT = 1.5


def by_image(bias, *, is_known=True):
    return ProfileEstimate(12, bias, 0.1, 0.4, 1.0, 0.6, 0.99 if is_known else 0.5)


def profile(*biases):
    return {f"site-{index}": by_image(bias) for index, bias in enumerate(biases)}


def of_model(*biases, **common):
    return sites(*(bias - CONSTANT for bias in biases), **common)


def moves(result):
    return {site: bias_of(asked)[1] for site, asked in result.corrections.items() if asked}


def test_the_image_boundary_is_zero_for_images_and_model_together():
    result = decide(of_model(*BIASES), SETTINGS, seed=100, profiles=(profile(*BIASES),))

    assert result.reference_levels[0].kind is ReferenceKind.EDGES
    # 0.2 is below the minimum effect of 0.5 px, which holds beside sites that are corrected.
    assert moves(result) == {
        f"site-{index}": pytest.approx(bias) for index, bias in enumerate(BIASES) if abs(bias) >= 0.5
    }
    fused = result.fused[1]
    assert (fused.is_model_used, fused.constant) == (True, pytest.approx(CONSTANT))
    witness = bias_record(result, 4, profiles=(profile(*BIASES),)).witnesses[1]
    assert witness.sites["site-0"].estimate == 4.0
    assert witness.sites["site-0"].from_model.estimate == pytest.approx(4.0 - CONSTANT)
    assert witness.is_model_used


def test_a_site_of_another_domain_is_estimated_by_its_images():
    """The model sees an object 9 px larger at one site, whose images are of another kind."""
    answers = of_model(*BIASES) | {"site-3": answer(9.0, image=9.0)}
    alone = decide(answers, SETTINGS, seed=100)
    assert alone.findings["site-3"][OFFSET].status is Status.UNKNOWN

    both = decide(answers, SETTINGS, seed=100, profiles=(profile(*BIASES),))
    assert moves(both)["site-3"] == pytest.approx(2.0)


def test_a_site_of_which_images_say_nothing_has_what_the_model_says():
    images = profile(*BIASES) | {"site-3": by_image(-7.0, is_known=False)}
    result = decide(of_model(*BIASES), SETTINGS, seed=100, profiles=(images,))
    assert moves(result)["site-3"] == pytest.approx(2.0)

    without = decide(of_model(*BIASES), SETTINGS, seed=100, profiles=(images,), uses_model=False)
    assert "site-3" not in moves(without)
    assert EvidenceCode.BOUNDARY_NOT_SHOWN in codes(without.findings["site-3"][OFFSET])


def test_where_images_show_few_sites_the_model_decides_as_without_them():
    images = {site: by_image(0.0, is_known=site == "site-0") for site in profile(*BIASES)}
    answers = of_model(*BIASES)
    alone = decide(answers, SETTINGS, seed=100)
    assert decide(answers, SETTINGS, seed=100, profiles=(images,)) == alone


def test_reviewed_cases_say_where_zero_is_on_the_scale_of_images():
    """All draw 4 px too large, which images cannot tell from a convention; reviewed contours are at 0.3 from them."""
    biases = (4.0, 4.3, 3.8, 4.1, 3.9)
    images = (profile(*biases),)
    unsure = decide(of_model(*biases), SETTINGS, seed=100, profiles=images)
    assert not moves(unsure)
    assert EvidenceCode.REFERENCE_UNSURE in codes(unsure.findings["site-0"][OFFSET])

    # By the model reviewed contours lie CONSTANT − 0.3 inside of its own.
    answers = {
        site: replace(one, reviewed_from_model=known(0.3 - CONSTANT, 0.1)) for site, one in of_model(*biases).items()
    }
    sure = decide(answers, SETTINGS, seed=100, profiles=images)
    assert moves(sure) == {f"site-{index}": pytest.approx(bias - 0.3, abs=0.05) for index, bias in enumerate(biases)}

    # Somebody's word that the image boundary counts goes before them.
    said = SETTINGS.model_copy(update={"reference_level": "image_boundary"})
    word = decide(of_model(*biases), said, seed=100, profiles=images)
    assert moves(word) == {f"site-{index}": pytest.approx(bias) for index, bias in enumerate(biases)}


def test_a_model_that_has_not_learnt_changes_nothing_of_what_images_say():
    """It finds objects in no patient that is annotated."""
    unfit = {site: replace(one, offset=known(3.0, patients=1)) for site, one in of_model(*BIASES).items()}
    result = decide(unfit, SETTINGS, seed=100, profiles=(profile(*BIASES),))
    assert result.unfit is not None
    assert moves(result) == {
        f"site-{index}": pytest.approx(bias) for index, bias in enumerate(BIASES) if abs(bias) >= 0.5
    }


def test_what_images_confirmed_before_the_first_round_stays_where_the_model_says_nothing_new():
    images = (profile(*BIASES),)
    first = bias_record(decide(of_model(*BIASES), SETTINGS, seed=100, profiles=images), 1, profiles=images)
    silent = {site: replace(one, offset=known(1.0, patients=1)) for site, one in of_model(*BIASES).items()}
    later = decide(silent, SETTINGS, seed=100, before=first, profiles=())
    assert moves(later) == {
        f"site-{index}": pytest.approx(bias) for index, bias in enumerate(BIASES) if abs(bias) >= 0.5
    }


@pytest.mark.parametrize("image", [0.0, 9.0])
def test_what_is_tolerated_before_the_first_round_is_so_beside_the_model_too(image):
    """Objects of 18 px, so that 3 px are tolerated; in the second case every site has another scanner."""
    biases = (2.2, 2.0, -0.5, 2.3, 1.9, 2.1)
    images = ({site: replace(one, radius=18.0) for site, one in profile(*biases).items()},)
    assert decide_by_images(images, SETTINGS).tolerated.keys() == {1}

    answers = {
        site: replace(one, images=images_of(image * place))
        for place, (site, one) in enumerate(of_model(*biases).items())
    }
    result = decide(answers, SETTINGS, seed=100, profiles=images)

    assert result.findings["site-0"][OFFSET].is_confirmed
    assert result.tolerated.keys() == {1}
    assert not moves(result)


def test_where_sites_follow_to_the_image_boundary_the_model_tolerates_nothing_either():
    """Two of five sites are far: federated averaging's contours are at zero, and all follow nevertheless."""
    biases = (4.0, 4.2, 0.1, -0.1, 0.0)
    images = (profile(*biases),)
    before = decide_by_images(images, SETTINGS)
    assert [site for site, asked in before.corrections.items() if asked] == ["site-0", "site-1"]
    assert moves(decide(of_model(*biases), SETTINGS, seed=100, profiles=images)).keys() == {"site-0", "site-1"}


def test_of_a_convention_nothing_is_corrected_before_the_first_round_nor_later():
    """By their intervals of ±0.6 five sites may lie within 1.5 px, though one is 2.4 px from the median."""
    biases = (0.0, 0.1, -0.1, 0.0, 2.4)
    images = ({site: replace(one, half_width=0.6) for site, one in profile(*biases).items()},)
    before = decide_by_images(images, SETTINGS)
    assert before.reference_levels[0].kind is ReferenceKind.CONVENTION
    assert before.findings["site-4"][OFFSET].is_confirmed
    assert not any(before.corrections.values())
    assert before.tolerated.keys() == {1}
    assert not moves(decide(of_model(*biases), SETTINGS, seed=100, profiles=images))


def test_before_the_first_round_and_beside_the_model_the_same_is_tolerated():
    """Two sites of six are 3 px off. By samples they have half of the weight, by patients a tenth."""
    biases = (3.0, 3.0, 0.1, 0.0, -0.1, 0.0)
    for samples, stays in ((4, True), (30, False)):
        images = {
            site: replace(one, radius=9.0, patients=40 if bias < 1 else 9, samples=10 if bias < 1 else samples)
            for (site, one), bias in zip(profile(*biases).items(), biases, strict=True)
        }
        answers = {
            site: replace(one, num_samples=images[site].samples) for site, one in of_model(*biases, edges=0.0).items()
        }
        before = decide_by_images([images], SETTINGS)
        beside = decide(answers, SETTINGS, seed=100, profiles=(images,))
        assert (set(before.tolerated), set(beside.tolerated)) == (({1}, {1}) if stays else (set(), set()))
        assert moves(before).keys() == moves(beside).keys() == (set() if stays else {"site-0", "site-1"})


def test_a_site_alone_corrects_though_its_objects_are_large():
    for bias, is_moved in ((1.4, False), (1.6, True)):
        alone = {"a": replace(by_image(bias), radius=60.0)}
        assert moves(decide_by_images([alone], SETTINGS)) == ({"a": pytest.approx(bias)} if is_moved else {})


def test_who_asks_for_the_image_boundary_has_small_biases_of_all_sites_corrected():
    """All sites about 1 px off: a convention by default."""
    images = {site: replace(one, radius=9.0) for site, one in profile(1.2, 1.0, 0.9, 1.1, 0.4).items()}
    assert not moves(decide_by_images([images], SETTINGS))
    asking = SETTINGS.model_copy(update={"reference_level": "image_boundary"})
    assert moves(decide_by_images([images], asking)) == {
        f"site-{index}": pytest.approx(bias) for index, bias in enumerate((1.2, 1.0, 0.9, 1.1))
    }
