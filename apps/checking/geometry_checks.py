"""How images lie and how far the pipeline stretches them: enlargement, resampling, spacing and orientation."""

from collections import Counter
from collections.abc import Iterator, Sequence

from ...custom.data.description import (
    AnyDescription,
    ClassificationDescription,
    ImageDescription,
    SliceDescription,
    VolumeDescription,
)
from ...transforms.loading.fitting import scaled_extents
from .facts import ImageFacts, SiteFacts
from .finding import Finding, Severity, site_finding

# Images that are enlarged more than this hold less detail than the model could use.
ENLARGEMENT = 2.0
# Resampling that makes voxels so many times larger or smaller along an axis invents or loses most of them.
RESAMPLING = 3.0
# Spacings that differ less than this, as a share, are the same.
_SAME_SPACING = 0.1


def check_enlargement(site: SiteFacts) -> Iterator[Finding]:
    """Find pictures much smaller than the size that they are loaded at; one finding where most are."""
    description = site.description
    if not isinstance(description, ImageDescription | ClassificationDescription):
        return
    small = [
        (case.name, image.shape[1:], factor)
        for case, image in site.images
        if (factor := _enlargement(image.shape[1:], description)) > ENLARGEMENT
    ]
    loaded = _times(description.size)
    remedy = "Lower 'size' in data.yaml, for all sites alike, or find the images at full resolution."
    if 2 * len(small) > len(site.images):
        smallest, largest = min(s for _, s, _ in small), max(s for _, s, _ in small)
        result = (
            f"found {len(small)} of {len(site.images)} images much smaller than the {loaded} pixels that they are "
            f"loaded at, from {_times(smallest)} to {_times(largest)}: enlarged {min(f for *_, f in small):.1f} to "
            f"{max(f for *_, f in small):.1f} times."
        )
        yield site_finding(Severity.WARNING, "small-images", result, remedy, files=[name for name, *_ in small])
        return
    for name, shape, factor in small:
        result = f"found {_times(shape)} pixels, loaded at {loaded}: enlarged {factor:.1f} times."
        yield Finding(Severity.WARNING, "small-images", (name,), result, remedy)


def _enlargement(shape: Sequence[int], description: ImageDescription | ClassificationDescription) -> float:
    """How many times larger a picture is as it is loaded, along the side where that is most."""
    scaled = scaled_extents(shape, description.size, description.fit)
    return max(size / length for size, length in zip(scaled, shape, strict=True))


def check_spacing(site: SiteFacts) -> Iterator[Finding]:
    """Find sites whose voxels differ in size, along the axes after orientation."""
    description = site.description
    if not isinstance(description, SliceDescription | VolumeDescription):
        return
    spacings = [spacing for _, image in site.images if (spacing := oriented_spacing(image, description)) is not None]
    ranges = [(min(steps), max(steps)) for steps in zip(*spacings, strict=True)]
    if not any(largest > (1 + _SAME_SPACING) * smallest for smallest, largest in ranges):
        return
    text = " × ".join(f"{low:.3g}" if low == high else f"{low:.3g}–{high:.3g}" for low, high in ranges)
    yield site_finding(
        Severity.NOTE,
        "varying-spacing",
        f"found voxels of {text} mm in the {len(spacings)} volumes.",
        "Nothing to do: 'spacing' in data.yaml resamples them."
        if description.spacing is not None
        else "The same organ has different sizes for the model; set 'spacing' in data.yaml to resample.",
    )


def check_orientation(site: SiteFacts) -> Iterator[Finding]:
    """Find sites whose volumes lie differently in their files; the pipeline turns them."""
    orientations = Counter(image.orientation for _, image in site.images if image.orientation)
    if len(orientations) < 2:
        return
    counts = " and ".join(f"{count} of {orientation}" for orientation, count in orientations.most_common())
    yield site_finding(
        Severity.NOTE,
        "varying-orientation",
        f"found volumes of {len(orientations)} orientations: {counts}.",
        f"Nothing to do if the headers are right: the pipeline turns all to {_orientation(site.description)}. Look at "
        "the contact sheet for volumes that lie wrongly.",
    )


def check_resampling(site: SiteFacts) -> Iterator[Finding]:
    """Find volumes whose voxels become much larger or smaller; one finding where most do."""
    description = site.description
    if not isinstance(description, SliceDescription | VolumeDescription) or description.spacing is None:
        return
    stretched = []
    for case, image in site.images:
        spacing = oriented_spacing(image, description)
        assert spacing is not None
        ratios = [max(old / new, new / old) for old, new in zip(spacing, description.spacing, strict=True)]
        if max(ratios) > RESAMPLING:
            stretched.append((case.name, spacing, max(ratios)))
    target = f"{_times(description.spacing)} mm"
    remedy = "Choose a 'spacing' in data.yaml nearer to the volumes', for all sites alike; for thick slices slice them."
    if 2 * len(stretched) > len(site.images):
        result = (
            f"found {len(stretched)} of {len(site.images)} volumes that resampling to {target} stretches or shrinks up "
            f"to {max(ratio for *_, ratio in stretched):.1f} times along an axis."
        )
        yield site_finding(Severity.WARNING, "resampling", result, remedy, files=[name for name, *_ in stretched])
        return
    for name, spacing, ratio in stretched:
        result = f"found voxels of {_times(spacing)} mm, resampled to {target}: {ratio:.1f} times along an axis."
        yield Finding(Severity.WARNING, "resampling", (name,), result, remedy)


def oriented_spacing(image: ImageFacts, description: SliceDescription | VolumeDescription) -> Sequence[float] | None:
    """Return a volume's spacing in the order of the axes after orientation, None of a picture."""
    if image.spacing is None or image.orientation is None:
        return None
    opposite = {"R": "L", "L": "R", "A": "P", "P": "A", "S": "I", "I": "S"}
    along = dict(zip(image.orientation, image.spacing, strict=True))
    return [along.get(letter, along.get(opposite[letter], 0.0)) for letter in description.orientation]


def _orientation(description: AnyDescription) -> str:
    return description.orientation if isinstance(description, SliceDescription | VolumeDescription) else ""


def _times(lengths: Sequence[float]) -> str:
    return " × ".join(f"{length:.3g}" if isinstance(length, float) else str(length) for length in lengths)
