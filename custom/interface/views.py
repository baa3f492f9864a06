"""What a method sees of a round at the server, and of a site in one task; and what it hands back."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from ..aggregation.influence import InfluenceBounds
from ..aggregation.weighting import LayerWeights
from ..corrections.reviews_since import reviewed_labels
from ..corrections.store import CorrectionStore
from ..data.datalist import VALIDATION
from ..data.location import DataLocation
from ..data.site_data import SiteData, count_cases
from ..data.tensor_files import load_latest_tensors
from ..outbound.private_statistics import SampleValues
from ..records.round_records import RoundRecord, SiteReport
from ..seeding import derive_seed
from ..training.loop import TrainingOutcome
from .update_floor import NO_FLOOR, UpdateFloor


class WaitingModels(Protocol):
    """The models of a round that wait, in memory or on disk."""

    @property
    def sites(self) -> Sequence[str]:
        """Whose they are, sorted."""

    def params(self, site: str) -> dict[str, torch.Tensor]:
        """Return a site's state dict."""


# From the round's models, after all sites have reported, to the weights of those sites.
WeightsRule = Callable[[WaitingModels], LayerWeights]


@dataclass
class Round:
    """A round as a method sees it at the server.

    Attributes:
        number: the round, from 1; outside a round the last finished one.
        params: the global model that the sites train from.
        blocks: the network's layer blocks in forward order.
        history: the records of finished rounds.
        num_samples: of every site that has ever trained in the run, as far as its claims count.
        bounds: on what one site can do.
        ask: sends sites a task of the method's own with the global model, or another one, and returns their answers;
            without names it asks all sites.
        info: writes a sentence to the log.
        warning: writes a warning.
        is_stopped: whether the run is being stopped, so that answers are missing.
        trained: names of the entries that are trained parameters.
        reports: what sites reported with the models of this round, once they are there.
        drifts: how far sites moved the model in this round, ‖θ_k − θ‖² over trained parameters, where it is measured.
        weighed: what the sites counted in the round's average, once it is there.
        average: what the rule and the weights made of the sites' models, while the method combines them.
        models: the models that count, as they count, while the method combines them, where it needs them.
        second_average: the second average of the round's models, where the method asked for one.
        reviewed: gives a network with the global model, or with another one, beside the server's own reviewed cases;
            None where it has none.
    """

    number: int
    params: Mapping[str, torch.Tensor]
    blocks: tuple[str, ...]
    history: Sequence[RoundRecord]
    num_samples: Mapping[str, int]
    bounds: InfluenceBounds
    ask: "Asking"
    info: Callable[[str], None]
    warning: Callable[[str], None]
    is_stopped: Callable[[], bool]
    trained: tuple[str, ...] = ()
    reports: Mapping[str, SiteReport] = field(default_factory=dict)
    drifts: Mapping[str, float] = field(default_factory=dict)
    weighed: LayerWeights | None = None
    average: Mapping[str, torch.Tensor] = field(default_factory=dict)
    models: WaitingModels | None = None
    second_average: Mapping[str, torch.Tensor] | None = None
    reviewed: "Reviewing" = field(default=lambda params=None: None)  # noqa: ARG005

    @property
    def samples_of_reports(self) -> dict[str, int]:
        """The numbers of samples of the sites whose models make up this round's."""
        return {site: report.num_samples for site, report in self.reports.items()}


class Asking(Protocol):
    """Sends sites a task, and returns what they answered by their names."""

    def __call__(
        self,
        task: str,
        sites: Collection[str] | None = None,
        params: Mapping[str, torch.Tensor] | None = None,
        own_messages: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> dict[str, dict[str, Any]]:
        """Ask the named sites, all of them without names, at the same time.

        Args:
            task: what they are asked for.
            sites: their names.
            params: the model that goes along in place of the global one.
            own_messages: by name, what goes along to one site, and no other site learns.
        """


class Reviewing(Protocol):
    """Gives the server's own reviewed cases, and a network with a model that may predict them."""

    def __call__(self, params: Mapping[str, torch.Tensor] | None = None) -> tuple[nn.Module, SiteData] | None:
        """Take the global model without another one."""


@dataclass(frozen=True)
class Trained:
    """What came of a site's training.

    Attributes:
        outcome: losses and steps.
        fields: the method's own fields that go with the model; registered ones alone leave the site.
        trained_on: the patient or volume of every sample that was trained on; None for all of the site's.
    """

    outcome: TrainingOutcome
    fields: Mapping[str, Any] = field(default_factory=dict)
    trained_on: Sequence[str] | None = None


@dataclass(frozen=True)
class Answer:
    """What a site says to a task of the method's own.

    Attributes:
        fields: what leaves the site.
        samples: what these fields are made of, for noise that hides single patients; stays at the site.
    """

    fields: Mapping[str, Any]
    samples: Mapping[str, SampleValues] = field(default_factory=dict)


@dataclass(frozen=True)
class SiteView:
    """A site as a method sees it in one task.

    Attributes:
        name: the site's name.
        seed: the job's seed.
        round_number: the round of the task.
        message: what came with the model, see :meth:`ServerMethod.message` and :meth:`ServerMethod.own_messages`.
        run_folder: the site's own folder of the run, where it keeps what a later task needs; nothing stays in memory.
        locate: where the site's data lie.
        load: returns the cases of a section with the annotations in use.
        load_given: returns the training cases with their given annotations, whatever was corrected.
        is_stopped: whether the run is being stopped.
        info: writes a sentence to the site's own log.
        warning: writes a warning to it.
        earlier_folders: where the site's part of the run that is continued may lie.
        continued_round: the round after which that run is continued; None where none is.
        floor: how many patients and samples an update must be of to leave the site.
    """

    name: str
    seed: int
    round_number: int
    message: Mapping[str, Any]
    run_folder: Path
    locate: Callable[[], DataLocation]
    load: Callable[[str], SiteData]
    load_given: Callable[[], SiteData]
    is_stopped: Callable[[], bool]
    info: Callable[[str], None]
    warning: Callable[[str], None]
    earlier_folders: Iterable[Path] = ()
    continued_round: int | None = None
    floor: UpdateFloor = NO_FLOOR

    @property
    def training_seed(self) -> int:
        """Seed of everything random in the round's training at this site."""
        return derive_seed(self.seed, self.name, self.round_number, "training")

    @property
    def corrections(self) -> CorrectionStore:
        """The site's corrections as far as they count in this task's round."""
        return CorrectionStore(self.run_folder, self.round_number, lambda: reviewed_labels(self.locate().folder))

    def validation_data(self) -> SiteData | None:
        """Return the site's validation cases, None if it has none.

        Raises:
            DataError: if they cannot be used.
        """
        return self.load(VALIDATION) if count_cases(self.locate().folder, VALIDATION) else None

    def kept_tensors(self, folder: str, last_round: int, *, mapped: bool = False) -> tuple[int, dict[str, Any]] | None:
        """Return what the site has kept after the latest round that counts, with its number; None if nothing.

        Args:
            folder: the folder in a run's folder.
            last_round: the last round that counts.
            mapped: map tensors from the disk.
        """
        continued = last_round if self.continued_round is None else min(last_round, self.continued_round)
        places = [(self.run_folder / folder, last_round)]
        earlier = [(earlier / folder, continued) for earlier in self.earlier_folders]
        return load_latest_tensors(places + earlier, mapped=mapped)
