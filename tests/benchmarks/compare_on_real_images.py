"""FedA³I, FedGSCA and decoupled predictions beside FedAvg on real images: tables of docs/benchmarks, a row at a time.

    FEDANNOT_REAL_DATA=DIR python tests/benchmarks/compare_on_real_images.py [--rows busi-ns,busi-ne] [--seeds 3]

Finished runs are kept, so an interrupted table goes on. The rows with generated images: fedannot bench feda3i, fedgsca,
decoupled.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmark_tables import decoupled, fedgsca
from benchmark_tables.auto import BY_EVIDENCE
from benchmark_tables.feda3i import FEDA3I, FEDAVG, SETTINGS, STRATIFIED, UNGUARDED
from benchmark_tables.rows import MakeData, Row, chosen_rows, run_row
from benchmark_tables.tables import write_table
from corrected_masks import corrected_by_images
from real_federations import (
    add_reference,
    confuse_classes,
    exchange_codes,
    hippocampus_dataset_options,
    write_blood_cells,
    write_breast_lesions,
    write_cells,
    write_hippocampi,
    write_majority_cells,
)
from simulated_scanners import with_scanners

from fedannot.apps.runs.arms import Arm
from fedannot.apps.terminal import Terminal
from fedannot.custom.data.noise.choice import NoiseChoice
from fedannot.custom.data.noise.mislabelled_copy import mislabel_cases
from fedannot.custom.data.noise.noisy_copy import add_contour_noise, follow_protocols

JOBS = Path(__file__).parents[2] / "jobs"
PAIR = (FEDAVG, FEDA3I)
NOISE_SMALLER, NOISE_LARGER = "M(25,-15,5,0.2)", "M(25,-15,5,0.8)"
# Real lesions need more steps until federated averaging on the labels as they are finds them.
REAL_SETTINGS = SETTINGS | {"training.local_epochs": 5}
# Small networks, so that a run takes a few minutes on one core. With cross entropy alone the slices, most of which show
# nothing, take six rounds and more until the model finds anything.
SLICE_SETTINGS = {
    "rounds": 12,
    "warmup_rounds": 6,
    "network.features": [8, 16, 32, 64, 64, 8],
    "training.loss": "ce_dice",
    "training.local_epochs": 1,
}
# Two classes, each half as large, need more steps: the smaller one is found some rounds after the other.
TWO_CLASS_SETTINGS = SLICE_SETTINGS | {
    "rounds": 10,
    "warmup_rounds": 5,
    "training.local_epochs": 2,
    "training.learning_rate": 0.005,
}
VOLUME_SETTINGS = {
    "rounds": 12,
    "warmup_rounds": 6,
    "network.features": [8, 16, 32, 64, 64, 8],
    "training.local_epochs": 2,
    "training.learning_rate": 0.005,
    "training.patch": [16, 32, 16],
    "training.patches_per_volume": 4,
}
# Two sites annotate as they are given, one opens and one closes; of each site's nine volumes it keeps three to score.
HIPPOCAMPUS_PROTOCOLS = "0-0-C(10,8)-D(10,8)"
BLOOD_SETTINGS = {"network.in_channels": 3, "rounds": 24}
BLOOD_WARMUP = 10
BLOOD_ARMS = fedgsca.with_both_forms(warmup_rounds=BLOOD_WARMUP)
BLOOD_TABLE = Path(__file__).with_name("blood_cells.yaml")

AddNoise = Callable[..., None]


def contour_noise(clean: Path, folder: Path, noise: str, *, seed: int) -> None:
    """Add contour noise of stratified strengths."""
    add_contour_noise(clean, folder, NoiseChoice(noise, exact=True, stratified=STRATIFIED), seed=seed)


def real(write: MakeData, noise: str | None = None, add_noise: AddNoise = contour_noise) -> MakeData:
    """Real images, all drawn again for each seed, with annotation noise or the annotations as they are written."""

    def make(folder: Path, seed: int) -> None:
        clean = folder if noise is None else folder.with_name(f"{folder.name}-clean")
        if not clean.exists():
            write(clean, seed)
        if noise is not None:
            add_noise(clean, folder, noise, seed=seed)

    return make


def reviewed(make: MakeData, num_cases: int) -> MakeData:
    """The same data with some reviewed cases at every site."""

    def make_with_reference(folder: Path, seed: int) -> None:
        make(folder, seed)
        add_reference(folder, num_cases)

    return make_with_reference


def with_confused_classes(make: MakeData, share: float) -> MakeData:
    """The same data, where every second site has right contours and wrong classes in a fraction of its cases."""

    def make_confused(folder: Path, seed: int) -> None:
        make(folder, seed)
        confuse_classes(folder, share, seed)

    return make_confused


def with_exchanged_codes(make: MakeData, num_sites: int) -> MakeData:
    """The same data, where some sites have the codes of both classes exchanged."""

    def make_exchanged(folder: Path, seed: int) -> None:
        make(folder, seed)
        exchange_codes(folder, num_sites, seed)

    return make_exchanged


def hippocampus(noise: str | None, *, sliced: bool, together: bool) -> Row:
    """A row of hippocampus volumes, sliced or whole, its two parts as one class or two."""
    options = hippocampus_dataset_options(sliced=sliced, together=together)
    settings = VOLUME_SETTINGS if not sliced else SLICE_SETTINGS if together else TWO_CLASS_SETTINGS
    what = f"hippocampus, {'slices' if sliced else 'whole volumes'}, {'one class' if together else 'two classes'}"
    return Row(
        f"{what}, {noise or 'labels as they are'}",
        real(partial(write_hippocampi, options=options), noise),
        PAIR if noise else [FEDAVG],
        settings if noise else {key: value for key, value in settings.items() if key != "warmup_rounds"},
    )


def hippocampus_by_protocols(protocols: str | None) -> Row:
    """A row of hippocampus slices in four sites, which annotate by protocols of their own."""
    options = hippocampus_dataset_options(sliced=True, together=True)
    write = partial(write_hippocampi, options=options, num_sites=4, volumes_per_site=9, validation_share=1 / 3)
    what = "all annotate alike" if protocols is None else f"protocols {protocols}"
    return Row(
        f"hippocampus, slices, {what}",
        real(write, protocols, follow_protocols),
        (decoupled.SWARM, *decoupled.FORMS, *decoupled.RIVALS) if protocols else (decoupled.SWARM,),
        decoupled.SETTINGS if protocols else {k: v for k, v in decoupled.SETTINGS.items() if k != "warmup_rounds"},
    )


def blood_cells(noise: str | None, *, by_source: bool = False) -> Row:
    """A row of blood cells with wrong labels: four equal sites of one hospital, or a site for each of four sources."""

    make = real(partial(write_blood_cells, by_source=by_source), noise, partial(mislabel_cases, table=BLOOD_TABLE))
    what = "four sources" if by_source else "Barcelona"
    return Row(f"blood cells, {what}, labels {noise or 'as they are'}", make, BLOOD_ARMS, BLOOD_SETTINGS)


ROWS = {
    "busi-ns": Row(
        f"BUSI lesions, N_S: {NOISE_SMALLER}, strengths from half",
        real(write_breast_lesions, NOISE_SMALLER),
        (*PAIR, UNGUARDED),
        REAL_SETTINGS,
    ),
    "busi-ne": Row(
        f"BUSI lesions, N_E: {NOISE_LARGER}, strengths from half",
        real(write_breast_lesions, NOISE_LARGER),
        PAIR,
        REAL_SETTINGS,
    ),
    "busi-clean": Row("BUSI lesions, labels as they are", real(write_breast_lesions), PAIR, REAL_SETTINGS),
    **{
        f"hippocampus-{form}-{parts}-{name}": hippocampus(noise, sliced=form == "2d", together=parts == "one")
        for form, parts in (("2d", "one"), ("2d", "two"), ("3d", "one"))
        for name, noise in (("ns", NOISE_SMALLER), ("ne", NOISE_LARGER), ("clean", None))
    },
    "hippocampus-generic": hippocampus_by_protocols(None),
    "hippocampus-protocols": hippocampus_by_protocols(HIPPOCAMPUS_PROTOCOLS),
    **{
        f"blood-{name}": blood_cells(noise)
        for name, noise in (("s40", "S40"), ("s50", "S50"), ("p20", "P20"), ("c20", "C20"), ("clean", None))
    },
    "blood-rates": blood_cells("0-S20-S20-S40"),
    "blood-types": blood_cells("0-S40-P20-C20"),
    "blood-sources-s40": blood_cells("S40", by_source=True),
    "blood-sources-types": blood_cells("0-S40-P20-C20", by_source=True),
    "cells": Row("cells, a site per source with a crowd set's masks", real(write_cells), PAIR, SETTINGS),
    "cells-clean": Row("cells, the experts' majority everywhere", real(write_majority_cells), PAIR, SETTINGS),
}


def with_auto(row: Row) -> Row:
    """The same data with `auto` beside both; where labels are as they are, it has the warm-up of the noisy rows."""
    warmup = row.settings.get("warmup_rounds") or row.settings["rounds"] // 2
    auto = Arm("auto", Path("auto"), {"warmup_rounds": warmup})
    return replace(row, arms=(*(PAIR if "warmup_rounds" in row.settings else [FEDAVG]), auto))


def with_more_estimates(row: Row, numbers: Sequence[int]) -> Row:
    """The same data and `auto` beside itself predicting annotations more often."""
    auto = next(arm for arm in row.arms if arm.name == "auto")
    more = (
        replace(auto, name=f"estimates-{number}", overrides={**auto.overrides, "estimates": number})
        for number in numbers
    )
    return replace(row, arms=(FEDAVG, auto, *more))


def with_auto_of_labels(row: Row) -> Row:
    """The same data with `auto` for classification compared with federated averaging and FedGSCA's own form."""
    auto = Arm("auto", Path("auto_classification"), {"warmup_rounds": BLOOD_WARMUP}, BLOOD_WARMUP)
    return replace(row, arms=(*(arm for arm in row.arms if arm.name != "fedgsca"), auto))


# Cells of five sources keep their own images; each site draws by an offset of its own, in pixels of the given masks.
NOISE_OF_CELLS = "M(12,-12,2,0.4)"
CELLS_WITH_OFFSETS = real(write_majority_cells, NOISE_OF_CELLS)
ROWS |= {
    "cells-offsets": Row(f"cells, a site per source, {NOISE_OF_CELLS}", CELLS_WITH_OFFSETS, PAIR, SETTINGS),
    "cells-offsets-reviewed": Row(
        f"cells, a site per source, {NOISE_OF_CELLS}, 8 reviewed cases a site",
        reviewed(CELLS_WITH_OFFSETS, 8),
        PAIR,
        SETTINGS,
    ),
    "cells-reviewed": Row(
        "cells, a site per source with a crowd set's masks, 8 reviewed cases a site",
        reviewed(real(write_cells), 8),
        PAIR,
        SETTINGS,
    ),
}
OFFSETS_AND_CLASSES = ROWS["hippocampus-2d-two-ns"]
ROWS["hippocampus-2d-two-classes"] = replace(
    OFFSETS_AND_CLASSES,
    what=f"{OFFSETS_AND_CLASSES.what} at half of the sites, the classes of a third of the cases confused at the others",
    make=with_confused_classes(OFFSETS_AND_CLASSES.make, 1 / 3),
)
NUM_EXCHANGED = 2
ROWS |= {
    f"{name}-codes": replace(
        ROWS[name],
        what=f"{ROWS[name].what}, the codes of both classes exchanged at {NUM_EXCHANGED} sites",
        make=with_exchanged_codes(ROWS[name].make, NUM_EXCHANGED),
        arms=PAIR,
        settings=TWO_CLASS_SETTINGS,
    )
    for name in ("hippocampus-2d-two-clean", "hippocampus-2d-two-ns")
}
ROWS |= {
    "busi-ns-scanners": replace(
        ROWS["busi-ns"],
        what=f"{ROWS['busi-ns'].what}, every site's images by another scanner",
        make=with_scanners(ROWS["busi-ns"].make),
        arms=PAIR,
    ),
}
CONTOURS = [name for name in ROWS if name.startswith(("busi-", "hippocampus-2d", "hippocampus-3d", "cells"))]
ROWS |= {f"auto-{name}": with_auto(ROWS[name]) for name in CONTOURS}
ROWS |= {
    f"auto-{name}-evidence": replace(ROWS[f"auto-{name}"], what=f"{ROWS[name].what}, by evidence", arms=BY_EVIDENCE)
    for name in ("busi-ns", "busi-ne")
}
ROWS |= {
    f"{name}-corrected": replace(
        ROWS[name],
        what=f"{ROWS[name].what}, masks corrected by the images alone",
        make=corrected_by_images(ROWS[name].make),
        arms=PAIR,
    )
    for name in ("busi-ns", "busi-ne")
}
ROWS["auto-busi-ns-estimates"] = with_more_estimates(ROWS["auto-busi-ns"], (3, 5))
ROWS |= {f"auto-{name}": with_auto_of_labels(row) for name, row in ROWS.items() if name.startswith("blood-")}


def main() -> None:
    """Run the asked rows and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", help="names separated by commas; default: all")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("runs/bench/real"))
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    console = Terminal()
    for name, row in chosen_rows(ROWS, arguments.rows).items():
        figures = run_row(name, row, jobs=JOBS, seeds=seeds, out=arguments.out, console=console)
        write_table([figures], arguments.out / "table.json")


if __name__ == "__main__":
    main()
