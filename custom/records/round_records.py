"""The records of a run's rounds: what sites reported, who was refused or bounded, and what the model scores."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, JsonValue, Tag, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from ...transforms.strict_files import JsonObject
from ..evaluation.score_records import ClassificationRoundScores, SegmentationRoundScores
from ..former_names import current_stage, with_current_fields
from ..refusals import RefusalReason
from ..strict_model import StrictModel

# The name of a stage; a former one is read as the present one.
Stage = Annotated[str, BeforeValidator(current_stage)]

# Of the lines of the metrics file; a later one says something that this one does not.
VERSION = 1


class Record(StrictModel):
    """A part of what a run leaves behind.

    Attributes:
        earlier_names: fields of earlier versions, which a validator of the record reads.
    """

    earlier_names: ClassVar[frozenset[str]] = frozenset()

    def plain(self) -> JsonObject:
        """Return plain values that JSON can hold; what was not given is not there."""
        return self.model_dump(mode="json", exclude_unset=True)


Added = TypeVar("Added", bound=Record)


class OpenRecord(Record):
    """A record to which a method may add fields of its own, as plain values."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue] = Field(init=False)

    @property
    def extra(self) -> JsonObject:
        """What the method has added, by name."""
        return dict(self.__pydantic_extra__)

    def named(self, name: str) -> Any:
        """Return a field by its name, the record's own or the method's; None where it is not there."""
        return getattr(self, name) if name in type(self).model_fields else self.extra.get(name)

    def added(self, kind: type[Added]) -> Added | None:
        """Return what a method has added, None where that is not there or of another form, as of another's method.

        Args:
            kind: the record that it is.
        """
        names = kind.model_fields.keys() | kind.earlier_names
        try:
            values = with_current_fields(self.extra, names)
            return kind.model_validate({name: value for name, value in values.items() if name in names})
        except (ValidationError, ValueError):
            return None

    @classmethod
    def of(cls, common: Mapping[str, Any], added: Mapping[str, Any]) -> Self:
        """Put together what all methods have and what one adds.

        Args:
            common: fields by their names.
            added: what the method adds, as JSON holds it.

        Raises:
            ValueError: if the method adds a field that is there, or one that JSON cannot hold.
        """
        if taken := sorted(set(common) & set(added)):
            raise ValueError(f"A method cannot add {taken[0]!r} to a record that has it; choose another name.")
        try:
            plain = to_jsonable_python(dict(added))
        except PydanticSerializationError as error:
            raise ValueError(f"Expected plain values from a method in {sorted(added)}, but: {error}.") from error
        return cls.model_validate(dict(common) | plain)


# Bits of a number's significand, with the leading one that is not stored, and the precision that has them.
PRECISIONS_BY_BITS = {24: "fp32", 11: "fp16", 8: "bf16"}


class SiteReport(OpenRecord):
    """What a site reported with its model, registered fields alone; see :mod:`fedannot.custom.outbound.fields`.

    None stands for what is not a finite number: undefined, withheld, or a bound that is none.

    Attributes:
        num_samples: the weight of its model: pictures, volumes or slices, as far as its claim counts.
        num_excluded: cases that could not be used.
        embedded_data: whether it runs on the embedded phantom.
        train_loss: mean training loss of the round.
        num_threads: that it trains with.
        significand_bits: of its network's numbers, where the job asks for another precision than float32; see
            :data:`PRECISIONS_BY_BITS`.
        num_patients: patients or volumes behind the loss.
        dice_loss: mean Dice loss of the round; None where nothing is annotated. See :attr:`has_dice_loss`.
        num_dice_patients: patients or volumes behind that.
        privacy_epsilon: ε of the site's taking part, by updates; None for no bound.
        privacy_delta: the δ for which that is.
        patient_epsilon: ε of a patient by updates and statistics together, for the same δ.
        statistics_epsilon: ε of a patient by statistics alone.
        statistics_delta: the δ for which that is.
    """

    num_samples: int
    num_excluded: int
    embedded_data: bool
    train_loss: float | None = None
    num_threads: int | None = None
    significand_bits: int | None = None
    num_patients: int | None = None
    dice_loss: float | None = None
    num_dice_patients: int | None = None
    privacy_epsilon: float | None = None
    privacy_delta: float | None = None
    patient_epsilon: float | None = None
    statistics_epsilon: float | None = None
    statistics_delta: float | None = None

    @property
    def has_dice_loss(self) -> bool:
        """Whether the site sent a Dice loss, be it undefined because nothing is annotated."""
        return self.has("dice_loss")

    def has(self, name: str) -> bool:
        """Return whether the site sent a field."""
        return name in self.model_fields_set


class Refusal(Record):
    """A result that did not count.

    Attributes:
        round: of which it was.
        site: whose it was.
        reason: why; in files of earlier versions a text.
    """

    round: int
    site: str
    reason: RefusalReason


class Bounded(Record):
    """What was bounded of a site's influence.

    Attributes:
        share: its weight in every layer block, after the bound.
        update_factor: by how much its update was scaled down in the group of parameters where that is most.
        update_group: that group, a layer block and a kind of its parameters.
    """

    share: tuple[float, ...] | None = None
    update_factor: float | None = None
    update_group: str | None = None


class Dominant(Record):
    """A site that nearly decides alone.

    Attributes:
        site: its name.
        weight: its weight in the layer block where that is largest.
    """

    site: str
    weight: float


class RoundRecord(OpenRecord):
    """What is known of a finished round; a line of ``metrics.jsonl``.

    Attributes:
        version: of the record's form.
        round: its number, from 1.
        stage: of the method.
        evaluated_on: what the model was scored on; None for a round without scores.
        num_cases: on how many cases.
        sites: what the sites reported whose models make up the round's, by name.
        refused: why others' results did not count, by name.
        bounded: whose influence was bounded, by name.
        effective_sites: how many sites the weights are of in effect, in the layer block where they are fewest.
        weights: of each site in that layer block, within the bounds of influence.
        validation_score: Dice or macro F1 of the model on the sites' validation cases, where they choose the result.
        kept: the sites whose models multi-Krum kept; the weights are theirs.
        dominant: the site that nearly decides alone.
        stability: how far the sites move the model (FedGSCA, Eq. 18), of a classification.
        seconds: that the round took.
    """

    version: Literal[1]
    round: int
    stage: Stage
    evaluated_on: Literal["test", "sites"] | None
    num_cases: int | None = None
    sites: dict[str, SiteReport]
    refused: dict[str, RefusalReason]
    bounded: dict[str, Bounded] | None = None
    effective_sites: float | None = None
    weights: dict[str, float] | None = None
    validation_score: float | None = None
    kept: tuple[str, ...] | None = None
    dominant: Dominant | None = None
    stability: float | None = None
    seconds: float

    @property
    def main_score(self) -> float | None:
        """Dice or macro F1 of the model after the round."""
        raise NotImplementedError


class SegmentationRecord(SegmentationRoundScores, RoundRecord):
    """The record of a round of a segmentation."""


class ClassificationRecord(ClassificationRoundScores, RoundRecord):
    """The record of a round of a classification."""


def _task_of(values: Any) -> str:
    scores = values if isinstance(values, Mapping) else type(values).model_fields
    return "classification" if "f1" in scores else "segmentation"


AnyRoundRecord = Annotated[
    Annotated[SegmentationRecord, Tag("segmentation")] | Annotated[ClassificationRecord, Tag("classification")],
    Discriminator(_task_of),
]
ROUND_RECORDS: dict[str, type[RoundRecord]] = {
    "segmentation": SegmentationRecord,
    "classification": ClassificationRecord,
}
