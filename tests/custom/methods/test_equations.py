"""The tables *equation → function* in the methods' docstrings name what there is, and all that is cited."""

import functools
import importlib
import inspect
import re
from pathlib import Path

import pytest

from fedannot.custom import methods

FOLDER = Path(methods.__file__).parent
# The last equation of each paper; where there is none they are reported by what they define.
LAST_EQUATIONS = {
    "adele": 0, "audit": 0, "audit_classification": 0, "auto": 0, "auto_classification": 0, "decoupled": 8, "ditto": 0,
    "elr": 0, "feda3i": 7, "fedavg": 0, "fedcorr": 0, "fedcurv": 0, "feddm": 0, "fedfixer": 0, "fedgp": 0,
    "fedgsca": 18, "fedhac": 0, "fedia": 7, "fedmix": 0, "fednoro": 0, "fedrep": 0, "fedrobust": 0, "fedselect": 0,
    "iop_fl": 0
}  # fmt: skip
# What has no formula: what methods share, and no federation at all.
WITHOUT = {"personal", "single_site", "fingerprint", "fedbn"}
ROW = re.compile(r"^ {4}(\S.*?) {2,}(\S.*)$", re.MULTILINE)


def table_of(method):
    """Rows of a method's table: what stands on the left, and the functions that it names."""
    docstring = importlib.import_module(f"{methods.__name__}.{method}").__doc__
    _, _, table = docstring.partition("\nEquations")
    return [(left, right.split(", ")) for left, right in ROW.findall(table)]


def found_at(method, path):
    """The function, class or property of a path, which is relative to the method's folder or absolute."""
    parts = (
        path.split(".") if path.startswith("fedannot.") else [*methods.__name__.split("."), method, *path.split(".")]
    )
    for length in range(len(parts) - 1, 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        return functools.reduce(inspect.getattr_static, parts[length:], module)
    raise ModuleNotFoundError(path)


def cited(text):
    """Numbers of the equations that a text cites: "Eq. 3", "Eq. 3, 4 and 6", "Eq. 14 to 17"."""
    numbers = set()
    for match in re.finditer(r"\bEq\.\s+(\d+(?:(?:\s+to\s+|,\s+|\s+and\s+)\d+\b)*)", text):
        listed = match.group(1)
        for first, last in re.findall(r"(\d+)\s+to\s+(\d+)", listed):
            numbers |= set(range(int(first), int(last) + 1))
        numbers |= set(map(int, re.findall(r"\d+", listed)))
    return numbers


def docstring_of(found):
    return inspect.getdoc(found.__func__ if isinstance(found, classmethod | staticmethod) else found) or ""


def in_folder(method):
    """Texts in which a method's modules cite equations: docstrings and comments alike."""
    return {
        file.name: file.read_text(encoding="utf-8")
        for file in sorted((FOLDER / method).glob("*.py"))
        if file.name != "__init__.py"
    }


def test_citations_are_read():
    assert cited("FedX, Eq. 3, 4) and (Eq. 7); see Eq. 14 to\n    17, Eq. 9 and 10, Eq. 20, which") == {
        3, 4, 7, 14, 15, 16, 17, 9, 10, 20
    }  # fmt: skip


def test_every_method_of_a_paper_has_a_table():
    folders = {path.parent.name for path in FOLDER.glob("*/__init__.py")}
    assert set(LAST_EQUATIONS) == folders - WITHOUT
    assert all(table_of(method) for method in LAST_EQUATIONS)


@pytest.mark.parametrize(("method", "last"), LAST_EQUATIONS.items())
def test_a_table_has_every_equation_of_the_paper_in_its_order(method, last):
    numbers = [left for left, _ in table_of(method) if left.startswith("Eq.")]
    assert numbers == [f"Eq. {number}" for number in range(1, last + 1)]


@pytest.mark.parametrize("method", LAST_EQUATIONS)
def test_what_a_table_names_is_there(method):
    for _, paths in table_of(method):
        for path in paths:
            result = found_at(method, path)
            assert callable(result) or isinstance(result, classmethod | property), path


@pytest.mark.parametrize("method", LAST_EQUATIONS)
def test_what_a_table_names_cites_the_equation(method):
    """So that a row that is off by one is found; what other methods use as well cites no equation of this one."""
    wrong = [
        (left, path)
        for left, paths in table_of(method)
        for path in paths
        if left.startswith("Eq.") and not path.startswith("fedannot.")
        if not cited(left) <= cited(docstring_of(found_at(method, path)))
    ]
    assert wrong == []


@pytest.mark.parametrize("method", LAST_EQUATIONS)
def test_every_equation_that_a_method_cites_is_in_its_table(method):
    rows = set().union(*(cited(left) for left, _ in table_of(method)))
    missing = {name: sorted(cited(text) - rows) for name, text in in_folder(method).items() if cited(text) - rows}
    assert missing == {}
