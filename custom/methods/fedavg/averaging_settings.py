"""Settings of federated averaging that methods which begin with it do not have: server optimizer, drift, sampling."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from ...aggregation.settings import ServerOptimizerSettings
from ...components.component import Component
from ...settings import ClassifierSettings, NetworkSettings, RunSettings
from .settings import ClassificationSettings, FedAvgSettings

_WRAPPER = "fedannot.custom.methods.fedavg.control_variates:with_control_variates"


class ControlledNetworkSettings(NetworkSettings):
    """A network that carries SCAFFOLD's control variate; see :mod:`.control_variates`."""

    wrapper: ClassVar[str] = _WRAPPER


class ControlledClassifierSettings(ClassifierSettings):
    """A classifier that carries it."""

    wrapper: ClassVar[str] = _WRAPPER


class AveragingSettings(RunSettings):
    """What federated averaging may do besides averaging; by default nothing.

    Args:
        server_optimizer: how the server follows the sites' average.
        drift_correction: what is done about sites that drift apart in their local steps: ``none``; ``scaffold``,
            control variates (Karimireddy et al., ICML 2020); ``fednova``, updates by their numbers of local steps
            (Wang et al., NeurIPS 2020).
        fraction: of the sites that train in a round, drawn at random; never fewer than `min_sites`.
    """

    server_optimizer: ServerOptimizerSettings = ServerOptimizerSettings()
    drift_correction: Literal["none", "scaffold", "fednova"] = "none"
    fraction: Annotated[float, Field(gt=0, le=1)] = 1.0

    @property
    def needs_server(self) -> tuple[str, ...]:
        """The keys of what only a server can do."""
        asked = {
            "server_optimizer.name": self.server_optimizer.name != "none",
            "drift_correction": self.drift_correction != "none",
            "fraction": self.fraction < 1,
        }
        return (*(key for key, is_asked in asked.items() if is_asked), *super().needs_server)

    @model_validator(mode="after")
    def _drift_is_of_models_as_they_came(self) -> Self:
        if self.drift_correction == "none":
            return self
        if self.aggregation.is_robust:
            raise ValueError(
                f"key 'aggregation.rule' is {self.aggregation.rule!r}, but 'drift_correction' is "
                f"{self.drift_correction!r}, which is of the mean; expected aggregation.rule = mean"
            )
        if self.influence.has_bounds:
            raise ValueError(
                f"key 'influence' cannot be set with 'drift_correction' {self.drift_correction!r}: it takes the sites' "
                "updates and weights as they are, which bounds would change; leave it out"
            )
        return self

    @model_validator(mode="after")
    def _scaffold_has_plain_steps(self) -> Self:
        training = self.training
        if self.drift_correction != "scaffold":
            return self
        if training.optimizer != "sgd" or training.momentum:
            name = training.optimizer.target if isinstance(training.optimizer, Component) else training.optimizer
            raise ValueError(
                f"key 'drift_correction' is 'scaffold', but 'training.optimizer' is {name!r} and 'training.momentum' "
                f"{training.momentum}: its control variates are gradients that follow from plain steps; set "
                "training.optimizer = sgd and training.momentum = 0"
            )
        if self.update_precision != "fp32":
            raise ValueError(
                f"key 'update_precision' is {self.update_precision!r}, but 'drift_correction' is 'scaffold', whose "
                "control variates follow from the models as they were trained; expected update_precision = fp32"
            )
        if training.gradient_clipping is not None:
            raise ValueError(
                f"key 'training.gradient_clipping' is {training.gradient_clipping:g}, but 'drift_correction' is "
                "'scaffold': of steps that are scaled down no gradient follows for its control variates; leave it out"
            )
        if isinstance(training.schedule, Component) or training.learning_rate_warmup:
            raise ValueError(
                "key 'drift_correction' is 'scaffold', which divides by the learning rates of a round; expected "
                "'training.schedule' constant, steps, polynomial or cosine, and training.learning_rate_warmup = 0"
            )
        # The control variate travels with the model: models are frozen, and this is how it becomes a part of one.
        kind = ControlledNetworkSettings if isinstance(self.network, NetworkSettings) else ControlledClassifierSettings
        values = {name: getattr(self.network, name) for name in type(self.network).model_fields}
        object.__setattr__(self, "network", kind.model_construct(self.network.model_fields_set, **values))
        return self

    @model_validator(mode="after")
    def _all_steps_are_made(self) -> Self:
        if self.drift_correction != "none" and self.training.precision in ("fp16", "auto"):
            raise ValueError(
                f"key 'training.precision' is {self.training.precision!r}, but 'drift_correction' is "
                f"{self.drift_correction!r}, which divides by the number of steps: in float16, as 'auto' is on older "
                "GPUs, steps of too large gradients are left out; expected fp32 or bf16"
            )
        return self

    @model_validator(mode="after")
    def _fednova_knows_what_steps_add_up_to(self) -> Self:
        training = self.training
        if self.drift_correction != "fednova" or training.optimizer != "sgd":
            return self
        if not training.momentum:
            if training.proximal_weight and isinstance(training.schedule, Component):
                raise ValueError(
                    "key 'training.proximal_weight' cannot be set with 'drift_correction' 'fednova' and a schedule of "
                    "your own, which may raise the learning rate; expected 'training.schedule' constant, steps, "
                    "polynomial or cosine"
                )
            if (product := training.learning_rate * training.proximal_weight) >= 2:
                raise ValueError(
                    "keys 'training.learning_rate' and 'training.proximal_weight' have the product "
                    f"{product:g} with 'drift_correction' 'fednova'; expected less than 2: from there on, every step "
                    "leads further away from the received model"
                )
            return self
        reasons = {
            "training.nesterov": training.nesterov,
            "training.keep_optimizer": training.keep_optimizer,
            "training.proximal_weight": training.proximal_weight,
        }
        if wrong := [key for key, value in reasons.items() if value]:
            raise ValueError(
                f"key {wrong[0]!r} cannot be set with 'drift_correction' 'fednova' and a momentum: there is no formula "
                f"for what such steps add up to; leave it out, or set training.momentum = 0"
            )
        return self


class SegmentationAveragingSettings(FedAvgSettings, AveragingSettings):
    """Settings of federated averaging for segmentation."""


class ClassificationAveragingSettings(ClassificationSettings, AveragingSettings):
    """Settings of federated averaging for classification."""
