"""What differential privacy of updates costs: federated averaging on its phantom, with the filter of each kind once."""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from fedannot.apps.runs.job import Job
from fedannot.apps.runs.simulate import simulate

JOB = Path(__file__).parents[2] / "jobs" / "fedavg"
FILTER = "fedannot.custom.flare.privacy_filter.PrivacyFilter"
# No noise to speak of, too little for an epsilon, and enough for one.
NOISE = (1e-9, 1e-4, 1e-3, 1.0)


def private_copy(folder: Path, seed: int, clip_norm: float, noise_multiplier: float) -> Path:
    """Copy the job, with the filter before the one that looks at what leaves."""
    job = Job.open(JOB).copy_with({"seed": seed}, folder)
    text, result = job.client_config.read_text(encoding="utf-8"), "filters = [{ path"
    if text.count(result) != 1:
        raise ValueError(f"{job.client_config}: expected one list of filters.")
    arguments = f"clip_norm = {clip_norm}, noise_multiplier = {noise_multiplier}"
    added = f"{{ path = {FILTER}, args {{ {arguments} }} }}"
    job.client_config.write_text(text.replace(result, f"filters = [{added}, {{ path"), encoding="utf-8")
    return job.folder


def main() -> None:
    """Print Dice after the last round and what was spent, without the filter and with every noise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--clip", type=float, default=20.0)
    arguments = parser.parse_args()
    with TemporaryDirectory() as name:
        folder = Path(name)
        summary = simulate(JOB, folder / "plain", overrides={"seed": arguments.seed})
        print(f"without: Dice {100 * (summary.last_round.main_score or 0):.1f} %", flush=True)
        for noise in NOISE:
            job = private_copy(folder / f"job-{noise}", arguments.seed, arguments.clip, noise)
            summary = simulate(job, folder / f"out-{noise}", data=folder / "plain" / "data")
            spent = next(iter(summary.sites.values())).privacy_epsilon
            print(
                f"noise multiplier {noise:g}: Dice {100 * (summary.last_round.main_score or 0):.1f} %, epsilon {spent}",
                flush=True,
            )


if __name__ == "__main__":
    main()
