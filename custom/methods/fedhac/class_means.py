"""Prototypes as class means of features: what a site makes of its batches, and what the server makes of the sites'."""

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import torch

from ....transforms.ignored_label import IGNORED_LABEL
from ...aggregation.influence import group_factors
from ...aggregation.weighting import LayerWeights
from ...networks.outputs import labels_at
from ...outbound.fields import MINIMUM_CASES
from ...outbound.values import OutboundValues
from .outbound import LARGEST_FEATURE, PROTOTYPE_PATIENTS, PROTOTYPES

_MOMENTUM = 0.9
_FEWEST_SITES = 3

# A prototype of every class, background first; None where no site could send its class yet.
Prototypes = list[list[float] | None]


class ClassMeans:
    """P_c ← 0.9 P_c + 0.1 (mean feature of the pixels of class c), over the batches of a round that have the class.

    It starts at the prototypes of the round, as the momentum update does that the authors' program never calls. So no
    batch counts more than a tenth.
    """

    def __init__(self) -> None:
        self._vectors = torch.empty(0, 0)
        # Looked at when the round is over, as a GPU would have to be waited for.
        self._samples: list[tuple[torch.Tensor, torch.Tensor]] = []

    @torch.no_grad()
    def add(
        self, features: torch.Tensor, labels: torch.Tensor, samples: torch.Tensor, prototypes: torch.Tensor
    ) -> None:
        """Add a batch as the network saw it before its step; ignored pixels do not count.

        Args:
            features: ``(B, D, H, W[, D])``.
            labels: ``(B, 1, H, W[, D])``, in this or another resolution: pixels take the nearest.
            samples: which of the site's samples each is of, ``(B,)``.
            prototypes: of the round, ``(C', D)``.
        """
        if not self._samples:
            self._vectors = prototypes.detach().double().clone()
        labels = labels_at(labels, features).squeeze(1).long()
        counts = labels != IGNORED_LABEL
        masks = torch.stack([(labels == label) & counts for label in range(len(prototypes))])
        pixels = masks.flatten(1).sum(dim=1)
        # Not by products: what is not finite in one class would be in all.
        sums = torch.stack(
            [torch.where(mask[:, None], features, 0.0).double().transpose(0, 1).flatten(1).sum(dim=1) for mask in masks]
        )
        moved = _MOMENTUM * self._vectors + (1 - _MOMENTUM) * sums / pixels.clamp(min=1)[:, None]
        self._vectors = torch.where(pixels[:, None] > 0, moved, self._vectors)
        self._samples.append((samples, masks.flatten(2).any(dim=2)))

    def report(self, units: Sequence[str]) -> OutboundValues:
        """Return the means and the patients behind each; leaves the site.

        A class with fewer patients than the minimum count, or with a mean that is not finite or too large for the
        server, is NaN, with 0 patients. Without any class there is nothing.

        Args:
            units: the patient or volume of each of the site's samples.
        """
        values, patients = reported_means(self._vectors, self._samples, units)
        return {PROTOTYPES: values, PROTOTYPE_PATIENTS: patients} if any(patients) else {}


def reported_means(
    vectors: torch.Tensor, samples: Sequence[tuple[torch.Tensor, torch.Tensor]], units: Sequence[str]
) -> tuple[list[float], list[int]]:
    """Return what may leave of class means, class after class, and the patients behind each.

    A class with fewer patients than the minimum count, or with a mean that is not finite or too large for the server,
    is NaN, with 0 patients.

    Args:
        vectors: the means, ``(C, D)``.
        samples: of every batch the site's samples ``(B,)``, and which of them have which class, ``(C, B)``.
        units: the patient or volume of each of the site's samples.
    """
    rows, patients = vectors.tolist(), []
    for label, row in enumerate(rows):
        behind = {units[index] for of_batch, has in samples for index in of_batch[has[label].cpu()].tolist()}
        is_usable = all(abs(value) <= LARGEST_FEATURE for value in row)
        patients.append(len(behind) if is_usable and len(behind) >= MINIMUM_CASES else 0)
    return [value if count else math.nan for row, count in zip(rows, patients, strict=True) for value in row], patients


def rows_of(values: Sequence[float | None], num_classes: int, num_features: int) -> Prototypes:
    """Return what a site sent as a row of each class, None where it is withheld.

    Args:
        values: as it was sent, class after class; NaN or None where withheld.
        num_classes: C', in segmentation with the background.
        num_features: D.

    Raises:
        ValueError: if there are more or fewer values.
    """
    if len(values) != num_classes * num_features:
        raise ValueError(
            f"found {len(values)} values, expected {num_classes} × {num_features}: so many classes, in segmentation "
            "with the background, and features of the network."
        )
    rows = [values[start : start + num_features] for start in range(0, len(values), num_features)]
    return [_known(row) for row in rows]


def _known(row: Sequence[float | None]) -> list[float] | None:
    known = [value for value in row if value is not None and math.isfinite(value)]
    return known if len(known) == len(row) else None


def averaged_prototypes(
    sent: Mapping[str, Prototypes],
    weights: LayerWeights,
    before: Sequence[Sequence[float]],
    largest_ratio: float | None = None,
) -> Prototypes:
    """Return the weighted mean of each class over the sites that sent it; None where none did.

    Args:
        sent: by site a row of every class.
        weights: of the sites, the same in all blocks.
        before: the prototypes that the sites began with.
        largest_ratio: how far a site may move a prototype, over the median of the sites; None for no bound.
    """
    return [_mean_of(label, sent, weights, before[label], largest_ratio) for label in range(len(before))]


def without_rare_classes(sent: Mapping[str, Prototypes], num_classes: int) -> dict[str, Prototypes]:
    """Return what sites sent without the classes of fewer than three of them, where nothing shows who lies."""
    is_rare = [sum(row[label] is not None for row in sent.values()) < _FEWEST_SITES for label in range(num_classes)]
    return {
        site: [None if rare else row for rare, row in zip(is_rare, of_site, strict=True)]
        for site, of_site in sent.items()
    }


def median_prototypes(sent: Mapping[str, Prototypes], num_classes: int) -> Prototypes:
    """Return the median of each number over the sites that sent its class; None where none did.

    No minority of sites can move it beyond what the others sent.

    Args:
        sent: by site a row of every class.
        num_classes: C'.
    """
    rows = [[row for of_site in sent.values() if (row := of_site[label]) is not None] for label in range(num_classes)]
    return [np.median(of_class, axis=0).tolist() if of_class else None for of_class in rows]


def _mean_of(
    label: int,
    sent: Mapping[str, Prototypes],
    weights: LayerWeights,
    before: Sequence[float],
    largest_ratio: float | None,
) -> list[float] | None:
    rows = {site: row for site, of_site in sorted(sent.items()) if (row := of_site[label]) is not None}
    if not rows:
        return None
    if largest_ratio is not None:
        rows = _bounded(rows, before, largest_ratio)
    shares = _shares(weights, rows)
    return [math.fsum(shares[site] * row[index] for site, row in rows.items()) for index in range(len(before))]


def _shares(weights: LayerWeights, sites: Collection[str]) -> dict[str, float]:
    chosen = weights.only(sites)
    return dict(zip(chosen.sites, chosen.values[:, 0].tolist(), strict=True))


def _bounded(rows: Mapping[str, list[float]], before: Sequence[float], ratio: float) -> dict[str, list[float]]:
    """Rows that move a prototype no farther than so many times the median, as updates of the model."""
    factors = group_factors({site: {"prototype": math.dist(row, before)} for site, row in rows.items()}, ratio)
    return {
        site: [start + factors[site]["prototype"] * (value - start) for value, start in zip(row, before, strict=True)]
        if factors[site]["prototype"] < 1
        else row
        for site, row in rows.items()
    }
