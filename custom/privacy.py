"""Differential privacy of what a site sends: updates of bounded length with Gaussian noise, and what they add up to.

What is protected is that a site takes part at all, with whatever data: two runs are neighbours if the site's update is
there in one and nothing in its place in the other. Where a site's data are replaced by others the length counts twice.
"""

import math
from collections.abc import Mapping

import torch
from scipy.optimize import brentq
from scipy.stats import norm

_LARGEST_EPSILON = 1e6
_VARIANCE = "running_var"


def privatised(
    params: Mapping[str, torch.Tensor],
    reference: Mapping[str, torch.Tensor],
    *,
    clip_norm: float,
    noise_multiplier: float,
    generator: torch.Generator,
) -> dict[str, torch.Tensor]:
    """Return a model whose update was cut to a length and got noise: θ + u min(1, C / ‖u‖) + N(0, (σC)²).

    The length is over all floating entries together, those of normalisation among them. Variances stay at least 0.

    Args:
        params: the trained state dict.
        reference: the received one, θ.
        clip_norm: C.
        noise_multiplier: σ.
        generator: of the noise; whoever can repeat it can take the noise away.
    """
    names = sorted(name for name, tensor in params.items() if tensor.is_floating_point())
    updates = {name: params[name].detach().cpu().double() - reference[name].detach().cpu().double() for name in names}
    length = math.sqrt(sum(float(update.square().sum()) for update in updates.values()))
    scale = min(1.0, clip_norm / length) if length else 1.0
    result = dict(params)
    for name in names:
        noise = torch.randn(updates[name].shape, generator=generator, dtype=torch.float64)
        value = reference[name].detach().cpu().double() + scale * updates[name] + noise_multiplier * clip_norm * noise
        if name.endswith(_VARIANCE):
            value.clamp_(min=0.0)
        result[name] = value.to(params[name].dtype)
    return result


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
