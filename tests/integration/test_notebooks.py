"""The notebooks of the documentation: all of their cells run, one after the other, with small settings."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.python_processes import run_python

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
TIMEOUT = 600
TINY = {"rounds": 2, "network.features": [4, 4, 8, 8, 8, 4], "training.local_epochs": 1}
EMBEDDED = {"embedded.sites": 3, "embedded.images_per_site": 4, "embedded.test_images": 3, "embedded.stratified": None}
# In place of the cell that is tagged "parameters".
PARAMETERS: dict[str, dict[str, Any]] = {
    "compare_methods": {
        "data": None,
        "seeds": 2,
        "changes": TINY | EMBEDDED | {"warmup_rounds": 1, "embedded.noise": "M(25,-25,10,0.34)"},
    },
    "audit_your_data": {"images_of_a_site": 6, "changes": TINY},
    "paper_tables": {
        "data": None,
        "seeds": 2,
        "changes": TINY | EMBEDDED | {"embedded.noise": None, "embedded.exact": False, "warmup_rounds": 1},
    },
    "write_a_method": {"changes": TINY | EMBEDDED | {"embedded.noise": None, "embedded.exact": False}},
}


def cells(name: str) -> list[dict[str, Any]]:
    content: dict[str, Any] = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    result: list[dict[str, Any]] = content["cells"]
    return result


def program(name: str) -> str:
    """The cells as one program that also shows what a notebook would."""
    parts = ["import ast", "def show(value):", "    html = getattr(value, '_repr_html_', None)"]
    parts += ["    print('shown:', len(html()) if html else repr(value)[:200])"]
    for cell in cells(name):
        if cell["cell_type"] != "code":
            continue
        source = "".join(cell["source"])
        if "parameters" in cell["metadata"].get("tags", []):
            source = "\n".join(f"{key} = {value!r}" for key, value in PARAMETERS[name].items())
        parts.append(f"cell = ast.parse({source!r})")
        # As a notebook does: the value of a last expression is shown.
        parts.append("last = cell.body.pop() if isinstance(cell.body[-1], ast.Expr) else None")
        parts.append("exec(compile(cell, 'a cell', 'exec'), globals())")
        parts.append("if last: show(eval(compile(ast.Expression(last.value), 'a cell', 'eval'), globals()))")
    return "\n".join(parts)


def test_every_notebook_is_run() -> None:
    assert {file.stem for file in FOLDER.glob("*.ipynb")} == set(PARAMETERS)


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_notebook_holds_no_outputs_and_names_its_parameters(name: str) -> None:
    """They would be of somebody's machine, and large; each value that a test makes small is there to be changed."""
    code = [cell for cell in cells(name) if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    (tagged,) = [cell for cell in code if "parameters" in cell["metadata"].get("tags", [])]
    assert {line.split(" = ")[0] for line in tagged["source"]} == set(PARAMETERS[name])
    ids = [cell["id"] for cell in cells(name)]
    assert len(set(ids)) == len(ids)


@pytest.mark.simulator
@pytest.mark.parametrize("name", PARAMETERS)
def test_a_notebook_runs(name: str, tmp_path: Path) -> None:
    file = tmp_path / "cells.py"
    file.write_text(program(name), encoding="utf-8")
    assert "shown:" in run_python(tmp_path, str(file), timeout=TIMEOUT).stdout
