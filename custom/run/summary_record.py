"""The summary of a run as a record, the content of ``summary.json``."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from ..evaluation.local_scores import LocalScores
from ..evaluation.score_records import (
    ClassificationDetails,
    ClassificationMeans,
    ClassificationRoundScores,
    LastClassificationScores,
    MeanScores,
    SegmentationDetails,
    SegmentationMeans,
    SegmentationRoundScores,
)
from ..records.round_records import Bounded, Dominant, OpenRecord, Record, Refusal, SiteReport, Stage
from ..settings import FinalModelKind, ScoredRoundsKind
from .convergence import ScoreTrend
from .versions import SourceCommit

# Of the summary; version 1 held sentences where this one holds codes and numbers, and is read as well.
SUMMARY_VERSION = 2

# In the file of a run that goes on, in place of the fields that grow with its rounds: up to where the metrics file
# next to it has them.
UNFINISHED = "unfinished"

# Rounds that count where the settings do not say which ones do.
LAST_ROUNDS = 5


class BoundedInRound(Bounded):
    """What was bounded of a site's influence in a round."""

    round: int
    site: str


class DominantInRound(Dominant):
    """A site that nearly decided alone in a round."""

    round: int


class RoundSummary(MeanScores, Record):
    """What the summary keeps of a round; see :class:`fedannot.custom.records.round_records.RoundRecord`."""

    round: int
    stage: Stage
    seconds: float
    effective_sites: float | None = None
    weights: dict[str, float] | None = None
    stability: float | None = None


class SegmentationRoundSummary(SegmentationDetails, RoundSummary):
    """What the summary keeps of a round of a segmentation."""


class ClassificationRoundSummary(ClassificationDetails, RoundSummary):
    """What the summary keeps of a round of a classification."""


class OwnCases(LocalScores):
    """What models score on a site's own validation cases.

    Attributes:
        round: after which the site stored its model.
    """

    round: int


class FinalModel(Record):
    """The model that is a run's result.

    Attributes:
        kind: how it was chosen.
        rounds: after which its parameters were taken; several where it is their mean.
        validation_score: its Dice or macro F1 on the sites' validation cases, where these chose it.
        stopped_early: whether the run ended because validations no longer improved.
    """

    kind: FinalModelKind
    rounds: tuple[int, ...]
    validation_score: float | None = None
    stopped_early: bool | None = None


class ScoredRounds(Record):
    """The rounds whose scores are reported, where the settings say which ones are.

    Attributes:
        kind: the setting ``scored_rounds``.
        rounds: their numbers.
    """

    kind: ScoredRoundsKind
    rounds: tuple[int, ...]


class Summary(OpenRecord):
    """What a person or a program wants to know of a run.

    Attributes:
        version: of the record's form, as the file has it; 2 is written.
        task: what was learnt.
        method: how.
        seed: of everything random.
        rounds_finished: number of the last finished round.
        sites: each site's latest report.
        preparations: how each site prepares images, as numbers; see :mod:`fedannot.custom.data.description_values`. A
            site of an earlier version says nothing of it.
        rounds: the finished rounds; of a swarm those that sites have averaged whose files are there.
        last_rounds: mean scores of the rounds that count, by default the last five.
        last_round: scores of the last round.
        final_model: which model is the result; None in summaries of earlier versions, where it is the last one, and of
            a swarm.
        final_scores: scores of that model, where it is another than the last one and was scored.
        scored_rounds: which rounds count, where the settings say it.
        score_trend: how the score changes at the run's end; None with too few scores.
        refusals: every result that did not count.
        bounded: every bound that was met.
        dominant: the rounds in which one site nearly decided alone.
        seconds: that all rounds took.
        settings: the job's; :func:`fedannot.custom.methods.lookup.read_job_settings` reads them.
        absent: sites that the job names and that were not there when it started.
        server_threads: that the server computed with.
        versions: of the packages that decide the run's bits, by name, where the summary was written.
        source: the commit that fedannot ran from there; None where it did not run from a repository.
        processor: name of the GPU or processor that computed a run in one process, at its end.
        data: folder of the data, as above.
        wall_seconds: from the job folder to the output folder, as above.
        cpu_seconds: that this took of all cores together; None of a run that was resumed, or of an earlier version.
        peak_memory_mb: as above.
        estimated_memory_mb: as above, of a step of training; only of a network in MONAI's form.
        planned: dotted names of the settings that a plan chose; None without a plan.
        own_cases: what models score at the sites, of a run of which no server has a summary.
    """

    version: Literal[1, 2]
    task: str
    method: str
    seed: int
    rounds_finished: int
    sites: dict[str, SiteReport]
    rounds: tuple[RoundSummary, ...]
    last_rounds: MeanScores
    last_round: MeanScores
    final_model: FinalModel | None = None
    final_scores: MeanScores | None = None
    scored_rounds: ScoredRounds | None = None
    score_trend: ScoreTrend | None = None
    refusals: tuple[Refusal, ...]
    bounded: tuple[BoundedInRound, ...]
    dominant: tuple[DominantInRound, ...] = ()
    seconds: float = 0.0
    settings: dict[str, JsonValue]
    preparations: dict[str, tuple[float | None, ...]] | None = None
    absent: tuple[str, ...] = ()
    server_threads: int | None = None
    versions: dict[str, str] | None = None
    source: SourceCommit | None = None
    processor: str | None = None
    data: str | None = None
    wall_seconds: float | None = None
    cpu_seconds: float | None = None
    peak_memory_mb: float | None = None
    estimated_memory_mb: float | None = None
    planned: tuple[str, ...] | None = None
    own_cases: dict[str, OwnCases] | None = None

    @property
    def main_score(self) -> float | None:
        """Dice or macro F1: how good the run's model is."""
        return self.result_scores.main_score

    @property
    def result_scores(self) -> MeanScores:
        """The scores that say how good the run's model is.

        They are those of the rounds that the settings name; else those of the final model where it was chosen. Of the
        last model they are the means over the last rounds, since single rounds fluctuate.
        """
        if self.scored_rounds is not None or self.final_scores is None:
            return self.last_rounds
        return self.final_scores

    @property
    def num_last_rounds(self) -> int:
        """How many rounds the means are of where the settings name none: five, or all of a shorter run."""
        return min(LAST_ROUNDS, self.rounds_finished)

    @property
    def counted_rounds(self) -> tuple[RoundSummary, ...]:
        """The rounds of which :attr:`last_rounds` has the means."""
        if self.scored_rounds is None:
            return self.rounds[-LAST_ROUNDS:]
        return tuple(record for record in self.rounds if record.round in self.scored_rounds.rounds)

    @property
    def unscored_classes(self) -> tuple[str, ...]:
        """Names of the classes without a score in the last round, or of the final model, which means leave out."""
        last = self.final_scores or (self.rounds[-1] if self.rounds else None)
        return last.unscored_classes or () if isinstance(last, SegmentationDetails | ClassificationDetails) else ()

    @property
    def data_folder(self) -> Path | None:
        """Folder of the run's data, where the summary says it."""
        return Path(self.data) if self.data else None


class SegmentationSummary(Summary):
    """The summary of a run that learnt to segment."""

    task: Literal["segmentation"]
    rounds: tuple[SegmentationRoundSummary, ...]
    last_rounds: SegmentationMeans
    last_round: SegmentationMeans
    final_scores: SegmentationRoundScores | None = None


class ClassificationSummary(Summary):
    """The summary of a run that learnt to classify."""

    task: Literal["classification"]
    rounds: tuple[ClassificationRoundSummary, ...]
    last_rounds: ClassificationMeans
    last_round: LastClassificationScores
    final_scores: ClassificationRoundScores | None = None


AnySummary = Annotated[SegmentationSummary | ClassificationSummary, Field(discriminator="task")]
SUMMARIES: dict[str, type[Summary]] = {"segmentation": SegmentationSummary, "classification": ClassificationSummary}
# Of both, what a round's is.
ROUND_SUMMARIES: dict[str, type[RoundSummary]] = {
    "segmentation": SegmentationRoundSummary,
    "classification": ClassificationRoundSummary,
}
