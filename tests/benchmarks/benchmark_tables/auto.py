"""`auto` compared with federated averaging and the published methods, on the generated lesions."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from scipy import ndimage

from fedannot.apps.runs.arms import Arm
from fedannot.custom.data.noise.choice import NoiseChoice
from fedannot.custom.data.noise.noisy_copy import add_contour_noise
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.lesion_volumes import LesionVolumes
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.data.whole_files import private_file, write_text
from fedannot.transforms.array_types import Floats
from fedannot.transforms.strict_files import read_json

from . import decoupled, feda3i, fedia
from .rows import MakeData, Row

NOISE_RANDOM = "M(0,0,10,0.5)"
# What each site of the composed rows does with contours, beside leaving lesions out.
NOISE_OF_VOLUMES = "M(2,-2,0.5,0.5)"

_REVIEWED_AT_A_SITE = 10

FEDAVG, FEDA3I, FEDIA = feda3i.FEDAVG, feda3i.FEDA3I, fedia.FEDIA


# Their warm-ups are federated averaging and are not trained once more.
AUTO = Arm("auto", Path("auto"))
AUTO_ON_VOLUMES = Arm("auto", Path("auto"))
# Half of the rounds, as with volumes: decoupled predictions need fewer.
SETTINGS_OF_PROTOCOLS = decoupled.SETTINGS | {"warmup_rounds": decoupled.SETTINGS["rounds"] // 2}
AUTO_ON_PROTOCOLS = Arm("auto", Path("auto"))
# What `auto` has of both witnesses, and of each alone.
BY_EVIDENCE = (
    FEDAVG,
    AUTO,
    Arm("image", Path("auto"), {"boundary_evidence": "image"}),
    Arm("model", Path("auto"), {"boundary_evidence": "model"}),
)
TO_IMAGE_BOUNDARY = Arm("image-boundary", Path("auto"), {"reference_level": "image_boundary"})


def few_images(noise: str | None, count: int) -> MakeData:
    """Sites with a few phantoms each."""

    def make(folder: Path, seed: int) -> None:
        drawing = LesionImages(noise, exact=True, stratified=feda3i.STRATIFIED) if noise else LesionImages()
        write_phantom_federation(folder, drawing, num_sites=feda3i.NUM_SITES, seed=seed, images_per_site=count)

    return make


def another_scanner(pixels: Floats) -> Floats:
    """Darker in the middle of the range, and blurred, as from another scanner."""
    return np.asarray(255 * (ndimage.gaussian_filter(pixels, 1.0) / 255) ** 1.6)


def difficult(pixels: Floats) -> Floats:
    """A third of the contrast, under noise that is not the same twice."""
    noise = np.random.default_rng(int(pixels.sum()) % 2**32).normal(0, 25, pixels.shape)
    return np.asarray(pixels.mean() + (pixels - pixels.mean()) / 3 + noise)


def one_site(change: Callable[[Floats], Floats], noise: str | None = None) -> MakeData:
    """Phantoms of which one honest site has other images."""
    make_phantom = feda3i.phantom(noise)

    def make(folder: Path, seed: int) -> None:
        make_phantom(folder, seed)
        for file in sorted((folder / "site-1" / "images").glob("*.png")):
            pixels = np.asarray(Image.open(file), dtype=np.float64)
            Image.fromarray(np.clip(np.rint(change(pixels)), 0, 255).astype(np.uint8)).save(private_file(file))

    return make


def reviewed(noise: str, count: int) -> MakeData:
    """Phantoms of which some are reviewed, ten at a site: clean labels of the first images, as `reference`."""
    make_phantom = feda3i.phantom(noise)

    def make(folder: Path, seed: int) -> None:
        make_phantom(folder, seed)
        for index in range(count // _REVIEWED_AT_A_SITE):
            file = folder / f"site-{index + 1}" / "datalist.json"
            content = read_json(file, "a datalist")
            cases = content["training"][:_REVIEWED_AT_A_SITE]
            content["reference"] = [{"image": case["image"], "label": case["clean_label"]} for case in cases]
            write_text(file, json.dumps(content, indent=1) + "\n")

    return make


def composed(completeness: Sequence[float]) -> MakeData:
    """Volumes of which sites leave lesions out and draw the others too large or too small."""

    def make(folder: Path, seed: int) -> None:
        complete = folder.with_name(f"{folder.name}-complete")
        if not complete.exists():
            write_phantom_federation(complete, LesionVolumes(completeness), num_sites=4, seed=seed)
        add_contour_noise(complete, folder, NoiseChoice(NOISE_OF_VOLUMES, exact=True, stratified=0.5), seed=seed)

    return make


def _phantom(what: str, make: MakeData, *, no_harm: bool = False, rounds: int = feda3i.SETTINGS["rounds"]) -> Row:
    arms = (FEDAVG, AUTO) if no_harm else (FEDAVG, FEDA3I, AUTO)
    return Row(f"phantom, {what}", make, arms, feda3i.SETTINGS | {"rounds": rounds})


def _volumes(what: str, make: MakeData, settings: Mapping[str, Any] = fedia.SETTINGS) -> Row:
    return Row(f"volumes, {what}", make, (FEDAVG, FEDIA, AUTO_ON_VOLUMES), settings)


def _tenths(completeness: Sequence[float]) -> str:
    return f"{'/'.join(f'{10 * share:.0f}' for share in completeness)} tenths annotated"


_SMALLER, _LARGER = feda3i.NOISE_SMALLER, feda3i.NOISE_LARGER

ROWS: Mapping[str, Row] = {
    "ns-d": _phantom(f"N_S “D”: {_SMALLER}", feda3i.phantom(_SMALLER)),
    "ne-d": _phantom(f"N_E “D”: {_LARGER}", feda3i.phantom(_LARGER)),
    "ns": _phantom(f"N_S: {_SMALLER}, strengths from 0", feda3i.phantom(_SMALLER, stratified=None)),
    "medium": _phantom("M(16,-16,7,0.2) “D”", feda3i.phantom("M(16,-16,7,0.2)")),
    "medium-24": _phantom("M(16,-16,7,0.2) “D”, 24 rounds", feda3i.phantom("M(16,-16,7,0.2)"), rounds=24),
    "ns-d-6": _phantom("N_S “D”, 6 sites", feda3i.phantom(_SMALLER, num_sites=6)),
    "ns-d-20": _phantom("N_S “D”, 20 sites", feda3i.phantom(_SMALLER, num_sites=20)),
    "one-bad": _phantom(f"one bad site with 5 × the images: {feda3i.NOISE_ONE_BAD} “D”", feda3i.one_bad_site),
    **{f"ms-{number}": _volumes(_tenths(shares), fedia.volumes(shares)) for number, shares in enumerate(fedia.MS)},
    # Without the rate falling Dice moves by ten points from round to round where lesions are left out.
    **{
        f"ms-{number}-steady": _volumes(f"{_tenths(shares)}, rate falls", fedia.volumes(shares), fedia.STEADY)
        for number, shares in enumerate(fedia.MS)
    },
    "composed": _volumes(f"4/6/8/10 tenths annotated and contours {NOISE_OF_VOLUMES} “D”", composed(fedia.MS[0])),
    "protocols": Row(
        f"chambers, protocols {decoupled.PROTOCOLS}",
        decoupled.chambers(decoupled.PROTOCOLS),
        (FEDAVG, AUTO_ON_PROTOCOLS),
        SETTINGS_OF_PROTOCOLS,
    ),
    **{
        f"{name}-evidence": replace(_phantom(f"{what}, by evidence", feda3i.phantom(noise)), arms=BY_EVIDENCE)
        for name, what, noise in (("ns-d", "N_S “D”", _SMALLER), ("ne-d", "N_E “D”", _LARGER))
    },
    "clean": _phantom("clean labels", feda3i.phantom(None), no_harm=True),
    "complete": _volumes("everything annotated", fedia.volumes(None)),
    "weak": _phantom("M(8,-8,4,0.2) “D”", feda3i.phantom("M(8,-8,4,0.2)"), no_harm=True),
    "random": _phantom(
        f"random contours alone: {NOISE_RANDOM}", feda3i.phantom(NOISE_RANDOM, stratified=None), no_harm=True
    ),
    "larger": replace(
        _phantom("all sites larger: M(25,-25,10,1) “D”", feda3i.phantom("M(25,-25,10,1)")),
        arms=(FEDAVG, AUTO, TO_IMAGE_BOUNDARY),
    ),
    "scanner": _phantom("one honest site with another scanner", one_site(another_scanner), no_harm=True),
    "difficult": _phantom("one honest site with difficult cases", one_site(difficult), no_harm=True),
    "four-sites": _phantom(f"4 sites: {_SMALLER} “D”", feda3i.phantom(_SMALLER, num_sites=4), no_harm=True),
    "six-cases": _phantom(f"sites of 6 cases: {_SMALLER} “D”", few_images(_SMALLER, 6), no_harm=True),
    "six-clean-cases": _phantom("sites of 6 cases, clean labels", few_images(None, 6), no_harm=True),
    "larger-10": _phantom("all sites larger “D”, 10 reviewed cases", reviewed("M(25,-25,10,1)", 10), no_harm=True),
    "larger-20": _phantom("all sites larger “D”, 20 reviewed cases", reviewed("M(25,-25,10,1)", 20), no_harm=True),
}
