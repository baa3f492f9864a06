import json
from collections import Counter

import numpy as np
import pytest
import SimpleITK
import torch
from PIL import Image
from support.several_annotators import random_masks, write_site

from fedannot.custom.consensus_rule import ConsensusRule
from fedannot.custom.data.consensus import class_fractions, consensus_label, majority, staple
from fedannot.custom.data.site_data import load_site_data
from fedannot.transforms.errors import DataError
from fedannot.transforms.strict_files import read_json


def by_votes(masks):
    """The majority, counted pixel by pixel: the lowest of the classes with most votes, 255 where nobody votes."""
    result = np.full(masks.shape[1:], 255, np.uint8)
    for place in np.ndindex(result.shape):
        votes = Counter(int(value) for value in masks[(slice(None), *place)] if value != 255)
        if votes:
            most = max(votes.values())
            result[place] = min(value for value, count in votes.items() if count == most)
    return result


@pytest.mark.parametrize("annotators", [2, 3, 4])
def test_the_majority_is_that_of_counted_votes_and_ties_go_to_the_lower_class(annotators):
    masks = np.random.default_rng(annotators).choice([0, 1, 2, 255], (annotators, 2, 9, 8)).astype(np.uint8)
    masks[:, 0, 0] = 255
    result = majority(torch.from_numpy(masks).transpose(0, 1))
    assert np.array_equal(result.numpy(), by_votes(masks))
    assert {0, 1, 2} <= set(np.unique(result))


def test_fractions_are_those_of_counted_votes():
    masks = np.random.default_rng(0).choice([0, 1, 2, 255], (3, 5, 6)).astype(np.uint8)
    fractions = class_fractions(torch.from_numpy(masks), 3).numpy()
    for place in np.ndindex(5, 6):
        votes = [value for value in masks[(slice(None), *place)] if value != 255]
        expected = [votes.count(label) / len(votes) if votes else 0 for label in range(3)]
        assert fractions[(slice(None), *place)] == pytest.approx(expected)


@pytest.mark.parametrize("shape", [(16, 16), (4, 16, 16)])
def test_staple_of_one_class_is_simpleitks(shape):
    masks = random_masks(1, 5, shape=shape)
    # Three who guess outvote two who know, but STAPLE trusts these.
    masks[2:] ^= np.random.default_rng(0).random(masks[2:].shape) < 0.4
    reference = SimpleITK.STAPLEImageFilter()
    reference.SetForegroundValue(1)
    probabilities = SimpleITK.GetArrayFromImage(reference.Execute([SimpleITK.GetImageFromArray(m) for m in masks]))
    result = staple(masks, 1)
    assert np.array_equal(result, probabilities > 0.5)
    assert not np.array_equal(result, by_votes(masks))
    assert np.array_equal(consensus_label(torch.from_numpy(masks[:, None]).transpose(0, 1), RULE, 1)[0], result)


@pytest.mark.parametrize("shape", [(16, 16), (4, 16, 16)])
def test_staple_of_several_classes_is_simpleitks_with_undecided_pixels_as_background(shape):
    masks = random_masks(2, num_classes=2, shape=shape)
    reference = SimpleITK.MultiLabelSTAPLEImageFilter()
    reference.SetLabelForUndecidedPixels(0)
    expected = SimpleITK.GetArrayFromImage(reference.Execute([SimpleITK.GetImageFromArray(m) for m in masks]))
    assert np.array_equal(staple(masks, 2), expected)
    assert set(np.unique(expected)) == {0, 1, 2}


@pytest.mark.parametrize("value", [0, 1])
def test_where_all_agree_staple_says_so_though_the_filter_divides_by_zero(value):
    masks = np.full((3, 8, 8), value, np.uint8)
    assert np.array_equal(staple(masks, 1), masks[0])
    masks[0, 2, 3] = 255
    assert staple(masks, 1)[2, 3] == 255


RULE = ConsensusRule.parse("staple")


def load(site, consensus, **options):
    return load_site_data(site, site.parent / "store", site="s", consensus=consensus, **options)


def test_the_label_of_a_case_is_what_the_rule_makes_and_the_store_keeps_rules_apart(tmp_path):
    masks = write_site(tmp_path / "site")
    for _ in range(2):
        for rule, made in (
            ("majority", by_votes),
            ("staple", lambda own: staple(own, 1)),
            ("one:B", lambda own: own[1]),
        ):
            data = load(tmp_path / "site", rule)
            assert np.array_equal(data.labels, [made(own) for own in masks[:3]]), rule
            assert np.array_equal(data.cases[2].annotations[0], masks[2])
            assert data.excluded == ()
    # Of what has no single label, it is the majority's.
    assert np.array_equal(load(tmp_path / "site", "soft", section="validation").labels[0], by_votes(masks[3]))


def test_cases_that_the_named_annotator_has_not_annotated_are_left_out_and_counted(tmp_path):
    site = tmp_path / "site"
    write_site(site)
    content = read_json(site / "datalist.json", "")
    content["training"][0]["labels"].pop(1)
    content["training"][1] = {"image": "1.png", "label": "A/1.png", "annotator": "A"}
    content["testing"] = [{"image": "1.png", "label": "A/1.png"}]
    (site / "datalist.json").write_text(json.dumps(content))
    data = load(site, "one:B")
    assert [case.name for case in data.cases] == ["2.png"]
    assert [case.reason.partition(": ")[2] for case in data.excluded] == [
        "has no annotation by 'B', but by 'A', 'C'.",
        "has no annotation by 'B', but by 'A'.",
    ]
    assert len(load(site, "one:B", section="testing").cases) == 1
    with pytest.raises(DataError, match=r"no usable case.*has no annotation by 'Z', but by 'A', 'C'"):
        load(site, "one:Z")


def test_a_reviewed_label_counts_in_place_of_the_rule_and_another_label_only_without_one(tmp_path):
    site = tmp_path / "site"
    masks = write_site(site)
    content = read_json(site / "datalist.json", "")
    content["training"] = [content["training"][0] | {"label": "C/1.png"}]
    (site / "datalist.json").write_text(json.dumps(content))
    assert np.array_equal(load(site, None).labels[0], masks[1][2])
    assert np.array_equal(load(site, "majority").labels[0], by_votes(masks[0]))
    content["training"][0]["given_label"] = "A/0.png"
    (site / "datalist.json").write_text(json.dumps(content))
    data = load(site, "majority")
    assert np.array_equal(data.labels[0], masks[1][2])
    assert np.array_equal(data.cases[0].given_label[0], masks[0][0])


def test_no_rule_is_refused_without_naming_annotators(tmp_path):
    write_site(tmp_path / "site", ("Ann", "Bo"))
    with pytest.raises(DataError, match=r"0\.png: found 2 annotations .* majority, staple, .* or one:NAME") as caught:
        load(tmp_path / "site", None)
    assert "Ann" not in str(caught.value)


@pytest.mark.parametrize(("broken", "why"), [("size", "2.png"), ("missing", "2.png")])
def test_a_case_with_one_annotation_that_does_not_fit_is_left_out_by_its_file(tmp_path, broken, why):
    write_site(tmp_path / "site")
    file = tmp_path / "site" / "C" / "2.png"
    if broken == "missing":
        file.unlink()
    else:
        Image.fromarray(np.zeros((16, 12), np.uint8)).save(file)
    data = load(tmp_path / "site", "majority")
    assert len(data.cases) == 2
    (excluded,) = data.excluded
    assert str(file) in excluded.reason


def test_classes_of_several_annotators_have_a_majority(tmp_path):
    site = tmp_path / "site"
    write_site(site, cases=2)
    (site / "data.yaml").write_text("pipeline: classification\nclasses: [a, b, c]\nchannels: 1\nsize: [16, 16]\n")
    labels = [{"file": label, "annotator": name} for label, name in ((2, "A"), (2, "B"), (0, "C"))]
    (site / "datalist.json").write_text(json.dumps({"training": [{"image": "0.png", "labels": labels}]}))
    data = load(site, "majority")
    assert (data.labels.tolist(), data.cases[0].annotations.tolist()) == ([2], [[2, 2, 0]])
    assert load(site, "one:C").labels.tolist() == [0]
    reviewed = {"image": "0.png", "labels": labels, "label": 1, "given_label": 2}
    (site / "datalist.json").write_text(json.dumps({"training": [reviewed]}))
    for rule in ("majority", "random-per-epoch", "one:C"):
        data = load(site, rule)
        assert (data.labels.tolist(), data.cases[0].given_label.tolist()) == ([1], [2])
        assert data.cases[0].annotations.tolist() == [[2, 2, 0]]


@pytest.mark.parametrize("rule", ["majority", "random-per-epoch", "one:C"])
@pytest.mark.parametrize(("kept", "is_kept"), [(1, True), (0, False)])
def test_a_class_that_a_review_has_kept_stays_whatever_the_rule(tmp_path, rule, kept, is_kept):
    site = tmp_path / "site"
    write_site(site, cases=2)
    (site / "data.yaml").write_text("pipeline: classification\nclasses: [a, b, c]\nchannels: 1\nsize: [16, 16]\n")
    labels = [{"file": label, "annotator": name} for label, name in ((2, "A"), (2, "B"), (0, "C"))]
    item = {"image": "./0.png", "labels": labels, "label": 1}
    # The reviewed case has no key of the datalist before it: an earlier version wrote it, or the class was kept.
    content = {"training": [item], "reference": [{"image": "0.png", "label": kept}]}
    (site / "datalist.json").write_text(json.dumps(content))
    data = load(site, rule)
    assert data.cases[0].is_reviewed == is_kept
    assert (data.cases[0].open_annotations is None) == is_kept
    assert (data.labels.tolist() == [1]) == is_kept


def test_a_mask_that_a_review_has_kept_stays_whatever_the_rule(tmp_path):
    site = tmp_path / "site"
    write_site(site)
    content = json.loads((site / "datalist.json").read_text())
    content["training"][0]["label"] = label = content["training"][0]["labels"][2]["file"]
    content["reference"] = [{"image": content["training"][0]["image"], "label": label}]
    before = [case.label for case in load(site, "majority").cases]
    own = load(site, "one:C").cases[0].label
    assert not torch.equal(before[0], own)
    (site / "datalist.json").write_text(json.dumps(content))
    data = load(site, "majority")
    assert torch.equal(data.cases[0].label, own)
    assert all(torch.equal(case.label, label) for case, label in zip(data.cases[1:], before[1:], strict=True))


@pytest.mark.parametrize("text", ["", "mean", "one", "one:", "one: A", "one:A\n", "one:" + "n" * 101, "Majority"])
def test_what_is_no_rule_is_refused_with_the_choices(text):
    with pytest.raises(ValueError, match=r"expected majority, staple, random-per-epoch, soft or one:NAME, found"):
        ConsensusRule.parse(text)
