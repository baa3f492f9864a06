"""Settings of the league's methods: the published values, what is tried beside them, and what was chosen."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, ValidationError

from fedannot.apps.commands.bench import BenchmarkError
from fedannot.custom.data.whole_files import write_text
from fedannot.custom.data.yaml_file import YamlContent, read_values, validated
from fedannot.custom.records.round_records import Record
from fedannot.transforms.errors import DataError, describe_validation_error
from fedannot.transforms.strict_files import read_json

from .. import fedgsca, fedia
from .rows import TUNING_ROWS

# Published values, where a job has a form of its own; of all other methods the job's are the published ones.
PUBLISHED: Mapping[str, Mapping[str, Any]] = {
    "feda3i": {"group_test_level": 1.0, "min_predicted_fraction": 0.0, "max_extra_warmup_rounds": 0},
    "fedia": fedia.PUBLISHED,
    "fedgsca": fedgsca.PUBLISHED,
}
# Beside the published ones.
MOST_TRIED = 4
FIRST_SEED_OF_CHOICE = 100
TRIED_FILE = Path(__file__).parents[2] / "league_settings.yaml"
CHOICES_FILE = "settings.json"

# Of a method: task and name.
MethodKey = tuple[str, str]


class TriedSettings(YamlContent):
    """The file with the settings that are tried: by method a list of at most four, each beside the job's own."""

    methods: dict[str, Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MOST_TRIED)]]


class Choice(Record):
    """How a method's settings were chosen for rows of one kind.

    Attributes:
        task: what the method learns.
        method: its name.
        tried: the settings, the published ones first.
        rows: the data on which they were tried, one of :data:`.TUNING_ROWS`.
        seeds: with which.
        scores: of each settings its mean score on each row in percent; None where a run failed.
        chosen: index of the best.
    """

    task: str
    method: str
    tried: tuple[dict[str, JsonValue], ...]
    rows: Annotated[tuple[str, ...], Field(min_length=1, max_length=1)]
    seeds: tuple[Annotated[int, Field(ge=FIRST_SEED_OF_CHOICE)], ...]
    scores: tuple[tuple[float | None, ...], ...]
    chosen: Annotated[int, Field(ge=0, le=MOST_TRIED)]

    @property
    def best(self) -> dict[str, JsonValue]:
        """The settings that were chosen."""
        return self.tried[self.chosen]


class Choices(Record):
    """All choices of an output folder."""

    version: Literal[1] = 1
    choices: tuple[Choice, ...] = ()


def published(method: str) -> dict[str, Any]:
    """Return a method's published values, as far as they are not its job's."""
    return dict(PUBLISHED.get(method, {}))


def tried_settings(method: str, file: Path = TRIED_FILE) -> list[dict[str, Any]]:
    """Return the settings of a method that are tried, the published ones first.

    Raises:
        DataError: if the file has another form, or too many settings of a method.
    """
    others = validated(read_values(file, TriedSettings), TriedSettings, str(file)).methods.get(method, [])
    return [published(method), *others]


def read_choices(out: Path) -> tuple[Choice, ...]:
    """Return what was chosen in an output folder, nothing where nobody has chosen.

    Raises:
        DataError: if the file cannot be used.
    """
    file = out / CHOICES_FILE
    if not file.is_file():
        return ()
    try:
        return Choices.model_validate(read_json(file, "the chosen settings")).choices
    except ValidationError as error:
        raise DataError(describe_validation_error(error, source=str(file), model=Choices)) from error


def write_choices(out: Path, choices: Sequence[Choice]) -> None:
    """Write choices; those of other methods and on other rows stay."""
    record = Choices(version=1, choices=merged_choices(read_choices(out), choices))
    write_text(out / CHOICES_FILE, json.dumps(record.plain(), indent=1, ensure_ascii=False) + "\n", shared=True)


def merged_choices(earlier: Sequence[Choice], later: Sequence[Choice]) -> tuple[Choice, ...]:
    """Return all choices, of two for the same method and row the later one; in the order of :data:`.TUNING_ROWS`."""
    places = {row: place for place, row in enumerate(TUNING_ROWS)}
    known = {(choice.task, choice.method, choice.rows): choice for choice in [*earlier, *later]}
    return tuple(sorted(known.values(), key=lambda choice: places.get(choice.rows[0], len(places))))


def usable_choices(out: Path, seeds: Sequence[int]) -> tuple[Choice, ...]:
    """Return what was chosen in an output folder, for rows that are reported.

    Args:
        out: output folder of the league.
        seeds: those that are reported.

    Raises:
        BenchmarkError: if settings were chosen on one of these seeds, or among others than are tried now.
        DataError: if a file cannot be used.
    """
    choices = read_choices(out)
    for choice in choices:
        if seen := sorted(set(choice.seeds) & set(seeds)):
            raise BenchmarkError(f"The settings of {choice.method} were chosen on seeds {seen}; report others.")
        if list(choice.tried) != tried_settings(choice.method) or choice.chosen >= len(choice.tried):
            raise BenchmarkError(
                f"{out / CHOICES_FILE}: the settings of {choice.method} were chosen among others than "
                f"{TRIED_FILE.name} has now. Choose another output folder, or choose the settings again."
            )
    return choices


def choice_for(task: str, method: str, tuning_row: str, choices: Sequence[Choice]) -> Choice | None:
    """Return the choice of a method's settings that counts for a row; None where nothing was chosen for rows like it.

    Args:
        task: of the row.
        method: name of the method.
        tuning_row: where settings for the row are chosen.
        choices: all of them.
    """
    return next(
        (choice for choice in choices if (choice.task, choice.method) == (task, method) and tuning_row in choice.rows),
        None,
    )
