"""What noise on the quality statistics costs: FedA³I's groups of sites from many draws after one warm-up.

    python tests/benchmarks/private_statistics.py

Every seed trains the warm-up of `jobs/fedaaai` once, on its phantom with that many images at each of eight sites. The
estimate is then made again with every draw of the noise, and compared with the noise that was drawn for the phantom.
"""

import argparse
import statistics
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from fedannot.apps.reports.comparison import groups_as_drawn
from fedannot.apps.runs.job import Job
from fedannot.apps.runs.participants import JOB_ID
from fedannot.apps.runs.simulate import RUN_FOLDER, simulate
from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.site_data import load_site_data
from fedannot.custom.interface.views import Answer
from fedannot.custom.methods.feda3i.estimate import QualityAnswer, QualityEstimate, estimate_quality
from fedannot.custom.methods.feda3i.outbound import OUTBOUND_FIELDS
from fedannot.custom.methods.feda3i.quality_report import quality_report
from fedannot.custom.methods.feda3i.settings import FedA3ISettings
from fedannot.custom.networks.described import described_network
from fedannot.custom.outbound.private_statistics import private_report
from fedannot.custom.outbound.private_updates import spent_epsilon
from fedannot.custom.run.state import RunState, kept_state_file

JOB = Path(__file__).parents[2] / "jobs" / "fedaaai"
NOISE = (0.25, 0.5, 1.0, 2.0, 4.0)
DELTA = 1e-5


def reports_after_warmup(folder: Path, seed: int, images: int) -> tuple[dict[str, Answer], FedA3ISettings]:
    """Train the warm-up and return what the sites would report."""
    settings = Job.open(JOB).settings()
    assert isinstance(settings, FedA3ISettings)
    last = settings.warmup_rounds
    overrides = {"seed": seed, "embedded.images_per_site": images, "rounds": last + 1, "keep_rounds": [last]}
    simulate(JOB, folder, overrides=overrides)
    network = described_network(settings.network)
    network.load_state_dict(RunState.load(folder / RUN_FOLDER / "server" / JOB_ID / kept_state_file(last)).params)
    data = folder / "data"
    return {
        site: quality_report(network, load_site_data(data / site, folder / "prepared" / site, site=site), settings)
        for site in read_federation(data).sites
    }, settings


def has_true_groups(estimate: QualityEstimate, data: Path) -> bool:
    """Whether the estimate has groups, and they are those that were drawn."""
    predicted = estimate.to_dict()["sites"]
    return estimate.has_groups and bool(groups_as_drawn({site: of["group"] for site, of in predicted.items()}, data))


def shares_found(seed: int, images: int, largest: Mapping[str, float], draws: int) -> dict[float, float]:
    """Return for every noise in how many draws the groups are those that were drawn; 0 stands for no noise."""
    with TemporaryDirectory() as name:
        folder = Path(name) / "run"
        reports, settings = reports_after_warmup(folder, seed, images)
        source = np.random.default_rng(seed).bytes

        def is_found(noise: float) -> bool:
            sent = {
                site: private_report(of.fields, of.samples, largest, noise_multiplier=noise, random_bytes=source)
                if noise
                else of.fields
                for site, of in reports.items()
            }
            answers = {site: QualityAnswer.of(fields) for site, fields in sent.items()}
            return has_true_groups(
                estimate_quality(answers, seed=seed, level=settings.group_test_level), folder / "data"
            )

        shares = {noise: statistics.mean(is_found(noise) for _ in range(draws)) for noise in NOISE}
        return {0.0: float(is_found(0.0))} | shares


def main() -> None:
    """Print for every number of images and noise how often the groups are found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", default="12,60,240")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--largest", type=float, help="bound of a sample's learning difficulty; the filter's without")
    arguments = parser.parse_args()
    largest = {field.name: field.sample_bound for field in OUTBOUND_FIELDS if field.sample_bound is not None}
    if arguments.largest is not None:
        largest |= dict.fromkeys(("inner_difficulty", "outer_difficulty"), arguments.largest)
    seeds = list(map(int, arguments.seeds.split(",")))
    for images in map(int, arguments.images.split(",")):
        result = [shares_found(seed, images, largest, arguments.draws) for seed in seeds]
        for noise in result[0]:
            epsilon = f"{spent_epsilon(noise**-2, DELTA):.2f}" if noise else "none"
            shares = [100 * of_seed[noise] for of_seed in result]
            each = ", ".join(f"{share:.0f}" for share in shares)
            print(
                f"{images} images, sigma {noise:g}, epsilon {epsilon}: groups found in "
                f"{statistics.mean(shares):.0f} % of the draws (seeds: {each})",
                flush=True,
            )


if __name__ == "__main__":
    main()
