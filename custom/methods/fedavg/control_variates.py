"""SCAFFOLD's control variates: estimates of gradients, by which a site's steps go where those of all sites would go.

Karimireddy et al., *SCAFFOLD: Stochastic Controlled Averaging for Federated Learning*, ICML 2020. The server's variate
c travels to the sites with the model. A site's variate c_k stays there: the server knows how it changes from the model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from ...interface.views import Round
from ...training.batch import Batch
from ...training.objectives import Step
from ...training.schedules import LearningRate
from .local_progress import reported_steps, scaled_mean, shares_of, summed_rates

# In what goes to all sites: whether any site's variate has counted; to one site: the last round in which its own did.
IS_CONTROLLED = "fedannot_is_controlled"
COUNTED_ROUND = "fedannot_counted_round"

_PART = "control_variates"


class ControlVariates(nn.Module):
    """The server's variate c, a buffer for each parameter in the sorted order of their names.

    As a part of a network it travels with the state dict. Sites send it back as it came.

    Args:
        network: what the buffers are like.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        for index, (_, parameter) in enumerate(sorted(network.named_parameters())):
            self.register_buffer(f"variate_{index}", torch.zeros_like(parameter, requires_grad=False))

    def values(self) -> list[torch.Tensor]:
        """Return c, in the order of the parameters' names."""
        buffers = dict(self.named_buffers())
        return [buffers[f"variate_{index}"] for index in range(len(buffers))]


def with_control_variates(network: nn.Module) -> nn.Module:
    """Give a network its :class:`ControlVariates` as a part, and return it."""
    network.add_module(_PART, ControlVariates(network))
    return network


def variates_of(network: nn.Module) -> ControlVariates:
    """Return the part of a network that carries c."""
    variates = network.get_submodule(_PART)
    assert isinstance(variates, ControlVariates)
    return variates


def sorted_parameters(network: nn.Module) -> list[nn.Parameter]:
    """Return a network's parameters in the order of their names."""
    return [parameter for _, parameter in sorted(network.named_parameters())]


class DriftPenalty:
    """⟨c − c_k, θ − θ_t⟩, whose gradient c − c_k is SCAFFOLD's correction of every step.

    Args:
        network: with the received parameters θ_t.
        own: c_k, in the order of the parameters' names.
    """

    def __init__(self, network: nn.Module, own: Sequence[torch.Tensor]) -> None:
        pairs = zip(variates_of(network).values(), own, strict=True)
        self._corrections = [everybodys - sites for everybodys, sites in pairs]
        self._start = [parameter.detach().clone() for parameter in sorted_parameters(network)]

    def __call__(self, network: nn.Module, batch: Batch, step: Step) -> torch.Tensor:
        """Return the penalty."""
        del batch, step
        triples = zip(self._corrections, sorted_parameters(network), self._start, strict=True)
        return torch.stack([(correction * (value - start)).sum() for correction, value, start in triples]).sum()


def next_variate(
    own: Sequence[torch.Tensor],
    everybodys: Sequence[torch.Tensor],
    received: Sequence[torch.Tensor],
    trained: Sequence[torch.Tensor],
    rates: float,
) -> list[torch.Tensor]:
    """Return a site's variate after a round: c_k − c + (θ_t − θ_k) / Σ η (option II), at the site alone.

    Args:
        own: c_k.
        everybodys: c.
        received: θ_t.
        trained: θ_k.
        rates: Σ η, the sum of the learning rates of the round's steps.

    Example:
        >>> start, variates = [torch.zeros(1)], [torch.zeros(1)]
        >>> [round(float(value), 2) for value in next_variate(variates, variates, start, [torch.tensor([0.38])], 0.2)]
        [-1.9]
    """
    return [
        (own_value - value + (before - after) / rates).detach()
        for own_value, value, before, after in zip(own, everybodys, received, trained, strict=True)
    ]


@dataclass
class ServerVariate:
    """How the server keeps c = Σ_k n_k c_k / Σ_k n_k over all K sites, from the models of those that trained.

    A site's variate changes by h_k − c with h_k = (θ_t − θ_k) / Σ η_k, so that nothing but its number of steps has to
    leave it besides the model. With sites of one size c is the paper's, c + S/K mean_k (h_k − c). A site that never
    trained counts with c_k = 0 and the mean size of the others.

    Attributes:
        rounds: by site the last round in which its variate counted.
        samples: by site the number of samples with which it counts.
        scale: what Σ_k n_k c_k over the sites that trained is multiplied with to give c.
    """

    rounds: dict[str, int] = field(default_factory=dict)
    samples: dict[str, int] = field(default_factory=dict)
    scale: float = 0.0

    def step(self, this_round: Round, num_sites: int, rate: LearningRate) -> dict[str, torch.Tensor]:
        """Return c after a round, by the names of its entries in the state dict, and take note of who counted.

        Args:
            this_round: with the average by numbers of samples, and the models.
            num_sites: K.
            rate: the learning rate of the round.
        """
        before = self.scale
        for site, number in this_round.samples_of_reports.items():
            self.samples.setdefault(site, number)
            self.rounds[site] = this_round.number
        trained = sum(self.samples[site] for site in sorted(this_round.reports))
        everybody = sum(self.samples.values())
        known = len(self.samples) / max(num_sites, len(self.samples))
        self.scale = known / everybody
        kept, moved = self.scale / before if before else 1.0, known * trained / everybody
        result = {}
        for index, gradient in enumerate(_mean_gradient(this_round, rate)):
            name = f"{_PART}.variate_{index}"
            variate = this_round.params[name]
            result[name] = (kept * variate.double() + moved * (gradient - variate.double())).to(variate.dtype)
        return result

    def state(self) -> dict[str, Any]:
        """Return what a restart needs besides c itself, which is in the model."""
        return {"rounds": dict(self.rounds), "samples": dict(self.samples), "scale": self.scale}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take it back."""
        self.rounds, self.samples, self.scale = dict(state["rounds"]), dict(state["samples"]), float(state["scale"])


def _mean_gradient(this_round: Round, rate: LearningRate) -> list[torch.Tensor]:
    """Σ_k p_k h_k of the sites that trained, in the order of the parameters' names, in double precision."""
    shares = shares_of(this_round)
    rates = {site: summed_rates(rate, steps) for site, steps in reported_steps(this_round, rate.training).items()}
    mean, factor = scaled_mean(this_round, shares, rates)
    return [(this_round.params[name].double() - mean[name].double()) * factor for name in sorted(this_round.trained)]
