"""ADELE at the server: the IoU of each class over the rounds, and when all sites correct it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypedDict

from ....transforms.strict_files import JsonObject
from ...interface.views import Round
from ...records.round_records import RoundRecord
from ...task_names import CORRECT_ANNOTATIONS, MEASURE_OVERLAP
from ..fedavg.server import FedAvgServer
from ..fedia.loss_trigger import forget_lost_corrections
from .iou_curve import is_to_be_corrected
from .overlap import overlaps_of, pooled_iou
from .settings import AdeleSettings

# Goes to all sites: the classes that are corrected, in their order.
CORRECTED_CLASSES = "fedannot_corrected_classes"


class AdeleState(TypedDict):
    """What is kept over a restart.

    `ious` are by class and round, `decided` classes with the round before which they were, `corrected` by site how many
    of these it has corrected.
    """

    ious: list[list[float | None]]
    decided: list[list[int]]
    corrected: dict[str, int]


class AdeleServer(FedAvgServer):
    """Federated averaging, in which every site corrects a class as soon as the fit to its given masks slows down.

    Before every round all sites count, class by class, where the model agrees with their given masks (task
    ``measure_overlap``); the start model is the first. The server follows the IoU of all sites together. When the curve
    through it has slowed down enough, the sites get the task ``correct_annotations`` with all classes decided so far,
    before the round's training. A site corrects each class once, with the model that came with the task. One that is
    absent, or has lost its corrections, is asked again; one that joins later, too.
    """

    settings: AdeleSettings
    round_scalars: ClassVar[tuple[str, ...]] = (*FedAvgServer.round_scalars, "mean_training_iou")

    def __init__(self, settings: AdeleSettings) -> None:
        super().__init__(settings)
        self.ious: list[list[float]] = [[] for _ in range(settings.network.num_classes)]
        self.decided: dict[int, int] = {}
        self._corrected: dict[str, int] = {}

    @property
    def rounds_of_averaging(self) -> int:
        """All, if neither loss nor masks are others than those of federated averaging."""
        is_averaging = not (self.settings.is_multi_scale or self.settings.correction)
        return self.settings.rounds if is_averaging else 0

    def stage(self, this_round: Round) -> str:
        """Return ``early learning``, then ``corrected`` from the first class on."""
        del this_round
        return "corrected" if self.decided else "early learning"

    def message(self, this_round: Round) -> Mapping[str, object]:
        """Return the classes that are corrected."""
        del this_round
        return {CORRECTED_CLASSES: list(self.decided)}

    def before_round(self, this_round: Round) -> None:
        """Measure the IoU, decide which classes are corrected from now on, and ask the sites to."""
        if not self.settings.correction:
            return
        if this_round.history:
            forget_lost_corrections(this_round, self._corrected)
        if len(self.decided) < len(self.ious):
            self._measure(this_round)
        self._ask_for_corrections(this_round)

    def _measure(self, this_round: Round) -> None:
        answers = this_round.ask(MEASURE_OVERLAP)
        if this_round.is_stopped():
            return
        of_sites = [overlaps for fields in answers.values() if (overlaps := overlaps_of(fields)) is not None]
        for label, ious in enumerate(self.ious, start=1):
            if label in self.decided:
                continue
            ious.append(pooled_iou([overlaps[label - 1] for overlaps in of_sites]))
            if is_to_be_corrected(ious, self.settings.slope_change):
                self.decided[label] = this_round.number
                this_round.info(f"Class {label} is corrected before round {this_round.number}: its IoU slows down.")

    def _ask_for_corrections(self, this_round: Round) -> None:
        number = len(self.decided)
        due = {site for site in this_round.num_samples if self._corrected.get(site, 0) < number}
        if not due:
            return
        for site, answer in this_round.ask(CORRECT_ANNOTATIONS, due).items():
            if answer.get("has_corrected"):
                self._corrected[site] = number

    def record(self, this_round: Round) -> Mapping[str, object]:
        """Return the IoU of each class before the round's training, and their mean; None where none is known."""
        added = dict(super().record(this_round))
        if not self.settings.correction:
            return added
        # A class that was decided on earlier is not measured any more.
        number = this_round.number
        is_measured = [self.decided.get(label, number) == number for label in range(1, len(self.ious) + 1)]
        known = [ious[-1] if ious and now else math.nan for ious, now in zip(self.ious, is_measured, strict=True)]
        shown = [value for value in known if math.isfinite(value)]
        if shown:
            added["mean_training_iou"] = sum(shown) / len(shown)
        return added | {"training_iou": [_plain(value) for value in known]}

    def state(self) -> AdeleState:
        """Return the IoU, the decisions and who has corrected, as plain values."""
        return {
            "ious": [[_plain(value) for value in ious] for ious in self.ious],
            "decided": [[label, number] for label, number in self.decided.items()],
            "corrected": dict(self._corrected),
        }

    def restore(self, state: Mapping[str, Any], history: Sequence[RoundRecord]) -> None:
        """Take them back; a run of federated averaging has none."""
        del history
        if "ious" in state:
            self.ious = [[math.nan if value is None else value for value in ious] for ious in state["ious"]]
            self.decided = dict(state["decided"])
            self._corrected = dict(state["corrected"])

    def describe(self, this_round: Round) -> JsonObject:
        """Return before which round each class was decided on, and how many classes each site has corrected."""
        del this_round
        return {
            "classes_corrected_before_round": {str(label): number for label, number in self.decided.items()},
            "corrected_classes": dict(sorted(self._corrected.items())),
        }


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
