"""How a long work on many files says how far it is."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")

# Takes what is being done, how many are done, and of how many.
Watch = Callable[[str, int, int], None]


def watched(items: Sequence[Item], what: str, watch: Watch | None) -> Iterator[Item]:
    """Give items one after the other, and say before each how many are done.

    Args:
        items: what is worked on.
        what: what is being done, in words.
        watch: is called with the progress; None for no calls.

    >>> list(watched(["a", "b"], "Reading", lambda *said: print(*said)))
    Reading 0 2
    Reading 1 2
    ['a', 'b']
    """
    for done, item in enumerate(items):
        if watch is not None:
            watch(what, done, len(items))
        yield item
