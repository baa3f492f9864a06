"""Settings of the command line."""

import pytest

from fedannot.apps.runs.overrides import parse_override
from fedannot.custom.settings import SettingsError


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("rounds=20", "rounds", 20),
        ("training.learning_rate=0.001", "training.learning_rate", 0.001),
        ("embedded.exact=true", "embedded.exact", True),
        ("embedded.exact=false", "embedded.exact", False),
        ("network.features=[8, 8,16,16,16,8]", "network.features", [8, 8, 16, 16, 16, 8]),
        ("blocks=[conv_0,down_1]", "blocks", ["conv_0", "down_1"]),
        ("embedded.noise=M(25,-25,10,0.2)", "embedded.noise", "M(25,-25,10,0.2)"),
        ("embedded.noise=null", "embedded.noise", None),
        ("data=/a/b=c", "data", "/a/b=c"),
        ("training.loss=ce_dice", "training.loss", "ce_dice"),
        (" rounds =20", "rounds", 20),
        ("data=", "data", ""),
        ("data=''", "data", ""),
        ("data=a b", "data", "a b"),
    ],
)
def test_override_is_read_from_its_text(text, key, value):
    assert parse_override(text) == (key, value)
    assert type(parse_override(text)[1]) is type(value)


@pytest.mark.parametrize("text", ["rounds", "=20", ""])
def test_text_that_is_no_override_is_named(text):
    with pytest.raises(SettingsError) as caught:
        parse_override(text)
    assert str(caught.value) == f"Expected a setting as key=value, but got {text!r}."


@pytest.mark.parametrize("value", ["[8, 8", "{a", '"x', "@x", ": :", "!!python/name:os.system"])
def test_value_that_is_not_yaml_is_named(value):
    text = f"blocks={value}"
    with pytest.raises(SettingsError) as caught:
        parse_override(text)
    assert str(caught.value).startswith(f"The value of {text!r} cannot be read: ")
    assert "\n" not in str(caught.value)
