"""The settings of a job, `settings.conf` beside its configuration: typed, with ranges, and checked at both ends."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError
from torch import nn

from ..transforms.class_noise import ClassNoise
from ..transforms.errors import describe_validation_error
from ..transforms.federation_noise import FederationNoise
from .networks import FEATURES, WIDTHS, build_classifier, build_network

Positive = Annotated[int, Field(ge=1)]

# The network halves an image four times.
_MIN_EXTENT = 16


class SettingsError(ValueError):
    """A job's settings cannot be used; the text names the file, the key, what was found and what is allowed."""


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class NetworkSettings(_Settings):
    """Which network is trained; see :func:`fedannot.custom.networks.build_network`."""

    in_channels: Literal[1, 3] = 1
    num_classes: Positive = 1
    spatial_dims: Literal[2, 3] = 2
    features: Annotated[tuple[Positive, ...], Field(min_length=6, max_length=6)] = FEATURES
    upsample: Literal["deconv", "nontrainable"] = "deconv"

    def build(self) -> nn.Module:
        """Build the network; its weights come from elsewhere."""
        return build_network(**self.model_dump())


class ClassifierSettings(_Settings):
    """Which network is trained to classify; see :func:`fedannot.custom.networks.build_classifier`.

    Args:
        checkpoint: file with start weights, read by the server alone.
    """

    in_channels: Literal[1, 3] = 3
    num_classes: Annotated[int, Field(ge=2)] = 2
    spatial_dims: Literal[2] = 2
    depth: Literal[10, 18, 34, 50] = 50
    widths: Annotated[tuple[Positive, ...], Field(min_length=4, max_length=4)] = WIDTHS
    stem: Literal["large", "small"] = "large"
    checkpoint: str = ""

    def build(self) -> nn.Module:
        """Build the network; its weights come from elsewhere."""
        return build_classifier(**self.model_dump(exclude={"checkpoint"}))


class TrainingSettings(_Settings):
    """How a site trains in one round.

    Whole volumes (``network.spatial_dims`` 3) are trained on in patches of these extents, `patches_per_volume` of each
    volume per epoch; for prediction the same patch slides over them. Where a site reports its Dice loss, it is over the
    samples in which something is annotated: without an annotation the loss is 1 whatever the model says. ``all`` is the
    form of FedIA's paper.
    """

    loss: Literal["ce", "dice", "batch_dice", "ce_dice", "nr_dice"] = "ce"
    learning_rate: Annotated[float, Field(gt=0)] = 5e-3
    batch_size: Positive = 8
    local_epochs: Positive = 5
    patch: tuple[int, ...] | None = None
    patches_per_volume: Positive = 2
    dice_loss_over: Literal["annotated", "all"] = "annotated"

    @field_validator("patch")
    @classmethod
    def _patch_suits_the_network(cls, patch: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if patch is not None and (len(patch) != 3 or min(patch) < _MIN_EXTENT or max(patch) < 2 * _MIN_EXTENT):
            raise PydanticCustomError(
                "patch",
                f"Expected three extents of at least {_MIN_EXTENT} voxels, one of them at least {2 * _MIN_EXTENT}: the "
                "network halves them four times, and its deepest batch normalisation needs more than one voxel. They "
                "need not be multiples of 16",
            )
        return patch


class ClassifierTrainingSettings(_Settings):
    """How a site trains a classifier in one round, by stochastic gradient descent.

    Args:
        learning_rate_steps: shares of all rounds after which the learning rate is a tenth of what it was before.
        augmentation: turn images by multiples of 90° and mirror them, at random.
    """

    learning_rate: Annotated[float, Field(gt=0)] = 1e-2
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    weight_decay: Annotated[float, Field(ge=0)] = 1e-6
    learning_rate_steps: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = (0.7, 0.9)
    batch_size: Positive = 128
    local_epochs: Positive = 5
    augmentation: bool = True

    def learning_rate_at(self, round_number: int, rounds: int) -> float:
        """Return the learning rate of a round of so many."""
        steps = sum(round_number > share * rounds for share in self.learning_rate_steps)
        return self.learning_rate * 0.1**steps


class EmbeddedSettings(_Settings):
    """The phantom federation that sites make for themselves where they have no data of their own.

    ``lesions2d`` are pictures with one lesion, whose contours may have noise; ``lesions3d`` are volumes with several
    lesions, of which each site annotates a share, its `completeness`; ``cells2d`` are pictures of cells in eight
    classes, whose labels may have noise.
    """

    task: Literal["lesions2d", "lesions3d", "cells2d"] = "lesions2d"
    sites: Positive = 10
    noise: str | None = None
    exact: bool = False
    stratified: Annotated[float, Field(ge=0, lt=1)] | None = None
    completeness: tuple[Annotated[float, Field(ge=0, le=1)], ...] | None = None
    label_noise: str | None = None
    images_per_site: Positive = 12
    test_images: Positive = 50
    seed: int = 0

    @property
    def drawing(self) -> dict[str, Any]:
        """What decides every site's data, as arguments of the functions that write the task's phantom."""
        shared = {"num_sites": self.sites, "seed": self.seed}
        if self.task == "lesions3d":
            return shared | {"completeness": self.completeness}
        if self.task == "cells2d":
            return shared | {"label_noise": self.label_noise}
        return shared | {"noise": self.noise, "exact": self.exact, "stratified": self.stratified}

    @model_validator(mode="after")
    def _noise_can_be_read(self) -> "EmbeddedSettings":
        if self.noise is not None:
            FederationNoise.parse(self.noise)
        if self.label_noise is not None:
            ClassNoise.parse_sites(self.label_noise)
        return self

    @model_validator(mode="after")
    def _imperfections_suit_the_task(self) -> "EmbeddedSettings":
        for key, task in (("noise", "lesions2d"), ("completeness", "lesions3d"), ("label_noise", "cells2d")):
            if self.task != task and getattr(self, key) is not None:
                raise ValueError(f"key 'embedded.{key}' goes with embedded.task = {task}")
        if self.completeness is not None and len(self.completeness) != self.sites:
            raise ValueError(
                f"key 'embedded.completeness' has {len(self.completeness)} shares, expected one for each of "
                f"'embedded.sites', {self.sites}"
            )
        return self


class RunSettings(_Settings):
    """What the settings of all methods and tasks share.

    Args:
        task: what is learnt.
        method: how.
    """

    task: Literal["segmentation", "classification"] = "segmentation"
    method: str = "fedavg"
    seed: int = 0
    rounds: Positive = 100
    threads: Positive = 1
    data: str = ""
    network: NetworkSettings | ClassifierSettings
    training: TrainingSettings | ClassifierTrainingSettings
    embedded: EmbeddedSettings = EmbeddedSettings()
    blocks: tuple[str, ...] = ()
    min_sites: Positive = 1
    task_timeout: Positive = 3600
    max_failed_rounds: Positive = 3
    validate_every: Positive = 5
    keep_rounds: tuple[Positive, ...] = ()
    resume_from: str = ""


class FedAvgSettings(RunSettings):
    """Settings of federated averaging for segmentation, and what every method for it shares."""

    task: Literal["segmentation"] = "segmentation"
    network: NetworkSettings = NetworkSettings()
    training: TrainingSettings = TrainingSettings()

    @property
    def reports_dice_loss(self) -> bool:
        """Whether sites report the Dice loss of their training."""
        return self.training.loss in ("dice", "batch_dice")

    @model_validator(mode="after")
    def _patch_where_volumes_are_whole(self) -> "FedAvgSettings":
        patch = self.training.patch
        if self.network.spatial_dims == 3 and patch is None:
            raise ValueError(
                "key 'training.patch' is missing; with network.spatial_dims = 3 it gives the extents of the patches "
                "that volumes are trained on, for example training.patch = [96, 96, 64]"
            )
        if self.network.spatial_dims == 2 and patch is not None:
            raise ValueError(
                f"key 'training.patch' is {list(patch)}, but network.spatial_dims is 2: pictures and slices are "
                "trained on whole; leave training.patch out, or set network.spatial_dims = 3"
            )
        return self


def _check_warmup(warmup_rounds: int, rounds: int) -> None:
    if warmup_rounds >= rounds:
        raise ValueError(f"warmup_rounds must be below rounds, but got {warmup_rounds=}, {rounds=}")


class _WarmupSettings(FedAvgSettings):
    """What methods share that begin with federated averaging.

    Args:
        warmup_rounds: rounds of federated averaging, fewer than all.
        max_extra_warmup_rounds: how long to wait for a warm-up model that is fit to judge annotations.
    """

    warmup_rounds: Positive = 10
    max_extra_warmup_rounds: Annotated[int, Field(ge=0)] = 5

    @model_validator(mode="after")
    def _warmup_ends(self) -> "_WarmupSettings":
        _check_warmup(self.warmup_rounds, self.rounds)
        return self


class FedA3ISettings(_WarmupSettings):
    """Settings of FedA³I: federated averaging for the warm-up, then quality-aware aggregation."""

    method: str = "feda3i"
    weighting: Literal["intra_and_inter", "intra"] = "intra_and_inter"
    balance: Annotated[float, Field(ge=0, le=1)] = 0.5
    layer_weight: float = 1.0
    layer_power: Annotated[float, Field(ge=0)] = 1.0
    layer_bias: float = 0.0
    group_decision: Literal["test", "shrink"] = "test"
    group_test_level: Annotated[float, Field(gt=0, le=1)] = 0.05
    min_predicted_share: Annotated[float, Field(ge=0, le=1)] = 0.5


class FedIASettings(_WarmupSettings):
    """Settings of FedIA: federated averaging for the warm-up, then weights by completeness, and corrections.

    Args:
        weighting: ``completeness`` is Eq. 4 and 5; ``quantity`` is the ablation without.
        estimator: ``counts`` is Eq. 3; ``matched`` counts among the predicted lesions those that are annotated.
        correction: whether sites correct their annotations; off is the ablation without.
        correction_margin: λ of Eq. 7.
        correction_threshold: τ, the probability from which a background voxel becomes foreground.
    """

    method: str = "fedia"
    weighting: Literal["completeness", "quantity"] = "completeness"
    estimator: Literal["counts", "matched"] = "counts"
    correction: bool = True
    correction_margin: float = 0.03
    correction_threshold: Annotated[float, Field(ge=0.5, lt=1)] = 0.8

    @property
    def reports_dice_loss(self) -> bool:
        """Always: weights and corrections follow from it."""
        return True


class ClassificationSettings(RunSettings):
    """Settings of federated averaging for classification, and what every method for it shares."""

    task: Literal["classification"] = "classification"
    network: ClassifierSettings = ClassifierSettings()
    training: ClassifierTrainingSettings = ClassifierTrainingSettings()


class FedGSCASettings(ClassificationSettings):
    """Settings of FedGSCA: samples selected by their losses, pseudo-labels, and losses that leave labels open.

    Args:
        warmup_rounds: rounds of federated averaging before samples are selected; 0 is the paper's form, which starts
            from a network that has been trained on something else. A network that knows nothing selects what it
            predicts, and from then on learns nothing but that.
        selector: ``global`` is Eq. 4; ``own`` is the ablation in which each site has its own alone.
        selector_losses: whose losses the selector is fitted to. ``trained``, those of the site's trained model, is the
            paper's form (Eq. 1); ``received``, those of the model that it judges by, needs no second pass.
        sample_loss: ``ce`` is the paper's cross entropy; ``mae``, one minus the probability of the label, is bounded.
        confident_doubts: whether a label is doubted only where the received model is as sure of another class as it is
            of that class's samples; in the paper's form the loss alone decides.
        pseudo_labels: ``adaptive`` is Eq. 10; ``fixed`` is the ablation with one threshold for all classes.
        initial_threshold: ζ_0 of the adaptive thresholds.
        fixed_threshold: that of the ablation.
        smallest_noise_level: δ from which labels of noisy samples are dropped (Eq. 13).
        loss: ``rcl`` is robust credal labelling; ``ucl`` its rival with uniform credal labels, ``ce`` cross entropy.
        relaxation: α of Eq. 14.
        beta_start: β_0, the probability from which a class is plausible in the first round.
        beta_end: β_1, in the last round.
        beta_schedule: how β falls from the one to the other.
    """

    method: str = "fedgsca"
    warmup_rounds: Annotated[int, Field(ge=0)] = 0
    selector: Literal["global", "own"] = "global"
    selector_losses: Literal["trained", "received"] = "trained"
    sample_loss: Literal["ce", "mae"] = "ce"
    confident_doubts: bool = False
    pseudo_labels: Literal["adaptive", "fixed"] = "adaptive"
    initial_threshold: Annotated[float, Field(gt=0, le=1)] = 0.8
    fixed_threshold: Annotated[float, Field(gt=0, le=1)] = 0.7
    smallest_noise_level: Annotated[float, Field(ge=0, le=1)] = 0.1
    loss: Literal["rcl", "ucl", "ce"] = "rcl"
    relaxation: Annotated[float, Field(gt=0, lt=1)] = 0.05
    beta_start: Annotated[float, Field(gt=0, le=1)] = 0.75
    beta_end: Annotated[float, Field(gt=0, le=1)] = 0.55
    beta_schedule: Literal["cosine", "linear", "constant"] = "cosine"

    @model_validator(mode="after")
    def _warmup_ends(self) -> "FedGSCASettings":
        _check_warmup(self.warmup_rounds, self.rounds)
        return self


METHOD_SETTINGS: dict[str, dict[str, type[RunSettings]]] = {
    "segmentation": {"fedavg": FedAvgSettings, "feda3i": FedA3ISettings, "fedia": FedIASettings},
    "classification": {"fedavg": ClassificationSettings, "fedgsca": FedGSCASettings},
}

SettingsType = TypeVar("SettingsType", bound=RunSettings)


def read_settings(kind: type[SettingsType], values: Mapping[str, Any], source: str = "settings.conf") -> SettingsType:
    """Check the settings of a job.

    Args:
        kind: the method's settings.
        values: what the job's configuration holds.
        source: the file to name in an error.

    Raises:
        SettingsError: if a key is unknown or a value not allowed.
    """
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        raise SettingsError(describe_validation_error(error, source=source, model=kind)) from error


def read_job_settings(values: Mapping[str, Any], source: str = "settings.conf") -> RunSettings:
    """Check the settings of a job whose keys ``task`` and ``method`` say what is learnt and how.

    Raises:
        SettingsError: if the task or the method is unknown, a key is unknown or a value not allowed.
    """
    task = values.get("task", "segmentation")
    if task not in METHOD_SETTINGS:
        raise SettingsError(f"{source}: key 'task' is {task!r}; allowed: {', '.join(METHOD_SETTINGS)}.")
    methods, method = METHOD_SETTINGS[task], values.get("method")
    if method not in methods:
        raise SettingsError(f"{source}: key 'method' is {method!r}; allowed for {task}: {', '.join(sorted(methods))}.")
    return read_settings(methods[method], values, source)
