"""A round that a site of a swarm averages: whose results came, and what the site keeps of it as the round's record."""

from dataclasses import dataclass, field

from ..aggregation.weighting import LayerWeights, quantity_weights
from ..evaluation.scoring import Scoring
from ..records.round_records import ROUND_RECORDS, VERSION, RoundRecord, SiteReport
from ..refusals import RefusalReason
from .round_record import recorded_weights
from .time_left import duration, time_left

# What the rounds of a swarm are called in records, whatever the sites train in them.
SWARM_STAGE = "swarm"


@dataclass(frozen=True)
class AveragedRound:
    """The results of one round, averaged by numbers of samples.

    Attributes:
        number: the round, from 1.
        reports: what came with the models that count, by site.
        refused: why others' results do not count, by site.
    """

    number: int
    reports: dict[str, SiteReport] = field(default_factory=dict)
    refused: dict[str, RefusalReason] = field(default_factory=dict)

    @property
    def weights(self) -> LayerWeights:
        """What the sites count, at least one; the same in every layer block."""
        num_samples = {site: report.num_samples for site, report in self.reports.items()}
        return LayerWeights.same_in_all_blocks(quantity_weights(num_samples), ("all",))

    def record(self, task: str, seconds: float) -> RoundRecord:
        """Return the round's record, without scores: no server has a test set, and sites score their own cases alone.

        Args:
            task: the job's.
            seconds: that the round took.
        """
        common: dict[str, object] = {
            "version": VERSION,
            "round": self.number,
            "stage": SWARM_STAGE,
            **Scoring.of(task).unscored.model_dump(exclude_unset=True),
            "sites": dict(sorted(self.reports.items())),
            "refused": dict(sorted(self.refused.items())),
            **recorded_weights(self.weights),
            "seconds": round(seconds, 3),
        }
        return ROUND_RECORDS[task].of(common, {})

    def describe(self, rounds: int, seconds: float) -> str:
        """Say whose models were averaged, how many sites that is in effect, and how long the rest takes.

        Args:
            rounds: of the run.
            seconds: that the round took.
        """
        sites, effective = sorted(self.reports), self.weights.fewest_effective_sites
        rounds_left = rounds - self.number
        left = f", about {duration(time_left([seconds], rounds_left))} left" if rounds_left else ""
        return f"Round {self.number}/{rounds}: averaged {sites}, {effective:.1f} effective sites{left}"
