"""The script that counts words counts what it says."""

import json
from pathlib import Path

from word_counts import NEVER, correction_types, count, sentences, table, words_of_identifiers, words_of_prose

MODULE = '''
"""A module says what is told."""

from dataclasses import dataclass


@dataclass
class SiteUndone:
    told_as: str  # likewise


class Undoer:
    def is_told(self, log) -> str:
        """Return what this long docstring of many words is told."""
        toldAgain = f"Not {self.told_as} is one string of a good many words."
        log.warning("A line of the log with more than six words.")
        if self.told_as:
            raise ValueError("An error with more than six words in it.")
        return toldAgain
'''


def test_words_of_identifiers_are_those_between_underscores_and_capitals() -> None:
    found = words_of_identifiers(MODULE)
    assert found == {"told": 6, "undone": 1}
    assert words_of_identifiers("edges = usually_undone + ANEW + untold + tolds") == {
        "edges": 1,
        "usual": 1,
        "undone": 1,
        "anew": 1,
    }


def test_words_of_prose_are_whole_words_of_any_case() -> None:
    assert words_of_prose(["Told, told_as and untold; JUDGED."]) == {"told": 2, "judged": 1}


def test_sentences_are_strings_that_are_no_docstring_error_or_log_line() -> None:
    assert [said for _, said in sentences(MODULE)] == ["Not … is one string of a good many words."]
    short = 'a = "only five words are here"\nb = r"[a-z] b/c/d.e.f (x|y|z) [0-9] k {2} l"\n'
    assert sentences(short) == []
    fields = 'A = OutboundField("a", "a reason that has more than six words")\n'
    assert sentences(fields) == []
    logged = """
warn("A line of the log with more than six words.")
self._log("A line of the log with more than six words.")
self.log_warning(fl_ctx, "A line of the log with more than six words.")
SHOWN = re.compile("A pattern that has more than six words")
class OtherError(ValueError):
    TEXTS = {"a": "An error with more than six words in it."}
"""
    assert sentences(logged) == []
    unlogged = """
listed("A line of no log with more than six words.")
self.log_book("A line of no log with more than six words.")
class ErrorTexts(Texts):
    TEXTS = {"a": "No error with more than six words in it."}
"""
    assert len(sentences(unlogged)) == 3


def test_forms_of_a_correction_are_types_of_values() -> None:
    assert correction_types(MODULE, "custom/a.py") == ["SiteUndone"]
    listed = "class Undoing(NamedTuple): ...\nclass OtherClasses(NamedTuple): ...\nclass CorrectionFilter: ...\n"
    assert correction_types(listed, "custom/data/relabelled_objects.py") == ["Undoing", "OtherClasses"]
    assert correction_types(listed, "custom/data/other.py") == ["Undoing"]


def test_a_tree_is_counted_by_folder(tmp_path: Path) -> None:
    for name in ("custom/a.py", "apps/a.py", "tests/a.py"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(MODULE + "x: dict[str, Any]\n", encoding="utf-8")
    (tmp_path / "README.md").write_text("What is told twice is told.\n", encoding="utf-8")
    counts = count(tmp_path)
    assert (counts.identifiers["told"], counts.identifiers_of_source["told"]) == (18, 12)
    assert counts.prose["told"] == 2 * 2 + 2
    assert (len(counts.sentences), counts.any_dictionaries) == (1, 2)
    assert counts.correction_types == ["apps/a.py: SiteUndone", "custom/a.py: SiteUndone"]
    assert (counts.lines_of_source, counts.lines_of_tests) == (2 * 20, 20)
    assert f"{'never':14}{21:>12}{14:>12}{6:>8}" in table(counts)
    assert json.loads(json.dumps(vars(counts)))["identifiers"]["told"] == 18
    assert set(NEVER) <= {line.split()[0] for line in table(counts).splitlines()}
