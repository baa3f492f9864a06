"""What FedA³I adds to a run's summary, as records."""

from enum import StrEnum
from typing import Any, Literal

from pydantic import model_validator

from ...records.round_records import Record
from .version_1 import estimate_of_version_1


class NoGroups(StrEnum):
    """Why there are no groups of sites.

    Attributes:
        TOO_FEW_SITES: too few sites have an estimate.
        EQUAL: all have the same.
        NOT_CONVERGED: the Gaussian mixture did not converge.
        ONE_IS_ENOUGH: one Gaussian explains the sites as well as two.
        ONE_COMPONENT: one component of the mixture explains every site best.
        TEXT: a sentence of version 1 that says something else.
    """

    TOO_FEW_SITES = "too_few_sites"
    EQUAL = "equal"
    NOT_CONVERGED = "not_converged"
    ONE_IS_ENOUGH = "one_is_enough"
    ONE_COMPONENT = "one_component"
    TEXT = "text"


class PredictedSite(Record):
    """What was concluded of a site.

    Attributes:
        inner: q_in per class (Eq. 3).
        outer: q_out per class (Eq. 4).
        group: whether it draws larger or smaller; None without groups.
        strength: s_i (Eq. 5); None without groups.
    """

    inner: tuple[float, ...] | None
    outer: tuple[float, ...] | None
    group: Literal["larger", "smaller"] | None
    strength: float | None


class EstimateRecord(Record):
    """The estimate of the annotation noise; the form of version 1 is read as well.

    Attributes:
        sites: the sites that could estimate all classes.
        reason: why there are no groups; None if there are.
        p_value: of the test of two groups against one, None if it was not made.
        text: the sentence of version 1.
    """

    sites: dict[str, PredictedSite]
    reason: NoGroups | None
    p_value: float | None
    text: str = ""

    @model_validator(mode="before")
    @classmethod
    def _of_version_1(cls, values: Any) -> Any:
        return estimate_of_version_1(values)


class WeightsRecord(Record):
    """Aggregation weights w_ij (Eq. 7).

    Attributes:
        sites: names of the rows.
        blocks: layer blocks in forward order, names of the columns.
        values: of each site and block.
        effective_sites: how many sites the weights of each block are of in effect.
    """

    sites: tuple[str, ...]
    blocks: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    effective_sites: tuple[float, ...] | None = None

    def of_site(self, site: str) -> tuple[float, ...] | None:
        """Return a site's weights, None where it has none."""
        return self.values[self.sites.index(site)] if site in self.sites else None


class QualityFindings(Record):
    """What the summary of a run has; both None before the estimate, the weights also without groups."""

    estimate: EstimateRecord | None
    weights: WeightsRecord | None = None
