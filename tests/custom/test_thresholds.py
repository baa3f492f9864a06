"""Thresholds of statistics: each part has them in one place, and says on which data they were chosen."""

import ast
import importlib
from pathlib import Path

import pytest
from pydantic import ValidationError

CUSTOM = Path(__file__).parents[2] / "custom"
PARTS = sorted(path.parent.relative_to(CUSTOM) for path in CUSTOM.rglob("thresholds.py"))
# What says where a value comes from.
SOURCES = ("chosen", "set ", "set by", "not measured", "seed", "the rule came", "what the", "the sizes of")


def thresholds_of(part: Path):
    return importlib.import_module(".".join(("fedannot.custom", *part.parts, "thresholds"))).THRESHOLDS


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_every_threshold_says_on_which_data_it_was_chosen(part):
    fields = type(thresholds_of(part)).model_fields
    silent = [
        name
        for name, field in fields.items()
        if not any(source in (field.description or "").lower() for source in SOURCES)
    ]
    assert (silent, fields == {}) == ([], False)


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_thresholds_cannot_be_changed(part):
    thresholds = thresholds_of(part)
    name = next(iter(type(thresholds).model_fields))
    with pytest.raises(ValidationError, match="frozen"):
        setattr(thresholds, name, 0)


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_every_threshold_is_used(part):
    """By a module of its part, or by others that take the part's thresholds."""
    used = {
        node.attr
        for path in CUSTOM.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "THRESHOLDS"
    }
    assert set(type(thresholds_of(part)).model_fields) <= used
