"""What a comparison keeps of its runs, as records: the content of ``comparison.json``."""

from pathlib import Path

from pydantic import ValidationError

from ...custom.evaluation.score_records import (
    ClassificationMeans,
    LastClassificationScores,
    MeanScores,
    SegmentationMeans,
)
from ...custom.records.round_records import Record
from ...custom.run.summary_record import LAST_ROUNDS, FinalModel, ScoredRounds
from ...transforms.errors import DataError, describe_validation_error
from ...transforms.strict_files import read_json
from .annotation_findings import CompletenessErrors, CorrectionScores
from .case_statistics import CaseTest
from .centre_scores import CentreScores
from .compared_settings import ComparedSettings
from .label_findings import SelectionScores
from .output import OutputError

COMPARISON_FILE = "comparison.json"
COMPARISON_PICTURE = "comparison.png"


class ComparedRound(MeanScores, Record):
    """A round of a run."""

    round: int
    effective_sites: float | None = None
    stability: float | None = None


class SegmentationComparedRound(SegmentationMeans, ComparedRound):
    """A round of a run that learns to segment."""


class ClassificationComparedRound(ClassificationMeans, ComparedRound):
    """A round of a run that learns to classify."""


COMPARED_ROUNDS: dict[str, type[ComparedRound]] = {
    "segmentation": SegmentationComparedRound,
    "classification": ClassificationComparedRound,
}


class ComparedRun(Record):
    """A run.

    Attributes:
        arm: the arm's name.
        task: what was learnt.
        method: how.
        seed: of everything random.
        last_rounds: mean scores of the rounds that count, by default the last five.
        last_round: scores of the last round.
        final_scores: scores of the final model, where it is another than the last one.
        scored_rounds: which rounds count, where the settings say it.
        case_model: which model its results per case are of; None where there are none.
        num_sites: how many sites reported.
        rounds: the rounds.
        groups: what FedA³I concluded, in words; a dash for other methods.
        p_value: of its test of two groups against one.
        groups_as_drawn: whether its groups are those of the noise that was drawn.
        completeness: how right FedIA's estimates were.
        corrections: how right its corrections were, by site.
        selection: how right FedGSCA's doubts were, by site.
        rare_recall: mean recall of the rarer half of the classes.
        centres: Dice on generic data and on the sites' own.
        seconds: that the rounds took.
        peak_memory_mb: of the run's process.
        unscored_classes: names of the classes that its scores say nothing about.
    """

    arm: str
    task: str
    method: str
    seed: int
    last_rounds: SegmentationMeans | ClassificationMeans
    last_round: SegmentationMeans | LastClassificationScores
    final_scores: SegmentationMeans | LastClassificationScores | None = None
    scored_rounds: ScoredRounds | None = None
    case_model: FinalModel | None = None
    num_sites: int
    rounds: tuple[SegmentationComparedRound | ClassificationComparedRound, ...]
    groups: str
    p_value: float | None
    groups_as_drawn: bool | None
    completeness: CompletenessErrors | None
    corrections: dict[str, CorrectionScores] | None
    selection: dict[str, SelectionScores] | None
    rare_recall: float | None
    centres: CentreScores | None
    seconds: float
    peak_memory_mb: float | None
    unscored_classes: tuple[str, ...] | None = None

    @property
    def num_last_rounds(self) -> int:
        """How many rounds the means are of where the settings name none: five, or all of a shorter run."""
        return min(LAST_ROUNDS, len(self.rounds))

    @property
    def main_score(self) -> float | None:
        """Dice or macro F1: how good the run's model is."""
        return self.result_scores.main_score

    @property
    def result_scores(self) -> MeanScores:
        """Scores of the rounds that the settings name, else of the final model where it was chosen, else the means over
        the last rounds.
        """
        if self.scored_rounds is not None or self.final_scores is None:
            return self.last_rounds
        return self.final_scores


class PairedDifferences(Record):
    """Differences of scores, paired by seed.

    Attributes:
        differences: other - reference, of each seed.
        mean: of them.
        standard_deviation: None for one pair.
        p_value: of the paired t-test, two-sided; None for one pair or equal differences.
    """

    differences: tuple[float, ...]
    mean: float
    standard_deviation: float | None
    p_value: float | None


class PairedArm(PairedDifferences):
    """An arm compared with the reference."""

    arm: str
    reference: str


class Comparison(Record):
    """What a comparison found.

    Attributes:
        reference: the first arm.
        data: the federations' folder, with ``{seed}`` for the seed; None for the embedded phantom.
        seeds: the seeds.
        settings: what the arms have alike and what differs; None in comparisons of earlier versions.
        runs: every arm with every seed.
        paired: every arm but the first, compared with it.
        case_tests: the same over cases, of the models that the runs name; None where there are no results per case.
    """

    reference: str
    data: str | None
    seeds: tuple[int, ...]
    settings: ComparedSettings | None = None
    runs: tuple[ComparedRun, ...]
    paired: tuple[PairedArm, ...]
    case_tests: tuple[CaseTest, ...] | None = None

    @property
    def arms(self) -> list[str]:
        """The arms' names, the reference first."""
        return list(dict.fromkeys(run.arm for run in self.runs))

    def of_arm(self, arm: str) -> list[ComparedRun]:
        """Return the runs of an arm, in the order of the seeds."""
        return [run for run in self.runs if run.arm == arm]


def read_comparison(folder: Path) -> Comparison:
    """Read what a comparison found, in its output folder.

    Raises:
        OutputError: if there is none.
        DataError: if the file is none, or of another version.
    """
    file = folder / COMPARISON_FILE
    if not file.is_file():
        raise OutputError(f"Expected a comparison in {folder}, but there is no {COMPARISON_FILE}.")
    try:
        return Comparison.model_validate(read_json(file, "what a comparison found"))
    except ValidationError as error:
        raise DataError(describe_validation_error(error, source=str(file), model=Comparison)) from error
