"""A round of FedGSCA beside one of federated averaging, at a site that keeps all its samples."""

import cProfile
import pstats
import statistics
from collections import Counter
from pathlib import Path

import pytest
from benchmark_tables.fedgsca import PUBLISHED
from measuring import Measurement

from fedannot.apps.runs.simulate import simulate
from fedannot.custom.data.phantoms.cells import Cells
from fedannot.custom.data.phantoms.writer import write_phantom_federation

pytestmark = pytest.mark.benchmark

JOBS = Path(__file__).parents[3] / "jobs"
# No noise level reaches 1, so every sample is trained on with its own label.
KEEP_ALL = {"warmup_rounds": 0, "smallest_noise_level": 1.0}
TURNS = 5
METHODS = {
    "federated averaging": ("fedavg_classification", {}),
    "FedGSCA as published": ("fedgsca", PUBLISHED | KEEP_ALL),
    "FedGSCA, the job's own form": ("fedgsca", KEEP_ALL),
}


@pytest.mark.parametrize("epochs", [5, 1])
def test_a_round(speed_table, tmp_path, epochs):
    """The first round has no selector yet and is left out: medians of the seven after it, in runs that take turns."""
    write_phantom_federation(tmp_path / "data", Cells("S40"), num_sites=1, test_images=8)
    times: dict[str, list[float]] = {name: [] for name in METHODS}
    for turn in range(TURNS):
        for name, (job, settings) in METHODS.items():
            overrides = {"rounds": 8, "training.local_epochs": epochs, **settings}
            summary = simulate(JOBS / job, tmp_path / f"{name} {turn}", data=tmp_path / "data", overrides=overrides)
            times[name].append(statistics.median(record.seconds for record in summary.rounds[1:]))
    reference, *others = METHODS
    for name in others:
        ratios = [one / other for one, other in zip(times[name], times[reference], strict=True)]
        speed_table.add(
            Measurement(
                f"a round, one site of 300 cells 32 × 32, {epochs} local epochs: {name}",
                statistics.median(times[name]),
                reference,
                statistics.median(times[reference]),
                statistics.median(ratios),
                "≤ 1.15" if epochs == 5 else "",
                f"{min(ratios):.2f} to {max(ratios):.2f} in {TURNS} turns",
            )
        )


@pytest.mark.parametrize("name", ["FedGSCA as published", "FedGSCA, the job's own form"])
def test_where_a_round_of_one_epoch_goes(speed_table, tmp_path, name):
    """What a site does between the model that it gets and the one that it sends; a profile slows all of it down."""
    write_phantom_federation(tmp_path / "data", Cells("S40"), num_sites=1, test_images=8)
    job, settings = METHODS[name]
    profile = cProfile.Profile()
    profile.enable()
    simulate(
        JOBS / job,
        tmp_path / "run",
        data=tmp_path / "data",
        overrides={"rounds": 8, "training.local_epochs": 1, **settings},
    )
    profile.disable()
    seconds: Counter[str] = Counter()
    # Functions are (file, line, name); what is noted of them ends with the cumulative seconds.
    for function, noted in pstats.Stats(profile).stats.items():
        for caller, times in noted[-1].items():
            if caller[-1] == "_train_on_selection":
                seconds[function[-1]] += times[-1] / 8
    parts = ", ".join(f"{function} {1000 * value:.0f} ms" for function, value in seconds.most_common(6))
    speed_table.add(Measurement(f"a round of 1 local epoch, {name}", note=parts))
