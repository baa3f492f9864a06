"""Files of jobs are parsed once, and again when they change."""

import contextlib

from pyparsing import ParserElement
from pyparsing.testing import pyparsing_test

from fedannot.apps.runs.hocon import read_hocon
from fedannot.apps.runs.job import (
    JobError,
    parse_hocon,
)


def test_what_has_changed_is_read_again(tmp_path, monkeypatch):
    file, included = tmp_path / "a.conf", tmp_path / "b.conf"
    file.write_text('include "b.conf"\nkey = 1\nfrom_outside = ""\nfrom_outside = ${?FEDANNOT_TEST}\n')
    included.write_text("group { value = 2 }\n")
    first = parse_hocon(file)
    assert first == {"group": {"value": 2}, "key": 1, "from_outside": ""}
    first["group"]["value"] = 9
    assert parse_hocon(file)["group"]["value"] == 2
    included.write_text("group { value = 3 }\n")
    assert parse_hocon(file)["group"]["value"] == 3
    monkeypatch.setenv("FEDANNOT_TEST", "there")
    assert parse_hocon(file)["from_outside"] == "there"
    file.write_text("key = 4\n")
    assert parse_hocon(file) == {"key": 4}


def test_a_copy_is_not_parsed_again_unless_it_may_include_other_files(tmp_path, monkeypatch):
    parsed = []
    monkeypatch.setattr(
        "fedannot.apps.runs.job_hocon.read_hocon",
        lambda file, folder: (parsed.append(str(file)), read_hocon(file, folder))[1],
    )
    # A job, whose files may include each other.
    (tmp_path / "meta.json").write_text("{}")
    files = [tmp_path / name / "a.conf" for name in ("one", "two")]
    for key, included in (("c", '"b.conf"'), ("d", '"b.json"'), ("e", '"../value.conf"'), ("f", 'file("b.conf")')):
        for number, file in enumerate(files):
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"include {included}\n{key} = 1\n")
            file.with_name("b.conf").write_text("number = 0\n")
            file.with_name("b.json").write_text(f"number = {number}\n")
        (tmp_path / "value.conf").write_text("number = 5\n")
        parsed.clear()
        values = [parse_hocon(file)["number"] for file in files]
        assert values == {"c": [0, 0], "d": [0, 1], "e": [5, 5], "f": [0, 0]}[key]
        assert str(files[0]) in parsed
        assert (str(files[1]) in parsed) == (key != "c")


def test_matplotlib_gets_its_parser_back(tmp_path):
    """Of pyparsing there is one per process; a file that cannot be read leaves it, too, as it was."""
    file = tmp_path / "a.conf"
    with pyparsing_test.reset_pyparsing_context():
        ParserElement.enable_packrat(64, force=True)
        for number, text in enumerate(("a = 1", "a = [")):
            file.write_text(f"{text} # {number}\n")
            with contextlib.suppress(JobError):
                parse_hocon(file)
            assert ParserElement._packratEnabled
            assert ParserElement.packrat_cache.size == 64
            assert "\n" in ParserElement.DEFAULT_WHITE_CHARS
