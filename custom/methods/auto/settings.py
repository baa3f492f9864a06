"""Settings of methods that measure how sites annotate, and of the one that corrects it."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from ...annotation_bias.parameters import ParameterKind
from ...settings import Positive, RemovedSetting
from ..fedavg.settings import FedAvgSettings, WarmupSettings

_REFERENCE_LEVELS = ("auto", "reference", "balanced", "median", "image_boundary")

# What the setting `correct` lists → the parameter.
_KINDS = {
    "offset": ParameterKind.OFFSET,
    "missing": ParameterKind.MISSING,
    "confused": ParameterKind.CONFUSED,
}

Level = Annotated[float, Field(gt=0, lt=1)]


class BiasSettings(FedAvgSettings):
    """Settings of methods that measure how sites annotate.

    Args:
        correct: what is corrected where it is confirmed: ``offset`` of contours; ``missing`` objects, of which the most
            confident are ignored in training, while the loss asks for the share that is annotated only; ``confused``
            classes of objects, of which the most confident get the class that they look like.
        reference_level: where the reference level is on the scale of offsets: ``auto``, ``reference``, ``balanced``,
            ``median``, ``image_boundary`` or ``site:<name>``; see
            :func:`fedannot.custom.annotation_bias.reference_level.choose_reference_level`.
        level: of the tests of all sites and classes, for each kind of parameter.
        group_level: fraction of federations that annotate alike and may pass for two groups.
        image_boundary_error: right annotations may lie so far from the edges of the images, in pixels; so far zero may
            be wrong where no case is reviewed, and smaller offsets are not corrected there.
        min_boundary_bias: smaller offsets are not corrected anywhere, in pixels of the network's images.
        min_missed_fraction: smaller fractions of missing objects are not.
        min_confused_fraction: smaller confused fractions are not corrected. Half means permuted labels; a model that
            errs in one class shows less. If only some classes are permuted, the fraction is of their objects.
        unknown_images: how a site counts that says nothing of its images, as one whose statistics are private:
            ``out_of_domain``, so that the model predicts none of its cases, or ``in_domain``, where somebody knows that
            the sites' images are alike.
        min_predicted_fraction: the model is fit as a reference where it finds at least this fraction of the annotated
            patients.
    """

    correct: tuple[Literal["offset", "missing", "confused"], ...] = ("offset", "missing", "confused")
    reference_level: str = "auto"
    level: Level = 0.05
    group_level: Level = 0.05
    image_boundary_error: Annotated[float, Field(ge=0)] = 2.0
    min_boundary_bias: Annotated[float, Field(ge=0)] = 0.5
    min_missed_fraction: Annotated[float, Field(ge=0, lt=1)] = 0.1
    min_confused_fraction: Annotated[float, Field(ge=0, lt=1)] = 0.5
    unknown_images: Literal["out_of_domain", "in_domain"] = "out_of_domain"
    min_predicted_fraction: Annotated[float, Field(ge=0, le=1)] = 0.5

    @property
    def corrected_kinds(self) -> tuple[ParameterKind, ...]:
        """The parameters that a site corrects where they are confirmed."""
        return tuple(_KINDS[value] for value in self.correct)

    @field_validator("reference_level")
    @classmethod
    def _is_a_reference_level(cls, reference_level: str) -> str:
        if reference_level not in _REFERENCE_LEVELS and not (
            reference_level.startswith("site:") and reference_level != "site:"
        ):
            raise ValueError(f"allowed: {', '.join(_REFERENCE_LEVELS)}, site:<name>; found {reference_level!r}")
        return reference_level

    @property
    def training_predictions(self) -> int | None:
        """Return None: an audit trains models for its folds."""
        return None


class AutoSettings(BiasSettings, WarmupSettings):
    """Settings of `auto`: federated averaging for the warm-up, an estimate, and federated averaging on what is
    corrected.

    Args:
        treatment: what is done where something is confirmed: ``correct``, or ``none`` to estimate alone.
        weighting: ``quantity`` is federated averaging's; ``completeness`` lets sites that leave objects out count less,
            within bounds.
        estimates: how often annotations are assessed, the first time after the warm-up, then in equal steps: three are
            after a third and two thirds of the remaining rounds once more.
        boundary_evidence: what boundary biases are estimated from: ``both``, ``image`` or ``model``. With images they
            are estimated and corrected before the first round, without a model.
        correct_shift: whether a site moves all its masks back where its images show that they are shifted, before its
            boundary bias is estimated; else an audit by images proposes it alone. A site whose statistics are private
            then says nothing of its contours: the shift hangs on all of its patients together.
        bias_unit: whose boundary bias is estimated and corrected: all cases of a ``site`` together, or those of each
            ``annotator`` in it. By annotator the boundary bias alone is corrected. The rollback check is of sites: one
            compares models where none of its annotators deviates, and a veto takes everything back. With images alone
            no model is compared. A site whose statistics are private says nothing of its contours.
        rollback_rounds: number of rounds in which the sites compare the model in use with one without what was done:
            that of before where sites correct something, the average by numbers of samples where weights are others. If
            it is better beyond doubt everything is rolled back. 0 for no check.
        held_out: fraction of its training patients that a site without validation cases keeps out of training, to score
            models on them.
    """

    removed: ClassVar[Mapping[str, RemovedSetting]] = {
        "treatment": RemovedSetting(
            ("feda3i", "fedia"), allowed=("correct", "none"), jobs=("fedia", "fedaaai"), read_as="none"
        ),
        "judge": RemovedSetting(("without_own",), dropped="global"),
    }

    method: str = "auto"
    warmup_rounds: Positive = 5
    treatment: Literal["correct", "none"] = "correct"
    weighting: Literal["quantity", "completeness"] = "quantity"
    estimates: Positive = 3
    boundary_evidence: Literal["both", "image", "model"] = "both"
    correct_shift: bool = False
    bias_unit: Literal["site", "annotator"] = "site"
    rollback_rounds: Annotated[int, Field(ge=0)] = 3
    held_out: Annotated[float, Field(ge=0, le=0.5)] = 0.0

    @property
    def asks_images(self) -> bool:
        """Whether boundary biases are estimated from images."""
        return self.boundary_evidence != "model"

    @model_validator(mode="after")
    def _shifts_are_seen_in_images(self) -> Self:
        if self.correct_shift and not (self.asks_images and self.treatment == "correct"):
            raise ValueError(
                "key 'correct_shift' is true: expected 'boundary_evidence' both or image, and 'treatment' correct, as "
                f"images show it; found {self.boundary_evidence} and {self.treatment}"
            )
        return self

    @property
    def asks_model(self) -> bool:
        """Whether sites, or groups of their annotators, are asked what a model shows of them."""
        return not self.is_by_annotator or self.boundary_evidence != "image"

    @property
    def is_by_annotator(self) -> bool:
        """Whether the cases of each annotator are estimated and corrected by themselves."""
        return self.bias_unit == "annotator"

    @model_validator(mode="after")
    def _only_contours_are_by_annotator(self) -> Self:
        if not self.is_by_annotator:
            return self
        if not {*self.correct} <= {"offset"}:
            raise ValueError(
                "key 'bias_unit' is annotator: expected 'correct' [offset], as objects are chosen by all cases of a "
                f"site; found [{', '.join(self.correct)}]"
            )
        if self.weighting != "quantity":
            raise ValueError(
                "key 'bias_unit' is annotator: expected 'weighting' quantity, as weights are of sites; found "
                f"{self.weighting}"
            )
        if self.correct_shift:
            raise ValueError(
                "key 'bias_unit' is annotator: expected 'correct_shift' false, as a shift is of all masks of a site; "
                "found true"
            )
        return self

    @property
    def corrected_kinds(self) -> tuple[ParameterKind, ...]:
        """Nothing where estimates are all that is asked for."""
        return super().corrected_kinds if self.treatment == "correct" else ()

    @property
    def training_predictions(self) -> int | None:
        """Return one for each estimate, and one for the corrections."""
        return self.estimates + 1 if self.asks_model else 0
