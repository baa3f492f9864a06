"""Names of images that look like several images of one patient: ``patient03_scan2``, ``1007358_left``, ``p01/a``."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from ...transforms.folded_names import folded

_LEAST_NAMES = 4


@dataclass(frozen=True)
class _Pattern:
    """What a patient may be in a name.

    Attributes:
        text: a regular expression whose first group is the patient, as ``--group`` takes it; of names without suffix.
        least_matched: fraction of the names that it has to be found in.
        least_shared: fraction of the names whose patient has several images.
    """

    text: str
    least_matched: float
    least_shared: float


# The most certain first. A word for a patient needs few; a mere number needs most of the names.
_PATTERNS = (
    _Pattern("(?<![A-Za-z])((?i:patient|pat|subject|subj|sub|person|pid|pt|mrn|case|fall)[-_ ]*[0-9]+)", 0.5, 0.1),
    _Pattern("(?:^|/)([^/]*[0-9][^/]*)/", 0.9, 0.5),
    _Pattern("(?:^|/)([A-Za-z]*[-_ ]?[0-9]+)[-_ ][^/]*$", 0.9, 0.5),
)


@dataclass(frozen=True)
class LikelyPatients:
    """Patients that names of images seem to tell.

    Attributes:
        pattern: the regular expression that finds them, as ``--group`` takes it.
        of: position of each name with a patient → the patient.
    """

    pattern: str
    of: Mapping[int, str]

    @property
    def shared(self) -> dict[str, tuple[int, ...]]:
        """Patient → positions of its names; those with several alone."""
        positions: dict[str, list[int]] = defaultdict(list)
        for place, patient in self.of.items():
            positions[patient].append(place)
        return {patient: tuple(own) for patient, own in positions.items() if len(own) > 1}


def likely_patients(names: Sequence[str]) -> LikelyPatients | None:
    """Find out whether names of images tell patients with several images.

    Args:
        names: paths of images, with slashes, below the folder that holds them all.

    Returns:
        None if they do not seem to.
    """
    if len(names) < _LEAST_NAMES:
        return None
    stems = [str(PurePosixPath(name).with_suffix("")) for name in names]
    for pattern in _PATTERNS:
        matches = {place: match for place, stem in enumerate(stems) if (match := re.search(pattern.text, stem))}
        of = {place: folded(match[1]) for place, match in matches.items()}
        count = Counter(of.values())
        shared = sum(number for number in count.values() if number > 1)
        enough = len(of) >= pattern.least_matched * len(names) and shared >= max(2, pattern.least_shared * len(names))
        if enough and len(count) > 1:
            return LikelyPatients(_simplest(pattern.text, matches, stems), of)
    return None


def _simplest(pattern: str, matches: Mapping[int, re.Match[str]], stems: Sequence[str]) -> str:
    """A pattern that names the word of these names alone, where it finds the same."""
    words = {match[1].rstrip("0123456789") for match in matches.values()}
    if len(words) > 1 or not (word := words.pop()):
        return pattern
    simple = f"({re.escape(word)}[0-9]+)"
    same = all(
        (found := re.search(simple, stem)) is not None and found[1] == matches[place][1]
        if place in matches
        else re.search(simple, stem) is None
        for place, stem in enumerate(stems)
    )
    return simple if same else pattern
