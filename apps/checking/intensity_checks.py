"""Images whose intensities do not fit: constant, of mixed types, unlike the site's others, outside the window."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from ...custom.data.description import SliceDescription, VolumeDescription
from ...transforms.array_types import Floats
from .facts import CaseFacts, ImageFacts, SiteFacts
from .finding import Finding, Severity, site_finding

# A robust z-score beyond this is an outlier: for normal values one image in two million, for the heavier tails of
# medical images a few in a thousand.
OUTLIER_SCORE = 5.0
# Of fewer images nobody can say what is typical.
MIN_IMAGES = 8

# Values that differ by less than this, as a share, count as equal: a phantom's images may all have the same mean.
_LEAST_SPREAD = 0.05
# Standard deviation of a normal distribution over its median absolute deviation.
_NORMAL = 1.4826
_COLOUR_MODES = frozenset({"RGB", "RGBA", "CMYK", "YCbCr", "P", "PA", "L", "LA"})


def check_constant_images(site: SiteFacts) -> Iterator[Finding]:
    """Find images with one intensity, which are loaded as zeros."""
    for case, image in site.images:
        if image.is_constant:
            yield Finding(
                Severity.WARNING,
                "constant-image",
                (case.name,),
                f"found the intensity {image.minimum:g} everywhere; the model sees zeros.",
                "Export the image again, or take the case out of the datalist.",
            )


def check_voxel_types(site: SiteFacts) -> Iterator[Finding]:
    """Find sites whose images have several types of values on disk, a sign of different exports."""
    groups = _by_type(site)
    if len(groups) < 2:
        return
    by_size = sorted(groups.items(), key=lambda entry: -len(entry[1]))
    counts = " and ".join(f"{len(cases)} of {kind}" for kind, cases in by_size)
    window = _window(site)
    if window is not None:
        consequence = f"The window {window[0]:g} to {window[1]:g} is applied to the values as they are: "
        advice = "bring all to the same unit, for CT Hounsfield units."
    elif groups.keys() <= _COLOUR_MODES:
        consequence, advice = "They are converted to grey or RGB: ", "nothing to do if that is what you want."
    else:
        consequence = "The pipeline normalises every image by itself, so they can be used together: "
        advice = "check that all come from the same scanner and export."
    yield site_finding(
        Severity.NOTE if groups.keys() <= _COLOUR_MODES else Severity.WARNING,
        "mixed-voxel-types",
        f"found images of {len(groups)} types: {counts}.",
        consequence + advice,
        files=[case.name for _, cases in by_size[1:] for case, _ in cases],
    )


def check_outliers(site: SiteFacts) -> Iterator[Finding]:
    """Find images with a mean or a spread of intensities unlike the site's others of the same type.

    The score is robust: distance to the median over the median absolute deviation, on a logarithmic scale where no
    intensity is negative, so that it does not depend on the unit.
    """
    for kind, all_images in _by_type(site).items():
        images = [(case, image) for case, image in all_images if not image.is_constant]
        if len(images) < MIN_IMAGES:
            continue
        scores = intensity_scores([image for _, image in images])
        typical = {name: float(np.median([getattr(image, name) for _, image in images])) for name in scores}
        for index, (case, image) in enumerate(images):
            unusual = [name for name in scores if abs(scores[name][index]) > OUTLIER_SCORE]
            if unusual:
                texts = {"mean": "mean intensity", "deviation": "standard deviation of the intensities"}
                result = " and ".join(
                    f"a {texts[name]} of {getattr(image, name):.4g}, typical is {typical[name]:.4g} "
                    f"(robust z-score {scores[name][index]:+z.1f})"
                    for name in unusual
                )
                yield Finding(
                    Severity.WARNING,
                    "intensity-outlier",
                    (case.name,),
                    f"found {result}, among {len(images)} images of type {kind}.",
                    "Look at the image: another unit or modality, saturated, inverted, or mostly empty?",
                )


def intensity_scores(images: Sequence[ImageFacts]) -> dict[str, Floats]:
    """Return the robust z-score of every image's mean and standard deviation among the given ones, none constant."""
    means = np.array([image.mean for image in images])
    deviations = np.array([image.deviation for image in images])
    if min(image.minimum for image in images) >= 0:
        mean_scores = _robust_scores(np.log(means), _LEAST_SPREAD)
    else:
        mean_scores = _robust_scores(means, _LEAST_SPREAD * float(np.median(deviations)))
    return {"mean": mean_scores, "deviation": _robust_scores(np.log(deviations), _LEAST_SPREAD)}


def check_window(site: SiteFacts) -> Iterator[Finding]:
    """Find volumes that lie outside the intensity window, which makes them constant."""
    window = _window(site)
    if window is None:
        return
    for case, image in site.images:
        low, _, high = image.percentiles
        if not image.is_constant and (high <= window[0] or low >= window[1]):
            yield Finding(
                Severity.WARNING,
                "outside-window",
                (case.name,),
                f"found intensities from {low:g} to {high:g} (1st to 99th percentile), outside the window "
                f"{window[0]:g} to {window[1]:g}; the model sees a constant image.",
                "Correct 'window' in data.yaml, or bring the volume to its unit, for CT Hounsfield units.",
            )


def _by_type(site: SiteFacts) -> dict[str, list[tuple[CaseFacts, ImageFacts]]]:
    groups: dict[str, list[tuple[CaseFacts, ImageFacts]]] = defaultdict(list)
    for case, image in site.images:
        groups[image.voxel_type].append((case, image))
    return groups


def _window(site: SiteFacts) -> tuple[float, float] | None:
    """The window of the first channel, whose intensities are known."""
    description = site.description
    if not isinstance(description, SliceDescription | VolumeDescription):
        return None
    return description.channel_windows[0] if description.channel_windows else description.window


def _robust_scores(values: Floats, least: float) -> Floats:
    """Distance to the median over the scaled median absolute deviation, which is at least ``least``."""
    distance = values - np.median(values)
    scores: Floats = distance / max(_NORMAL * float(np.median(np.abs(distance))), least)
    return scores
