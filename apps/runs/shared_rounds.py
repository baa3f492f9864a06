"""Rounds at the start that arms of a comparison have in common with the reference, and are run once."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...custom.run.state import ResumeError, RunState
from ...custom.settings import RunSettings
from ...transforms.errors import did_you_mean
from .arms import Arm, PlannedArm
from .job import JobError
from .resuming import rounds_of_averaging


def with_shared_rounds(arms: Sequence[Arm], texts: Sequence[str]) -> list[Arm]:
    """Return arms that branch from the reference's run as a person says.

    Args:
        arms: the arms, the reference first.
        texts: ``ROUNDS`` for all arms but the reference, ``NAME:ROUNDS`` for one; the later one counts.

    Raises:
        JobError: if a text has another form, or names no arm that can branch.

    Example:
        >>> from pathlib import Path
        >>> arms = [Arm("fedavg", Path("fedavg")), Arm("fedia", Path("fedia"))]
        >>> [arm.shared_rounds for arm in with_shared_rounds(arms, ["12"])]
        [0, 12]
    """
    others = [arm.name for arm in arms[1:]]
    rounds: dict[str, int] = {}
    for text in texts:
        name, colon, number = (part.strip() for part in text.rpartition(":"))
        if not number.isascii() or not number.isdigit():
            raise JobError(f"--shared-rounds {text}: expected a number of rounds, or ARM:ROUNDS.")
        if colon and name not in others:
            raise JobError(
                f"--shared-rounds {text}: no arm {name!r} can branch from {arms[0].name}{did_you_mean(name, others)} "
                f"Arms that can: {', '.join(others)}."
            )
        rounds |= dict.fromkeys([name] if colon else others, int(number))
    return [replace(arm, shared_rounds=rounds.get(arm.name, arm.shared_rounds)) for arm in arms]


def check_shared_rounds(arms: Sequence[PlannedArm], settings: Mapping[str, RunSettings], *, data_given: bool) -> None:
    """Check before any run that arms may branch from the reference, by the rule that their runs follow.

    Args:
        arms: the arms, the reference first.
        settings: of each arm, by its name.
        data_given: whether the arms have a federation's folder, so that no generated images are described.

    Raises:
        JobError: naming the arm, and why its first rounds are others than the reference's.
    """
    reference = settings[arms[0].name]
    begun = reference.model_dump(mode="json")
    for arm in arms:
        if not arm.shared_rounds:
            continue
        values = settings[arm.name].model_dump(mode="json")
        if data_given:
            values["embedded"] = begun["embedded"]
        state = RunState(reference.method, begun, arm.shared_rounds, {})
        try:
            state.check_continues(settings[arm.name].method, values, rounds_of_averaging(settings[arm.name]))
        except ResumeError as error:
            raise JobError(
                f"{arm.name} cannot share its first {arm.shared_rounds} rounds with {arms[0].name}: {error}"
            ) from error
