"""The order in which people expect names with numbers."""

import re


def natural_order(text: str) -> tuple[list[tuple[int, int, str]], str]:
    """Return a key that sorts the numbers in a text by value.

    >>> sorted(["site-10", "site-2"], key=natural_order)
    ['site-2', 'site-10']
    """
    parts = re.split(r"(\d+)", text)
    numbers = [(0, int(part), "") if index % 2 else (1, 0, part.casefold()) for index, part in enumerate(parts)]
    return (numbers, text)
