"""Names of classes as tables and folders have them: spellings that differ in capitals alone are one class."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...transforms.folded_names import folded
from ...transforms.natural_order import natural_order

# What programs write into a cell that has no value.
_MISSING = frozenset({"", "nan", "-nan", "na", "n/a", "#n/a", "<na>", "#na", "null"})


def is_missing(text: str) -> bool:
    """Return whether a cell has no value: nothing, or what programs write in place of nothing."""
    return text.strip().casefold() in _MISSING


@dataclass(frozen=True)
class ClassSpellings:
    """The classes of a data set, and how they are spelt.

    Attributes:
        names: the classes, each in its most frequent spelling, in natural order.
        of: spelling → class.
        notes: a sentence for every class with several spellings.
    """

    names: tuple[str, ...]
    of: Mapping[str, str]
    notes: tuple[str, ...]

    @classmethod
    def among(cls, texts: Iterable[str], asked: Sequence[str] | None = None) -> "ClassSpellings":
        """Unite the spellings of texts.

        Args:
            texts: one for each case.
            asked: the classes as a person names them; their spelling counts, and those that differ there stay apart.
        """
        count = Counter(texts)
        exact = set(asked or ())
        spellings: dict[str, list[str]] = defaultdict(list)
        for text in sorted(count, key=natural_order):
            spellings[text if text in exact and _is_distinct(text, exact) else name_key(text)].append(text)
        wanted = {name_key(name): name for name in asked or () if not _is_distinct(name, exact)}
        of: dict[str, str] = {}
        notes: list[str] = []
        for key, own in spellings.items():
            name = wanted.get(key) or max(own, key=lambda text: count[text])
            of |= dict.fromkeys(own, name)
            if len(own) > 1:
                shown = ", ".join(f"{text!r} ({count[text]})" for text in own)
                notes.append(f"Classes: {shown} are one class, {name}; they differ in capitals or spaces alone.")
        return cls(tuple(sorted(dict.fromkeys(of.values()), key=natural_order)), of, tuple(notes))


def name_key(text: str) -> str:
    """Return what is the same for spellings of one name: capitals, Unicode form and extra spaces do not matter."""
    return " ".join(folded(text).split())


def _is_distinct(name: str, asked: set[str]) -> bool:
    """Whether a person names two classes that differ in capitals alone, of which this is one."""
    return sum(name_key(other) == name_key(name) for other in asked) > 1
