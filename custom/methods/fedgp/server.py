"""FedGP without the graph network at the server: the last layer is the mean of the sites' class centroids."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import torch

from ...aggregation.weighting import LayerWeights
from ...interface.views import Round
from ...networks.described import described_network
from ...records.round_records import RoundRecord
from ..fedavg.server import FedAvgServer
from ..fedhac.class_means import Prototypes, averaged_prototypes, median_prototypes, rows_of
from .centroid_head import find_head
from .centroids import as_head
from .outbound import CENTROIDS
from .settings import FedGPSettings

# Goes to all sites: the classes of which the last layer has a centroid.
KNOWN_CLASSES = "fedannot_known_classes"


class FedGPState(TypedDict):
    """What is kept over a restart; the centroids themselves are in the model."""

    known_classes: list[int]


class FedGPServer(FedAvgServer):
    """Models are averaged, at equal weights by default; their last layer is the mean of the sites' centroids.

    Each site's are normalised before that, so that none counts more by long features. With a robust rule of aggregation
    it is the median of each number. The last layer that sites return is not read: they do not train it. A class that no
    site may send keeps its row. The layer's bias is 0.
    """

    settings: FedGPSettings

    def __init__(self, settings: FedGPSettings) -> None:
        super().__init__(settings)
        self._known: set[int] = set()
        self._head = ""
        self._asked: tuple[str, ...] = ()

    def before_round(self, this_round: Round) -> None:
        """Find the network's last layer, before any site trains.

        Raises:
            ComponentError: if it has none that centroids can be.
        """
        del this_round
        self._find_head()

    def _find_head(self) -> str:
        if not self._head:
            with torch.random.fork_rng(devices=[]):
                self._head = find_head(described_network(self.settings.network), self.settings.network)
        return self._head

    def stage(self, this_round: Round) -> str:
        """Return ``warm-up`` or ``cleaned labels``."""
        return "warm-up" if this_round.number <= self.settings.warmup_rounds else "cleaned labels"

    def sites_to_train(self, this_round: Round, sites: Sequence[str]) -> Sequence[str]:
        """Return all sites, and take note of them."""
        del this_round
        self._asked = tuple(sites)
        return sites

    def weights(self, this_round: Round) -> LayerWeights | None:
        """Return equal weights of the sites that train, or None for numbers of samples."""
        if self.settings.weighting == "quantity":
            return None
        equal = dict.fromkeys(self._asked, 1 / len(self._asked))
        return LayerWeights.same_in_all_blocks(equal, this_round.blocks)

    def message(self, this_round: Round) -> Mapping[str, object]:
        """Return the classes of which the last layer has a centroid."""
        del this_round
        return {KNOWN_CLASSES: sorted(self._known)}

    def combine(self, this_round: Round) -> Mapping[str, torch.Tensor]:
        """Return the average with the mean of the sites' centroids as its last layer."""
        head = self._find_head()
        before = this_round.params[f"{head}.weight"]
        sent: dict[str, Prototypes] = {}
        for site, report in sorted(this_round.reports.items()):
            if not report.has(CENTROIDS):
                continue
            try:
                sent[site] = [_as_row(row) for row in rows_of(report.extra[CENTROIDS], *before.shape)]
            except ValueError as error:
                this_round.warning(f"The centroids of {site} are not used: {error}")
        layer = before.clone()
        for label, row in enumerate(self._centroids(this_round, sent, before.tolist()) if sent else ()):
            if row is not None:
                layer[label] = torch.tensor(row, dtype=torch.float64).to(layer)
                self._known.add(label)
        if unknown := sorted(set(range(len(layer))) - self._known):
            this_round.warning(
                f"No site has sent a centroid of the classes {[label + 1 for label in unknown]} so far: the global "
                "model cannot tell them. A site sends none of fewer than three patients, and none where its update is "
                "private."
            )
        result = {**this_round.average, f"{head}.weight": layer}
        if (bias := this_round.average.get(f"{head}.bias")) is not None:
            result[f"{head}.bias"] = torch.zeros_like(bias)
        return result

    def _centroids(
        self, this_round: Round, sent: Mapping[str, Prototypes], before: Sequence[Sequence[float]]
    ) -> Prototypes:
        """The mean of each class over the sites that sent it, with a robust rule the median of each number."""
        if not self.settings.aggregation.is_robust:
            assert this_round.weighed is not None
            ratio = self.settings.influence.max_update_ratio
            return averaged_prototypes(sent, this_round.weighed, before, ratio)
        return median_prototypes(sent, len(before))

    def state(self) -> FedGPState:
        """Return the classes that have a centroid."""
        return {"known_classes": sorted(self._known)}

    def restore(self, state: Mapping[str, Any], history: Sequence[RoundRecord]) -> None:
        """Take them back."""
        del history
        self._known = set(state.get("known_classes", ()))

    def describe(self, this_round: Round) -> FedGPState:
        """Return the classes that have a centroid, from 0."""
        del this_round
        return self.state()


def _as_row(centroid: list[float] | None) -> list[float] | None:
    """A site's centroid as a row of the last layer."""
    return None if centroid is None else as_head(torch.tensor([centroid], dtype=torch.float64))[0].tolist()
