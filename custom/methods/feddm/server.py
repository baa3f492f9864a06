"""FedDM at the server: sites get the models of two others, and updates are averaged without what conflicts in them."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ...aggregation.weighting import LayerWeights
from ...interface.views import Round
from ...records.round_records import RoundRecord
from ...task_names import KEEP_PEER_MODEL
from ..fedavg.server import FedAvgServer
from .peers import peers_by_models
from .projection import projected_mean
from .settings import FedDMSettings

# Goes to one site with a peer's model: which of the two it is. Whose model it is no site learns.
PEER_ROLE = "fedannot_peer_role"
ROLES = ("nearest", "farthest")


class FedDMServer(FedAvgServer):
    """After each round every site gets the models of two other sites; the model is the mean of projected updates.

    Numbers of samples count nothing. A layer is a module with its weight and bias; the first round is the plain mean of
    the models, as is everything that is not trained. In a layer without a conflict it is the plain mean, too.
    """

    settings: FedDMSettings

    def __init__(self, settings: FedDMSettings) -> None:
        super().__init__(settings)
        self._history: dict[str, torch.Tensor] = {}
        self._asked: tuple[str, ...] = ()
        self._peers: dict[str, tuple[str, str]] = {}
        self._conflicts = 0

    @property
    def needs_models(self) -> bool:
        """Always."""
        return True

    @property
    def rounds_of_averaging(self) -> int:
        """The first round has no peers, but equal weights."""
        return 0

    def stage(self, this_round: Round) -> str:
        """Return ``first round`` or ``selected pixels``."""
        return "first round" if this_round.number == 1 else "selected pixels"

    def sites_to_train(self, this_round: Round, sites: Sequence[str]) -> Sequence[str]:
        """Return all sites, and take note of them."""
        del this_round
        self._asked = tuple(sites)
        return sites

    def weights(self, this_round: Round) -> LayerWeights:
        """Return equal weights of the sites that train."""
        equal = dict.fromkeys(self._asked, 1 / len(self._asked))
        return LayerWeights.same_in_all_blocks(equal, this_round.blocks)

    def combine(self, this_round: Round) -> Mapping[str, torch.Tensor]:
        """Return the projected mean, and send every site its peers."""
        assert this_round.models is not None
        models = {site: this_round.models.params(site) for site in this_round.models.sites}
        self._peers = {}
        if this_round.number < self.settings.rounds and len(models) > 1:
            self._peers = peers_by_models(models, self.settings)
            if without := sorted(set(models) - set(self._peers)):
                this_round.warning(
                    f"{without} get no peers: their models, or all others, say something that is not finite of random "
                    "images. Such a model is nobody's peer."
                )
            self._send_peers(this_round, models)
        return self._projected(this_round, models)

    def _send_peers(self, this_round: Round, models: Mapping[str, Mapping[str, torch.Tensor]]) -> None:
        for place, role in enumerate(ROLES):
            for peer in sorted(models):
                sites = [site for site, of_site in self._peers.items() if of_site[place] == peer]
                if not sites:
                    continue
                own_messages = {site: {PEER_ROLE: role} for site in sites}
                answers = this_round.ask(KEEP_PEER_MODEL, sites, params=models[peer], own_messages=own_messages)
                if (absent := sorted(set(sites) - set(answers))) and not this_round.is_stopped():
                    this_round.warning(f"{absent} did not take their {role} peer; they go on with an earlier one.")

    def _projected(
        self, this_round: Round, models: Mapping[str, Mapping[str, torch.Tensor]]
    ) -> Mapping[str, torch.Tensor]:
        before, average = this_round.params, this_round.average
        result, self._conflicts = dict(average), 0
        for layer, names in _layers(this_round.trained).items():
            updates = [
                _flat([params[name].double() - before[name].double() for name in names]) for params in models.values()
            ]
            mean = torch.stack(updates).mean(dim=0)
            history = self._history.get(layer)
            if history is None:
                self._history[layer] = mean
                continue
            projected = projected_mean(updates, history)
            if projected is not None:
                self._conflicts += 1
                mean = projected
                parts = torch.split(mean, [before[name].numel() for name in names])
                for name, part in zip(names, parts, strict=True):
                    result[name] = (before[name].double() + part.view_as(before[name])).to(before[name].dtype)
            momentum = self.settings.history_momentum
            self._history[layer] = momentum * history + (1 - momentum) * mean
        return result

    def record(self, this_round: Round) -> Mapping[str, object]:
        """Return in how many layers updates conflicted, and each site's nearest and farthest peer."""
        peers = {site: list(of_site) for site, of_site in sorted(self._peers.items())}
        return {**super().record(this_round), "conflicting_layers": self._conflicts, "peers": peers}

    def state(self) -> Mapping[str, object]:
        """Return the history of every layer."""
        return {"history": dict(self._history)}

    def restore(self, state: Mapping[str, Any], history: Sequence[RoundRecord]) -> None:
        """Take it back."""
        del history
        self._history = dict(state.get("history", {}))


def _layers(names: Sequence[str]) -> dict[str, list[str]]:
    """The trained entries of every module, in their order."""
    layers: dict[str, list[str]] = {}
    for name in names:
        layers.setdefault(name.rpartition(".")[0], []).append(name)
    return layers


def _flat(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat([part.flatten() for part in parts])
