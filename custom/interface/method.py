"""The two faces of a method: what it does at the server, and what it does at a site. No NVFlare."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import nn

from ..aggregation.weighting import LayerWeights
from ..corrections.targets import Targets, active_targets
from ..data.datalist import TRAINING
from ..records.round_records import RoundRecord
from ..settings import RunSettings
from .views import Answer, Round, SiteView, Trained, WeightsRule


class ServerMethod:
    """What a method does at the server; what it does not override is federated averaging.

    Weights are known before a round (:meth:`weights`), or follow from what sites report with their models, or from
    these models (:meth:`weights_rule`). The round's model is their average, or what the method makes of it
    (:meth:`combine`). Whatever a method remembers goes through :meth:`state`.

    Args:
        settings: the job's settings.

    Attributes:
        site_scalars: numbers of sites' training reports that are plotted over the rounds.
        round_scalars: numbers of :meth:`record` that are plotted over the rounds.

    Example:
        >>> from fedannot.custom import FedAvgSettings
        >>> class EqualSites(ServerMethod):
        ...     def weights(self, this_round):
        ...         shares = dict.fromkeys(this_round.num_samples, 1 / len(this_round.num_samples))
        ...         return LayerWeights.same_in_all_blocks(shares, this_round.blocks)
        >>> EqualSites(FedAvgSettings()).stage(None)
        'federated averaging'
    """

    site_scalars: ClassVar[tuple[str, ...]] = ("train_loss", "dice_loss")
    round_scalars: ClassVar[tuple[str, ...]] = ()

    def __init__(self, settings: RunSettings) -> None:
        self.settings = settings

    @property
    def rounds_of_averaging(self) -> int:
        """Number of rounds at the start in which the method is federated averaging, and may continue a run of it."""
        return 0

    @property
    def is_scored_at_server(self) -> bool:
        """Whether the global model is what a test set at the server can score; else the sites are asked."""
        return True

    @property
    def measures_drifts(self) -> bool:
        """Whether :attr:`Round.drifts` are needed."""
        return False

    @property
    def needs_models(self) -> bool:
        """Whether :meth:`combine` needs :attr:`Round.models`; these then wait on disk."""
        return False

    def stage(self, this_round: Round) -> str:
        """Return the name of the stage that a round belongs to."""
        del this_round
        return "federated averaging"

    def restarts(self, this_round: Round) -> bool:
        """Whether a round's sites train from the start weights again; what comes before it has the last model."""
        del this_round
        return False

    def before_round(self, this_round: Round) -> None:
        """Do what comes before a round's training, e.g. an estimate at the sites."""

    def message(self, this_round: Round) -> Mapping[str, object]:
        """Return what goes to the sites with every task and model, as plain values.

        Every site can read it, so it names no site; what concerns one site is in :meth:`own_messages`.
        """
        del this_round
        return {}

    def own_messages(self, this_round: Round) -> Mapping[str, Mapping[str, object]]:
        """Return by site what goes to this site alone with a round's training, as plain values."""
        del this_round
        return {}

    def weights(self, this_round: Round) -> LayerWeights | None:
        """Return the round's (site × block) weights; None for the numbers of samples that sites report."""
        del this_round
        return None

    def weights_rule(self, this_round: Round) -> WeightsRule | None:
        """Return what makes the round's weights when all sites have reported; None where they are known before.

        Models then wait on disk. The rule finds the reports in :attr:`Round.reports`, and may look at the models.
        """
        del this_round
        return None

    def sites_to_train(self, this_round: Round, sites: Sequence[str]) -> Collection[str]:
        """Return which sites train in a round, by default all that are there.

        Args:
            this_round: the round.
            sites: the names of the sites that are there, sorted.
        """
        del this_round
        return sites

    def combine(self, this_round: Round) -> Mapping[str, torch.Tensor]:
        """Return the model of the round, a state dict like the global one, by default the average.

        It is called once in every round that counts, before :meth:`after_training`. It finds the global model that the
        sites began with in :attr:`Round.params`, and :attr:`Round.average`, :attr:`Round.weighed`,
        :attr:`Round.reports`. With :attr:`needs_models` it may read :attr:`Round.models`, too. What follows from the
        order of these sites, which is sorted, does not follow from the order of arrival.

        Example:
            >>> import torch
            >>> from fedannot.custom import FedAvgServer, FedAvgSettings
            >>> class HalfSteps(FedAvgServer):
            ...     def combine(self, this_round):
            ...         before, average = this_round.params, this_round.average
            ...         return {**average, **{n: torch.lerp(before[n], average[n], 0.5) for n in this_round.trained}}
            >>> HalfSteps(FedAvgSettings()).needs_models
            False
        """
        return this_round.average

    def second_average_without(self, this_round: Round) -> Collection[str] | None:
        """Return the sites that are left out of a second average of the round's models, by numbers of samples.

        It changes nothing of the round, and is :attr:`Round.second_average` after its training. None for none.
        """
        del this_round
        return None

    def after_training(self, this_round: Round) -> None:
        """Take note of what sites reported with the models that make up this round's."""

    def after_rounds(self, this_round: Round) -> bool:
        """Do what comes after the last round, with the final model; return whether :meth:`describe` says more now."""
        del this_round
        return False

    def record(self, this_round: Round) -> Mapping[str, object]:
        """Return what the method adds to the record of the round that was trained: plain values under new names."""
        del this_round
        return {}

    def state(self) -> Mapping[str, object]:
        """Return what the method must remember across a restart, as plain values."""
        return {}

    def restore(self, state: Mapping[str, Any], history: Sequence[RoundRecord]) -> None:
        """Take back what :meth:`state` returned, with the records of the finished rounds."""

    def describe(self, this_round: Round) -> Mapping[str, object]:
        """Return what the method adds to the run's summary: plain values under new names."""
        del this_round
        return {}


class SiteMethod:
    """What a method does at a site; :class:`fedannot.custom.methods.fedavg.site.FedAvgSite` is what others begin with.

    A new one may be made for every task, so that what is to stay lies in the run's folder.

    Args:
        settings: the job's settings.

    Example:
        >>> from fedannot.custom import FedAvgSettings, FedAvgSite
        >>> isinstance(FedAvgSite(FedAvgSettings()), SiteMethod)
        True
    """

    def __init__(self, settings: RunSettings) -> None:
        self.settings = settings

    def before_task(self, site: SiteView) -> None:
        """Do what comes before any task, e.g. take over what was kept in the run that is continued."""

    def targets(self, site: SiteView) -> Targets:
        """Return what counts of the site's labels in the round's training; by default what its corrections say.

        It is the one place that decides so. Where new files take the place of given annotations, the site's cases are
        loaded with them.
        """
        stored = site.corrections.latest()
        return active_targets(stored, site.load(TRAINING), site.locate().folder)

    def train(self, network: nn.Module, site: SiteView) -> Trained:
        """Train the received network in place on the site's data.

        Args:
            network: the network with the received weights, where it computes.
            site: the site in this task.

        Raises:
            TrainingStopped: if the run is being stopped.
        """
        raise NotImplementedError

    def training_flags(self, site: SiteView) -> Mapping[str, Any]:
        """Return the method's own fields of a training that follow neither from the model nor from the training.

        They are read before it, and leave the site if it fails, too, where updates are private. By default none.
        """
        del site
        return {}

    def answer(self, task: str, network: nn.Module, site: SiteView) -> Answer:
        """Do a task of the method's own, which its declaration names.

        Raises:
            NotImplementedError: if the method has none.
        """
        raise NotImplementedError(f"{type(self).__name__} declares no task {task!r}.")

    def model_in_use(self, network: nn.Module, site: SiteView) -> nn.Module:
        """Return the model that the site would use, given the received network after a round; by default that."""
        del site
        return network

    def after_run(self, network: nn.Module, site: SiteView) -> None:
        """Keep what is to stay of the last model, in a run without a server that says when it is over."""
