"""The two models that may predict a site's annotations, on the same federation after the same number of rounds.

    [FEDANNOT_REAL_DATA=DIR] python tests/benchmarks/out_of_fold_forms.py --seeds 100 101

(a) the global model, (b) models of A/B halves: each site's patients are split in two, and the model of either half
predicts the other. There are as many rounds as in the warm-up of the tables, five or six, and twice as many in (b).
Printed are, for each form, the correlation of the sites' estimated
with their true offsets, the mean error of site less the mean of all in % of the spread, how many of the 90 % intervals
hold the truth, and at how many sites injected errors are detected with an AUROC of 0.7. True offsets are the medians
over a site's cases between its masks and the clean ones. Without the variable the generated lesions alone are run.
Seeds below 100 are for figures that are reported.
"""

import argparse
import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from auto_estimates import true_offset
from benchmark_tables import feda3i
from benchmark_tables.rows import MakeData
from compare_on_real_images import NOISE_SMALLER, REAL_SETTINGS, SLICE_SETTINGS, real
from real_federations import hippocampus_dataset_options, write_breast_lesions, write_hippocampi
from scipy.stats import pearsonr

from fedannot.apps.runs.participants import JOB_ID
from fedannot.apps.runs.simulate import RUN_FOLDER, simulate
from fedannot.custom.annotation_bias.estimate import Estimate
from fedannot.custom.annotation_bias.predicted_samples import Predictor, predicted_by
from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.site_data import SiteData, load_site_data
from fedannot.custom.data.tensor_files import load_latest_tensors
from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.methods.audit.folds import parts
from fedannot.custom.methods.audit.folds_site import REFERENCE_MODELS_FOLDER
from fedannot.custom.methods.audit.reference_models import ReferenceModels
from fedannot.custom.methods.auto.answers import BiasReport
from fedannot.custom.methods.auto.bias_measurement import measure_bias
from fedannot.custom.methods.lookup import read_job_settings
from fedannot.custom.networks.described import described_network
from fedannot.custom.run.state import RunState, kept_state_file

JOBS = Path(__file__).parents[2] / "jobs"
FORMS = ("(a) global", "(b) halves")
ENOUGH = 0.7

_SLICES = hippocampus_dataset_options(sliced=True, together=True)
FEDERATIONS: dict[str, tuple[MakeData, Mapping[str, Any]]] = {
    "phantom": (feda3i.phantom(feda3i.NOISE_SMALLER), feda3i.SETTINGS),
    "busi": (real(write_breast_lesions, NOISE_SMALLER), REAL_SETTINGS),
    "hippocampus": (real(partial(write_hippocampi, options=_SLICES), NOISE_SMALLER), SLICE_SETTINGS),
}


def trained(folder: Path, data: Path, settings: Mapping[str, Any], rounds: int) -> None:
    """Train the models of all forms; what is there already stays."""
    common = {key: value for key, value in settings.items() if key not in ("rounds", "warmup_rounds")}
    auto = {"rounds": rounds + 1, "warmup_rounds": rounds, "keep_rounds": [rounds]}
    auto |= {"treatment": "none", "estimates": 1}
    audit = {"rounds": 2 * rounds, "folds": 2}
    for job, own in (("auto", auto), ("audit", audit)):
        if not (folder / job / "summary.json").is_file():
            simulate(JOBS / job, folder / job, data=data, overrides={**common, **own})


def reference_models(folder: Path, site: str, data: SiteData, rounds: int) -> Iterator[tuple[str, Predictor, Any]]:
    """Yield the form, what predicts a site's cases in it, and the job's settings."""
    server = folder / "auto" / RUN_FOLDER / "server" / JOB_ID
    state = RunState.load(server / kept_state_file(rounds))
    settings = read_job_settings(state.settings)
    network = described_network(settings.network)
    network.load_state_dict(state.params)
    yield FORMS[0], predicted_by(network, Inference.of(settings)), settings
    last = RunState.load(next((folder / "audit" / RUN_FOLDER / "server").rglob("fedannot_state.pt")))
    audit = read_job_settings(last.settings)
    network = described_network(audit.network)
    network.load_state_dict(last.params)
    first = load_latest_tensors(
        [(next((folder / "audit" / RUN_FOLDER / site).rglob(REFERENCE_MODELS_FOLDER)) / "part_1", rounds)]
    )
    assert first is not None
    part = parts(data.units, 2, seed=audit.seed, site=site)
    yield FORMS[1], ReferenceModels(audit, network, part, {0: first[1]}), audit  # type: ignore[arg-type]


def print_forms(name: str, seed: int, out: Path) -> dict[str, list[float]]:
    """Train, estimate and print a line for each form; return the figures."""
    make, settings = FEDERATIONS[name]
    rounds = int(settings["warmup_rounds"])
    folder = out / f"{name}-{seed}"
    data = folder / "data"
    if not data.exists():
        folder.mkdir(parents=True, exist_ok=True)
        make(data, seed)
    trained(folder, data, {**settings, "seed": seed}, rounds)
    true: list[float] = []
    result: dict[str, list[Estimate]] = {form: [] for form in FORMS}
    for site in read_federation(data).sites:
        loaded = load_site_data(data / site, folder / "cache" / site, site=site)
        true.append(true_offset(loaded))
        for form, predict, of_job in reference_models(folder, site, loaded, rounds):
            answer = measure_bias(predict, loaded, None, of_job, seed=seed)
            result[form].append(BiasReport.of(answer.fields).offset[0])
    figures = {}
    for form, estimates in result.items():
        figures[form] = figures_of(np.array(true), estimates)
        print(f"{name:12s} seed {seed} {form:16s} " + in_words(figures[form]), flush=True)
    return figures


def figures_of(true: np.ndarray, estimates: list[Estimate]) -> list[float]:
    """Return correlation, error and coverage in %, and the fraction of sites at which errors are reported."""
    known = np.array([estimate.is_known for estimate in estimates])
    if known.sum() < 2:
        return [float("nan")] * 4
    value, low, high = (
        np.array([getattr(estimate, end) for estimate in estimates])[known] for end in ("value", "low", "high")
    )
    given = true[known]
    shared = float((value - given).mean())
    error = 100 * np.abs(value - shared - given).mean() / given.std()
    inside = 100 * ((low - shared <= given) & (given <= high - shared)).mean()
    sensitive = 100 * np.mean([estimate.auroc >= ENOUGH for estimate in estimates])
    return [float(pearsonr(value, given).statistic), float(error), float(inside), float(sensitive)]


def in_words(figures: list[float]) -> str:
    """Return the figures of a line."""
    pearson, error, inside, sensitive = figures
    covered = f"coverage {inside:3.0f} %  reported at {sensitive:3.0f} %"
    return f"Pearson {pearson:.3f}  error {error:3.0f} % of the spread  {covered}"


def main() -> None:
    """Print a line for each federation, seed and form, and the means over seeds; finished runs are kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = list(FEDERATIONS) if "FEDANNOT_REAL_DATA" in os.environ else ["phantom"]
    parser.add_argument("--federations", nargs="+", choices=list(FEDERATIONS), default=default)
    parser.add_argument("--seeds", type=int, nargs="+", default=[100])
    parser.add_argument("--out", type=Path, default=Path("runs/bench/forms"))
    arguments = parser.parse_args()
    for name in arguments.federations:
        result = [print_forms(name, seed, arguments.out) for seed in arguments.seeds]
        for form in FORMS:
            means = np.mean([of_seed[form] for of_seed in result], axis=0).tolist()
            print(f"{name:12s} mean     {form:16s} " + in_words(means), flush=True)


if __name__ == "__main__":
    main()
