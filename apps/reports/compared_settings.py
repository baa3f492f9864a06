"""What the arms of a comparison have alike and what differs, as records and in words."""

import json
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import JsonValue

from ...custom.records.round_records import Record

Why = Literal["allowed", "own setting", "method", "aggregation"]

_WHY = {
    "allowed": "allowed",
    "own setting": "an arm's own setting",
    "method": "chosen by the method",
    "aggregation": "aggregation is free in each arm",
}
_HASH_SHOWN = 12


class SettingDifference(Record):
    """A setting that is not the same in all arms.

    Attributes:
        key: its dotted key.
        topic: what it is of, such as ``learning rate``.
        values: its value in each arm that reads it, by the arm's name.
        why: ``allowed`` on the command line; an arm's ``own setting``; decided by a ``method`` itself; or of the
            ``aggregation``, which is left to each arm.
    """

    key: str
    topic: str
    values: dict[str, JsonValue]
    why: Why


class StartWeights(Record):
    """The weights that the runs of a seed begin with.

    Attributes:
        seed: the seed.
        num_entries: entries of the state dict that the networks of all these arms have; methods may add some.
        sha256: hash of names, types, shapes and values of these entries, by arm; equal weights have equal hashes. An
            arm is absent if its network or start model differs from the reference's by its settings.
    """

    seed: int
    num_entries: int
    sha256: dict[str, str]

    @property
    def are_equal(self) -> bool:
        """Whether all arms that are compared begin with the same bits."""
        return len(set(self.sha256.values())) == 1 and self.num_entries > 0


class ComparedSettings(Record):
    """What the arms of a comparison have alike, apart from what their methods differ in.

    Attributes:
        like: the job whose settings all arms have; None if each has its own job's.
        network: place of the researcher's function that builds the network of all arms; None for the jobs' networks.
        alike: topics in which no arm differs, such as ``loss``.
        differences: the settings that differ, each declared.
        start_weights: of each seed.
    """

    like: str | None = None
    network: str | None = None
    alike: tuple[str, ...]
    differences: tuple[SettingDifference, ...]
    start_weights: tuple[StartWeights, ...]


def settings_in_words(settings: ComparedSettings | None) -> list[str]:
    """Return what the arms have alike and what differs, a line each; nothing for comparisons of earlier versions."""
    if settings is None:
        return []
    source = "" if settings.like is None else f", as in {settings.like}"
    lines = [f"Alike in all arms{source}: {', '.join(settings.alike) or 'nothing'}."]
    if settings.network is not None:
        lines.append(f"The network of all arms: {settings.network}.")
    lines += [
        f"Different: {difference.key}: {values_in_words(difference.values)} ({_WHY[difference.why]})."
        for difference in settings.differences
    ]
    return [*lines, start_weights_in_words(settings.start_weights)]


def start_weights_in_words(start_weights: Sequence[StartWeights]) -> str:
    """Return which arms begin with the same weights, by their hashes."""
    if not start_weights:
        return "Start weights: not compared."
    first = start_weights[0]
    arms = list(first.sha256)
    if len(arms) == 1:
        return f"Start weights: compared in no arm, since the others have another network than {arms[0]}."
    if not all(weights.are_equal for weights in start_weights):
        return f"Start weights: not the same in {' and '.join(arms)} (allowed)."
    hashes = f"{first.num_entries} entries, seed {first.seed}: sha256 {first.sha256[arms[0]][:_HASH_SHOWN]}…"
    return f"Start weights: the same bits in {', '.join(arms)} ({hashes})."


def values_in_words(values: Mapping[str, JsonValue]) -> str:
    """Return values by arm, equal ones once: ``0.002 in fedavg and auto, 0.005 in fedia``."""
    arms: dict[str, list[str]] = {}
    for arm, value in values.items():
        arms.setdefault(value_in_words(value), []).append(arm)
    return ", ".join(f"{value} in {' and '.join(names)}" for value, names in arms.items())


def value_in_words(value: JsonValue) -> str:
    """Return a setting's value as a file has it; a text without quotes."""
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def difference_columns(settings: ComparedSettings, arms: Sequence[str]) -> dict[str, list[str]]:
    """Return the cells of a table with a row for each setting that differs, by heading.

    Args:
        settings: of a comparison.
        arms: the arms' names.
    """
    columns = {"setting": [difference.key for difference in settings.differences]}
    for arm in arms:
        columns[arm] = [
            value_in_words(difference.values[arm]) if arm in difference.values else "–"
            for difference in settings.differences
        ]
    columns["why"] = [_WHY[difference.why] for difference in settings.differences]
    return columns
