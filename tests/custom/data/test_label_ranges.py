import pytest

from fedannot.custom.data.description import ImageDescription, read_site_description, write_site_description
from fedannot.custom.data.label_ranges import MOST_VALUES, expanded, in_ranges, parse_values, runs
from fedannot.transforms.errors import DataError


@pytest.mark.parametrize(
    ("text", "first", "last"), [("85", 85, 85), ("128-255", 128, 255), (" 3 - 4 ", 3, 4), ("-5--1", -5, -1)]
)
def test_values_and_ranges(text, first, last):
    assert parse_values(text) == range(first, last + 1)


@pytest.mark.parametrize("text", ["", "a", "1:2", "5-3", f"0-{MOST_VALUES}", "1-2-3"])
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match=r"range LOW-HIGH|invalid literal"):
        parse_values(text)


def test_ranges_are_expanded_and_written_again_in_their_order():
    labels = {"0-127": 0, "128-254": 1, 255: 2, 300: 1, 301: 1}
    flat = expanded(labels)
    assert [value for value, label in flat.items() if label == 1] == [*range(128, 255), 300, 301]
    # Two values make no range.
    assert in_ranges(flat) == labels
    assert list(runs({7: 1, 5: 1, 6: 1})) == [(7, 7, 1), (5, 6, 1)]


def test_a_value_in_two_ranges_is_refused():
    with pytest.raises(ValueError, match="has the value 5 twice, the second time in '5-9'"):
        expanded({"0-5": 0, "5-9": 1})


def test_a_description_keeps_ranges_in_its_file_and_values_in_memory(tmp_path):
    (tmp_path / "data.yaml").write_text(
        "channels: 1\nsize: [8, 8]\nclasses: [lesion]\nlabels: {0-127: 0, 128-255: 1}\n", encoding="utf-8"
    )
    description = read_site_description(tmp_path)
    assert isinstance(description, ImageDescription)
    assert description.labels == {value: int(value >= 128) for value in range(256)}
    write_site_description(tmp_path, description)
    assert "  0-127: 0\n  128-255: 1\n" in (tmp_path / "data.yaml").read_text(encoding="utf-8")
    assert read_site_description(tmp_path) == description


@pytest.mark.parametrize("labels", ["{0-10: 0, 5: 1}", "{0: 0, 10-1: 1}"])
def test_ranges_that_cannot_be_used_are_named(tmp_path, labels):
    (tmp_path / "data.yaml").write_text(
        f"channels: 1\nsize: [8, 8]\nclasses: [lesion]\nlabels: {labels}\n", encoding="utf-8"
    )
    with pytest.raises(DataError, match=r"data\.yaml: .*labels"):
        read_site_description(tmp_path)
