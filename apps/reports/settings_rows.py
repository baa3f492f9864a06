"""Settings as columns of a table."""

import json
from collections.abc import Iterator, Mapping
from typing import Any


def flat_rows(settings: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return settings by their dotted keys, and their values as JSON.

    >>> flat_rows({"rounds": 8, "training": {"loss": "ce"}})
    {'setting': ['rounds', 'training.loss'], 'value': ['8', '"ce"']}
    """
    rows = list(_flat(settings, ""))
    return {"setting": [key for key, _ in rows], "value": [json.dumps(value, ensure_ascii=False) for _, value in rows]}


def _flat(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
