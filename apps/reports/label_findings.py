"""How right a method was that doubts class labels, against the true ones that generated data keep, and what became of
rare classes.
"""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...custom.data.datalist import TRAINING, read_datalist
from ...custom.data.description import read_site_description
from ...custom.data.federation import read_federation
from ...custom.data.label_suspicions import SELECTION_FILE
from ...custom.run.summary import LAST_ROUNDS
from ...transforms.strict_files import parse_json


def selection_scores(run: Path, sites: Sequence[str], round_number: int | None = None) -> dict[str, Any] | None:
    """Return for each site what its doubts of a round were worth, None for a run or a round without any.

    Args:
        run: the run's output folder, which holds the sites' workspaces.
        sites: their names.
        round_number: which round's; by default the last.

    Returns:
        By site ``num_samples``, ``suspects``, ``wrong`` and ``wrong_suspects`` labels, ``noise_level`` and
        ``true_noise_level``, ``pseudo`` and ``right_pseudo`` labels; only sites whose true labels are known.
    """
    scores = {}
    for site in sites:
        records = [record for file in run.glob(f"run/{site}/**/{SELECTION_FILE}") for record in _read(file)]
        known = [record for record in records if "num_wrong" in record and round_number in (None, int(record["round"]))]
        if known:
            # A round that was done once more after a restart is there twice.
            last = max(reversed(known), key=lambda record: int(record["round"]))
            scores[site] = {
                "num_samples": last["num_samples"],
                "suspects": last["num_suspects"],
                "wrong": last["num_wrong"],
                "wrong_suspects": last["num_wrong_suspects"],
                "noise_level": last["noise_level"],
                "true_noise_level": last["num_wrong"] / last["num_samples"],
                "pseudo": last["num_pseudo"],
                "right_pseudo": last["num_right_pseudo"],
            }
    return scores or None


def pooled_selection(sites: Mapping[str, Mapping[str, Any]]) -> dict[str, float | None]:
    """Return precision and recall of the suspects of all sites together, the mean absolute error of the noise levels,
    and the share of the pseudo-labels that are right.
    """
    suspects, wrong, found, pseudo, right = (
        sum(site[key] for site in sites.values())
        for key in ("suspects", "wrong", "wrong_suspects", "pseudo", "right_pseudo")
    )
    errors = [abs(site["noise_level"] - site["true_noise_level"]) for site in sites.values()]
    return {
        "precision": found / suspects if suspects else None,
        "recall": found / wrong if wrong else None,
        "noise_level_error": sum(errors) / len(errors),
        "right_pseudo": right / pseudo if pseudo else None,
    }


def rare_classes(federation: Path) -> list[int]:
    """Return the rarer half of a federation's classes by all sites' training labels, the true ones where they are kept.

    Raises:
        DataError: if a file of the federation cannot be read.
    """
    labels: Counter[Any] = Counter()
    num_classes = 0
    for site in read_federation(federation).sites:
        description = read_site_description(federation / site)
        num_classes = len(description.classes)
        cases = read_datalist(federation / site / description.datalist).section(TRAINING)
        labels.update(case.label if case.clean_label is None else case.clean_label for case in cases)
    by_frequency = sorted(range(num_classes), key=lambda label: (labels[label], label))
    return sorted(by_frequency[: num_classes // 2])


def rare_class_recall(rounds: Sequence[Mapping[str, Any]], rare: Sequence[int]) -> float | None:
    """Return the mean recall of classes over the last five rounds, as far as they were scored; None where none was, or
    no case is of any of the classes.

    Args:
        rounds: of a summary, with ``recall_per_class``.
        rare: the classes.
    """
    scored = [record["recall_per_class"] for record in rounds[-LAST_ROUNDS:] if record["recall_per_class"] is not None]
    known = [recalls[label] for recalls in scored for label in rare if recalls[label] is not None]
    return statistics.fmean(known) if known else None


def _read(file: Path) -> list[dict[str, Any]]:
    return [parse_json(line, str(file)) for line in file.read_text(encoding="utf-8").splitlines()]
