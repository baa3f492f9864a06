"""What one site that lies does to the model: attack × method, without the bounds of deployed jobs and with them.

    python tests/benchmarks/lying_sites.py docs/benchmarks/lying_sites.json

Runs on the phantoms of the jobs, each with small settings, in this process; results are added to the file as they come,
and those that it holds are not made again. At the end the table is printed.
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmark_tables.fedia import PUBLISHED

from fedannot.apps.deployment.deployable_job import deployed_bounds
from fedannot.apps.runs.in_process import RunError
from fedannot.apps.runs.job import Job
from fedannot.apps.runs.simulate import simulate
from fedannot.custom.data.phantoms.choice import write_embedded_federation

JOBS = Path(__file__).parents[2] / "jobs"
ATTACKS = {
    "honest": "nothing false",
    "turned": "update turned, ten times",
    "samples": "a million samples, update turned, ten times",
    "hidden": "a million samples, update turned, at its own length",
    "quality": "false quality, update turned, ten times",
    "statistics": "running variances of 4000",
    "bias": "ten updates in the output layer's biases, one direction",
    "last": "ten updates in the output layer, one direction",
    "zeros": "zeros",
}
# And their numbers of sites. A name after the job's says that it is of another size.
METHODS = {"fedavg": 8, "fedaaai": 8, "fedia": 4, "fedgsca": 4, "fedavg/4": 4}
# What is run of each; statistics, biases and zeros are averaged in the same way by every method.
RUNS = {
    "fedavg": [attack for attack in ATTACKS if attack != "quality"],
    "fedaaai": ["honest", "samples", "quality", "bias"],
    "fedia": ["honest", "quality"],
    "fedgsca": ["honest", "quality"],
    "fedavg/4": ["honest", "bias", "zeros"],
}
# The last rounds of which the mean is a run's score.
LAST_ROUNDS = 2
_LESIONS = {
    "rounds": 7,
    "network.features": [8, 16, 32, 32, 32, 8],
    "embedded.sites": 8,
    "embedded.images_per_site": 8,
    "embedded.test_images": 16,
}
SMALL: dict[str, dict[str, Any]] = {
    "fedavg": _LESIONS,
    "fedavg/4": _LESIONS | {"embedded.sites": 4},
    # Groups are not tested for, so that quality counts in every run.
    "fedaaai": _LESIONS | {"warmup_rounds": 2, "min_predicted_fraction": 0.0, "group_test_level": 1.0},
    "fedia": {
        **PUBLISHED,
        "rounds": 10,
        "warmup_rounds": 6,
        "network.features": [4, 8, 16, 16, 16, 4],
        "embedded.images_per_site": 3,
        "embedded.test_images": 3,
    },
    "fedgsca": {
        "rounds": 10,
        "warmup_rounds": 5,
        "training.batch_size": 8,
        "training.local_epochs": 4,
        "embedded.images_per_site": 80,
        "embedded.test_images": 80,
    },
}


def job_of(method: str) -> Path:
    """Return the folder of the project's job."""
    return JOBS / method.partition("/")[0]


def lying_job(method: str, attack: str, changes: dict[str, Any], folder: Path) -> Path:
    """Copy a job of the project in which one site lies."""
    job = Job.open(job_of(method)).copy_with(SMALL[method] | changes, folder)
    if attack != "honest":
        text = job.client_config.read_text(encoding="utf-8")
        for result, instead in (
            ("fedannot.custom.flare.executor.FederatedExecutor", "lying_executors.LyingExecutor"),
            ("args { settings = ${?settings} }", f'args {{ settings = ${{?settings}}, attack = "{attack}" }}'),
        ):
            if text.count(result) != 1:
                raise ValueError(f"{job.client_config}: expected {result!r} once.")
            text = text.replace(result, instead)
        job.client_config.write_text(text, encoding="utf-8")
    return job.folder


def cases(
    methods: list[str], attacks: list[str], bounds: list[str], seeds: list[int]
) -> Iterator[tuple[str, str, bool, int]]:
    """Yield method, attack, whether the bounds are on, and seed."""
    for seed in seeds:
        for method in methods:
            for attack in attacks:
                if attack in RUNS[method]:
                    for chosen in bounds:
                        yield method, attack, chosen == "on", seed


def run(
    method: str, attack: str, bounds: dict[str, Any], seed: int, folder: Path, rounds: int | None = None
) -> dict[str, Any]:
    """Return the scores of one run, in percent, by round; nothing but 0 where it ends with an error."""
    data = folder / f"data-{method.replace('/', '-')}-{seed}"
    changes: dict[str, Any] = {"seed": seed, "embedded.seed": seed}
    if not data.exists():
        settings = Job.open(job_of(method)).settings_with(SMALL[method] | changes)
        write_embedded_federation(data, settings.embedded)
    changes |= {} if rounds is None else {"rounds": rounds}
    changes |= bounds
    started = time.monotonic()
    with TemporaryDirectory(dir=folder) as name:
        job = lying_job(method, attack, changes, Path(name) / "job")
        try:
            summary = simulate(job, Path(name) / "out", data=data)
        except RunError as error:
            seconds = round(time.monotonic() - started, 1)
            return {"scores": [0.0], "bounded": {}, "ended": str(error), "seconds": seconds}
    return {
        "scores": [round(100 * (record.main_score or 0), 2) for record in summary.rounds],
        "bounded": {site: sum(entry.site == site for entry in summary.bounded) for site in summary.sites},
        "seconds": round(time.monotonic() - started, 1),
    }


def last_scores(results: list[dict[str, Any]], method: str, attack: str, bounded: bool) -> dict[int, float]:
    """Return by seed the mean score of a run's last rounds."""
    return {
        result["seed"]: statistics.mean(result["scores"][-LAST_ROUNDS:])
        for result in results
        if (result["method"], result["attack"], result["bounds"]) == (method, attack, bounded)
    }


def table(results: list[dict[str, Any]]) -> str:
    """Return the table: mean ± standard deviation over the seeds, and the worst of them in parentheses."""
    methods = [method for method in METHODS if any(result["method"] == method for result in results)]
    titles = [f"{job_of(method).name}, {METHODS[method]} sites" for method in methods]
    lines = ["| one of the sites sends | bounds | " + " | ".join(titles) + " |", "|---|---|" + "---|" * len(methods)]
    for attack, said in ATTACKS.items():
        for bounded in (False, True):
            cells = []
            for method in methods:
                last = list(last_scores(results, method, attack, bounded).values())
                spread = f" ± {statistics.stdev(last):.1f} ({min(last):.1f})" if len(last) > 1 else ""
                cells.append(f"{statistics.mean(last):.1f}{spread}" if last else "–")
            if set(cells) != {"–"}:
                lines.append(f"| {said} | {'on' if bounded else 'off'} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def costs(results: list[dict[str, Any]]) -> str:
    """Return by how much bounds change honest runs of the same seeds, a line per method."""
    lines = []
    for method in METHODS:
        free, bounded = (last_scores(results, method, "honest", on) for on in (False, True))
        paired = [bounded[seed] - free[seed] for seed in sorted(set(free) & set(bounded))]
        if len(paired) > 1:
            said = f"{statistics.mean(paired):+.1f} ± {statistics.stdev(paired):.1f} points over {len(paired)} seeds"
            lines.append(f"{method}: {said}")
    return "\n".join(lines)


def main() -> None:
    """Run what is not in the file yet and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="JSON file")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--attacks", nargs="+", choices=ATTACKS, default=list(ATTACKS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--bounds", nargs="+", choices=("off", "on"), default=["off", "on"])
    parser.add_argument("--rounds", type=int, help="other than those of the table, into a file of their own")
    parser.add_argument("--settings", type=json.loads, help="other than those of deployed jobs with bounds, as JSON")
    arguments = parser.parse_args()
    file: Path = arguments.results
    results = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    done = {(result["method"], result["attack"], result["bounds"], result["seed"]) for result in results}
    with TemporaryDirectory() as name:
        for case in cases(arguments.methods, arguments.attacks, arguments.bounds, arguments.seeds):
            if case in done:
                continue
            method, attack, bounded, seed = case
            deployed = deployed_bounds(METHODS[method]) | {"min_sites": METHODS[method] // 2 + 1}
            bounds = (deployed if arguments.settings is None else arguments.settings) if bounded else {}
            found = run(method, attack, bounds, seed, Path(name), arguments.rounds)
            results.append({"method": method, "attack": attack, "bounds": bounded, "seed": seed} | found)
            file.write_text("[\n" + ",\n".join(map(json.dumps, results)) + "\n]\n", encoding="utf-8")
            print(*case, found["scores"], found["seconds"], flush=True)
    print(table(results))
    print("What the bounds cost where all are honest:", costs(results), sep="\n")


if __name__ == "__main__":
    main()
