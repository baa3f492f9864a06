"""What the settings of all methods are made of: typed, with ranges, and checked at both ends.

Types only: settings are also checked by processes that train nothing and load no PyTorch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args

from pydantic import (
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from ..transforms.errors import describe_validation_error
from .aggregation.settings import AggregationSettings, InfluenceSettings, ModelPrecision, UpdatePrecision
from .components.component import (
    TARGET,
    Component,
    ComponentError,
    as_validation_error,
    component_or,
    component_or_none,
    read_component,
)
from .components.merging import KEPT, flat
from .components.roles import Role
from .consensus_rule import ConsensusKind, ConsensusRule
from .data.phantoms.settings import EmbeddedSettings
from .former_names import with_current_keys
from .recipe import RESEARCH, RecipeName, recipe_values, with_missing
from .strict_model import SettingsModel

Positive = Annotated[int, Field(ge=1)]
# Of an image.
Channels = Annotated[int, Field(ge=1, le=16)]

# Settings by their names, or in an app by their dotted keys: ``{"training.batch_size": 8, ...}``.
SettingValues = dict[str, JsonValue]

FinalModelKind = Literal["last", "best", "mean_of_last"]
ScoredRoundsKind = Literal["last", "last_5", "last_10", "best"]

AugmentationKind = Literal["rotation", "flip", "elastic", "noise"]

# The network halves an image four times.
_MIN_EXTENT = 16
PATCH_OF_UNET = (
    f"Expected three extents of at least {_MIN_EXTENT} voxels, one of them at least {2 * _MIN_EXTENT}: the network "
    "halves them four times, and its deepest batch normalisation needs more than one voxel. They need not be multiples "
    "of 16"
)

# Rounds from one score by the sites to the next, where a job does not say.
# Of the normalised surface Dice, in millimetres, or in pixels where these are not known.
NSD_TOLERANCE = 2.0
_SITES_VALIDATE_EVERY = 5

# Widths of the segmentation network's levels, and of the classifier's stages.
FEATURES = (16, 32, 64, 128, 256, 16)
WIDTHS = (64, 128, 256, 512)

# Decay of Adam's running means as in FedA³I and FedIA.
ADAM_BETAS = (0.9, 0.99)


# Losses of the setting `training.loss` that take fractions of annotators.
SOFT_LOSSES = ("ce", "dice", "batch_dice", "ce_dice", "ce_batch_dice")


class SettingsError(ValueError):
    """A job's settings cannot be used; the text names the file, the key, what was found and what is allowed.

    Attributes:
        where_listed: ends an error of an unknown key, since the keys are too many for it.
    """

    where_listed: ClassVar[str] = "All settings: fedannot jobs settings JOB"


@dataclass(frozen=True)
class RemovedSetting:
    """A setting that earlier versions had, or some values of one that there still is.

    Attributes:
        values: the values that a job can no longer have.
        allowed: the values that it can have instead; none where the whole setting has gone.
        jobs: jobs of published methods that do what the values did.
        read_as: how the settings of a finished run are read that have such a value; None leaves the setting out.
        dropped: the value whose effect is all that is left, where the whole setting has gone: a job may still have it.
    """

    values: tuple[str, ...]
    allowed: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    read_as: str | None = None
    dropped: str | None = None


class _NetworkOrComponent(SettingsModel):
    """A network by settings of its own, or any network in MONAI's form.

    With ``_target_`` the block holds the class's arguments, apart from those that data and task decide
    (:data:`.components.merging.KEPT`): they are given to the class under its own names.

    Attributes:
        builder: the function that builds the network without ``_target_``, ``package.module:function``.
        wrapper: a function that a method puts around any network, as above; empty for none.
        has_second: whether a method trains two networks of these settings, see :mod:`.networks.second_network`.
        refuses_components: why a method takes no other network; empty where it takes any.
        component: the class and its arguments; None for the network of the settings.
    """

    builder: ClassVar[str]
    wrapper: ClassVar[str] = ""
    has_second: ClassVar[bool] = False
    refuses_components: ClassVar[str] = ""
    component: Annotated[Component | None, Field(exclude=True)] = None

    @model_validator(mode="before")
    @classmethod
    def _read_component(cls, values: Any) -> Any:
        if isinstance(values, str):
            values = {TARGET: values}
        if not isinstance(values, Mapping) or TARGET not in values:
            return values
        if cls.refuses_components:
            raise ValueError(f"found {TARGET!r} = {values[TARGET]!r:.100}: {cls.refuses_components}")
        kept = {key: value for key, value in values.items() if key in KEPT}
        try:
            component = read_component({key: value for key, value in values.items() if key not in KEPT}, Role.NETWORK)
        except ComponentError as error:
            raise as_validation_error(error) from error
        return {**kept, "component": component}

    @field_validator("component", mode="before")
    @classmethod
    def _component_is_read(cls, value: Any) -> Any:
        if value is not None and not isinstance(value, Component):
            raise ValueError(f"name a network by {TARGET!r}")
        return value

    @model_serializer(mode="wrap")
    def _as_in_a_file(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = handler(self)
        if self.component is None:
            return values
        return {key: value for key, value in values.items() if key in KEPT} | self.component.table()


# Of a network: eight gigabytes of weights.
MOST_PARAMETERS = 2_000_000_000


class NetworkSettings(_NetworkOrComponent):
    """Which network is trained; see :func:`fedannot.custom.networks.build_network`."""

    builder: ClassVar[str] = "fedannot.custom.networks.building:build_network"
    in_channels: Channels = 1
    num_classes: Positive = 1
    spatial_dims: Literal[2, 3] = 2
    features: Annotated[tuple[Positive, ...], Field(min_length=6, max_length=6)] = FEATURES
    upsample: Literal["deconv", "nontrainable"] = "deconv"

    @model_validator(mode="after")
    def _features_fit_memory(self) -> "NetworkSettings":
        _check_widths("network.features", self.features, self.spatial_dims)
        return self


class ClassifierSettings(_NetworkOrComponent):
    """Which network is trained to classify; see :func:`fedannot.custom.networks.build_classifier`.

    Args:
        checkpoint: file with start weights, read by the server alone.
    """

    builder: ClassVar[str] = "fedannot.custom.networks.building:build_classifier"
    in_channels: Channels = 3
    num_classes: Annotated[int, Field(ge=2)] = 2
    spatial_dims: Literal[2] = 2
    depth: Literal[10, 18, 34, 50] = 50
    widths: Annotated[tuple[Positive, ...], Field(min_length=4, max_length=4)] = WIDTHS
    stem: Literal["large", "small"] = "large"
    checkpoint: str = ""

    @model_validator(mode="after")
    def _widths_fit_memory(self) -> "ClassifierSettings":
        _check_widths("network.widths", self.widths, self.spatial_dims)
        return self


def _check_widths(key: str, widths: Sequence[int], spatial_dims: int) -> None:
    """Refuse what no machine has memory for: each level has a convolution of 3 pixels from its width to its width."""
    count = 3**spatial_dims * sum(width**2 for width in widths)
    if count > MOST_PARAMETERS:
        raise ValueError(
            f"key {key!r} is {list(widths)}: {count:.1e} parameters at least; at most {MOST_PARAMETERS:.0e} are allowed"
        )


# A short form, or any class that is allowed.
OptimizerName = Annotated[Literal["adam", "sgd"] | Component, component_or(Role.OPTIMIZER, "adam", "sgd")]
ScheduleName = Annotated[
    Literal["constant", "steps", "polynomial", "cosine"] | Component,
    component_or(Role.SCHEDULE, "constant", "steps", "polynomial", "cosine"),
]
_LOSSES = ("ce", "dice", "batch_dice", "ce_dice", "ce_batch_dice", "nr_dice")
_WEIGHTED_LOSSES = ("ce", "ce_dice", "ce_batch_dice")
LossName = Annotated[
    Literal["ce", "dice", "batch_dice", "ce_dice", "ce_batch_dice", "nr_dice"] | Component,
    component_or(Role.LOSS, *_LOSSES),
]
Precision = Literal["fp32", "auto", "bf16", "fp16"]
# Bits of a number's significand, with the leading one that is not stored, and the precision that has them.
PRECISIONS_BY_BITS = {24: "fp32", 11: "fp16", 8: "bf16"}
ClassifierLossName = Annotated[Literal["ce"] | Component, component_or(Role.LOSS, "ce")]


class _ScheduledTraining(SettingsModel):
    """What training of all tasks has: an optimizer, and a learning rate that may fall in the course of a run.

    Args:
        optimizer: ``adam``; ``sgd``, stochastic gradient descent; or a class of ``torch.optim`` such as ``AdamW``, with
            the class's own arguments and the learning rate of `learning_rate`.
        momentum: of ``sgd``.
        nesterov: whether the momentum of ``sgd`` is Nesterov's.
        betas: decay of the two running means of ``adam``.
        weight_decay: of ``adam`` and ``sgd``, how much of every parameter is added to its gradient.
        learning_rate: of the optimizer, where the schedule begins.
        schedule: how the learning rate falls in the course of all rounds: ``constant``; ``steps`` by rounds, see
            `learning_rate_steps`; ``polynomial`` and ``cosine`` with every optimizer step, to 0 at the end of the run;
            or a class of ``torch.optim.lr_scheduler`` such as ``CosineAnnealingLR``, which makes a step with every
            optimizer step of all rounds.
        learning_rate_steps: of the schedule ``steps``, fractions of all rounds after which the learning rate is a tenth
            of what it was before.
        learning_rate_power: of the schedule ``polynomial``, the exponent of (1 − t/T).
        learning_rate_warmup: fraction of the run's steps in which the learning rate rises from 0 in a straight line;
            the schedule comes after it.
        local_epochs: passes over a site's samples in every round.
        local_steps: optimizer steps of a site in every round, in place of `local_epochs`, which is not read then.
        gradient_clipping: largest norm of a step's gradient over all parameters, a larger one is scaled down; None for
            any.
        precision: in which the network computes, in training, estimates and predictions: ``fp32``; ``bf16`` or
            ``fp16`` by automatic mixed precision; ``auto``, ``bf16`` where the processor has instructions for it, see
            :func:`fedannot.custom.networks.precision.computed_precision`. Losses, scores and averages are float32.
        keep_optimizer: whether a site goes on with its optimizer's state of the round before, such as momentum, in
            place of a new optimizer every round. The state lies in the site's run folder and leaves it never.
        class_weights: of the cross entropy, a number for each class, in segmentation for the background first; empty
            where all count the same. The mean is over the weights.
        proximal_weight: μ of FedProx, which adds μ/2 ‖w − w_t‖² to keep what is trained near the received model w_t,
            and parameters that are a site's own near those of its last round; 0 for none.
        consensus: what is trained on where a case has several annotations: ``majority``, the class of most annotators;
            ``staple``, what SimpleITK's STAPLE finds behind them; ``random-per-epoch``, in every epoch the annotation
            of one of them; ``soft``, the fractions of annotators, by cross entropy and Dice losses; ``one:NAME``, those
            of one annotator. None refuses cases with several annotations. See
            :class:`fedannot.custom.consensus_rule.ConsensusRule`.
    """

    optimizer: OptimizerName = "adam"
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    nesterov: bool = False
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = ADAM_BETAS
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    learning_rate: Annotated[float, Field(gt=0)]
    schedule: ScheduleName = "steps"
    learning_rate_steps: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = ()
    learning_rate_power: Annotated[float, Field(gt=0)] = 0.9
    learning_rate_warmup: Annotated[float, Field(ge=0, lt=1)] = 0.0
    local_epochs: Positive = 5
    local_steps: Positive | None = None
    gradient_clipping: Annotated[float, Field(gt=0)] | None = None
    precision: Precision = "fp32"
    keep_optimizer: bool = False
    class_weights: tuple[Annotated[float, Field(ge=0)], ...] = ()
    proximal_weight: Annotated[float, Field(ge=0)] = 0.0
    consensus: str | None = None

    @field_validator("consensus")
    @classmethod
    def _consensus_is_a_rule(cls, consensus: str | None) -> str | None:
        if consensus is not None:
            try:
                ConsensusRule.parse(consensus)
            except ValueError as error:
                raise PydanticCustomError("consensus", "{reason}", {"reason": str(error).capitalize()}) from error
        return consensus

    @property
    def consensus_rule(self) -> ConsensusRule | None:
        """The rule for cases with several annotations; None where there is none."""
        return None if self.consensus is None else ConsensusRule.parse(self.consensus)

    @model_validator(mode="after")
    def _nesterov_has_momentum(self) -> "_ScheduledTraining":
        if self.nesterov and self.optimizer == "sgd" and not self.momentum:
            raise ValueError(
                "key 'training.nesterov' is true, but 'training.momentum' is 0; Nesterov's form needs a momentum above "
                "0, for example 0.99"
            )
        if self.learning_rate_warmup and isinstance(self.schedule, Component):
            raise ValueError(
                "key 'training.learning_rate_warmup' is of the schedules with a short form; leave it out with "
                f"'training.schedule' {self.schedule.target!r}"
            )
        return self


class TrainingSettings(_ScheduledTraining):
    """How a site trains in one round.

    Whole volumes (``network.spatial_dims`` 3) are trained on in patches of these extents, `patches_per_volume` of each
    volume per epoch; for prediction the same patch slides over them. Where a site reports its Dice loss, it is over the
    samples in which something is annotated: without an annotation the loss is 1 whatever the model says. ``all`` is the
    form of FedIA's paper.

    Args:
        loss: ``ce``, cross entropy; ``dice``, Dice loss of each sample; ``batch_dice``, of the batch as one;
            ``ce_dice`` and ``ce_batch_dice``, the sum of ``ce`` and either; ``nr_dice``, noise-robust Dice loss; or a
            class of ``monai.losses`` or ``torch.nn`` such as ``DiceFocalLoss``.
        augmentation: what is done to samples at random: a list of kinds; ``nnunet`` for all that nnU-Net does; or a
            list of dictionary transforms of MONAI, ``[{_target_ = RandFlipd, keys = [image, label], prob = 0.5}]``. See
            :class:`fedannot.custom.training.augmentation_at_once.AugmentedAtOnce`,
            :class:`fedannot.custom.training.augmentation_nnunet.NnunetBatches` and
            :class:`fedannot.custom.training.augmentation_components.TransformedBatches`.
        augmentation_unit: what a list of kinds is done to at once: ``batch``, on the training device; or ``sample``, by
            MONAI's transforms, as all versions before did. Images are drawn from the same distribution; deformations of
            volumes and patches are smoothed from nodes in place of voxels.
        foreground_share: part of the patches of each batch that are centred on objects, the others lie anywhere in
            their volume; null centres each with equal chance on an object or on the background.
        mirror_axes: axes of a sample along which ``nnunet`` mirrors it, and along which predictions mirror it where
            ``inference.mirroring`` is on; None for all. Along an axis on which classes follow one another, as from the
            front to the back, mirrored images are of bodies that do not exist, and short trainings lose by them.
    """

    loss: LossName = "ce"
    learning_rate: Annotated[float, Field(gt=0)] = 5e-3
    batch_size: Positive = 8
    patch: tuple[int, ...] | None = None
    patches_per_volume: Positive = 2
    dice_loss_over: Literal["annotated", "all"] = "annotated"
    augmentation: tuple[AugmentationKind, ...] | tuple[Component, ...] | Literal["nnunet"] = ()
    augmentation_unit: Literal["batch", "sample"] = "batch"
    foreground_share: Annotated[float, Field(ge=0, le=1)] | None = None
    mirror_axes: tuple[Annotated[int, Field(ge=0)], ...] | None = None

    @field_validator("augmentation", mode="before")
    @classmethod
    def _augmentation_is_known(cls, augmentation: Any) -> Any:
        kinds = get_args(AugmentationKind)
        if augmentation == "nnunet":
            return augmentation
        if isinstance(augmentation, list | tuple):
            if all(kind in kinds for kind in augmentation):
                return augmentation
            if any(isinstance(entry, Mapping | Component) for entry in augmentation):
                try:
                    return tuple(read_component(entry, Role.AUGMENTATION) for entry in augmentation)
                except ComponentError as error:
                    raise as_validation_error(error) from error
        raise PydanticCustomError(
            "augmentation",
            f"Expected nnunet, a list with some of {', '.join(kinds)}, or a list of transforms in MONAI's form, "
            "[{_target_ = RandFlipd, keys = [image, label]}]",
        )

    @property
    def augmentation_kinds(self) -> tuple[AugmentationKind, ...]:
        """The kinds of augmentation, where it is a list of them."""
        return tuple(kind for kind in get_args(AugmentationKind) if kind in tuple(self.augmentation))

    @property
    def transforms(self) -> tuple[Component, ...]:
        """The augmentation's transforms in MONAI's form, where it is a list of them."""
        return tuple(entry for entry in self.augmentation if isinstance(entry, Component))

    @model_validator(mode="after")
    def _soft_targets_have_a_loss(self) -> "TrainingSettings":
        if self.consensus != ConsensusKind.SOFT:
            return self
        if self.loss not in SOFT_LOSSES:
            name = self.loss.target if isinstance(self.loss, Component) else self.loss
            raise ValueError(
                f"key 'training.consensus' is 'soft', but 'training.loss' is {name!r}, which takes no fractions; "
                f"expected one of {', '.join(SOFT_LOSSES)}"
            )
        if self.transforms:
            raise ValueError(
                "key 'training.consensus' is 'soft', but 'training.augmentation' has transforms in MONAI's form, which "
                "do not say where a pixel comes from; expected nnunet, or a list of kinds"
            )
        return self

    @field_validator("patch")
    @classmethod
    def _patch_has_three_extents(cls, patch: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if patch is not None and (len(patch) != 3 or min(patch) < 1):
            raise PydanticCustomError("patch", PATCH_OF_UNET)
        return patch


def fits_unet(patch: Sequence[int]) -> bool:
    """Return whether the network of the settings, which is none of MONAI's by name, can be trained on a patch."""
    return min(patch) >= _MIN_EXTENT and max(patch) >= 2 * _MIN_EXTENT


class ClassifierTrainingSettings(_ScheduledTraining):
    """How a site trains a classifier in one round.

    Args:
        loss: ``ce``, cross entropy; or a class of ``torch.nn`` or ``monai.losses`` such as ``FocalLoss``.
        augmentation: turn images by multiples of 90° and mirror them, at random.
    """

    loss: ClassifierLossName = "ce"
    optimizer: OptimizerName = "sgd"
    weight_decay: Annotated[float, Field(ge=0)] = 1e-6
    learning_rate: Annotated[float, Field(gt=0)] = 1e-2
    learning_rate_steps: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = (0.7, 0.9)
    batch_size: Positive = 128
    augmentation: bool = True

    @model_validator(mode="after")
    def _consensus_is_of_classes(self) -> "ClassifierTrainingSettings":
        if self.consensus == ConsensusKind.STAPLE:
            raise ValueError(
                "key 'training.consensus' is 'staple', which is of masks; expected for classes majority, "
                "random-per-epoch, soft or one:NAME"
            )
        if self.consensus == ConsensusKind.SOFT and self.loss != "ce":
            raise ValueError("key 'training.consensus' is 'soft'; expected 'training.loss' = ce, which takes fractions")
        return self


class InferenceSettings(SettingsModel):
    """How the model predicts, in validation, tests, estimates of annotations, and as a bundle.

    Args:
        mirroring: predict the mean of the probabilities of an image mirrored along all choices of its axes, 4 in 2D and
            8 in 3D, which takes as many times as long; of those of ``training.mirror_axes`` where they are given.
    """

    mirroring: bool = False


class RunSettings(SettingsModel):
    """What the settings of all methods and tasks share.

    Args:
        task: what is learnt.
        method: how.
        recipe: what fills settings without a value: ``demo``, the method's defaults; ``research``, nnU-Net's choices
            for segmentation. Given for a run, it also goes before the values of the job's file; see
            :mod:`fedannot.custom.recipe`.
        threads: of PyTorch in every process where the participant has not chosen; 0 for all cores. See
            :mod:`fedannot.custom.run.threads`.
        data: where sites' data lie that are named nowhere else.
        data_required: whether a site without data is an error; else it makes the embedded phantom for itself.
        min_sites: usable results without which a round does not count.
        task_timeout: seconds that a task may take.
        grace_period: seconds that a round waits for the others after `min_sites` usable answers have come; None waits
            for all until the task's time is over. With it the result depends on which sites are fast.
        task_process: whether a site does its tasks in a process of their own, whose death is a refused result; see
            :mod:`fedannot.custom.flare.task_process`.
        inference: how the model predicts.
        influence: bounds on what one site can do to the model; none by default.
        aggregation: the rule by which models become one.
        update_precision: how sites send what they trained: ``fp32``, the model as it is; ``bf16`` or ``int8``, the
            change of its kernels and matrices in half or a quarter of the bytes. What rounding leaves is added to the
            site's next update; see :mod:`fedannot.custom.aggregation.quantised_updates`.
        model_precision: how the server sends the global model: ``fp32``, as it is; ``bf16``, with kernels and matrices
            rounded, in half of the bytes. What rounding leaves is added to the next round's model; see
            :mod:`fedannot.custom.aggregation.rounded_models`.
        max_failed_rounds: rounds without enough usable results, one after the other, that end the run.
        validate_every: rounds from one score of the model to the next, by the server on its test set or by the sites on
            their validation cases; the last round is scored as well. None: the server scores every round, the sites
            every fifth.
        final_model: which model is the run's result: that of the last round; the best one by the sites' validation
            cases (a test set at the server never chooses); or the mean of the last `final_rounds`.
        final_rounds: rounds whose models are averaged, where `final_model` is ``mean_of_last``.
        patience: validations in a row without a better score after which the run ends, where `final_model` is
            ``best``; None for never.
        scored_rounds: which rounds' scores are reported and compared: the last one, the mean of the last five or ten,
            or the round whose model is the best by the sites' validation cases. None: the final model's where
            `final_model` chooses one, else the mean of the last five rounds.
        inferer: how the model is run over a case, a class of ``monai.inferers`` such as ``SlidingWindowInferer``; None
            for whole images, and for the training's patch as a window with half an overlap over whole volumes.
        waiting_memory_mb: MiB of the server's memory that models of sites may take which wait for their weights; the
            others are in private files. None, or more than that, is a quarter of the memory that is free.
        start_model: a MONAI Bundle's folder or a file with a state dict, whose weights the run begins with; empty for
            random ones. The server alone reads it, and of a bundle nothing but the weights.
    """

    removed: ClassVar[Mapping[str, RemovedSetting]] = {}
    final_models: ClassVar[tuple[FinalModelKind, ...]] = ("last", "best", "mean_of_last")
    # What the method decides itself, whatever the recipe.
    without_recipe: ClassVar[frozenset[str]] = frozenset()

    task: Literal["segmentation", "classification"] = "segmentation"
    method: str = "fedavg"
    recipe: RecipeName = "demo"
    seed: int = 0
    rounds: Positive = 100
    threads: Annotated[int, Field(ge=0)] = 1
    data: str = ""
    data_required: bool = False
    network: NetworkSettings | ClassifierSettings
    training: TrainingSettings | ClassifierTrainingSettings
    inference: InferenceSettings = InferenceSettings()
    embedded: EmbeddedSettings = EmbeddedSettings()
    blocks: tuple[str, ...] = ()
    min_sites: Positive = 1
    task_timeout: Positive = 3600
    grace_period: Annotated[float, Field(ge=0)] | None = None
    task_process: bool = False
    update_precision: UpdatePrecision = "fp32"
    model_precision: ModelPrecision = "fp32"
    max_failed_rounds: Positive = 3
    influence: InfluenceSettings = InfluenceSettings()
    aggregation: AggregationSettings = AggregationSettings()
    validate_every: Positive | None = None
    final_model: FinalModelKind = "last"
    final_rounds: Positive = 5
    patience: Positive | None = None
    scored_rounds: ScoredRoundsKind | None = None
    inferer: Annotated[Component | None, component_or_none(Role.INFERER)] = None
    keep_rounds: tuple[Positive, ...] = ()
    waiting_memory_mb: Annotated[int, Field(ge=0)] | None = None
    resume_from: str = ""
    start_model: str = ""

    @model_validator(mode="after")
    def _recipe_is_of_segmentation(self) -> "RunSettings":
        if self.recipe == RESEARCH and self.task != "segmentation":
            raise ValueError(
                f"key 'recipe' is {self.recipe!r}, whose choices are those of nnU-Net for segmentation; a job for "
                f"{self.task} has recipe = demo"
            )
        return self

    @model_validator(mode="after")
    def _the_rule_has_enough_results(self) -> "RunSettings":
        rule, needed = self.aggregation.rule, self.aggregation.fewest_results
        if self.min_sites < needed:
            raise ValueError(
                f"key 'min_sites' is {self.min_sites}, but 'aggregation.rule' {rule!r} needs the results of {needed} "
                f"sites; set 'min_sites' to {needed} or more, so that rounds with fewer do not count"
            )
        return self

    @model_validator(mode="after")
    def _the_final_model_suits_the_method(self) -> "RunSettings":
        if self.final_model not in self.final_models:
            raise ValueError(
                f"key 'final_model' is {self.final_model!r}, but the method {self.method!r} has no single global model "
                f"to choose; allowed: {', '.join(self.final_models)}"
            )
        if self.patience is not None and self.final_model != "best":
            raise ValueError(
                f"key 'patience' is {self.patience}, but 'final_model' is {self.final_model!r}: only a run whose model "
                "is the best by validation ends early; set 'final_model' to 'best', or leave 'patience' out"
            )
        if self.scored_rounds == "best" and "best" not in self.final_models:
            raise ValueError(
                f"key 'scored_rounds' is 'best', but with the method {self.method!r} the sites' validation chooses no "
                "round; allowed: last, last_5, last_10"
            )
        return self

    @property
    def needs_validation(self) -> bool:
        """Whether the sites' validation cases choose the final model or the round that is reported."""
        return "best" in (self.final_model, self.scored_rounds)

    def is_scored_after(self, round_number: int, *, at_server: bool) -> bool:
        """Return whether the model is scored after a round.

        Args:
            round_number: from 1.
            at_server: whether the server scores it on its test set; else the sites do.
        """
        every = self.validate_every or (1 if at_server else _SITES_VALIDATE_EVERY)
        return round_number >= self.rounds or round_number % every == 0

    @model_validator(mode="after")
    def _weights_are_of_the_classes(self) -> "RunSettings":
        weights, loss = self.training.class_weights, self.training.loss
        classes = self.network.num_classes + (self.task == "segmentation")
        if weights and len(weights) != classes:
            which = "the background and each class" if self.task == "segmentation" else "each class"
            raise ValueError(
                f"key 'training.class_weights' has {len(weights)} numbers, but network.num_classes is "
                f"{self.network.num_classes}; expected {classes}, for {which}"
            )
        if weights and loss not in _WEIGHTED_LOSSES:
            raise ValueError(
                f"key 'training.class_weights' is of the losses {', '.join(_WEIGHTED_LOSSES)}, but 'training.loss' is "
                f"{loss if isinstance(loss, str) else loss.target!r}; leave it out, or give the loss its own weights"
            )
        if self.inferer is not None and self.task == "classification":
            raise ValueError("key 'inferer' is of segmentation; leave it out")
        return self

    @model_validator(mode="after")
    def _a_truncated_loss_has_labels_to_learn_from(self) -> "RunSettings":
        loss = self.training.loss
        if not isinstance(loss, Component) or loss.name != "GeneralizedCrossEntropy" or self.start_model:
            return self
        truncation = loss.arguments.get("truncation", 0.0)
        outputs = self.network.num_classes + (self.task == "segmentation")
        if isinstance(truncation, int | float) and truncation * outputs >= 1:
            raise ValueError(
                f"key 'training.loss' has the truncation {truncation:g}, but at a random start each of {outputs} "
                f"classes has a probability of about {1 / outputs:.2g}, so that no label would count; expected a "
                "'start_model' that was trained without, or a smaller truncation"
            )
        return self

    @model_validator(mode="after")
    def _mirrored_axes_are_of_samples(self) -> "RunSettings":
        axes = self.training.mirror_axes if isinstance(self.training, TrainingSettings) else None
        dims = self.network.spatial_dims
        if axes is not None and (len(set(axes)) != len(axes) or any(axis >= dims for axis in axes)):
            raise ValueError(
                f"key 'training.mirror_axes' is {list(axes)}; expected different axes from 0 to {dims - 1}, as "
                f"network.spatial_dims is {dims}"
            )
        return self

    @property
    def reports_dice_loss(self) -> bool:
        """Whether sites report the Dice loss of their training."""
        return False

    @property
    def training_predictions(self) -> int | None:
        """How often in a run the sites predict all their training cases; None where its time cannot be planned."""
        return None

    @property
    def step_factor(self) -> float:
        """How many times as long a step of training takes as a forward and a backward pass of one network.

        It is the mean over the run, by numbers of passes and pixels; a forward pass alone is a third.
        """
        return 1.0

    @property
    def kept_factor(self) -> float:
        """How many times as much a step keeps for its backward pass as one forward pass of one network does."""
        return 1.0

    @property
    def needs_server(self) -> tuple[str, ...]:
        """The keys of what the settings ask of a server, and no swarm can do; besides bounds, rules and validation."""
        precisions = {"update_precision": self.update_precision, "model_precision": self.model_precision}
        return tuple(key for key, precision in precisions.items() if precision != "fp32")


SettingsType = TypeVar("SettingsType", bound=RunSettings)


def read_settings(
    kind: type[SettingsType], values: Mapping[str, Any], source: str = "settings.conf", *, of_finished_run: bool = False
) -> SettingsType:
    """Check the settings of a job.

    Args:
        kind: the method's settings.
        values: what the job's configuration holds.
        source: the file to name in an error.
        of_finished_run: whether the run is over, so that it may be of an earlier version with other settings.

    Raises:
        SettingsError: if a key is unknown or a value not allowed, also if only earlier versions allowed it.
    """
    # Nobody can change a finished run's settings any more: nobody is warned of former names, and nothing is filled.
    values = with_current_keys(values) if of_finished_run else with_missing(values, of_recipe(kind, values))
    try:
        return kind.model_validate(_without_removed(kind, values, source, of_finished_run=of_finished_run))
    except ValidationError as error:
        text = describe_validation_error(error, source=source, model=kind, where_listed=SettingsError.where_listed)
        raise SettingsError(text) from error


def of_recipe(kind: type[RunSettings], values: Mapping[str, Any]) -> SettingValues:
    """Return what the recipe that settings name says of all settings, by dotted keys.

    Args:
        kind: the method's settings.
        values: settings as a file has them, not yet checked; besides blocks there may be dotted keys.
    """
    if not issubclass(_type_of(kind, "training"), TrainingSettings):
        return {}
    network = values.get("network")
    spatial_dims = network.get("spatial_dims") if isinstance(network, Mapping) else None
    if spatial_dims is None:
        spatial_dims = _type_of(kind, "network").model_fields["spatial_dims"].default
    return recipe_values(values.get("recipe"), spatial_dims=spatial_dims, own=kind.without_recipe, given=flat(values))


def _type_of(kind: type[RunSettings], block: str) -> type[SettingsModel]:
    annotation: Any = kind.model_fields[block].annotation
    return annotation if isinstance(annotation, type) else SettingsModel


def _without_removed(
    kind: type[RunSettings], values: Mapping[str, Any], source: str, *, of_finished_run: bool
) -> SettingValues:
    """The values without the settings that have gone and had no effect of their own."""
    present = dict(values)
    for key, setting in kind.removed.items():
        value = present.get(key)
        if value in setting.values and not of_finished_run:
            raise _removed_value_error(source, key, value, setting)
        if value in setting.values and setting.read_as is not None:
            present[key] = setting.read_as
        elif value in setting.values or (value is not None and value == setting.dropped):
            del present[key]
    return present


def _removed_value_error(source: str, key: str, value: str, setting: RemovedSetting) -> SettingsError:
    if not setting.allowed:
        return SettingsError(
            f"{source}: key {key!r} is {value!r}, which earlier versions had. Every run is now as with "
            f"{setting.dropped!r}; remove the key."
        )
    commands = " or ".join(f"'fedannot compare jobs/auto jobs/{job} --like {job}'" for job in setting.jobs)
    return SettingsError(
        f"{source}: key {key!r} is {value!r}, which earlier versions had. Allowed: {', '.join(setting.allowed)}. To "
        f"compare with a published method, run its own job on the same data, as in {commands}."
    )
