"""The settings of each method, `settings.conf` in a job beside its configuration."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from .settings import (
    ClassifierSettings,
    ClassifierTrainingSettings,
    CurvatureNetworkSettings,
    DecoupledNetworkSettings,
    NetworkSettings,
    Positive,
    RunSettings,
    SettingsError,
    TrainingSettings,
    read_settings,
)


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


class FedCurvSettings(FedAvgSettings):
    """Settings of FedCurv: federated averaging that keeps what bends the other sites' losses.

    Args:
        curvature_weight: λ.
    """

    method: str = "fedcurv"
    network: CurvatureNetworkSettings = CurvatureNetworkSettings()
    curvature_weight: Annotated[float, Field(ge=0)] = 1.0


class PersonalSettings(FedAvgSettings):
    """What methods share in which every site has a part of the model for itself."""

    @property
    def has_global_model(self) -> bool:
        """Whether the shared part by itself is a model, which can be scored at the server."""
        return True


class DecoupledSettings(PersonalSettings):
    """Settings of decoupled predictions: a shared network, and at each site one that adapts it to its annotations.

    Args:
        warmup_rounds: rounds in which the segmentation network alone is fitted (Eq. 7), fewer than all.
        adaptation: what W is made of; see :class:`fedannot.custom.methods.decoupled.network.AdaptationNetwork`.
        trace_weight: α of Eq. 8; see docs/benchmarks/decoupled.md for how large it may be.
        divergence_weight: β of Eq. 7 and 8.
        noise_exponent: q of Eq. 6.
    """

    method: str = "decoupled"
    network: DecoupledNetworkSettings = DecoupledNetworkSettings()
    warmup_rounds: Positive = 10
    adaptation: Literal["latent", "published", "feature", "image", "fixed"] = "latent"
    trace_weight: Annotated[float, Field(ge=0)] = 0.01
    divergence_weight: Annotated[float, Field(ge=0)] = 0.01
    noise_exponent: Annotated[float, Field(gt=0, le=1)] = 0.7

    @model_validator(mode="after")
    def _warmup_ends(self) -> "DecoupledSettings":
        _check_warmup(self.warmup_rounds, self.rounds)
        return self

    @model_validator(mode="after")
    def _loss_is_its_own(self) -> "DecoupledSettings":
        if self.training.loss != "ce" or self.training.proximal_weight:
            raise ValueError(
                "keys 'training.loss' and 'training.proximal_weight' cannot be chosen: decoupled predictions have a "
                "loss of their own; leave them out"
            )
        return self


class FedRepSettings(PersonalSettings):
    """Settings of FedRep, whose last layers are personal.

    Args:
        head_epochs: epochs of the personal head in every round, before ``training.local_epochs`` of the rest.
    """

    method: str = "fedrep"
    head_epochs: Positive = 1

    @property
    def has_global_model(self) -> bool:
        """No: no head is shared."""
        return False


class DittoSettings(PersonalSettings):
    """Settings of Ditto, in which every site has a whole network of its own.

    Args:
        personal_proximal_weight: λ, how near it is kept to the shared one.
    """

    method: str = "ditto"
    personal_proximal_weight: Annotated[float, Field(ge=0)] = 0.1


class SingleSiteSettings(PersonalSettings):
    """Settings of training without a federation, each site by itself."""

    method: str = "single_site"

    @property
    def has_global_model(self) -> bool:
        """No: nothing is shared."""
        return False


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
        pseudo_labels: ``adaptive`` is Eq. 10; ``fixed``, the paper's ablation, has one threshold for all classes.
        initial_threshold: ζ_0 of the adaptive thresholds.
        fixed_threshold: the one threshold, 0.7 in the paper's ablation.
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
    "segmentation": {
        "fedavg": FedAvgSettings,
        "feda3i": FedA3ISettings,
        "fedia": FedIASettings,
        "fedcurv": FedCurvSettings,
        "decoupled": DecoupledSettings,
        "fedrep": FedRepSettings,
        "ditto": DittoSettings,
        "single_site": SingleSiteSettings,
    },
    "classification": {"fedavg": ClassificationSettings, "fedgsca": FedGSCASettings},
}


def read_job_settings(values: Mapping[str, Any], source: str = "settings.conf") -> RunSettings:
    """Check the settings of a job whose keys ``task`` and ``method`` say what is learnt and how.

    Raises:
        SettingsError: if the task or the method is unknown, a key is unknown or a value not allowed.
    """
    task = values.get("task", "segmentation")
    if not isinstance(task, str) or task not in METHOD_SETTINGS:
        raise SettingsError(f"{source}: key 'task' is {task!r}; allowed: {', '.join(METHOD_SETTINGS)}.")
    methods, method = METHOD_SETTINGS[task], values.get("method")
    if not isinstance(method, str) or method not in methods:
        raise SettingsError(f"{source}: key 'method' is {method!r}; allowed for {task}: {', '.join(sorted(methods))}.")
    return read_settings(methods[method], values, source)
