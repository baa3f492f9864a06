"""Numbers, counts and lists as sentences have them."""

from collections.abc import Mapping, Sequence

_ROUNDS_TO_ZERO = 0.05
# Above this share "one in n" says too little, and most are.
_HALF = 0.5


class _Absent:
    """What a template names and a record does not have."""

    def __format__(self, spec: str) -> str:
        return "?"


class _Values(dict[str, object]):
    def __missing__(self, name: str) -> _Absent:
        return _Absent()


def filled(template: str, *values: Mapping[str, object]) -> str:
    """Return a template with its values; a question mark for what is not there.

    >>> filled("{share:.0%} of {what}", {"share": 0.25})
    '25% of ?'
    """
    known = _Values()
    for some in values:
        known.update(some)
    return template.format_map(known)


def listed(words: Sequence[str], last: str = "and") -> str:
    """Return words as a sentence has them: ``a, b and c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def signed(length: float) -> str:
    """Return a length with its sign, a true minus, which is not taken for a hyphen; no sign where it rounds to zero."""
    return "0.0" if abs(length) < _ROUNDS_TO_ZERO else f"{length:+z.1f}".replace("-", "−")


def along_axes(vector: Sequence[float], unit: str) -> str:
    """Return a translation: its length along each axis of the images.

    >>> along_axes((2.0, -1.46), "px")
    '+2.0 px along axis 1 and −1.5 px along axis 2'
    """
    space = " " if unit else ""
    return listed([f"{signed(length)}{space}{unit} along axis {axis}" for axis, length in enumerate(vector, start=1)])


def percent(share: float) -> str:
    """Return a share in whole percent; no sign where it rounds to zero.

    >>> percent(-0.004)
    '0 %'
    """
    return f"{100 * share:z.0f} %"


def percent_range(low: float, high: float) -> str:
    """Return an interval of a share in whole percent, as above.

    >>> percent_range(-0.004, 1)
    '0 to 100 %'
    """
    return f"{percent(low).removesuffix(' %')} to {percent(high)}"


def one_in(share: float) -> str:
    """Return a share as one in n, above a half in percent."""
    return f"1 in {round(1 / share)}" if 0 < share <= _HALF else percent(share)


def number_in_words(count: int) -> str:
    """Return a number that begins a sentence."""
    names = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")
    return names[count] if count < len(names) else str(count)


def size_in_words(size: float, unit: str | None) -> str:
    """Return a size with its unit, in three digits at most."""
    number = f"{size:z.0f}" if size >= 100 else f"{size:.3g}"
    return f"{number} {unit}" if unit else number


def begun(sentence: str) -> str:
    """Return a sentence with a capital letter at its begin."""
    return sentence[:1].upper() + sentence[1:]


def continued(sentence: str) -> str:
    """Return a title as a part of a sentence, with a small letter at its begin."""
    return sentence[:1].lower() + sentence[1:]
