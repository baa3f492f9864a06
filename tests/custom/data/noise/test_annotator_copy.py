import json
import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from support.several_annotators import write_site

from fedannot.custom.data.consensus import staple
from fedannot.custom.data.federation import FederationDescription, read_federation, write_federation
from fedannot.custom.data.manifest import read_manifest
from fedannot.custom.data.noise.annotator_copy import AnnotatorScenario, write_annotator_scenario
from fedannot.custom.data.site_data import load_site_data
from fedannot.transforms.errors import DataError
from fedannot.transforms.strict_files import read_json

SITES = ("site-1", "site-2", "site-3", "site-4")


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    folder = tmp_path_factory.mktemp("annotators") / "source"
    masks = {site: write_site(folder / site, cases=5) for site in (*SITES, "test")}
    content = read_json(folder / "test" / "datalist.json", "")
    tested = {"testing": content["training"] + content["validation"]}
    (folder / "test" / "datalist.json").write_text(json.dumps(tested))
    write_federation(folder, FederationDescription(name="source", sites=SITES))
    return folder, masks


def made(federation, out, text, **options):
    """By site the annotator of every case, and the copy."""
    write_annotator_scenario(federation[0], out, AnnotatorScenario.parse(text, **options))
    by_site = {}
    for site in (*SITES, "test"):
        content = read_json(out / site / "datalist.json", "")
        items = [item for items in content.values() for item in items]
        by_site[site] = [item.get("annotator") for item in items]
        for number, item in enumerate(items):
            check_item(federation[1][site][number], out / site, item)
    return by_site


def check_item(masks, folder, item):
    """The label is the annotator's mask, or the majority's; beside it is the majority's."""
    majority = (masks.sum(0) > 1).astype(np.uint8)
    given = item.get("annotator")
    expected = majority if given is None else masks["ABC".index(given)]
    assert np.array_equal(np.asarray(Image.open(folder / item["label"])), expected)
    assert "labels" not in item
    if folder.name == "test":
        assert "clean_label" not in item
    else:
        assert np.array_equal(np.asarray(Image.open(folder / item["clean_label"])), majority)


def test_each_scenario_gives_labels_to_whom_it_says(federation, tmp_path):
    assert set().union(*made(federation, tmp_path / "clean", "clean").values()) == {None}
    assert read_federation(tmp_path / "clean").noise is None
    noisy = made(federation, tmp_path / "noisy", "noisy")
    assert noisy.pop("test") == [None] * 5
    assert {name for own in noisy.values() for name in own} == set("ABC")
    one = made(federation, tmp_path / "one", "random-one")
    assert all(len({*own}) == 1 for own in one.values())
    ratio = made(federation, tmp_path / "roa", "ROA", ratio=0.5)
    # Of four training cases two, of one validation case the half is rounded up.
    assert all(Counter(own)[None] == 2 for site, own in ratio.items() if site != "test")
    clients = made(federation, tmp_path / "roc", "ROC", ratio=0.25)
    assert sorted(Counter(own)[None] for own in clients.values()) == [0, 5, 5, 5, 5]
    named = made(federation, tmp_path / "named", "site:2=C,site-4=A")
    assert named == {
        "site-1": [None] * 5,
        "site-2": ["C"] * 5,
        "site-3": [None] * 5,
        "site-4": ["A"] * 5,
        "test": [None] * 5,
    }
    assert read_federation(tmp_path / "roc").noise == "annotators ROC 0.25"


def test_the_seed_decides_what_is_drawn(federation, tmp_path):
    first = made(federation, tmp_path / "first", "noisy", seed=1)
    assert made(federation, tmp_path / "again", "noisy", seed=1) == first
    assert made(federation, tmp_path / "other", "noisy", seed=2) != first


def test_the_clean_label_may_be_staples(federation, tmp_path):
    write_annotator_scenario(federation[0], tmp_path / "out", AnnotatorScenario.parse("clean", reference="staple"))
    item = read_json(tmp_path / "out" / "site-2" / "datalist.json", "")["training"][1]
    label = np.asarray(Image.open(tmp_path / "out" / "site-2" / item["label"]))
    assert np.array_equal(label, staple(federation[1]["site-2"][1], 1))


def test_all_annotations_may_be_kept_beside_the_label(federation, tmp_path):
    scenario = replace(AnnotatorScenario.parse("clean"), keeps_annotations=True)
    write_annotator_scenario(federation[0], tmp_path / "out", scenario)
    data = load_site_data(tmp_path / "out" / "site-3", tmp_path / "store", site="site-3")
    for case, masks in zip(data.cases, federation[1]["site-3"][:4], strict=True):
        assert np.array_equal(case.label[0], masks.sum(0) > 1)
        assert np.array_equal(case.annotations[0], masks)
        assert [one.annotator for one in case.files.annotations] == ["A", "B", "C"]


def test_what_has_no_consensus_or_not_the_sites_annotator_is_left_out_and_named(tmp_path):
    write_site(tmp_path / "source" / "site-1", cases=5)
    file = tmp_path / "source" / "site-1" / "datalist.json"
    content = read_json(file, "")
    content["training"][0]["labels"] = content["training"][0]["labels"][:1]
    content["training"][1]["labels"] = content["training"][1]["labels"][1:]
    file.write_text(json.dumps(content))
    write_federation(tmp_path / "source", FederationDescription(name="source", sites=("site-1",)))
    write_annotator_scenario(tmp_path / "source", tmp_path / "out", AnnotatorScenario.parse("site:1=A"))
    reasons = [reason.rpartition("png: ")[2] for _, reason in read_manifest(tmp_path / "out" / "site-1").excluded]
    assert reasons == ["has no annotations by two annotators at least.", "has no annotation by 'A'."]
    assert len(read_json(tmp_path / "out" / "site-1" / "datalist.json", "")["training"]) == 2
    with pytest.raises(DataError, match=r"Site site-1: found no case with annotations by two annotators"):
        write_annotator_scenario(tmp_path / "source", tmp_path / "none", AnnotatorScenario.parse("site:1=Z"))
    assert not (tmp_path / "none").exists()


def test_masks_of_one_case_that_differ_in_shape_are_refused_by_file(tmp_path):
    write_site(tmp_path / "source" / "site-1")
    write_federation(tmp_path / "source", FederationDescription(name="source", sites=("site-1",)))
    file = tmp_path / "source" / "site-1" / "B" / "1.png"
    Image.fromarray(np.zeros((16, 12), np.uint8)).save(file)
    with pytest.raises(
        DataError, match=r"B/1\.png: found the shape \(16, 12\); expected that of .*A/1\.png, \(16, 16\)"
    ):
        write_annotator_scenario(tmp_path / "source", tmp_path / "out", AnnotatorScenario.parse("noisy"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("dirty", {}, "expected clean, noisy, random-one, ROA, ROC or site:k=annotator"),
        ("site:", {}, "--scenario"),
        ("site:1", {}, "--scenario"),
        ("site:1=A,1=B", {}, "--scenario"),
        ("site:1=A,site-1=B", {}, "found the site 'site-1'; expected each of"),
        ("site:9=A", {}, "found the site '9'"),
        ("site:../x=A", {}, "found the site '../x'"),
        ("ROC", {"ratio": 0.1}, "which is 0; expected some noisy sites and some clean ones"),
        ("ROC", {"ratio": 1.5}, "--ratio: found 1.5"),
        ("clean", {"reference": "soft"}, "expected majority or staple"),
    ],
)
def test_scenarios_that_cannot_be_made_are_refused(federation, tmp_path, text, options, message):
    with pytest.raises(DataError, match=message):
        write_annotator_scenario(federation[0], tmp_path / "out", AnnotatorScenario.parse(text, **options))
    assert not (tmp_path / "out").exists()


def test_a_review_is_not_overruled_by_annotators(federation, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(federation[0], source)
    content = read_json(source / "site-2" / "datalist.json", "")
    first = content["training"][0]["labels"][0]["file"]
    content["training"][0] |= {"label": first, "given_label": first}
    (source / "site-2" / "datalist.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"Site site-2: .* has reviewed cases, the first .*0\.png; .*audit revert"):
        write_annotator_scenario(source, tmp_path / "copy", AnnotatorScenario.parse("clean"))
    assert not (tmp_path / "copy").exists()
