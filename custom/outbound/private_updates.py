"""Differential privacy of what a site sends: updates of bounded length with Gaussian noise, and what they add up to.

What is protected is that a site takes part at all, with whatever data: two runs are neighbours if the site's update is
there in one and nothing in its place in the other. Where a patient's data are replaced by another's, or all the data of
the site, the length counts twice: :func:`patient_mu_squared`.
"""

import math
import os
from collections.abc import Iterable, Mapping

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.stats import norm

from ...transforms.array_types import Floats
from .noise_source import RandomBytes, with_noise

_LARGEST_EPSILON = 1e6
_VARIANCE = "running_var"

# An update is cut to a length that is shorter by this part, so that rounding leads beyond the bound in no way: the sum
# of n squares is right within n 2⁻⁵³ of it.
_MARGIN = 2.0**-20


def privatised(
    params: Mapping[str, torch.Tensor],
    reference: Mapping[str, torch.Tensor],
    *,
    clip_norm: float,
    noise_multiplier: float,
    random_bytes: RandomBytes = os.urandom,
) -> dict[str, torch.Tensor]:
    """Return a model whose update was cut to a length and got noise: θ + u min(1, C / ‖u‖) + N(0, (σC)²).

    The length is over all floating entries together, those of normalisation among them. An update counts as zero, all
    of it, where an entry or its length is not finite: there is a result for every trained model, so that nobody learns
    from its absence. Variances stay at least 0. Results beyond the largest number of the received type become that
    number. Entries that were not received as floating numbers, which count batches, are the received ones. Update and
    noise are added and rounded to a grid before θ is added, see :mod:`fedannot.custom.outbound.noise_source`.

    Args:
        params: the trained state dict.
        reference: the received one, θ, which everybody may know.
        clip_norm: C.
        noise_multiplier: σ.
        random_bytes: where the noise comes from; whoever can repeat it can take the noise away.

    Raises:
        ValueError: if the two are of different networks, or the received model is not finite; neither depends on what
            was trained on.
    """
    received = {name: torch.as_tensor(value).detach().cpu() for name, value in reference.items()}
    if {name: value.shape for name, value in params.items()} != {name: of.shape for name, of in received.items()}:
        raise ValueError("Expected entries of the same names and shapes in the trained and the received model.")
    names = sorted(name for name, tensor in received.items() if tensor.is_floating_point())
    if wrong := [name for name in names if not torch.isfinite(received[name]).all()]:
        raise ValueError(f"Expected a finite received model, but its {wrong[0]!r} is not.")
    updates = _bounded_updates(params, received, names, clip_norm * (1.0 - _MARGIN))
    result = {name: received[name].clone() for name in params}
    for name in names:
        sent = torch.from_numpy(with_noise(updates[name], noise_multiplier * clip_norm, random_bytes))
        value = received[name].double() + sent.reshape(received[name].shape)
        largest = torch.finfo(received[name].dtype).max
        value.clamp_(min=0.0 if name.endswith(_VARIANCE) else -largest, max=largest)
        result[name] = value.to(received[name].dtype)
    return result


def is_finite_update(params: Mapping[str, torch.Tensor], reference: Mapping[str, torch.Tensor]) -> bool:
    """Return whether an update and its length are finite; stays at the site, for its log.

    Args:
        params: the trained state dict.
        reference: the received one.
    """
    received = {name: torch.as_tensor(value).detach().cpu() for name, value in reference.items()}
    names = [name for name, tensor in received.items() if tensor.is_floating_point()]
    return math.isfinite(_length(_updates(params, received, names)))


def _bounded_updates(
    params: Mapping[str, torch.Tensor], received: Mapping[str, torch.Tensor], names: Iterable[str], bound: float
) -> dict[str, Floats]:
    """The flat updates of the named entries, cut to a length together; all zero if that length is not finite."""
    updates = _updates(params, received, names)
    length = _length(updates)
    if not math.isfinite(length):
        return {name: np.zeros_like(update) for name, update in updates.items()}
    scale = bound / length if length > bound else 1.0
    return {name: scale * update for name, update in updates.items()}


def _updates(
    params: Mapping[str, torch.Tensor], received: Mapping[str, torch.Tensor], names: Iterable[str]
) -> dict[str, Floats]:
    with np.errstate(over="ignore", invalid="ignore"):
        return {name: _flat(params[name]) - _flat(received[name]) for name in names}


def _length(updates: Mapping[str, Floats]) -> float:
    """The Euclidean length of all updates together; infinite or NaN if an entry or a square is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        return math.sqrt(sum(float(np.square(update).sum()) for update in updates.values()))


def _flat(tensor: torch.Tensor) -> Floats:
    array: Floats = tensor.detach().cpu().double().flatten().numpy()
    return array


def patient_mu_squared(updates: float, statistics: float) -> float:
    """Return μ² of one patient's part in updates and statistics together: four times that of updates, and the other.

    With a patient's data in place of another's an update is still within the length C of the received model, and so
    within 2 C of what it was: its μ is 2/σ. All that is sent is together one Gaussian mechanism, whose μ² is the sum
    (Dong et al., 2022, Cor. 3.3).

    Args:
        updates: Σ 1/σ² over the updates.
        statistics: Σ 1/σ² over the statistics.
    """
    return 4.0 * updates + statistics


def spent_delta(epsilon: float, mu: float) -> float:
    """Return δ(ε) of Gaussian mechanisms: Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) (Dong et al., 2022, Cor. 2.13).

    n updates with the noise multipliers σ_i are together one Gaussian mechanism with μ² = Σ 1/σ_i², exactly; nothing is
    drawn at random here that an accountant of subsampling would be needed for.

    Args:
        epsilon: ε, at least 0.
        mu: μ, above 0.
    """
    # In logarithms: e^ε overflows long before the product does.
    second = math.exp(epsilon + float(norm.logcdf(-mu / 2 - epsilon / mu)))
    return max(0.0, float(norm.cdf(mu / 2 - epsilon / mu)) - second)


def spent_epsilon(mu_squared: float, delta: float) -> float:
    """Return the smallest ε for which updates are (ε, δ)-differentially private.

    Args:
        mu_squared: Σ 1/σ² over the updates.
        delta: δ, between 0 and 1.
    """
    mu = math.sqrt(mu_squared)
    if mu == 0.0 or spent_delta(0.0, mu) <= delta:
        return 0.0
    if spent_delta(_LARGEST_EPSILON, mu) > delta:
        return math.inf
    return float(brentq(lambda epsilon: spent_delta(epsilon, mu) - delta, 0.0, _LARGEST_EPSILON, xtol=1e-9))
