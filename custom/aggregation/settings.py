"""Settings of how the sites' models become one, and of what one site can do to it. Types only."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from ..strict_model import SettingsModel

Positive = Annotated[int, Field(ge=1)]

# Of the numbers in which a site's update leaves it.
UpdatePrecision = Literal["fp32", "bf16", "int8"]
# Of those in which the global model goes to the sites.
ModelPrecision = Literal["fp32", "bf16"]


class InfluenceSettings(SettingsModel):
    """Bounds on what one site can do to the global model; see :mod:`fedannot.custom.aggregation.influence`.

    Args:
        min_share: smallest fraction of a site in every layer block.
        max_share: largest share.
        max_update_ratio: how many times the others' median the norm of a site's update may be; None for any. The norm
            is over the parameters; normalisation statistics are scaled down with them, and count, element by element,
            within the range of the other sites'.
        max_quality_ratio: how many times its share by quantity a site's fraction of a block may be by its quality, or
            its share by quantity how many times that; None for any. With shares by quantity nothing changes.
    """

    min_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    max_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    max_update_ratio: Annotated[float, Field(gt=0)] | None = None
    max_quality_ratio: Annotated[float, Field(ge=1)] | None = None

    @property
    def bounds_shares(self) -> bool:
        """Whether shares have bounds."""
        return self.min_share > 0 or self.max_share < 1 or self.max_quality_ratio is not None

    @property
    def has_bounds(self) -> bool:
        """Whether there is any bound."""
        return self.bounds_shares or self.max_update_ratio is not None

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> "InfluenceSettings":
        if self.min_share > self.max_share:
            raise ValueError(f"key 'min_share' is {self.min_share}, above 'max_share', {self.max_share}")
        return self


class AggregationSettings(SettingsModel):
    """How the sites' models become one; see :class:`fedannot.custom.aggregation.round_average.RoundAverage`.

    With all rules but the mean a site that lies cannot move the model beyond the others, whatever it sends, as long as
    no more sites lie than the rule is made for. The weights of the method count in all of them.

    Args:
        rule: ``mean``; ``median``, the weighted median of every coordinate; ``trimmed_mean``, the mean of every
            coordinate without its largest and smallest values; ``geometric_median``, the model with the least sum of
            distances to the sites' models; ``multi_krum``, the mean of the models that lie closest to the others.
        trim: of the trimmed mean, b, how many sites' values are dropped at each end.
        byzantine: of multi-Krum, f, how many sites may lie.
        kept: of multi-Krum, how many models are kept; None for all but f.
        smoothing: of the geometric median, ν: a model that is closer counts as if it were so far away.
        passes: of the geometric median, the largest number of passes over the sites' distances.
    """

    rule: Literal["mean", "median", "trimmed_mean", "geometric_median", "multi_krum"] = "mean"
    trim: Positive = 1
    byzantine: Positive = 1
    kept: Positive | None = None
    smoothing: Annotated[float, Field(gt=0)] = 1e-5
    passes: Positive = 100

    @property
    def is_robust(self) -> bool:
        """Whether it is another rule than the mean."""
        return self.rule != "mean"

    @property
    def waits(self) -> bool:
        """Whether the rule wants all models at one place before any counts."""
        return self.rule in ("median", "geometric_median", "multi_krum")

    @property
    def num_dropped(self) -> int:
        """How many sites' values are dropped in every coordinate."""
        return 2 * self.trim if self.rule == "trimmed_mean" else 0

    @property
    def fewest_results(self) -> int:
        """How many models the rule needs; of two nobody can tell which is odd."""
        return {
            "mean": 1,
            "median": 3,
            "trimmed_mean": 2 * self.trim + 1,
            "geometric_median": 3,
            "multi_krum": 2 * self.byzantine + 3,
        }[self.rule]


# Learning rates where the settings give none: that with which FedAvgM is federated averaging, and the middle of those
# that Reddi et al. search for the others.
_RATES = {"fedavgm": 1.0, "fedadagrad": 0.1, "fedadam": 0.1, "fedyogi": 0.1}


class ServerOptimizerSettings(SettingsModel):
    """The server's optimizer; see :class:`fedannot.custom.aggregation.server_optimizer.ServerOptimizer`.

    Args:
        name: ``none``, the average is the model; ``fedavgm``, momentum; ``fedadagrad``, ``fedadam`` and ``fedyogi``,
            steps that adapt to every parameter.
        learning_rate: η; None for 1 with ``fedavgm`` and 0.1 with the others.
        momentum: β of ``fedavgm``.
        betas: β₁ and β₂ of ``fedadam`` and ``fedyogi``; ``fedadagrad`` has β₁ alone.
        tau: τ, which keeps parameters that hardly change from large steps: one moves by at most η Δ / τ.
    """

    name: Literal["none", "fedavgm", "fedadagrad", "fedadam", "fedyogi"] = "none"
    learning_rate: Annotated[float, Field(gt=0)] | None = None
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.99)
    tau: Annotated[float, Field(gt=0)] = 1e-3

    @property
    def rate(self) -> float:
        """The learning rate, the given one or that of the optimizer."""
        return _RATES[self.name] if self.learning_rate is None else self.learning_rate
