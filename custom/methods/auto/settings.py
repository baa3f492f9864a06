"""Settings of methods that measure how sites annotate, and of the one that undoes it."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from ...settings import Positive, RemovedSetting
from ..fedavg.settings import FedAvgSettings, WarmupSettings

_ANCHORS = ("auto", "reference", "balanced", "median", "edges")

Level = Annotated[float, Field(gt=0, lt=1)]


class JudgingSettings(FedAvgSettings):
    """Settings of methods that judge how sites annotate.

    Args:
        undo: what is undone where it is established: ``offset`` of contours; ``missing`` objects, of which the surest
            are ignored in training, while the loss asks for the share that is annotated only; ``swapped`` classes of
            objects, of which the surest get the class that they look like; with offsets ``overshoot``, by which the
            model itself draws outside zero, at most by `edge_error`.
        anchor: where zero lies on the scale of offsets: ``auto``, ``reference``, ``balanced``, ``median``, ``edges``
            or ``site:<name>``; see :func:`fedannot.custom.channel.anchor.choose_anchor`.
        level: of the test of all sites and parameters together.
        group_level: share of federations that annotate alike and may pass for two groups.
        edge_error: right annotations may lie so far from the edges of the images, in pixels; so far zero may be wrong
            where no case is reviewed, and smaller offsets are not undone there.
        offset_floor: smaller offsets are not undone anywhere, in pixels of the network's images.
        missing_floor: smaller shares of missing objects are not.
        swapped_floor: smaller shares of objects of another class are not; by half of them codes are exchanged, while a
            model that errs in one class shows less at honest sites with many objects of it. Where codes of some classes
            are exchanged it is of the objects of these.
        unknown_images: how a site counts that says nothing of its images, as one whose statistics are private:
            ``out_of_domain``, so that the model predicts none of its cases, or ``in_domain``, where somebody knows that
            the sites' images are alike.
        min_predicted_share: the model is fit to judge where it finds at least this share of the annotated patients.
    """

    undo: tuple[Literal["offset", "missing", "swapped", "overshoot"], ...] = (
        "offset",
        "missing",
        "swapped",
        "overshoot",
    )
    anchor: str = "auto"
    level: Level = 0.05
    group_level: Level = 0.05
    edge_error: Annotated[float, Field(ge=0)] = 2.0
    offset_floor: Annotated[float, Field(ge=0)] = 0.5
    missing_floor: Annotated[float, Field(ge=0, lt=1)] = 0.1
    swapped_floor: Annotated[float, Field(ge=0, lt=1)] = 0.5
    unknown_images: Literal["out_of_domain", "in_domain"] = "out_of_domain"
    min_predicted_share: Annotated[float, Field(ge=0, le=1)] = 0.5

    @property
    def undone_kinds(self) -> tuple[str, ...]:
        """What a site is told to undo where it is established."""
        return self.undo

    @field_validator("anchor")
    @classmethod
    def _is_an_anchor(cls, anchor: str) -> str:
        if anchor not in _ANCHORS and not (anchor.startswith("site:") and anchor != "site:"):
            raise ValueError(f"allowed: {', '.join(_ANCHORS)}, site:<name>; found {anchor!r}")
        return anchor


class AutoSettings(JudgingSettings, WarmupSettings):
    """Settings of `auto`: federated averaging for the warm-up, an estimate, and federated averaging on what is undone.

    Args:
        treatment: what is done where something is established: ``undo``, or ``none`` to estimate alone.
        weighting: ``quantity`` is federated averaging's; ``completeness`` lets sites that leave objects out count less,
            within bounds.
        estimates: how often annotations are judged, the first time after the warm-up, then in equal steps: three are
            after a third and two thirds of the remaining rounds once more.
        shadow_rounds: number of rounds in which the sites compare the model in use with one without what was done: that
            of before where sites undo something, the average by numbers of samples where weights are others. If it is
            better beyond doubt everything is taken back. 0 for no check.
        held_out: share of its training patients that a site without validation cases keeps out of training, to score
            models on them.
    """

    removed: ClassVar[Mapping[str, RemovedSetting]] = {
        "treatment": RemovedSetting(
            ("feda3i", "fedia"),
            "Allowed: undo, none. To compare with a published method, run its own job on the same data, as in "
            "'fedannot compare jobs/auto jobs/fedia' or 'fedannot compare jobs/auto jobs/fedaaai'.",
            read_as="none",
        ),
        "judge": RemovedSetting(
            ("without_own",), "The global model always predicts; remove the key.", dropped="global"
        ),
    }

    method: str = "auto"
    warmup_rounds: Positive = 5
    treatment: Literal["undo", "none"] = "undo"
    weighting: Literal["quantity", "completeness"] = "quantity"
    estimates: Positive = 3
    shadow_rounds: Annotated[int, Field(ge=0)] = 3
    held_out: Annotated[float, Field(ge=0, le=0.5)] = 0.0

    @property
    def undone_kinds(self) -> tuple[str, ...]:
        """Nothing where estimates are all that is asked for."""
        return self.undo if self.treatment == "undo" else ()
