"""What FedA³I adds to a run's summary, as records."""

from typing import Literal

from ...records.round_records import Record


class JudgedSite(Record):
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
    """The estimate of the annotation noise.

    Attributes:
        sites: the sites that could estimate all classes.
        reason: why there are no groups; empty if there are.
        p_value: of the test of two groups against one, None if it was not made.
    """

    sites: dict[str, JudgedSite]
    reason: str
    p_value: float | None


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
