"""How right a method was that doubts class labels, against the true ones that generated data keep, and what became of
rare classes.
"""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...custom.data.datalist import TRAINING, read_datalist
from ...custom.data.description import read_site_description
from ...custom.data.federation import read_federation
from ...custom.methods.fedgsca.records import SELECTION_FILE, DetectionRecord
from ...custom.records.round_records import Record
from ...custom.run.summary_record import ClassificationRoundSummary
from ...transforms.errors import DataError, describe_validation_error
from ...transforms.strict_files import parse_json
from .annotation_findings import PrecisionAndRecall


class SelectionScores(Record):
    """What a site's doubts of a round were worth; numbers of labels.

    Attributes:
        num_samples: of the site.
        suspects: doubted.
        wrong: wrong.
        wrong_suspects: both.
        noise_level: share that the site doubts.
        true_noise_level: share that is wrong.
        pseudo: pseudo-labels.
        right_pseudo: those of them that are right.
    """

    num_samples: int
    suspects: int
    wrong: int
    wrong_suspects: int
    noise_level: float
    true_noise_level: float
    pseudo: int
    right_pseudo: int


class PooledSelection(PrecisionAndRecall):
    """How right the doubts of all sites were together.

    Attributes:
        noise_level_error: mean absolute error of the noise levels.
        right_pseudo: fraction of the pseudo-labels that are right; None without any.
    """

    noise_level_error: float
    right_pseudo: float | None


def selection_scores(
    run: Path, sites: Sequence[str], round_number: int | None = None
) -> dict[str, SelectionScores] | None:
    """Return for each site what its doubts of a round were worth, None for a run or a round without any.

    Args:
        run: the run's output folder, which holds the sites' workspaces.
        sites: their names.
        round_number: which round's; by default the last.

    Returns:
        By site; only sites whose true labels are known.
    """
    scores = {}
    for site in sites:
        records = [record for file in run.glob(f"run/{site}/**/{SELECTION_FILE}") for record in _read(file)]
        known = [item for item in records if item.num_wrong is not None and round_number in (None, item.round)]
        if known:
            # A round that was done once more after a restart is there twice.
            last = max(reversed(known), key=lambda one: one.round)
            wrong = last.num_wrong or 0
            scores[site] = SelectionScores(
                num_samples=last.num_samples,
                suspects=last.num_suspects,
                wrong=wrong,
                wrong_suspects=last.num_wrong_suspects or 0,
                noise_level=last.noise_level,
                true_noise_level=wrong / last.num_samples,
                pseudo=last.num_pseudo,
                right_pseudo=last.num_right_pseudo or 0,
            )
    return scores or None


def pooled_selection(sites: Mapping[str, SelectionScores]) -> PooledSelection:
    """Return precision and recall of the suspects of all sites together, the mean absolute error of the noise levels,
    and the fraction of the pseudo-labels that are right.
    """
    suspects, wrong, result, pseudo, right = (
        sum(counts)
        for counts in zip(
            *(
                (item.suspects, item.wrong, item.wrong_suspects, item.pseudo, item.right_pseudo)
                for item in sites.values()
            ),
            strict=True,
        )
    )
    errors = [abs(site.noise_level - site.true_noise_level) for site in sites.values()]
    return PooledSelection(
        precision=result / suspects if suspects else None,
        recall=result / wrong if wrong else None,
        noise_level_error=sum(errors) / len(errors),
        right_pseudo=right / pseudo if pseudo else None,
    )


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


def rare_class_recall(rounds: Sequence[ClassificationRoundSummary], rare: Sequence[int]) -> float | None:
    """Return the mean recall of classes over rounds, as far as they were scored; None where none was, or no
    case is of any of the classes.

    Args:
        rounds: those of a summary that count.
        rare: the classes.
    """
    scored = [record.recall_per_class for record in rounds if record.recall_per_class is not None]
    known = [recall for recalls in scored for label in rare if (recall := recalls[label]) is not None]
    return statistics.fmean(known) if known else None


def _read(file: Path) -> list[DetectionRecord]:
    """The records of a site's file.

    Raises:
        DataError: if a line is none.
    """
    lines = file.read_text(encoding="utf-8").splitlines()
    try:
        return [DetectionRecord.model_validate(parse_json(line, str(file))) for line in lines]
    except ValidationError as error:
        raise DataError(describe_validation_error(error, source=str(file), model=DetectionRecord)) from error
