"""How much of the code and of the docs is in words of the project alone, and other counts of the words' issue.

    python tests/word_counts.py                          # of this checkout
    python tests/word_counts.py --revision 2d0480e       # of a revision
    python tests/word_counts.py --revision 2d0480e --json

Words are counted in identifiers (``told_as`` and ``ToldAs`` have *told*) of source and tests, and in prose: comments,
docstrings and other strings of the source, and the pages. A word that the field uses, too, in another sense is
counted by itself, as no program tells the senses apart.
"""

import argparse
import ast
import io
import json
import keyword
import re
import subprocess
import sys
import tarfile
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
SOURCE = ("apps", "custom", "transforms", "package", "release")
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs")

# Word of the vocabulary's left column → its forms.
WORDS: dict[str, tuple[str, ...]] = {
    "told": ("told",),
    "undone": ("undone",),
    "anew": ("anew",),
    "usual": ("usual", "usually"),
    "judged": ("judged", "judges", "judge", "judging", "judgement"),
    "undo": ("undo", "undoes", "undoing", "undid"),
    "likewise": ("likewise",),
    "drawn": ("drawn",),
    "anchor": ("anchor", "anchors"),
    "offset": ("offset", "offsets"),
    "overshoot": ("overshoot", "overshoots"),
    "edges": ("edges",),
    "established": ("established", "establish", "establishes"),
    "deviation": ("deviation", "deviations"),
    "sure": ("sure", "surer", "surest", "sureness", "surely"),
    "swapped": ("swapped", "exchanged"),
    "harmless": ("harmless",),
    "distinct": ("distinct",),
    "shadow": ("shadow",),
    "veto": ("veto", "vetoed"),
    "found": ("found",),
    "one": ("one",),
    "what": ("what",),
    "share": ("share", "shares"),
    "claim": ("claim", "claims", "claimed"),
    "course": ("course",),
    "beginning": ("beginning", "beginnings"),
    "leaves": ("leaves",),
    "picture": ("picture", "pictures"),
    "beside": ("beside",),
    "lies": ("lies",),
}
# Words that have a meaning of the field as well: image channels, a patch's zero padding, a unit of length, a kind of
# data, a missing file.
OTHER_SENSES: dict[str, tuple[str, ...]] = {
    "channel": ("channel", "channels"),
    "zero": ("zero",),
    "floor": ("floor", "floors"),
    "missing": ("missing",),
    "half": ("half", "halves"),
    "gate": ("gate", "gates"),
    "unit": ("unit", "units"),
    "section": ("section", "sections"),
    "link": ("link", "links"),
    "kind": ("kind", "kinds"),
}
# None of these may be in an identifier.
NEVER = ("told", "undone", "anew", "usual", "judged")

# What a site changes in its annotations had these forms: types and modules, by the names they had.
FORMS_OF_A_CORRECTION = (
    "custom/data/undone.py: Undone",
    "custom/data/undone.py: UndoneCase",
    "custom/data/undone_pixels.py: CasePixels",
    # Where it lies now.
    "custom/corrections/pixels.py: CasePixels",
    "custom/data/undone_files.py: IgnoredObject",
    "custom/data/corrections.py: Corrections",
    "custom/data/corrections.py: CorrectedLabel",
    "custom/data/corrections.py: AddedLesion",
    "custom/data/written_annotations.py: WrittenAnnotations",
    "custom/data/relabelled_objects.py: OtherClasses",
    "custom/data/label_suspicions.py: LabelSuspicions",
    "custom/methods/auto/decisions.py: SiteUndo",
    "custom/methods/auto_classification/undone_labels.py: UndoneLabels",
    "custom/methods/auto_classification/undoing.py: Undoing",
    "apps/reports/corrections.py: SiteUndone",
)
# Types that are new forms of a correction are found by the words of their names.
_CORRECTION = re.compile(r"Undo|Undone|Correction|CorrectedLabel|Relabel|Suspicions|WrittenAnnotations|AddedLesion")

FEWEST_WORDS = 6
_LOG_METHODS = {"debug", "info", "warning", "error", "exception", "critical", "log", "warn"}
# Parameters that are called with a line of the log.
_LOG_FUNCTIONS = {"log", "warn"}
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_PROSE_WORD = re.compile(r"[A-Za-z]+")
# Of patterns and paths nothing stands between spaces.
_WORD_OF_SENTENCE = re.compile(r"(?<!\S)\W?[A-Za-z][\w'-]*\W*(?!\S)")


@dataclass
class Counts:
    """Counts of one revision.

    Attributes:
        identifiers: word → its uses in identifiers of source and tests.
        identifiers_of_source: the same without tests.
        prose: word → its uses in comments, docstrings and strings of the source, and in pages.
        sentences: strings of six words and more in ``custom`` and ``transforms`` that are no docstring, error, log line
            or description of a field; as ``file:line: text``.
        any_dictionaries: occurrences of ``dict[str, Any]`` in the source.
        any_mappings: occurrences of ``Mapping[str, Any]`` there.
        correction_types: the types that are a form of a correction.
        lines_of_source: lines of Python in the source.
        lines_of_tests: the same of the tests.
    """

    identifiers: Counter[str] = field(default_factory=Counter)
    identifiers_of_source: Counter[str] = field(default_factory=Counter)
    prose: Counter[str] = field(default_factory=Counter)
    sentences: list[str] = field(default_factory=list)
    any_dictionaries: int = 0
    any_mappings: int = 0
    correction_types: list[str] = field(default_factory=list)
    lines_of_source: int = 0
    lines_of_tests: int = 0


def count(root: Path) -> Counts:
    """Count in a tree of files."""
    counts = Counts()
    for path in python_files(root, SOURCE):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(root).as_posix()
        found = words_of_identifiers(text)
        counts.identifiers_of_source += found
        counts.identifiers += found
        counts.prose += words_of_prose(python_prose(text))
        counts.any_dictionaries += len(re.findall(r"\bdict\[str, Any\]", text))
        counts.any_mappings += len(re.findall(r"\bMapping\[str, Any\]", text))
        counts.lines_of_source += text.count("\n")
        counts.correction_types += [f"{name}: {one}" for one in correction_types(text, name)]
        if name.startswith(("custom/", "transforms/")):
            counts.sentences += [f"{name}:{line}: {said}" for line, said in sentences(text)]
    for path in python_files(root, ("tests",)):
        text = path.read_text(encoding="utf-8")
        counts.identifiers += words_of_identifiers(text)
        counts.lines_of_tests += text.count("\n")
    for page in pages(root):
        counts.prose += words_of_prose([page.read_text(encoding="utf-8")])
    return counts


def python_files(root: Path, folders: Iterable[str]) -> list[Path]:
    """Return the modules of some folders, without this script and its test: they hold the words."""
    found = (path for folder in folders for path in sorted((root / folder).rglob("*.py")))
    return [path for path in found if "word_counts" not in path.name and path.name != "former_names.py"]


def pages(root: Path) -> list[Path]:
    """Return the pages that a reader is led to."""
    found = [root / name for name in PAGES]
    return [page for one in found for page in ([one] if one.is_file() else sorted(one.rglob("*.md")))]


def words_of_identifiers(text: str) -> Counter[str]:
    """Count the words of the table in a module's identifiers, each use of each."""
    found: Counter[str] = Counter()
    for name in _identifiers(text):
        found.update(_known_words(_PARTS.findall(name)))
    return found


def _identifiers(text: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and not keyword.iskeyword(token.string):
            yield token.string
    if sys.version_info < (3, 12):
        # Up to then what stands in braces in a string is a part of its token.
        filled_in = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.JoinedStr)]
        inner = {id(one) for node in filled_in for one in ast.walk(node) if one is not node}
        for node in filled_in:
            if id(node) not in inner:
                yield from _names_below(node)


def _names_below(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        for of_node in ("id", "attr", "arg"):
            if isinstance(name := getattr(node, of_node, None), str):
                yield name


def words_of_prose(texts: Iterable[str]) -> Counter[str]:
    """Count the words of the table in texts."""
    found: Counter[str] = Counter()
    for text in texts:
        found.update(_known_words(_PROSE_WORD.findall(text)))
    return found


def _known_words(words: Iterable[str]) -> Iterator[str]:
    return (_OF_FORM[word.lower()] for word in words if word.lower() in _OF_FORM)


_OF_FORM = {form: word for word, forms in (WORDS | OTHER_SENSES).items() for form in forms}


def python_prose(text: str) -> Iterator[str]:
    """Yield a module's comments and strings; of those that are filled in, what is around."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def sentences(text: str) -> list[tuple[int, str]]:
    """Return the strings of six words and more that are no docstring, error, log line or description of a field."""
    tree = ast.parse(text)
    return [
        (node.lineno, said)
        for node in _strings_outside(tree)
        if len(_WORD_OF_SENTENCE.findall(said := _said(node))) >= FEWEST_WORDS
    ]


def _strings_outside(node: ast.AST) -> Iterator[ast.Constant | ast.JoinedStr]:
    """Every string below a node, the parts of one as one; nothing below errors, logs, descriptions and docstrings."""
    if isinstance(node, ast.Constant | ast.JoinedStr):
        if isinstance(node, ast.JoinedStr) or isinstance(node.value, str):
            yield node
        return
    if isinstance(node, ast.Raise | ast.Assert) or (isinstance(node, ast.Call) and _speaks(node)):
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.ClassDef) and _is_error(node):
        return
    for child in ast.iter_child_nodes(node):
        yield from _strings_outside(child)


def _speaks(call: ast.Call) -> bool:
    """Whether a call makes an error, writes to a log, declares a field, or makes a pattern that nobody reads.

    NVFlare's components log by ``log_info`` and the like; a function that was given to log with may be private.
    """
    is_method = isinstance(call.func, ast.Attribute)
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    is_log = name.lstrip("_").removeprefix("log_") in (_LOG_METHODS if is_method else _LOG_FUNCTIONS)
    is_pattern = is_method and ast.unparse(call.func) == "re.compile"
    is_error = name.endswith(("Error", "Refused"))
    return is_log or is_pattern or is_error or name.endswith("OutboundField") or name in ("Field", "cls.Field")


def _is_error(node: ast.ClassDef) -> bool:
    """Whether a class is an error, which makes its text of its fields."""
    return any(ast.unparse(base).endswith(("Error", "Exception", "Refused")) for base in node.bases)


def _said(node: ast.Constant | ast.JoinedStr) -> str:
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts)


def correction_types(text: str, name: str) -> list[str]:
    """Return the types of a module that are a form of a correction.

    Args:
        text: the module.
        name: its path, as :data:`FORMS_OF_A_CORRECTION` has it.
    """
    known = {form.partition(": ")[2] for form in FORMS_OF_A_CORRECTION if form.startswith(f"{name}: ")}
    return [
        node.name
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef) and _is_data(node) and (node.name in known or _CORRECTION.search(node.name))
    ]


def _is_data(node: ast.ClassDef) -> bool:
    """Whether a class is values alone, no enumeration, network or filter."""
    decorators = {getattr(one, "id", getattr(getattr(one, "func", None), "id", "")) for one in node.decorator_list}
    bases = {getattr(base, "id", getattr(base, "attr", "")) for base in node.bases}
    return "dataclass" in decorators or any(base.endswith(("Record", "Model", "NamedTuple", "Tuple")) for base in bases)


def count_revision(revision: str) -> Counts:
    """Count in a revision of the repository."""
    with TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "-C", str(ROOT), "archive", revision], capture_output=True, check=True)
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
            tar.extractall(folder, filter="data")
        return count(Path(folder))


def table(counts: Counts) -> str:
    """Return counts as text."""
    lines = [f"{'word':14}{'identifiers':>12}{'in source':>12}{'prose':>8}"]
    for title, words in (("the project's alone", WORDS), ("with another sense", OTHER_SENSES)):
        lines.append(f"-- {title}")
        for word in words:
            lines.append(_row(word, counts, [word]))
        lines.append(_row("all of these", counts, list(words)))
    lines += [
        _row("never", counts, NEVER),
        f"sentences in custom and transforms outside errors and logs: {len(counts.sentences)}",
        f"dict[str, Any] in the source: {counts.any_dictionaries}; Mapping[str, Any]: {counts.any_mappings}",
        f"types that are a form of a correction: {len(counts.correction_types)}",
        *(f"  {one}" for one in counts.correction_types),
        f"lines of source: {counts.lines_of_source}",
        f"lines of tests: {counts.lines_of_tests}",
    ]
    return "\n".join(lines)


def _row(title: str, counts: Counts, words: Sequence[str]) -> str:
    columns = (counts.identifiers, counts.identifiers_of_source, counts.prose)
    sums = [sum(column[word] for word in words) for column in columns]
    return f"{title:14}{sums[0]:>12}{sums[1]:>12}{sums[2]:>8}"


def main() -> None:
    """Print the counts of this checkout or of a revision."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--revision", help="a revision of the repository; by default this checkout")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--sentences", action="store_true", help="list the sentences that count")
    asked = parser.parse_args()
    counts = count(ROOT) if asked.revision is None else count_revision(asked.revision)
    if asked.sentences:
        print("\n".join(counts.sentences))
    print(json.dumps(vars(counts), indent=2) if asked.json else table(counts))


if __name__ == "__main__":
    main()
