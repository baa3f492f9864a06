"""Settings as columns of a table."""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any


def flat_rows(settings: Mapping[str, Any], planned: Collection[str] = ()) -> dict[str, list[str]]:
    """Return settings by their dotted keys, their values as JSON, and which of them a plan chose, if it chose any.

    >>> flat_rows({"rounds": 8, "training": {"loss": "ce"}})
    {'setting': ['rounds', 'training.loss'], 'value': ['8', '"ce"']}
    """
    rows = list(_flat(settings, ""))
    columns = {
        "setting": [key for key, _ in rows],
        "value": [json.dumps(value, ensure_ascii=False) for _, value in rows],
    }
    return columns | ({"origin": ["planned" if key in planned else "" for key, _ in rows]} if planned else {})


def _flat(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
