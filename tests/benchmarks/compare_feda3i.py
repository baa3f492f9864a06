"""FedA³I beside FedAvg: the table of docs/benchmarks/feda3i.md, one row at a time.

    python tests/benchmarks/compare_feda3i.py [--rows ns-d,ne-d] [--first-seed 0] [--seeds 3] [--out runs/bench/feda3i]

Finished runs are kept, so an interrupted table goes on. The rows with real images need FEDANNOT_REAL_DATA.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from real_federations import (
    hippocampus_dataset_options,
    write_breast_lesions,
    write_cells,
    write_hippocampi,
    write_majority_cells,
)
from rich.console import Console

from fedannot.apps.compare import compare_jobs, print_comparison
from fedannot.custom.data.embedded import write_phantom_federation
from fedannot.custom.data.noise_choice import NoiseChoice
from fedannot.custom.data.noisy_copy import add_contour_noise

JOBS = Path(__file__).parents[2] / "jobs"
STRATIFIED = 0.5
SETTINGS = {"rounds": 12, "warmup_rounds": 5}
# Real lesions need more steps until federated averaging on the labels as they are finds them.
REAL_SETTINGS = SETTINGS | {"training.local_epochs": 5}
# Small networks, so that a run takes about two minutes.
SLICE_SETTINGS = {
    "rounds": 12,
    "warmup_rounds": 6,
    "network.features": [8, 16, 32, 64, 64, 8],
    "training.local_epochs": 1,
}
VOLUME_SETTINGS = {
    "rounds": 10,
    "warmup_rounds": 5,
    "network.features": [8, 16, 32, 64, 64, 8],
    "training.local_epochs": 2,
    "training.learning_rate": 0.005,
    "training.patch": [16, 32, 16],
    "training.patches_per_volume": 4,
}
CELL_SETTINGS = SETTINGS


@dataclass(frozen=True)
class Row:
    """One row of the table: how its data are made for a seed, and the settings of its runs."""

    what: str
    make: Callable[[Path, int], None]
    settings: Mapping[str, Any] = field(default_factory=lambda: dict(SETTINGS))


def phantom(noise: str | None, stratified: float | None = STRATIFIED) -> Callable[[Path, int], None]:
    """Ten sites of twelve phantoms, 50 for the test, all drawn anew for each seed."""

    def make(folder: Path, seed: int) -> None:
        drawn = {} if noise is None else {"noise": noise, "exact": True, "stratified": stratified}
        write_phantom_federation(folder, num_sites=10, seed=seed, **drawn)

    return make


def real(write: Callable[[Path, int], None], noise: str | None = None) -> Callable[[Path, int], None]:
    """Real images, all drawn anew for each seed, with contour noise or the annotations as they are written."""

    def make(folder: Path, seed: int) -> None:
        clean = folder if noise is None else folder.with_name(f"{folder.name}-clean")
        if not clean.exists():
            write(clean, seed)
        if noise is not None:
            add_contour_noise(clean, folder, NoiseChoice(noise, exact=True, stratified=STRATIFIED), seed=seed)

    return make


def hippocampus(noise: str | None, *, sliced: bool, together: bool) -> Row:
    """A row of hippocampus volumes, sliced or whole, its two parts as one class or two."""
    options = hippocampus_dataset_options(sliced=sliced, together=together)
    what = f"hippocampus, {'slices' if sliced else 'whole volumes'}, {'one class' if together else 'two classes'}"
    return Row(
        f"{what}, {noise or 'labels as they are'}",
        real(partial(write_hippocampi, options=options), noise),
        SLICE_SETTINGS if sliced else VOLUME_SETTINGS,
    )


ROWS = {
    "clean": Row("phantom, clean labels", phantom(None)),
    "ns-d": Row("phantom, N_S “D”: M(25,-25,10,0.2), strengths from 12.5", phantom("M(25,-25,10,0.2)")),
    "ne-d": Row("phantom, N_E “D”: M(25,-25,10,0.8), strengths from 12.5", phantom("M(25,-25,10,0.8)")),
    "ns": Row("phantom, N_S: M(25,-25,10,0.2)", phantom("M(25,-25,10,0.2)", None)),
    "weak": Row("phantom, weak: M(8,-8,4,0.2), strengths from 4", phantom("M(8,-8,4,0.2)")),
    "busi-ns": Row(
        "BUSI lesions, N_S: M(25,-15,5,0.2), strengths from half",
        real(write_breast_lesions, "M(25,-15,5,0.2)"),
        REAL_SETTINGS,
    ),
    "busi-ns-unguarded": Row(
        "BUSI lesions, N_S, two groups without a test",
        real(write_breast_lesions, "M(25,-15,5,0.2)"),
        REAL_SETTINGS | {"group_test_level": 1.0},
    ),
    "busi-ne": Row(
        "BUSI lesions, N_E: M(25,-15,5,0.8), strengths from half",
        real(write_breast_lesions, "M(25,-15,5,0.8)"),
        REAL_SETTINGS,
    ),
    "busi-clean": Row("BUSI lesions, labels as they are", real(write_breast_lesions), REAL_SETTINGS),
    **{
        f"hippocampus-{form}-{parts}-{name}": hippocampus(noise, sliced=form == "2d", together=parts == "one")
        for form, parts in (("2d", "one"), ("2d", "two"), ("3d", "one"))
        for name, noise in (("ns", "M(25,-15,5,0.2)"), ("ne", "M(25,-15,5,0.8)"), ("clean", None))
    },
    "cells": Row("cells, a site per source with a crowd set's masks", real(write_cells), CELL_SETTINGS),
    "cells-clean": Row("cells, the experts' majority everywhere", real(write_majority_cells), CELL_SETTINGS),
}
PHANTOM_ROWS = [name for name in ROWS if not name.startswith(("busi", "hippocampus", "cells"))]


def compare_row(name: str, seeds: range, out: Path) -> dict[str, Any]:
    """Make the row's data where they are absent, and compare."""
    row = ROWS[name]
    for seed in seeds:
        folder = out / name / "data" / f"seed{seed}"
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            row.make(folder, seed)
    comparison = compare_jobs(
        [JOBS / "fedavg", JOBS / "fedaaai"],
        out / name / "runs",
        data=str(out / name / "data" / "seed{seed}"),
        seeds=seeds,
        overrides=row.settings,
    )
    print_comparison(comparison, Console())
    return comparison


def table_row(name: str, comparison: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures that are reported of a row, in Dice points."""
    runs = comparison["runs"]
    scores = {
        job: [100 * run["last_rounds"]["dice"] for run in runs if run["job"] == job] for job in ("fedavg", "fedaaai")
    }
    differences = [100 * value for value in comparison["paired"][0]["differences"]]
    return {
        "row": name,
        "what": ROWS[name].what,
        "seeds": comparison["seeds"],
        "fedavg": scores["fedavg"],
        "feda3i": scores["fedaaai"],
        "differences": differences,
        "mean_difference": statistics.fmean(differences),
        "groups": [run["groups"] for run in runs if run["job"] == "fedaaai"],
        "groups_as_drawn": [run["groups_as_drawn"] for run in runs if run["job"] == "fedaaai"],
        "seconds": [run["seconds"] for run in runs],
    }


def main() -> None:
    """Run the asked rows and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default=",".join(PHANTOM_ROWS))
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("runs/bench/feda3i"))
    parser.add_argument("--table", type=Path, help="JSON file to write the figures to")
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    table = [table_row(name, compare_row(name, seeds, arguments.out)) for name in arguments.rows.split(",")]
    text = json.dumps(table, indent=1, ensure_ascii=False)
    if arguments.table:
        arguments.table.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
