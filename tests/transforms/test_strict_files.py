"""JSON and YAML that others wrote mean one thing or are refused, within bounds of size, depth and time."""

import json

import pytest
import yaml

from fedannot.transforms import strict_files
from fedannot.transforms.errors import DataError
from fedannot.transforms.strict_files import parse_json, parse_yaml, read_json, read_yaml

# Nine levels of nine aliases each stand for 9^9 values in 500 characters.
BOMB = "l0: &l0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 9)}]\n" for level in range(1, 9)
)


def test_what_is_allowed_is_read_as_by_the_libraries():
    text = '{"a": [1, 2.5, -1e-3, "é\\ud800", null, true, {"a": {}}], "b": "NaN"}'
    assert parse_json(text, "x.json") == json.loads(text)
    yaml_text = "a: {0: 0, 255: 1}\nb: [1.5, .inf, yes, 2001-01-01, 0x1F, text]\n<<: {c: 3, d: 4}\nc: 5\n"
    assert parse_yaml(yaml_text, "x.yaml") == yaml.safe_load(yaml_text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "b": 2, "a": 1}', r"x\.json: found the key 'a' twice; expected each key once"),
        ('[{"image": "a", "image": "b"}]', r"x\.json: found the key 'image' twice"),
        ('{"a": 1, "\\u0061": 1}', r"found the key 'a' twice"),
        ('{"a": NaN}', r"x\.json: found NaN; expected numbers"),
        ('{"a": -Infinity}', r"x\.json: found -Infinity; expected numbers"),
        ('{"a": 1e999}', r"x\.json: found the number '1e999'; expected one that a computer can hold"),
        ("[" * 80 + "]" * 80, r"x\.json: found values nested more than 64 deep"),
        ('{"a":' * 80 + "1" + "}" * 80, r"x\.json: found values nested more than 64 deep"),
        ("[" * 10**6, r"x\.json: is not JSON"),
        ("9" * 5000, r"x\.json: is not JSON"),
    ],
)
def test_json_with_two_meanings_or_none_is_refused(text, message):
    with pytest.raises(DataError, match=rf"^{message}" if message.startswith("x") else message):
        parse_json(text, "x.json")


def test_an_error_is_short_however_long_the_key():
    key = json.dumps("k" * 10**5)
    with pytest.raises(DataError) as refusal:
        parse_json(f"{{{key}: 1, {key}: 2}}", "x.json")
    assert len(str(refusal.value)) < 500


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, r"x\.yaml: found the alias '\*l0' in line 2; expected values without aliases"),
        ("a: &a [1, *a]", r"x\.yaml: found the alias '\*a' in line 1"),
        ("a: 1\nb: 2\na: 3", r"x\.yaml: found the key 'a' twice in line 3; expected each key once"),
        ("a: {0: 0, 0x0: 1}", r"x\.yaml: found the key 0 twice in line 1"),
        ("[" * 65 + "]" * 65, r"x\.yaml: found values nested more than 64 deep"),
        ("- " * 65 + "1", r"x\.yaml: found values nested more than 64 deep"),
        ("a: 0x" + "f" * 5000, r"x\.yaml: found a number of 5002 characters in line 1; expected at most 400"),
        ("a: " + "1:" * 500 + "1", r"x\.yaml: found a number of 1001 characters"),
        ("? [a]\n: 1", r"x\.yaml: is not YAML .*unhashable"),
        ("a: " + "b" * 2**18, r"x\.yaml: found 262147 characters of YAML; expected at most 262144"),
    ],
)
def test_yaml_that_is_long_behind_its_back_or_has_two_meanings_is_refused(text, message):
    with pytest.raises(DataError, match=f"^{message}"):
        parse_yaml(text, "x.yaml")


@pytest.mark.parametrize("read", [read_json, read_yaml])
def test_a_file_beyond_the_bound_is_not_read_whole(read, tmp_path, monkeypatch):
    monkeypatch.setattr(strict_files, "MAX_JSON_BYTES", 1000)
    file = tmp_path / "large"
    with file.open("wb") as stream:
        stream.truncate(2**40)
    bound = 1000 if read is read_json else 2**18
    with pytest.raises(DataError, match=rf"large: found more than {bound} bytes; expected a list, which needs fewer"):
        read(file, "a list")


@pytest.mark.parametrize("read", [read_json, read_yaml])
def test_what_is_missing_or_no_text_is_named(read, tmp_path):
    with pytest.raises(DataError, match=r"absent: found no such file; expected a list"):
        read(tmp_path / "absent", "a list")
    (tmp_path / "latin").write_bytes(b'a: "\xe4"')
    with pytest.raises(DataError, match=r"latin: is not (JSON|YAML) \('utf-8' codec"):
        read(tmp_path / "latin", "a list")
