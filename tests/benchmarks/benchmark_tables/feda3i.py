"""FedA³I and its ablations compared with federated averaging, on the generated lesions."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedannot.apps.runs.arms import Arm
from fedannot.custom.data.noise.choice import NoiseChoice
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation

from .rows import MakeData, Row

SETTINGS = {"rounds": 12, "warmup_rounds": 5}
NUM_SITES = 10
# Strengths in equal steps from half the limit to the limit: what docs/benchmarks/feda3i.md calls “D”.
STRATIFIED = 0.5
NOISE_SMALLER, NOISE_LARGER = "M(25,-25,10,0.2)", "M(25,-25,10,0.8)"
# One site of ten draws larger by 19 px and has as many images as five others, which draw smaller by 4 to 8.
NOISE_ONE_BAD = "M(25,-8,4,0.1)"
IMAGES, IMAGES_OF_THE_BAD_SITE = 12, 60

FEDAVG = Arm("fedavg", Path("fedavg"))


def with_settings(name: str, **overrides: Any) -> Arm:
    """FedA³I with settings of its own; its warm-up is federated averaging and is not trained once more."""
    return Arm(name, Path("fedaaai"), overrides, overrides.get("warmup_rounds", SETTINGS["warmup_rounds"]))


FEDA3I = with_settings("feda3i")


UNGUARDED = with_settings("unguarded", group_test_level=1.0)
SHRUNK = with_settings("shrunk", group_decision="shrink")
LOGARITHMS = with_settings("logarithms", group_scale="log")
# The unguarded form differs only where the test says "one group"; where it hardly ever does, two arms suffice.
GUARDS = (FEDAVG, FEDA3I, UNGUARDED, SHRUNK)
OPTION = (FEDAVG, FEDA3I, SHRUNK)
SCALES = (FEDAVG, FEDA3I, LOGARITHMS)
ABLATIONS = (
    FEDAVG,
    with_settings("intra-only", weighting="intra"),
    FEDA3I,
    SHRUNK,
    with_settings("balance-0.3", balance=0.3),
    with_settings("balance-0.7", balance=0.7),
    with_settings("warmup-3", warmup_rounds=3),
    with_settings("warmup-7", warmup_rounds=7),
    with_settings("model-wise", layer_weight=0.0, layer_bias=1.0),
)


def phantom(noise: str | None, *, num_sites: int = NUM_SITES, stratified: float | None = STRATIFIED) -> MakeData:
    """Sites of twelve phantoms, 50 for the test, all drawn again for each seed."""

    def make(folder: Path, seed: int) -> None:
        drawing = LesionImages() if noise is None else LesionImages(noise, exact=True, stratified=stratified)
        write_phantom_federation(folder, drawing, num_sites=num_sites, seed=seed, images_per_site=IMAGES)

    return make


def one_bad_site(folder: Path, seed: int) -> None:
    """Ten sites, one of which draws much too large and has the most images."""
    choice = NoiseChoice(NOISE_ONE_BAD, exact=True, stratified=STRATIFIED)
    means = [drawn.mean for drawn in choice.draw(NUM_SITES, seed)]
    images = [IMAGES_OF_THE_BAD_SITE if mean == max(means) else IMAGES for mean in means]
    write_phantom_federation(
        folder,
        LesionImages(choice.model, choice.exact, choice.stratified),
        num_sites=NUM_SITES,
        seed=seed,
        images_per_site=images,
    )


def _row(what: str, make: MakeData, *arms: Arm, **settings: Any) -> Row:
    changed = {key.replace("__", "."): value for key, value in settings.items()}
    return Row(f"phantom, {what}", make, arms or (FEDAVG, FEDA3I), SETTINGS | changed)


ROWS: Mapping[str, Row] = {
    "clean": _row("clean labels", phantom(None), *GUARDS),
    "ns-d": _row(f"N_S “D”: {NOISE_SMALLER}", phantom(NOISE_SMALLER), *ABLATIONS),
    "ne-d": _row(f"N_E “D”: {NOISE_LARGER}", phantom(NOISE_LARGER), *ABLATIONS),
    "ns-d-ce-dice": _row("N_S “D”, CE + Dice", phantom(NOISE_SMALLER), training__loss="ce_dice"),
    "ne-d-ce-dice": _row("N_E “D”, CE + Dice", phantom(NOISE_LARGER), training__loss="ce_dice"),
    "weak": _row("M(8,-8,4,0.2) “D”", phantom("M(8,-8,4,0.2)"), *GUARDS),
    "medium": _row("M(16,-16,7,0.2) “D”", phantom("M(16,-16,7,0.2)"), *OPTION),
    "ns": _row(f"N_S: {NOISE_SMALLER}, strengths from 0", phantom(NOISE_SMALLER, stratified=None), *GUARDS),
    "larger": _row("all sites larger: M(25,-25,10,1) “D”", phantom("M(25,-25,10,1)"), *GUARDS),
    "smaller": _row("all sites smaller: M(25,-25,10,0) “D”", phantom("M(25,-25,10,0)"), *GUARDS),
    "one-bad": _row(f"one bad site with 5 × the images: {NOISE_ONE_BAD} “D”", one_bad_site, *GUARDS),
    "ns-d-6": _row("N_S “D”, 6 sites", phantom(NOISE_SMALLER, num_sites=6), *GUARDS),
    "ns-d-20": _row("N_S “D”, 20 sites", phantom(NOISE_SMALLER, num_sites=20), *OPTION),
    "ns-d-log": _row("N_S “D”, groups by log q", phantom(NOISE_SMALLER), *SCALES),
    "ne-d-log": _row("N_E “D”, groups by log q", phantom(NOISE_LARGER), *SCALES),
    "ns-d-50": _row("N_S “D”, 50 sites", phantom(NOISE_SMALLER, num_sites=50)),
}
