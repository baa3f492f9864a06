"""Which runs of a comparison one machine makes, where several share the work."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .arms import PlannedArm
from .job import JobError

_FORM = re.compile(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,5})")


@dataclass(frozen=True)
class RunShare:
    """One of several shares of all runs.

    Attributes:
        number: which, from 1.
        count: how many there are.

    >>> RunShare.parse("2/8")
    RunShare(number=2, count=8)
    """

    number: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> "RunShare":
        """Read ``I/N``.

        Raises:
            JobError: if the text has another form, or I is above N.
        """
        match = _FORM.fullmatch(text.strip())
        if match is None or int(match[1]) > int(match[2]):
            raise JobError(f"--only: found {text!r:.40}, expected I/N with I from 1 to N, as in 2/8.")
        return cls(int(match[1]), int(match[2]))

    def of_runs(self, arms: Sequence[PlannedArm], seeds: Sequence[int]) -> list[tuple[PlannedArm, int]]:
        """Return the runs of this share: every N-th one, those of the first seed first.

        Each run is in one share. Arms that branch from the first arm's run are in the share of that run.
        """
        branching = [arm for arm in arms if arm.shared_rounds]
        units = [(arm, seed) for seed in seeds for arm in arms if not arm.shared_rounds]
        return [
            (member, seed)
            for arm, seed in units[self.number - 1 :: self.count]
            for member in ([arm, *branching] if arm.name == arms[0].name else [arm])
        ]
