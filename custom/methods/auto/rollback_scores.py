"""The rollback check of `auto` at a site: by how much one model scores better than another on patients not learnt."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from torch import nn

from ...annotation_bias.bootstrap import bootstrap_interval
from ...annotation_bias.estimate import Estimate
from ...data.datalist import VALIDATION
from ...data.json_record import JsonRecord, read_record, write_record
from ...data.site_data import SiteData, count_cases
from ...evaluation.inference import Inference
from ...evaluation.segmentation_scores import score_case
from ...interface.views import SiteView
from ...outbound.fields import MINIMUM_CASES
from ...seeding import derive_seed

_SCORES_FILE = "rollback_scores.json"

REVIEWED, HELD_OUT = "reviewed", "held_out"


class RollbackScores(JsonRecord):
    """Scores of a model, kept until the other one comes; they stay at the site.

    Args:
        round_number: the round in which it came.
        dice: by ``reviewed`` and ``held_out``, and by patient.
    """

    round_number: int
    dice: dict[str, dict[str, float]]


def held_out_patients(units: tuple[str, ...], share: float, site: SiteView) -> frozenset[str]:
    """Return the patients that a site keeps out of its training, so that models can be scored on them.

    None where the site has validation cases, or too few patients: what is held out and what is left are each at least
    the minimum count.

    Args:
        units: of the training samples.
        share: of the patients, 0 for none.
        site: the site in this task.
    """
    names = sorted(set(units))
    count = max(MINIMUM_CASES, round(share * len(names)))
    if share == 0 or len(names) - count < MINIMUM_CASES or count_cases(site.locate().folder, VALIDATION):
        return frozenset()
    order = np.random.default_rng(derive_seed(site.seed, site.name, "held out")).permutation(len(names))
    return frozenset(names[index] for index in order[:count])


def only(data: SiteData, units: frozenset[str], *, inside: bool) -> SiteData:
    """Return the cases of some patients, or of all others; the same object where none are named."""
    if not units:
        return replace(data, cases=()) if inside else data
    return replace(data, cases=tuple(case for case in data.cases if (case.unit in units) == inside))


def patient_dice(network: nn.Module, data: SiteData, num_classes: int, inference: Inference) -> dict[str, float]:
    """Return every patient's mean Dice over cases and annotated classes; patients without any are left out.

    Args:
        network: the model.
        data: the cases.
        num_classes: number of foreground classes C.
        inference: how the model is run.
    """
    result: dict[str, list[float]] = {}
    for case, predicted in zip(data.cases, inference.predictions(network, data.cases), strict=True):
        scores = [item for item in score_case(case, predicted, num_classes).dice if np.isfinite(item)]
        result.setdefault(case.unit, []).extend(scores)
    return {unit: float(np.mean(scores)) for unit, scores in sorted(result.items()) if scores}


def paired_gain(before: Mapping[str, float], after: Mapping[str, float], *, seed: int) -> Estimate:
    """Return the mean difference of scores of the same patients, with its interval over them.

    Args:
        before: of one model, by patient.
        after: of the other.
        seed: decides the interval.
    """
    units = sorted(set(before) & set(after))
    if not units:
        return Estimate.unknown()
    gains = np.array([after[unit] - before[unit] for unit in units])
    interval = bootstrap_interval(units, lambda chosen: float(gains[chosen].mean()), seed=seed)
    return Estimate.of_interval(len(units), interval)


def keep_scores(run_folder: Path, round_number: int, dice: Mapping[str, Mapping[str, float]]) -> None:
    """Keep the scores of a model in place of those that were kept before."""
    kept = RollbackScores(round_number=round_number, dice={name: dict(of) for name, of in dice.items()})
    write_record(run_folder / _SCORES_FILE, kept)


def kept_scores(folders: Iterable[Path], round_number: int) -> dict[str, dict[str, float]]:
    """Return the scores that were kept in a round, of the first folder that has them; empty where none has."""
    for folder in folders:
        kept = read_record(folder / _SCORES_FILE, RollbackScores)
        if kept is not None and kept.round_number == round_number:
            return kept.dice
    return {}
