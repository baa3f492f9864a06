"""README and docs: limits of length, links, commands, names of functions, and tables that follow from their figures.

A rule takes a page and returns what breaks it. A check collects that over all pages, and reports all at once.
"""

import ast
import json
import re
import statistics
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name

import pytest
from benchmark_tables.figures import read_table
from benchmarks.card_tables import regenerated
from pages import ROOT, Page, anchor, commands_of, fault_of_command, links, num_words, read_page, sentences, shown

import fedannot
from fedannot.apps.commands.cli import app
from fedannot.custom.consensus_rule import ONE_LABEL, ConsensusKind
from fedannot.custom.methods import METHODS

PAGES = [read_page(path) for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])]
CARDS = {
    f"docs/benchmarks/{name}.md"
    for name in ("auto", "audit", "boundary_profile", "feda3i", "fedia", "fedgsca", "decoupled", "league", "speed")
}
MOST_LINES = {"README.md": 120, "docs/architecture.md": 150, "docs/annotation-bias.md": 150} | dict.fromkeys(CARDS, 100)
MOST_WORDS_OF_SENTENCE, MOST_CHARACTERS_OF_LINE = 25, 120
MOST_CHARACTERS_OF_CELL, MOST_WORDS_OF_PARAGRAPH = 80, 80


def collected(rule: Callable[[Page], Sequence[str]]) -> dict[str, Sequence[str]]:
    """What breaks a rule, per page that breaks it."""
    return {page.name: broken for page in PAGES if (broken := rule(page))}


def page_of(text: str, folder: Path) -> Page:
    """A page with a text of its own, below the repository's root in name alone."""
    file = folder / "page.md"
    file.write_text(text, encoding="utf-8")
    return read_page(file)


def make_targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([\w-]+):", makefile, re.M))


def test_there_are_pages() -> None:
    names = {page.name for page in PAGES}
    assert {*MOST_LINES, *CARDS, "docs/research.md", "docs/deployment.md", "docs/data.md", "docs/lab/auto.md"} <= names


def test_first_pages_can_be_read_at_a_stretch() -> None:
    lines = {name: read_page(ROOT / name).num_lines for name in MOST_LINES}
    assert {name: count for name, count in lines.items() if count > MOST_LINES[name]} == {}


def long_sentences(page: Page) -> list[str]:
    return [item for part in page.paragraphs for item in sentences(part) if num_words(item) > MOST_WORDS_OF_SENTENCE]


def test_sentences_are_short() -> None:
    assert collected(long_sentences) == {}


def long_lines(page: Page) -> list[str]:
    return [line for part in page.paragraphs for line in part if len(line) > MOST_CHARACTERS_OF_LINE]


def long_paragraphs(page: Page) -> list[str]:
    """The first lines of them."""
    return [part[0] for part in page.paragraphs if num_words(shown(" ".join(part))) > MOST_WORDS_OF_PARAGRAPH]


def test_paragraphs_and_lines_are_short() -> None:
    assert collected(long_lines) == {}
    assert collected(long_paragraphs) == {}


def long_cells(page: Page) -> list[str]:
    return [cell for cell in page.cells if len(shown(cell)) > MOST_CHARACTERS_OF_CELL]


def test_table_cells_are_short() -> None:
    assert collected(long_cells) == {}


def lost_links(page: Page) -> list[str]:
    lost = []
    for target in links(page):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, place = target.partition("#")
        file = (page.path.parent / name).resolve() if name else page.path
        if not file.is_file() or (place and place not in {anchor(heading) for heading in read_page(file).headings}):
            lost.append(target)
    return lost


def test_links_lead_somewhere() -> None:
    assert collected(lost_links) == {}


def wrong_commands(page: Page) -> list[str]:
    faults = [fault_of_command(words, app, make_targets()) for words in commands_of(page)]
    return [fault for fault in faults if fault]


def test_commands_are_understood() -> None:
    assert collected(wrong_commands) == {}


def unknown_names(page: Page) -> list[str]:
    """Those that the Python of a page takes from `fedannot` and that are not public there."""
    return [
        node.attr
        for language, text in page.blocks
        if language.split(" ")[0] == "python"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "fedannot"
        if node.attr not in fedannot.__all__
    ]


def test_python_is_python_and_names_what_there_is() -> None:
    assert collected(unknown_names) == {}


NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
PUBLIC = {
    name: set(import_module(name).__all__)
    for name in ("fedannot", "fedannot.transforms", "fedannot.custom", "fedannot.apps")
}


def private_names(text: str) -> list[str]:
    """What a text imports of fedannot, or names as `module:name`, that no public module has in its `__all__`."""
    named = [
        (module, name.split(" as ")[0].strip())
        for module, names in re.findall(r"^(?: *| *>>> )from (fedannot[\w.]*) import ([\w, ]+)", text, re.M)
        for name in names.split(",")
    ]
    named += re.findall(r"[\"'](fedannot[\w.]*):(\w+)[\"']", text)
    named += [(module, "") for module in re.findall(r"^(?: *| *>>> )import (fedannot\.[\w.]+)", text, re.M)]
    return [f"{module}:{name}" for module, name in named if name not in PUBLIC.get(module, ())]


def test_pages_and_notebooks_import_what_is_public() -> None:
    """All else may change with any version; so what a method of one's own needs is exported."""
    texts = {page.name: "\n".join(text for _, text in page.blocks) for page in PAGES}
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        texts[path.name] = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    assert sum("fedannot.custom import" in text for text in texts.values()) >= 2
    assert {name: result for name, text in texts.items() if (result := private_names(text))} == {}


def test_a_private_name_is_found() -> None:
    text = (
        "from fedannot.custom import Method, nothing as x\n    >>> from fedannot.custom.settings import RunSettings\n"
        "SITE = 'fedannot.custom.methods.fedavg.site:FedAvgSite'\nimport fedannot.apps.runs\nimport fedannot\n"
        'OTHER = "fedannot.custom:FedAvgSite"\n'
    )
    assert private_names(text) == [
        "fedannot.custom:nothing",
        "fedannot.custom.settings:RunSettings",
        "fedannot.custom.methods.fedavg.site:FedAvgSite",
        "fedannot.apps.runs:",
    ]


def test_a_rule_finds_what_breaks_it(tmp_path: Path) -> None:
    long = "word " * 30
    line = "w" * (MOST_CHARACTERS_OF_LINE + 1)
    for rule, text, broken in (
        (long_sentences, f"{long}.\n", 1),
        (long_lines, f"{line}\n", 1),
        (long_paragraphs, f"{'Three words more. ' * 27}\n", 1),
        (long_cells, f"| a |\n|---|\n| {'c' * 81} |\n", 1),
        (lost_links, "# There\n[a](gone.md), [b](#nowhere), [c](#there)\n", 2),
        (wrong_commands, "```sh\nmake nothing\nmake demo\n```\n", 1),
        (unknown_names, "```python\nfedannot.nothing\nfedannot.plan\n```\n", 1),
    ):
        assert len(rule(page_of(text, tmp_path))) == broken, rule.__name__


# Of the methods that the table calls otherwise than their folders.
FOLDERS = {"FedA³I": "feda3i", "IOP-FL": "iop_fl", "auto, classes": "auto_classification"}


def test_the_table_of_equations_names_functions() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\|([^|]*)\|[^|]*\| (`[^|]*) \|$", text.split("## Equation → function")[1].split("\n## ")[0], re.M
    )
    folder, unnamed = "", {method.name for method in METHODS}
    assert len(rows) >= 25
    for method, functions in rows:
        name = method.strip()
        folder = FOLDERS.get(name, name.lower()) if name else folder
        for path in re.findall(r"`([\w.]+)`", functions):
            elsewhere = path.startswith(("custom.", "transforms."))
            resolve_name(f"fedannot.{path}" if elsewhere else f"fedannot.custom.methods.{folder}.{path}")
        unnamed.discard(folder)
    # Without an equation of their own.
    assert unnamed == {"fedbn", "single_site", "audit_classification", "fingerprint"}


def test_tables_are_those_of_the_figures_beside_them() -> None:
    """`python tests/benchmarks/card_tables.py docs/benchmarks/*.md docs/lab/*.md` makes them."""
    texts = {page: page.path.read_text(encoding="utf-8") for page in PAGES}
    assert [page.name for page, text in texts.items() if regenerated(text, page.path.parent) != text] == []


def test_long_tables_are_made_from_figures() -> None:
    marked = [page.name for page in PAGES if "<!-- end -->" in page.path.read_text(encoding="utf-8")]
    assert {f"docs/benchmarks/{name}.md" for name in ("auto", "feda3i", "fedia", "fedgsca", "decoupled")} <= set(marked)


def test_which_methods_take_which_rules_for_several_annotations_is_what_they_declare() -> None:
    text = " ".join((ROOT / "docs" / "data.md").read_text(encoding="utf-8").split())
    (part,) = re.findall(
        r"- `fedavg` and all methods that are not named here take every rule\.(.*?)They need a label", text
    )
    # FedA³I is named by its job.
    said = {
        what: {"feda3i" if name == "fedaaai" else name for name in re.findall(r"`(\w+)`", names)}
        for names, what in re.findall(r"((?:`\w+`[, and]*)+) take (all rules but|rules with one label)", part)
    }
    none = set(re.findall(r"`(\w+)`", part.partition("one label.")[2]))
    declared: dict[frozenset[ConsensusKind], set[str]] = {}
    for method in METHODS:
        declared.setdefault(method.consensus, set()).add(method.name)
    every = frozenset(ConsensusKind)
    assert declared.pop(every) >= {"fedavg"}
    assert declared.pop(every - {ConsensusKind.SOFT}) == said["all rules but"]
    assert declared.pop(ONE_LABEL) == said["rules with one label"]
    assert declared.pop(frozenset()) == none
    assert declared == {}


def test_what_first_lines_claim_of_auto_is_what_its_figures_say() -> None:
    folder = ROOT / "docs" / "benchmarks"
    rows = {row.row: row for name in ("auto", "auto_real") for row in read_table(folder / f"{name}.json")}
    gains = {name: next(arm for arm in row.arms if arm.arm == "auto").differences or () for name, row in rows.items()}
    runs = [gain for of_row in gains.values() for gain in of_row]
    assert sum(gain < -0.5 for gain in runs) == 2
    card = " ".join((folder / "auto.md").read_text(encoding="utf-8").split())
    assert f"Two of the {len(runs)} runs below are more than half a point behind FedAvg." in card
    generated, ultrasound = (f"{statistics.fmean(gains[name]):.1f}" for name in ("ns-d", "auto-busi-ns"))
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"it gains {generated} Dice points on generated lesions and {ultrasound} on breast ultrasound" in readme


def test_a_table_with_words_gets_the_figures_of_its_rows_and_misses_none(tmp_path: Path) -> None:
    fedavg = {"arm": "fedavg", "dice": [70, 80], "groups": [], "groups_as_drawn": [], "seconds": []}
    auto = fedavg | {"arm": "auto", "dice": [72, 81], "differences": [2, 1], "p_value": None}
    arms = [fedavg | {"differences": None, "p_value": None}, auto]
    rows = [{"row": name, "what": "", "seeds": [0, 1], "arms": arms} for name in ("a", "b")]
    (tmp_path / "f.json").write_text(json.dumps(rows), encoding="utf-8")
    head = "<!-- beside f.json -->\n| row | data | FedAvg | auto | auto − FedAvg |\n|---|---|---|---|---|\n"
    line = "| `{}` | some | {} | {} | {} |\n"
    page = head + "".join(line.format(name, "", "1.0", "0.3") for name in "ba") + "<!-- end -->\n"
    figures = ("70.0 / 80.0", "72.0 / 81.0", "**+1.5** ± 0.7")
    assert (
        regenerated(page, tmp_path) == head + "".join(line.format(name, *figures) for name in "ba") + "<!-- end -->\n"
    )
    with pytest.raises(ValueError, match="in no line: b"):
        regenerated(page.replace("`b`", "`a`", 1).replace(line.format("a", "", "1.0", "0.3"), "", 1), tmp_path)
    with pytest.raises(ValueError, match="twice"):
        regenerated(page.replace("`b`", "`a`"), tmp_path)


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("fedannot simulate fedavg --out runs/a --set rounds=2", None),
        ("fedannot simulate fedavg --rounds 2", "--rounds"),
        ("fedannot simulte fedavg", "no command simulte"),
        ("fedannot data import --images", "--images"),
        ("fedannot bench feda3i surplus", "is no argument"),
        ("make demo", None),
        ("make dmo", "no such target"),
        ('make demo PIP_ARGS="-q"', None),
    ],
)
def test_a_wrong_command_is_found(command: str, fault: str | None, tmp_path: Path) -> None:
    page = page_of(f"Text.\n\n```sh\nx=1 && {command}   # comment --nothing\n```\n", tmp_path)
    (words,) = commands_of(page)
    result = fault_of_command(words, app, make_targets())
    assert result is None if fault is None else fault in (result or "")


def test_a_command_goes_on_over_lines_and_in_loops_and_text(tmp_path: Path) -> None:
    script = "for i in 1; do fedannot show \\\n  B; done | make lint"
    text = f"By `fedannot show A`, `fedannot audit …`.\n\n```sh\n{script}\n```\n"
    assert list(commands_of(page_of(text, tmp_path))) == [
        ["fedannot", "show", "B"],
        ["make", "lint"],
        ["fedannot", "show", "A"],
    ]


def test_a_page_is_taken_apart(tmp_path: Path) -> None:
    text = (
        "# A *b* `c`\nOne [two](x.md#a-b-c), e.g. three. Four 5 `six 7`!\n- Item.\n- Other\n  item.\n\n"
        "| a | `b \\| c` |\n|---|---|\n```sh\nls # A.\n```\nLast [v1.2](https://x.org).\n"
    )
    page = page_of(text, tmp_path)
    assert page.num_lines == text.count("\n")
    assert page.blocks == (("sh", "ls # A."),)
    assert [anchor(heading) for heading in page.headings] == ["a-b-c"]
    assert [shown(cell) for cell in page.cells[:2]] == ["a", "b | c"]
    assert links(page) == ["x.md#a-b-c", "https://x.org"]
    result = [sentences(part) for part in page.paragraphs]
    assert [[num_words(item) for item in part] for part in result] == [[4, 2], [1], [2], [2]]


def test_every_page_and_card_is_in_the_menu_of_the_site():
    menu = (ROOT / "docs" / "site" / "index.md").read_text(encoding="utf-8").splitlines()
    pages = [*ROOT.glob("docs/*.md"), *ROOT.glob("docs/benchmarks/*.md")]
    names = {page.relative_to(ROOT / "docs").with_suffix("").as_posix() for page in pages}
    assert {name for name in names if f"../{name}" not in menu} == set()
