"""The figures of a benchmark's rows, as records, and the files that hold them."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from fedannot.apps.reports.annotation_findings import CompletenessErrors, CorrectionScores
from fedannot.apps.reports.centre_scores import CentreScores
from fedannot.apps.reports.compared_runs import ComparedRun, Comparison, PairedArm
from fedannot.apps.reports.label_findings import SelectionScores
from fedannot.apps.reports.output import scoring_of
from fedannot.custom.records.round_records import Record
from fedannot.transforms.errors import DataError, describe_validation_error
from fedannot.transforms.strict_files import read_json


class ArmFigures(Record):
    """What is reported of an arm, a figure per seed; see :class:`fedannot.apps.reports.compared_runs.ComparedRun`.

    Attributes:
        arm: its name.
        dice: in percent, of a segmentation.
        f1: macro F1 in percent, of a classification.
        differences: to the reference, in points; None for the reference.
        p_value: of the paired t-test.
        stability: of every round.
        effective_sites: how many sites the weights are of in effect, in the round in which they are fewest; None where
            they are as many in all rounds.
    """

    arm: str
    dice: tuple[float, ...] = ()
    f1: tuple[float, ...] = ()
    left_empty: tuple[float | None, ...] = ()
    differences: tuple[float, ...] | None
    p_value: float | None
    groups: tuple[str, ...]
    groups_as_drawn: tuple[bool | None, ...]
    completeness: tuple[CompletenessErrors | None, ...] = ()
    corrections: tuple[dict[str, CorrectionScores] | None, ...] = ()
    selection: tuple[dict[str, SelectionScores] | None, ...] = ()
    rare_recall: tuple[float | None, ...] = ()
    stability: tuple[tuple[float | None, ...], ...] = ()
    centres: tuple[CentreScores | None, ...] = ()
    effective_sites: tuple[float | None, ...] = ()
    seconds: tuple[float, ...]

    @property
    def scores(self) -> tuple[float, ...]:
        """Dice or macro F1 in percent."""
        return self.dice or self.f1


class RowFigures(Record):
    """What is reported of a row: the data, the seeds and the arms."""

    row: str
    what: str
    seeds: tuple[int, ...]
    arms: tuple[ArmFigures, ...]


def row_figures(name: str, what: str, comparison: Comparison) -> RowFigures:
    """Return what is reported of a comparison, in points of Dice or macro F1: every arm's figures, paired by seed."""
    paired = {pair.arm: pair for pair in comparison.paired}
    arms = tuple(_arm_figures(arm, comparison.of_arm(arm), paired.get(arm)) for arm in comparison.arms)
    return RowFigures(row=name, what=what, seeds=comparison.seeds, arms=arms)


def _arm_figures(arm: str, runs: Sequence[ComparedRun], pair: PairedArm | None) -> ArmFigures:
    # A comparison has no run without a score.
    scores = [100 * (run.main_score or 0.0) for run in runs]
    return ArmFigures.model_validate(
        {
            "arm": arm,
            scoring_of(runs[0]).names[0]: scores,
            "left_empty": [getattr(run.last_rounds, "left_empty", None) for run in runs],
            "differences": None if pair is None else [100 * value for value in pair.differences],
            "p_value": None if pair is None else pair.p_value,
            "groups": [run.groups for run in runs],
            "groups_as_drawn": [run.groups_as_drawn for run in runs],
            "completeness": [run.completeness for run in runs],
            "corrections": [run.corrections for run in runs],
            "selection": [run.selection for run in runs],
            "rare_recall": [run.rare_recall for run in runs],
            "stability": [[record.stability for record in run.rounds] for run in runs],
            "centres": [run.centres for run in runs],
            "effective_sites": [_fewest_sites(run) for run in runs],
            "seconds": [run.seconds for run in runs],
        }
    )


def _fewest_sites(run: ComparedRun) -> float | None:
    counts = [record.effective_sites for record in run.rounds if record.effective_sites is not None]
    return min(counts) if len({round(count, 6) for count in counts}) > 1 else None


def read_table(file: Path) -> list[RowFigures]:
    """Read the rows of a table, none where there is no file.

    Raises:
        DataError: if the file is no such table.
    """
    if not file.is_file():
        return []
    result = read_json(file, "the rows of a table")
    try:
        return TypeAdapter(list[RowFigures]).validate_python(result)
    except ValidationError as error:
        raise DataError(describe_validation_error(error, source=str(file), model=RowFigures)) from error
