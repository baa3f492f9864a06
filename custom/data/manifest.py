"""How a site's data were made and how far its labels are from the clean ones; for evaluation, never leaves the site."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from ...transforms.array_types import Array, Booleans
from ...transforms.noise.class_noise import ClassNoise
from ...transforms.noise.federation_noise import ContourNoise
from ...transforms.noise.site_protocol import Discs, SiteProtocol
from ...transforms.strict_files import JsonObject
from .federation import MANIFEST_FILE
from .json_record import JsonRecord, read_record, write_record


class NoiseManifest(JsonRecord):
    """The contour noise of a site and what it did, over training and validation cases.

    Args:
        model: the federation's noise, as text.
        exact: whether the number of sites that draw larger was fixed.
        stratified: lower end of the strengths in equal steps, as a fraction of the limit.
        mean: μ of the site in pixels at 256×256.
        spread: σ of the site, as above.
        dice: mean Dice of the noisy against the clean labels over cases and classes that either of them has.
        area_ratio: annotated area with noise over that without.
    """

    model: str
    exact: bool
    stratified: float | None
    mean: float
    spread: float
    dice: float | None
    area_ratio: float | None


class MissingLesionsManifest(JsonRecord):
    """The lesions that a site left out, over training and validation cases.

    Args:
        completeness: fraction of each volume's lesions that were to stay.
        num_lesions: connected lesions of the complete labels.
        num_kept: how many of them are annotated.
        dice: mean Dice of the incomplete against the complete labels over cases and classes that either of them has.
    """

    completeness: float
    num_lesions: int
    num_kept: int
    dice: float | None

    @classmethod
    def measured(cls, completeness: float, cases: Iterable[tuple[Array, Array, Booleans]]) -> "MissingLesionsManifest":
        """Compare incomplete with complete labels.

        Args:
            completeness: what was asked for.
            cases: of each case the incomplete and the complete classes, and which of its lesions were kept.
        """
        scores: list[float] = []
        num_lesions = num_kept = 0
        for incomplete, complete, kept in cases:
            scores += _dice_of_classes(incomplete, complete)
            num_lesions += len(kept)
            num_kept += int(kept.sum())
        return cls(
            completeness=completeness,
            num_lesions=num_lesions,
            num_kept=num_kept,
            dice=float(np.mean(scores)) if scores else None,
        )


class ProtocolManifest(JsonRecord):
    """The annotation protocol that a site follows and what it did, over training cases.

    Args:
        protocol: what was asked for, ``C`` or ``C(20,8,4,0.25)``.
        systematic_radius: smallest and largest radius of the disc of opening or closing, in pixels of the masks.
        random_radius: of the disc of the random erosion or dilation, as above.
        dice: mean Dice of the site's against the generic labels over cases and classes that either of them has.
        area_ratio: annotated area by the protocol over that without.
    """

    protocol: str
    systematic_radius: tuple[float, float] | None = None
    random_radius: tuple[float, float] | None = None
    dice: float | None
    area_ratio: float | None

    @classmethod
    def measured(
        cls,
        protocol: SiteProtocol,
        pairs: Iterable[tuple[Array, Array]],
        discs: Sequence[Discs] = (),
    ) -> "ProtocolManifest":
        """Compare pairs of the site's and the generic classes of each case, and note the discs that were used."""
        used = discs if protocol.kind != "none" else ()
        return cls(
            protocol=str(protocol),
            systematic_radius=_ends([disc.systematic for disc in used]),
            random_radius=_ends([disc.random for disc in used]),
            **_dice_and_area(pairs),
        )


class ClassNoiseManifest(JsonRecord):
    """The wrong labels of a site, over training and validation cases.

    Args:
        noise: what was asked for, ``S40``.
        num_cases: cases.
        num_wrong: cases whose given label is not the true one.
    """

    noise: str
    num_cases: int
    num_wrong: int

    @classmethod
    def measured(cls, noise: ClassNoise, pairs: Sequence[tuple[int, int]]) -> "ClassNoiseManifest":
        """Count the pairs of given and true labels that differ."""
        return cls(noise=str(noise), num_cases=len(pairs), num_wrong=sum(given != true for given, true in pairs))


class Manifest(JsonRecord):
    """The content of a site's ``manifest.json``.

    Args:
        made: how the data were made.
        seed: the seed of everything random in it.
        noise: the contour noise, if any was added.
        missing_lesions: the lesions that were left out, if any were.
        protocol: the annotation protocol, if the site has one of its own.
        class_noise: the wrong labels, if any were given.
        excluded: cases that could not be used, file and reason.
        before: the manifest of the data that these were made from.
    """

    made: str
    seed: int
    noise: NoiseManifest | None = None
    missing_lesions: MissingLesionsManifest | None = None
    protocol: ProtocolManifest | None = None
    class_noise: ClassNoiseManifest | None = None
    excluded: tuple[tuple[str, str], ...] = ()
    before: JsonObject | None = None


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write ``manifest.json`` of a site."""
    write_record(folder / MANIFEST_FILE, manifest)


def read_manifest(folder: Path) -> Manifest | None:
    """Read ``manifest.json`` of a site, None if it has none.

    Raises:
        DataError: if it has a wrong key or value.
    """
    return read_record(folder / MANIFEST_FILE, Manifest)


def measured_noise(
    pairs: Iterable[tuple[Array, Array]],
    noise: ContourNoise,
    *,
    model: str,
    exact: bool,
    stratified: float | None,
) -> NoiseManifest:
    """Compare noisy with clean labels.

    Args:
        pairs: noisy and clean classes of each case, whole numbers ``(H, W)``, 0 for background.
        noise: the site's noise.
        model: the federation's noise, as text.
        exact: how it was drawn.
        stratified: as above.
    """
    return NoiseManifest(
        model=model,
        exact=exact,
        stratified=stratified,
        mean=noise.mean,
        spread=noise.spread,
        **_dice_and_area(pairs),
    )


def _ends(values: Sequence[float]) -> tuple[float, float] | None:
    return (min(values), max(values)) if values else None


def _dice_and_area(pairs: Iterable[tuple[Array, Array]]) -> dict[str, float | None]:
    """The mean Dice of imperfect against clean classes, and the annotated area of the ones over the others'."""
    scores: list[float] = []
    noisy_area = clean_area = 0
    for noisy, clean in pairs:
        scores += _dice_of_classes(noisy, clean)
        noisy_area += int(np.count_nonzero(noisy))
        clean_area += int(np.count_nonzero(clean))
    return {
        "dice": float(np.mean(scores)) if scores else None,
        "area_ratio": noisy_area / clean_area if clean_area else None,
    }


def _dice_of_classes(noisy: Array, clean: Array) -> list[float]:
    """Dice of every foreground class that either mask has."""
    classes = np.union1d(noisy, clean)
    return [
        2
        * np.count_nonzero((noisy == label) & (clean == label))
        / (np.count_nonzero(noisy == label) + np.count_nonzero(clean == label))
        for label in classes[classes != 0]
    ]
