"""Where zero lies on the scale of offsets: the model's own bias is common to all sites and cannot be known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ...transforms.natural_order import natural_order
from .estimate import Estimate
from .thresholds import THRESHOLDS
from .two_levels import find_two_levels

AnchorKind = Literal["reference", "balanced", "median", "edges", "site"]


# A normal distribution has 90 % within so many standard deviations.
_DEVIATIONS = 1.6449


@dataclass(frozen=True)
class Anchor:
    """What counts as no offset; to be shown wherever an offset is.

    Attributes:
        kind: ``reference``, ``balanced``, ``median``, ``edges`` or ``site``.
        value: a, what is subtracted from the sites' estimates.
        deviation: its standard deviation, as far as it follows from those of the estimates.
        sentence: how it came about and what it assumes, for reports; it names no site that the choice does not.
        is_sure: whether anything may be done on its strength; a median is not where most sites disagree with it,
            nor what was asked for and is not there.
        groups: the two groups of sites that it lies between; empty otherwise.
    """

    kind: AnchorKind
    value: float
    deviation: float
    sentence: str
    is_sure: bool = True
    groups: tuple[tuple[str, ...], ...] = ()

    @property
    def sentence_with_sites(self) -> str:
        """The sentence with the groups' names, for who may see all sites."""
        if not self.groups:
            return self.sentence
        listed = "; ".join(", ".join(sorted(group, key=natural_order)) for group in self.groups)
        return f"{self.sentence} The groups: {listed}."

    @property
    def is_inferred(self) -> bool:
        """Whether zero follows from the sites' offsets alone, and nobody said or reviewed where it lies."""
        return self.kind in ("balanced", "median")


def choose_anchor(
    estimates: Mapping[str, Estimate],
    *,
    seed: int,
    floor: float,
    choice: str = "auto",
    reference: Estimate | None = None,
    reference_at: str = "",
    edges: Estimate | None = None,
    edge_error: float = 2.0,
    level: float = THRESHOLDS.group_level,
    unit: str = "px",
) -> Anchor | None:
    """Choose zero for the offsets of a class.

    Where the images have their edges is evidence of where zero lies, but annotators need not draw along edges. So edges
    are no zero by themselves: two groups that lie clearly on both sides of them need less proof that they are two, and
    those that do not are no two directions; half-way between them is a zero near the edges alone, and none where the
    median is nearer, as where a single site errs far and the others little; and a median or a reference far from them
    is not sure. So a site that lies about its offset moves nobody's zero far.

    Args:
        estimates: of every site; unknown ones do not count.
        seed: decides the draws of the test of two levels.
        floor: sites that differ by less, beyond the error of their estimates, agree; what is not acted on.
        choice: ``reference``, ``balanced``, ``median``, ``edges``, ``site:<name>``, or ``auto``: the reference where
            there is one, else balanced where the sites lie at two levels, else the median.
        reference: offset of reviewed annotations against the same model.
        reference_at: where these are, in words after the number of patients.
        edges: of the images' edges, likewise; None where they are not known.
        edge_error: annotators may draw so far from the edges.
        level: share of federations at one level that may pass for two where edges say nothing.
        unit: of all offsets, for the sentence.

    Returns:
        None where there is nothing to choose from: no estimate, or no two levels for ``balanced``. What is asked for
        and is not there is an anchor that is not sure.

    Raises:
        ValueError: when the choice is unknown.
    """
    known = {site: estimates[site] for site in sorted(estimates) if estimates[site].is_known}
    seen = edges if edges is not None and edges.is_known else None
    if choice == "reference" or (choice == "auto" and reference is not None):
        return _with_edges(_reference(reference, reference_at), seen, 2 * edge_error, unit)
    if choice.startswith("site:"):
        return _site(choice.removeprefix("site:"), known)
    if choice == "edges":
        return _edges(edges)
    if choice not in ("auto", "balanced", "median"):
        raise ValueError(
            "Expected an anchor among 'auto', 'reference', 'balanced', 'median', 'edges' and 'site:<name>', but got "
            f"{choice=}."
        )
    if not known:
        return None
    median = _median(known, seed, floor)
    if choice == "median":
        return _with_edges(median, seen, edge_error, unit)
    balanced = _balanced(known, seed, level, seen, edge_error, unit)
    if choice == "balanced" or (balanced is not None and _edges_favour(balanced, median, seen, edge_error)):
        return None if balanced is None else beside_edges(balanced, seen, unit)
    return _with_edges(median, seen, edge_error, unit)


def deviation_of(estimate: Estimate) -> float:
    """Return the standard deviation that a 90 % interval of a normal distribution stands for."""
    return (estimate.high - estimate.low) / (2 * _DEVIATIONS)


def _missing(kind: AnchorKind, sentence: str) -> Anchor:
    return Anchor(kind, 0.0, 0.0, sentence, is_sure=False)


def _reference(reference: Estimate | None, where: str) -> Anchor:
    if reference is None or not reference.is_known:
        return _missing("reference", "Zero is to be the reviewed annotations, but there are none.")
    sentence = f"Zero is the reviewed annotations of {reference.patients} patients{where}."
    return Anchor("reference", reference.value, deviation_of(reference), sentence)


def _site(name: str, known: Mapping[str, Estimate]) -> Anchor:
    if name not in known:
        return _missing("site", f"Zero is to be the way of {name}, of which there is no estimate.")
    return Anchor("site", known[name].value, deviation_of(known[name]), f"Zero is the way in which {name} annotates.")


def _edges(edges: Estimate | None) -> Anchor:
    if edges is None or not edges.is_known:
        return _missing("edges", "Zero is to be the edges of the images, of which there is no estimate.")
    sentence = "Zero is where the images have their edges: it assumes that right annotations follow them."
    return Anchor("edges", edges.value, deviation_of(edges), sentence)


def _balanced(
    known: Mapping[str, Estimate], seed: int, level: float, edges: Estimate | None, edge_error: float, unit: str
) -> Anchor | None:
    level = level if edges is None else max(level, THRESHOLDS.group_level_with_edges)
    levels = find_two_levels({site: estimate.value for site, estimate in known.items()}, seed=seed, level=level)
    if not levels.found:
        return None
    return half_way(known, levels.upper, levels.lower, edges=edges, edge_error=edge_error, unit=unit)


def half_way(
    estimates: Mapping[str, Estimate],
    upper: Sequence[str],
    lower: Sequence[str],
    *,
    edges: Estimate | None,
    edge_error: float,
    unit: str,
) -> Anchor | None:
    """Return the zero between two groups of sites; None where the images' edges do not lie clearly between them.

    Args:
        estimates: known ones of all sites of the groups, of which neither is empty.
        upper: the sites that draw larger.
        lower: the others.
        edges: as :func:`choose_anchor`; likewise below.
        edge_error: zero lies no farther from the edges.
        unit: for the sentence.
    """
    means, squares = [], []
    for group in (upper, lower):
        means.append(float(np.mean([estimates[site].value for site in group])))
        squares.append(sum(deviation_of(estimates[site]) ** 2 for site in group) / len(group) ** 2)
    value, margin = sum(means) / 2, edge_error / 2
    if edges is not None and not means[1] + margin <= edges.value <= means[0] - margin:
        return None
    sentence = (
        "Zero is half-way between two groups of sites: it assumes that they err equally far in the two directions."
    )
    if edges is not None and abs(value - edges.value) > edge_error:
        value = min(max(value, edges.value - edge_error), edges.value + edge_error)
        sentence += f" It is moved to {edge_error:g} {unit} from the edges of the images."
    groups = (tuple(upper), tuple(lower))
    return Anchor("balanced", value, float(np.sqrt(sum(squares))) / 2, sentence, groups=groups)


def _edges_favour(balanced: Anchor, median: Anchor, edges: Estimate | None, edge_error: float) -> bool:
    """Whether half-way between two groups is nearer to the images' edges than the median is.

    Where a group is a single site, it has to be so by a margin: one that errs far need not be a second direction.
    """
    is_alone = min(map(len, balanced.groups)) == 1
    if edges is None:
        return not is_alone
    nearer = abs(median.value - edges.value) - abs(balanced.value - edges.value)
    return nearer >= (THRESHOLDS.single_site_margin * edge_error if is_alone else 0.0)


def _with_edges(anchor: Anchor, edges: Estimate | None, edge_error: float, unit: str) -> Anchor:
    """A zero is not sure where the images have their edges far from it: all sites may err alike, or one lies."""
    if edges is None or not anchor.is_sure:
        return anchor
    is_near = abs(anchor.value - edges.value) <= edge_error
    return replace(beside_edges(anchor, edges, unit, "The" if is_near else "But the"), is_sure=is_near)


def beside_edges(anchor: Anchor, edges: Estimate | None, unit: str, begins: str = "The") -> Anchor:
    """Say where the images have their edges, which is part of the evidence."""
    if edges is None:
        return anchor
    beside = f"{begins} images have their edges {edges.value - anchor.value:+.2f} {unit} from it."
    return replace(anchor, sentence=f"{anchor.sentence} {beside}")


def _median(known: Mapping[str, Estimate], seed: int, floor: float) -> Anchor:
    values = np.array([estimate.value for estimate in known.values()])
    deviations = np.array([deviation_of(estimate) for estimate in known.values()])
    drawn = values + deviations * np.random.default_rng(seed).standard_normal((THRESHOLDS.median_draws, len(values)))
    middle = float(np.median(values))
    agreeing = int(np.count_nonzero(np.abs(values - middle) <= floor + _DEVIATIONS * deviations))
    # Most sites may err in one direction, each by another strength; then the median is as wrong as they are. One or two
    # sites always lie at their own median, or as far from it as each other.
    is_sure = len(values) >= THRESHOLDS.min_sites_of_median and 2 * agreeing > len(values)
    sentence = (
        f"Zero is the median of {len(values)} site{'' if len(values) == 1 else 's'}, with which {agreeing} agree"
        + (": they count as right; " if is_sure else ": too few to count as right; ")
        + "whether all err alike cannot be told without reviewed cases."
    )
    return Anchor("median", middle, float(np.median(drawn, axis=1).std()), sentence, is_sure)
