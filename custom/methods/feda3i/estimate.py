"""What FedA³I's server concludes from the sites' learning difficulties: groups, noise strengths, quality weights."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ....transforms.strict_files import JsonObject
from .records import EstimateRecord, NoGroups, PredictedSite
from .two_groups import fit_two_groups
from .weights import noise_strength, quality_weights

# A difficulty is at most 16.1, and noise that hides patients is not many times that.
_REACH = 1e3
# In logarithms smaller difficulties count as this: for a model that is so confident at contours a factor says nothing.
_SMALLEST = 1e-2


@dataclass(frozen=True)
class QualityAnswer:
    """A site's answer to ``estimate_quality``.

    Attributes:
        inner: q_in per class (Eq. 3); NaN where the site has no estimate.
        outer: q_out per class (Eq. 4), as above.
        predicted_share: fraction of the annotated images where the model finds anything; None where it is withheld.
    """

    inner: tuple[float, ...]
    outer: tuple[float, ...]
    predicted_share: float | None = None

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "QualityAnswer":
        """Read the registered fields, which the guard has checked."""
        return cls(tuple(fields["inner_difficulty"]), tuple(fields["outer_difficulty"]), fields.get("predicted_share"))


@dataclass(frozen=True)
class QualityEstimate:
    """The annotation noise of the sites, estimated once after the warm-up.

    Attributes:
        inner: q_in per class of the sites that could estimate all classes (Eq. 3).
        outer: q_out as above (Eq. 4).
        larger: sites that draw larger, G_l.
        smaller: sites that draw smaller, G_s.
        reason: why there are no groups; None if there are.
        p_value: of the test of two groups against one, None if it was not made.
    """

    inner: dict[str, list[float]]
    outer: dict[str, list[float]]
    larger: tuple[str, ...]
    smaller: tuple[str, ...]
    reason: NoGroups | None
    p_value: float | None

    @property
    def has_groups(self) -> bool:
        """Whether the sites fall into two groups; if not, they are weighed by quantity."""
        return self.reason is None

    @property
    def evidence(self) -> float:
        """Evidence for two groups, 1 − p of the test of two groups against one; 0 without groups."""
        return 0.0 if self.p_value is None or not self.has_groups else 1.0 - self.p_value

    @property
    def difficulty(self) -> dict[str, list[float]]:
        """The rows (q_in of all classes, q_out of all classes) of the sites."""
        return {site: [*self.inner[site], *self.outer[site]] for site in self.inner}

    @property
    def strength(self) -> dict[str, float]:
        """Noise strength s_i of the sites (Eq. 5), empty without groups."""
        return noise_strength(self.difficulty, self.larger, self.smaller) if self.has_groups else {}

    def quality_weights(self, quantity: Mapping[str, float], *, balance: float, intra_only: bool) -> dict[str, float]:
        """Return Eq. 6's weights of all sites that have a quantity weight; see
        :func:`fedannot.custom.methods.feda3i.weights.quality_weights`.

        A site that has an estimate but never sent a model takes no part.
        """
        return quality_weights(
            {site: value for site, value in self.strength.items() if site in quantity},
            [site for site in self.larger if site in quantity],
            [site for site in self.smaller if site in quantity],
            quantity,
            balance=balance,
            intra_only=intra_only,
        )

    @property
    def record(self) -> EstimateRecord:
        """What the summary says of it, with one entry per site."""
        strength = self.strength
        groups: dict[str, Literal["larger", "smaller"]] = {
            **dict.fromkeys(self.larger, "larger"),
            **dict.fromkeys(self.smaller, "smaller"),
        }
        sites = {
            site: PredictedSite(
                inner=tuple(self.inner[site]),
                outer=tuple(self.outer[site]),
                group=groups.get(site),
                strength=strength.get(site),
            )
            for site in sorted(self.inner)
        }
        return EstimateRecord(sites=sites, reason=self.reason, p_value=self.p_value)

    def to_dict(self) -> JsonObject:
        """Return plain values, with one entry per site."""
        return self.record.plain()

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "QualityEstimate":
        """Take back what :meth:`to_dict` returned."""
        sites = values["sites"]
        return cls(
            inner={site: list(of_site["inner"]) for site, of_site in sites.items()},
            outer={site: list(of_site["outer"]) for site, of_site in sites.items()},
            larger=tuple(site for site, of_site in sites.items() if of_site["group"] == "larger"),
            smaller=tuple(site for site, of_site in sites.items() if of_site["group"] == "smaller"),
            reason=EstimateRecord.model_validate(values).reason,
            p_value=values["p_value"],
        )


def estimate_quality(
    answers: Mapping[str, QualityAnswer], *, seed: int, level: float, logarithms: bool = False
) -> QualityEstimate:
    """Conclude from what the sites sent for the task ``estimate_quality``.

    A site that could not estimate every class (NaN) has no estimate and counts by its quantity. Values beyond ±1000, as
    only a site that lies or is broken sends them, count as that, so that no variance overflows.

    Args:
        answers: learning difficulties by site.
        seed: seed of the mixture's starts and of the test's draws.
        level: level of the test of two groups against one.
        logarithms: whether groups are looked for among the logarithms of the difficulties, which grow faster than the
            offset of a contour; strengths are of the difficulties all the same.
    """
    complete = {
        site: answer
        for site, answer in sorted(answers.items())
        if all(map(math.isfinite, [*answer.inner, *answer.outer]))
    }
    inner = {site: _within_reach(answer.inner) for site, answer in complete.items()}
    outer = {site: _within_reach(answer.outer) for site, answer in complete.items()}
    rows = {site: [*inner[site], *outer[site]] for site in complete}
    if logarithms:
        rows = {site: [math.log(max(value, _SMALLEST)) for value in row] for site, row in rows.items()}
    groups = fit_two_groups(rows, seed=seed, level=level)
    return QualityEstimate(inner, outer, groups.larger, groups.smaller, groups.reason, groups.p_value)


def _within_reach(values: Sequence[float]) -> list[float]:
    return [min(max(float(value), -_REACH), _REACH) for value in values]
