import json
import os
from pathlib import Path

import pytest

from fedannot.custom.consensus_rule import ConsensusRule
from fedannot.custom.data.annotations import UNDECIDED, Annotation
from fedannot.custom.data.contained_paths import relative_name
from fedannot.custom.data.datalist import Case, Datalist, cases_of, read_datalist, require_decided, write_datalist
from fedannot.custom.data.site_data import load_site_data
from fedannot.transforms.errors import DataError
from fedannot.transforms.strict_files import read_json


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "outside.png").touch()
    return tmp_path / "site"


def written(folder, content):
    file = folder / "datalist.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return file


def refusal(folder, item):
    """The name and reason with which one item beside a good one is refused."""
    good = {"image": "a.png", "label": "b.png"}
    datalist = read_datalist(written(folder, {"training": [good, item]}))
    assert datalist.section("training") == [Case(folder / "a.png", folder / "b.png")]
    (refused,) = datalist.refused["training"]
    return refused


def test_cases_come_with_paths_in_the_folder_and_all_that_is_known(folder):
    item = {"image": "i/a.png", "label": "b.png", "clean_label": "c.png", "group": 7, "source": "x", "annotator": "y"}
    item["fold"] = 3
    datalist = read_datalist(written(folder, {"training": [item], "testing": [], "numTraining": 1}))
    case = Case(folder / "i/a.png", folder / "b.png", folder / "c.png", group="7", source="x", annotator="y")
    assert datalist == Datalist({"training": [case], "testing": []}, {"training": [], "testing": []})
    assert case.files == (folder / "i/a.png", folder / "b.png", folder / "c.png")
    assert datalist.section("validation") == []


def test_numbers_as_labels_are_classes(folder):
    items = [{"image": "a.png", "label": 0, "clean_label": 3}, {"image": "a.png", "label": "3"}]
    first, second = read_datalist(written(folder, {"training": items})).section("training")
    assert (first.label, first.clean_label, first.files) == (0, 3, (folder / "a.png",))
    assert second.label == folder / "3"


def test_a_group_stands_for_the_patient_and_else_the_image_with_its_folder(folder):
    items = [
        {"image": "a/1.png", "label": 0, "group": "p"},
        {"image": "b/1.png", "label": 0, "group": "p"},
        {"image": "c/1.png", "label": 0},
        {"image": "d/1.png", "label": 0},
        {"image": "./x/.././d//1.png", "label": 1},
    ]
    units = [case.unit for case in read_datalist(written(folder, {"training": items})).section("training")]
    assert units[0] == units[1] == "p"
    assert len(set(units)) == 3
    assert units[3] == units[4]


@pytest.mark.parametrize("key", ["image", "label", "clean_label", "given_label"])
@pytest.mark.parametrize(
    "path", ["../outside.png", "i/../../outside.png", "/etc/hostname", "link", "link/x.png", "file_link.png", ".."]
)
def test_a_path_that_leads_out_of_the_folder_is_refused(folder, key, path):
    (folder / "link").symlink_to(folder.parent)
    (folder / "file_link.png").symlink_to(folder.parent / "outside.png")
    item = dict.fromkeys(("image", "label", "clean_label", "given_label"), "good.png") | {key: path}
    refused = refusal(folder, item)
    assert refused.name == (path if key == "image" else "good.png")
    assert refused.reason.startswith(f"{folder}/datalist.json: training[1] has {key!r} = {path!r}, which leads out of")
    assert "it is not read" in refused.reason


def test_links_and_dots_that_stay_inside_are_used(folder):
    (folder / "i").mkdir()
    (folder / "i" / "a.png").touch()
    (folder / "transport.png").symlink_to("i/a.png")
    (folder.parent / "site_link").symlink_to(folder)
    items = [{"image": "transport.png", "label": "i/../i/a.png"}]
    written(folder, {"training": items})
    for place in (folder, folder.parent / "site_link"):
        datalist = read_datalist(place / "datalist.json")
        assert datalist.section("training") == [Case(place / "transport.png", place / "i/../i/a.png")]


@pytest.mark.parametrize("key", ["image", "label", "clean_label", "given_label"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "''; expected a path relative to"),
        ("a\0b", r"'a\x00b'; expected a path"),
        ("\ud800", r"'\ud800'; expected a path"),
        ("n" * 300, f"'{'n' * 199}… (302 characters), which is no usable path (File name too long)"),
        ("loop", "which is no usable path"),
        (1.5, "1.5; expected a path"),
        (float("nan"), "nan; expected a path"),
        (True, "True; expected a path"),
        ([None], "[None]; expected a path"),
        ({"path": "a.png"}, "{'path': 'a.png'}; expected a path"),
        (["x"] * 10**5, "… (500000 characters); expected a path"),
    ],
)
def test_values_that_are_no_path_are_refused_with_key_and_value(folder, key, value, message):
    (folder / "loop").symlink_to("loop")
    refused = refusal(folder, {"image": "good.png", "label": "good.png", key: value})
    assert refused.reason.startswith(f"{folder}/datalist.json: training[1] has {key!r} = ")
    assert message in refused.reason
    assert len(refused.reason) < 1000
    assert refused.name.isprintable()


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({}, "has no 'image'; expected a path"),
        ({"image": "a.png"}, "has no 'label'; expected a path .* or, for classification, a class index"),
        ({"image": None, "label": "a.png"}, "has 'image' = None; expected a path"),
        ({"image": 3, "label": "a.png"}, "has 'image' = 3; expected a path relative to [^,]*$"),
        ({"image": "a.png", "label": None}, "has 'label' = None; expected a path"),
        (
            {"image": "a.png", "label": "b.png", "given_label": 1},
            "has 'given_label' = 1; expected a path relative to [^,]*$",
        ),
        (
            {"image": "a.png", "label": 0, "given_label": "b.png"},
            "has 'given_label' = 'b.png'; expected a class index, as 'label' is.",
        ),
        ({"image": "a.png", "label": 0, "given_label": True}, "has 'given_label' = True; expected a class index"),
        ({"image": "a.png", "label": "b.png", "group": ["p"]}, r"has 'group' = \['p'\]; expected a text or a number"),
        ({"image": "a.png", "label": "b.png", "source": {}}, r"has 'source' = {}; expected a text or a number"),
        ("a.png", "is 'a.png'; expected the keys image, label, given_label, clean_label, group, source, annotator"),
        (None, "is None; expected the keys"),
        ([], r"is \[\]; expected the keys"),
        (5, "is 5; expected the keys"),
    ],
)
def test_items_of_odd_shape_are_refused_by_their_place(folder, item, message):
    refused = refusal(folder, item)
    named = isinstance(item, dict) and item.get("image") == "a.png"
    assert refused.name == ("a.png" if named else "datalist.json: training[1]")
    with pytest.raises(DataError, match=rf"datalist\.json: training\[1\] {message}"):
        raise DataError(refused.reason)


@pytest.mark.parametrize("value", [None, 3, "\ud800", "", "n" * 300, "a\0b"])
def test_an_item_whose_image_cannot_be_shown_is_named_by_its_place(folder, value):
    assert refusal(folder, {"image": value, "label": "b.png"}).name == "datalist.json: training[1]"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[" * 10**5, "is not JSON"),
        ('{"training": [], "training": []}', "found the key 'training' twice"),
        ('{"training": [{"image": "a", "label": ' + "9" * 5000 + "}]}", "is not JSON"),
        ("\ufeff{}", "is not JSON"),
        ("{}", "found no keys; expected at least one of the lists training, validation, testing"),
        ('{"train": []}', "found 'train'; expected at least one of the lists"),
        ("[]", "found list; expected at least one"),
        ("null", "found NoneType; expected at least one"),
        ('{"training": {"image": "a"}}', r"key 'training' is \{'image': 'a'\}; expected a list of cases"),
        ('{"training": null}', "key 'training' is None; expected a list of cases"),
    ],
)
def test_datalists_that_cannot_be_used_are_named_with_what_was_found(folder, content, message):
    file = written(folder, content)
    with pytest.raises(DataError, match=rf"^{file}: {message}"):
        read_datalist(file)


def test_what_is_no_datalist_file_is_not_opened(folder):
    os.mkfifo(folder / "pipe.json")
    (folder / "folder.json").mkdir()
    for name in ("none.json", "pipe.json", "folder.json"):
        with pytest.raises(DataError, match=rf"{name}: found no such file; expected a datalist"):
            read_datalist(folder / name)
    (folder / "latin.json").write_bytes(b'{"training": ["\xe4"]}')
    with pytest.raises(DataError, match=r"latin\.json: is not JSON"):
        read_json(folder / "latin.json", "anything")


def test_a_datalist_reads_back_as_written(folder):
    cases = {
        "training": [
            Case(folder / "i" / "a.png", folder / "b.png", folder / "c.png", "p", "s", given_label=folder / "d.png"),
            Case(folder / "ä.png", 2),
        ],
        "validation": [],
    }
    write_datalist(folder / "datalist.json", cases)
    assert read_datalist(folder / "datalist.json").cases == cases
    assert json.loads((folder / "datalist.json").read_text(encoding="utf-8"))["training"][1] == {
        "image": "ä.png",
        "label": 2,
    }
    with pytest.raises(ValueError, match=r"outside\.png"):
        write_datalist(folder / "datalist.json", {"training": [Case(folder.parent / "outside.png", 0)]})


def test_a_list_s_items_are_cases_by_themselves(folder):
    cases, refused = cases_of([{"image": "a", "label": 1}, 4], folder / "x.json", "fold 2")
    assert [case.label for case in cases] == [1]
    assert [item.name for item in refused] == ["x.json: fold 2[1]"]


def test_files_of_a_folder_are_looked_at_once_each_and_their_folder_is_resolved_once(folder, monkeypatch):
    """Resolving every path of 300,000 cases took more than half a minute."""
    for kind in ("images", "labels"):
        (folder / kind).mkdir()
    items = [{"image": f"images/{i}.png", "label": f"labels/{i}.png"} for i in range(500)]
    file = written(folder, {"training": items})
    counts = {"resolve": 0, "lstat": 0}

    def counted(name, original):
        def function(*arguments, **options):
            counts[name] += 1
            return original(*arguments, **options)

        return function

    monkeypatch.setattr(Path, "resolve", counted("resolve", Path.resolve))
    monkeypatch.setattr(os, "lstat", counted("lstat", os.lstat))
    assert len(read_datalist(file).section("training")) == 500
    assert counts["resolve"] <= 2
    assert counts["lstat"] <= 1000 + 50


@pytest.mark.parametrize("outside", [True, False])
def test_a_folder_that_became_a_link_is_checked_by_where_it_leads(folder, outside):
    (folder.parent / "other" / "deep").mkdir(parents=True)
    (folder / "own").mkdir()
    (folder / "link").symlink_to(folder.parent / "other" if outside else "own")
    items = [{"image": f"link/deep/{i}.png", "label": 0} for i in range(3)]
    datalist = read_datalist(written(folder, {"training": items}))
    assert len(datalist.section("training")) == (0 if outside else 3)


def test_a_link_out_of_a_folder_outside_may_lead_back(folder):
    (folder / "a.png").touch()
    (folder.parent / "back.png").symlink_to(folder / "a.png")
    (folder / "up").symlink_to(folder.parent)
    datalist = read_datalist(written(folder, {"training": [{"image": "up/back.png", "label": 0}]}))
    assert len(datalist.section("training")) == 1


@pytest.mark.parametrize("name", ["a.png", "i/a.png", "i/../a.png", "../x/a.png", "..a.png"])
def test_relative_names_are_those_of_the_standard_library(folder, name):
    assert relative_name(folder / name, folder) == os.path.relpath(folder / name, folder)


def several(*annotations, **item):
    labels = [{"file": file, "annotator": annotator} for file, annotator in annotations]
    return {"image": "a.png", "labels": labels} | item


def test_a_case_has_several_annotations_and_no_label_until_a_rule_makes_one(folder):
    items = [several(("1.png", "A"), ("2.png", "B"), group="p"), several(("3.png", "A"), image="b.png")]
    items.append(several(("4.png", "A"), ("5.png", "B"), image="c.png", label="6.png", annotator="C"))
    first, single, decided = read_datalist(written(folder, {"training": items})).section("training")
    expected = (Annotation(folder / "1.png", "A"), Annotation(folder / "2.png", "B"))
    assert first == Case(folder / "a.png", UNDECIDED, group="p", annotations=expected)
    assert first.is_undecided
    assert first.files == tuple(folder / name for name in ("a.png", "1.png", "2.png"))
    assert single == Case(folder / "b.png", folder / "3.png", annotator="A")
    assert (decided.label, decided.annotator, decided.is_undecided) == (folder / "6.png", "C", False)
    assert [annotation.annotator for annotation in decided.annotations] == ["A", "B"]


def test_items_of_one_image_with_annotators_are_one_case(folder):
    items = [
        {"image": "a.png", "label": "1.png", "annotator": "A", "clean_label": "c.png"},
        {"image": "b.png", "label": "b.png"},
        {"image": "./a.png", "label": "2.png", "annotator": 2, "clean_label": "c.png"},
    ]
    first, second = read_datalist(written(folder, {"training": items})).section("training")
    annotations = (Annotation(folder / "1.png", "A"), Annotation(folder / "2.png", "2"))
    assert first == Case(folder / "a.png", UNDECIDED, folder / "c.png", annotations=annotations)
    assert second == Case(folder / "b.png", folder / "b.png")
    unnamed = [{"image": "a.png", "label": "1.png"}, {"image": "a.png", "label": "1.png"}]
    assert len(read_datalist(written(folder, {"training": unnamed})).section("training")) == 2


def test_several_annotations_are_written_and_read_again(folder):
    cases = [
        Case(
            folder / "a.png", UNDECIDED, annotations=(Annotation(folder / "1.png", "A"), Annotation(folder / "2", "B"))
        ),
        Case(folder / "b.png", 1, annotations=(Annotation(1, "A"), Annotation(0, "B"))),
    ]
    write_datalist(folder / "datalist.json", {"training": cases})
    assert "label" not in read_json(folder / "datalist.json", "")["training"][0]
    assert read_datalist(folder / "datalist.json").section("training") == cases


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (several(("1.png", "A"), ("2.png", "A")), "two annotations by 'A'; expected one for each annotator"),
        (several(("1.png", "A"), ("1.png", "B")), "1.png for two annotators"),
        (several(("1.png", "A"), (1, "B")), "expected one kind"),
        (several(("../outside.png", "A"), ("2.png", "B")), "has 'file' = '../outside.png', which leads out of"),
        (several(("/etc/hostname", "A"), ("2.png", "B")), "which leads out of"),
        (several(("1.png", ""), ("2.png", "B")), "has 'annotator' = ''; expected a name"),
        (several(("1.png", "A\u202e"), ("2.png", "B")), "printable"),
        (several(("1.png", " A"), ("2.png", "B")), "expected a name"),
        (several(("1.png", "n" * 101), ("2.png", "B")), "expected a name of 1 to 100"),
        (several(("1.png", None), ("2.png", "B")), "has 'annotator' = None"),
        (several(("1.png", True), ("2.png", "B")), "has 'annotator' = True"),
        (several(), "has 'labels' = []; expected a list of 1 to 64"),
        (several(*((f"{n}.png", n) for n in range(65))), "expected a list of 1 to 64"),
        ({"image": "a.png", "labels": {"A": "1.png"}}, "expected a list"),
        ({"image": "a.png", "labels": [{"file": "1.png"}]}, "expected a list"),
        ({"image": "a.png", "labels": ["1.png"]}, "has 'labels' with '1.png'; expected a list"),
    ],
)
def test_several_annotations_of_odd_shape_are_refused(folder, item, message):
    datalist = read_datalist(written(folder, {"training": [item]}))
    assert datalist.section("training") == []
    (refused,) = datalist.refused["training"]
    assert refused.name == "a.png"
    assert refused.reason.startswith(f"{folder}/datalist.json: training[0]")
    assert message in refused.reason


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"annotator": "A"}, "two annotations by 'A'"),
        ({"label": "1.png"}, "1.png for two annotators"),
        ({"annotator": None}, "expected 'label' and 'annotator' in each"),
        ({"group": "q"}, "expected the same 'clean_label', 'group' and 'source'"),
        ({"given_label": "g.png"}, "'given_label'"),
        ({"labels": [{"file": "8.png", "annotator": "X"}, {"file": "9.png", "annotator": "Y"}]}, "in a single one"),
    ],
)
def test_items_of_one_image_that_contradict_each_other_are_all_refused(folder, change, message):
    first = {"image": "a.png", "label": "1.png", "annotator": "A"}
    items = [first, {"image": "b.png", "label": "b.png"}, first | {"label": "2.png", "annotator": "B"} | change]
    datalist = read_datalist(written(folder, {"training": items}))
    assert [case.image.name for case in datalist.section("training")] == ["b.png"]
    (refused,) = datalist.refused["training"]
    assert refused.name == "a.png"
    assert "training[0], training[2] have the image a.png" in refused.reason
    assert message in refused.reason


def test_a_name_whose_accent_is_written_in_two_ways_is_one_annotator(folder):
    decomposed = "Zoe\u0308"
    file = written(folder, {"training": [several(("1.png", decomposed), ("2.png", "Zoë"))]})
    (refused,) = read_datalist(file).refused["training"]
    assert "two annotations by 'Zoë'" in refused.reason
    item = {"image": "a.png", "label": "1.png", "annotator": decomposed}
    (case,) = read_datalist(written(folder, {"training": [item]})).section("training")
    assert case.annotator == ConsensusRule.parse(f"one:{decomposed}").annotator == "Zoë"


def test_a_label_that_is_no_class_does_not_ask_for_a_rule(folder):
    file = written(folder, {"training": [several(("1.png", "A"), ("2.png", "B")) | {"label": -1}]})
    (refused,) = read_datalist(file).refused["training"]
    assert "training[0] has 'label' = -1" in refused.reason


def test_what_needs_one_label_refuses_several_by_their_annotators(folder):
    file = written(folder, {"training": [several(("1.png", "A"), ("2.png", "B"))]})
    cases = read_datalist(file).section("training")
    with pytest.raises(DataError, match=r"datalist.json: found 1 of 1 cases .* a.png by 'A', 'B'; expected one label"):
        require_decided(cases, file, "one label")
    (folder / "data.yaml").write_text(
        "pipeline: image2d\nclasses: [x]\nlabels: {0: 0, 1: 1}\nchannels: 1\nsize: [8, 8]\n"
    )
    with pytest.raises(DataError, match=r"Site s: .*a\.png: found 2 annotations and no 'label'"):
        load_site_data(folder, folder.parent / "store", site="s")
