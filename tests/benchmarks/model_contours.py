"""Where the last models of finished runs draw: how far their contours lie outside of the clean ones on the test cases.

    python tests/benchmarks/model_contours.py runs/bench/auto/clean runs/bench/auto/medium

A line for each run and class: the median over the test cases of the offset between predicted and clean contours,
positive outside, in millimetres (pixels without spacing), and Dice in % at some thresholds of the probability. Every
folder is searched for runs.
"""

import argparse
import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from fedannot.custom.annotation_bias.boundary_bias import mask_offset
from fedannot.custom.annotation_bias.predicted_samples import PredictedCase, predicted_samples
from fedannot.custom.data.datalist import TESTING
from fedannot.custom.data.site_data import load_site_data
from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.networks.described import described_network
from fedannot.custom.networks.start_weights import read_state_dict
from fedannot.custom.settings import NetworkSettings

THRESHOLDS = (0.3, 0.5, 0.7)
BATCH_SIZE = 4


def runs(folders: Sequence[Path]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the folder and the summary of every run of masks that has a model."""
    for folder in folders:
        for file in sorted(folder.rglob("summary.json")):
            summary = json.loads(file.read_text(encoding="utf-8"))
            if (file.parent / "model.pt").is_file() and summary["task"] == "segmentation":
                yield file.parent, summary


def predicted_test_cases(run: Path, summary: dict[str, Any]) -> list[PredictedCase]:
    """Return the test cases with what the run's model says of them."""
    settings = summary["settings"]
    network = described_network(NetworkSettings.model_validate(settings["network"]))
    network.load_state_dict(read_state_dict(run / "model.pt"))
    patch = settings["training"]["patch"]
    inference = Inference(BATCH_SIZE, None if patch is None else tuple(patch))
    with TemporaryDirectory() as cache:
        data = load_site_data(Path(settings["data"]) / "test", Path(cache), section=TESTING, site="test")
        return list(predicted_samples(network, data.cases, inference))


def said_of_class(cases: Sequence[PredictedCase], label: int) -> str:
    """Return the median offset of the predicted contours of a class, and Dice by threshold."""
    offsets, dice = [], dict[float, list[float]]()
    for case in cases:
        clean, probability = case.annotation == label, case.probabilities[label]
        if not clean.any():
            continue
        result = mask_offset(probability > 0.5, clean, case.spacing)
        offsets += [] if result is None else [result.offset]
        for threshold in THRESHOLDS:
            both = probability > threshold
            dice.setdefault(threshold, []).append(2 * (both & clean).sum() / (both.sum() + clean.sum()))
    middle = f"{statistics.median(offsets):+.2f}" if offsets else "?"
    means = "  ".join(f"{threshold}: {100 * statistics.fmean(of):.1f}" for threshold, of in dice.items())
    return f"class {label}  offset {middle}  Dice, % by threshold  {means}"


def main() -> None:
    """Print the lines of all runs in the named folders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="output folders of benchmarks or runs")
    torch.set_num_threads(1)
    for run, summary in runs(parser.parse_args().folders):
        cases = predicted_test_cases(run, summary)
        for label in range(1, summary["settings"]["network"]["num_classes"] + 1):
            print(f"{run.name:24s} {said_of_class(cases, label)}  ({run})", flush=True)


if __name__ == "__main__":
    main()
