"""The rule that makes one label of several annotations of a case; known without PyTorch, by all that check settings."""

from dataclasses import dataclass
from enum import StrEnum

from ..transforms.folded_names import composed

_ONE = "one:"
_LONGEST_NAME = 100
CHOICES = "majority, staple, random-per-epoch, soft or one:NAME"
# STAPLE is of masks.
CHOICES_OF_CLASSES = "majority, random-per-epoch, soft or one:NAME"


class ConsensusKind(StrEnum):
    """What is done with several annotations."""

    MAJORITY = "majority"
    STAPLE = "staple"
    RANDOM_PER_EPOCH = "random-per-epoch"
    SOFT = "soft"
    ONE = "one"


# What gives every case one label, like a single annotation.
ONE_LABEL = frozenset({ConsensusKind.MAJORITY, ConsensusKind.STAPLE, ConsensusKind.ONE})


@dataclass(frozen=True)
class ConsensusRule:
    """A rule, as the setting ``training.consensus`` names it.

    Attributes:
        kind: what is done.
        annotator: whose annotations count, of :attr:`ConsensusKind.ONE`.
    """

    kind: ConsensusKind
    annotator: str | None = None

    @classmethod
    def parse(cls, text: str) -> "ConsensusRule":
        """Read a rule.

        Raises:
            ValueError: if it is none of :data:`CHOICES`.

        >>> ConsensusRule.parse("one:Ann").annotator
        'Ann'
        """
        if text.startswith(_ONE):
            name = text[len(_ONE) :]
            if name and name == name.strip() and name.isprintable() and len(name) <= _LONGEST_NAME:
                return cls(ConsensusKind.ONE, composed(name))
        elif text in (*ConsensusKind,) and text != ConsensusKind.ONE:
            return cls(ConsensusKind(text))
        raise ValueError(f"expected {CHOICES}, found {text[: 2 * _LONGEST_NAME]!r}")

    def __str__(self) -> str:
        """The rule as settings name it."""
        return self.kind.value if self.annotator is None else f"{_ONE}{self.annotator}"
