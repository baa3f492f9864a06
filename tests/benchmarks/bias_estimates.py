"""True against estimated offsets of the sites' contours, by a short run of federated averaging on the phantom.

    python tests/benchmarks/bias_estimates.py --noise "M(25,-25,10,0.2)" --stratified 0.5 --seeds 100 101

A site's true offset is the median over its cases of the offset between its masks and the clean ones; its estimate sees
the global model's probabilities after the last round, and its masks alone. Both are in pixels of 64 × 64 images.
Only differences between sites can be estimated, so that coverage and error are of offsets less what all sites share
(the median difference of estimate and truth). The last columns are of the correct: every site's masks moved by its
corrected estimate less the reference level, where that is confirmed. Seeds below 100 are for figures that are reported.
"""

import argparse
import math
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from scipy.stats import pearsonr

from fedannot.apps.runs.participants import JOB_ID
from fedannot.apps.runs.simulate import RUN_FOLDER, simulate
from fedannot.custom.annotation_bias.boundary_bias import mask_offset
from fedannot.custom.annotation_bias.cases import PredictedCase
from fedannot.custom.annotation_bias.error_injection import calibrate_offset
from fedannot.custom.annotation_bias.estimate import Estimate
from fedannot.custom.annotation_bias.parameters import ParameterKey, ParameterKind
from fedannot.custom.annotation_bias.reference_level import choose_reference_level
from fedannot.custom.annotation_bias.significance import Criterion, effect_tests
from fedannot.custom.annotation_bias.site_estimates import estimate_offset
from fedannot.custom.annotation_bias.statuses import TestResult
from fedannot.custom.annotation_bias.thresholds import THRESHOLDS
from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.site_data import SiteData, load_site_data
from fedannot.custom.evaluation.inference import Inference, evaluating
from fedannot.custom.methods.lookup import read_job_settings
from fedannot.custom.networks.building import build_network
from fedannot.custom.networks.devices import ready_to_compute
from fedannot.custom.run.state import STATE_FILE, RunState
from fedannot.transforms.move_contour import MoveContour

JOB = Path(__file__).parents[2] / "jobs" / "fedavg"
LABEL = 1
FLOOR = 0.5
OFFSET = ParameterKey(ParameterKind.OFFSET, 1)


@dataclass(frozen=True)
class SiteRow:
    """What is known of a site."""

    true: float
    estimate: Estimate
    cases: list[PredictedCase]
    clean: list[np.ndarray]


def predicted_cases(network: torch.nn.Module, data: SiteData, inference: Inference) -> list[PredictedCase]:
    """Return a site's cases with the model's probabilities."""
    cases = []
    for case in data.cases:
        with evaluating(network):
            probabilities = inference.logits(network, case.image).softmax(dim=1)[0].double().cpu().numpy()
        cases.append(PredictedCase(case.unit, case.label[0].numpy(), probabilities, case.spacing))
    return cases


def true_offset(data: SiteData) -> float:
    """Return the median offset between a site's masks and the clean ones."""
    offsets = []
    for case in data.cases:
        given, clean = (labels[0].numpy() != 0 for labels in (case.label, case.clean_label))
        result = mask_offset(given, clean, case.spacing)
        if result is not None:
            offsets.append(result.offset)
    return statistics.median(offsets)


def site_rows(folder: Path, arguments: argparse.Namespace, seed: int) -> dict[str, SiteRow]:
    """Train, and measure every site with the last global model."""
    overrides = {
        "seed": seed,
        "rounds": arguments.rounds,
        "embedded.sites": arguments.sites,
        "embedded.seed": seed,
        "embedded.noise": arguments.noise,
        "embedded.exact": True,
        "embedded.stratified": arguments.stratified,
        "embedded.test_images": 4,
    }
    simulate(JOB, folder, overrides=overrides)
    state = RunState.load(folder / RUN_FOLDER / "server" / JOB_ID / STATE_FILE)
    settings = read_job_settings(state.settings)
    network = build_network(**settings.network.model_dump())
    network.load_state_dict(state.params)
    network = ready_to_compute(network)
    rows = {}
    for site in read_federation(folder / "data").sites:
        data = load_site_data(folder / "data" / site, folder / "cache", site=site)
        cases = predicted_cases(network, data, Inference.of(settings))
        estimate = calibrate_offset(cases, LABEL, seed=seed).of(estimate_offset(cases, LABEL, seed=seed))
        clean = [case.clean_label[0].numpy() != 0 for case in data.cases]
        rows[site] = SiteRow(true_offset(data), estimate, cases, clean)
    return rows


def dice(masks: list[np.ndarray], clean: list[np.ndarray]) -> float:
    """Return the mean Dice in percent."""
    return 100 * statistics.fmean(
        2 * float((a & b).sum()) / float(a.sum() + b.sum()) for a, b in zip(masks, clean, strict=True)
    )


def after_correction(row: SiteRow, finding: TestResult) -> list[np.ndarray]:
    """Return a site's masks, moved where its offset is confirmed."""
    move = MoveContour(-finding.effect if finding.is_confirmed else 0.0)
    return [np.asarray(move(case.annotation)) != 0 for case in row.cases]


def print_seed(rows: dict[str, SiteRow], seed: int, level: float) -> dict[str, float]:
    """Print the sites of one seed and return the figures of the seed."""
    corrected = {site: row.estimate.corrected() for site, row in rows.items()}
    reference_level = choose_reference_level(corrected, seed=seed, floor=FLOOR, level=level)
    criteria = {site: {OFFSET: Criterion.of_reference_level(reference_level, FLOOR)} for site in corrected}
    findings = effect_tests({site: {OFFSET: one} for site, one in corrected.items()}, criteria)
    shared = statistics.median(one.value - rows[site].true for site, one in corrected.items())
    reasons = ", ".join(reason.code for reason in reference_level.reasons)
    print(f"\nseed {seed}: {reasons}; a = {reference_level.value:+.2f}, shared by all {shared:+.2f}")
    print(
        f"{'site':9s} {'true':>6s} {'found':>6s} {'90 % interval':>15s} in  slope  AUROC  done  Dice given -> corrected"
    )
    covered, given, mended = [], [], []
    for site, row in rows.items():
        one, finding = corrected[site], findings[site][OFFSET]
        value, low, high = (number - shared for number in (one.value, one.low, one.high))
        covered.append(low <= row.true <= high)
        given.append(dice([case.annotation != 0 for case in row.cases], row.clean))
        mended.append(dice(after_correction(row, finding), row.clean))
        print(
            f"{site:9s} {row.true:+6.2f} {value:+6.2f} [{low:+6.2f},{high:+6.2f}] {'yes' if covered[-1] else 'no ':3s}"
            f" {one.slope:5.2f} {one.auroc:6.2f}  {'yes' if finding.is_confirmed else 'no ':4s} "
            f"{given[-1]:6.1f} -> {mended[-1]:5.1f}"
        )
    # On clean labels there is no spread, and no correlation.
    true, result = [row.true for row in rows.values()], [item.value for item in corrected.values()]
    error = statistics.fmean(abs(a - shared - b) for a, b in zip(result, true, strict=True))
    return {
        "Pearson": float(pearsonr(true, result).statistic),
        "coverage %": 100 * statistics.fmean(covered),
        "mean error px": error,
        "error % of spread": 100 * error / (statistics.pstdev(true) or math.nan),
        "Dice given": statistics.fmean(given),
        "Dice corrected": statistics.fmean(mended),
    }


def main() -> None:
    """Print a table per seed and the means over seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--noise", default="M(25,-25,10,0.2)")
    parser.add_argument("--stratified", type=float, default=None)
    parser.add_argument("--group-level", type=float, default=THRESHOLDS.group_level)
    parser.add_argument("--seeds", type=int, nargs="+", default=[100])
    parser.add_argument("--sites", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    figures = []
    for seed in arguments.seeds:
        with TemporaryDirectory() as name:
            started = time.monotonic()
            rows = site_rows(Path(name) / "run", arguments, seed)
            figures.append(print_seed(rows, seed, arguments.group_level) | {"seconds": time.monotonic() - started})
        print("  ".join(f"{key} {value:.3f}" for key, value in figures[-1].items()))
    means = {key: statistics.fmean(figure[key] for figure in figures) for key in figures[0]}
    print("\nmean over seeds: " + "  ".join(f"{key} {value:.3f}" for key, value in means.items()))


if __name__ == "__main__":
    main()
