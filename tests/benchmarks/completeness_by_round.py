"""Error of the estimated completeness by the round whose model makes it, for finished runs with kept states.

    fedannot data phantom --task lesions3d --sites 4 --completeness 0.4,0.6,0.8,1 --seed 100 --out runs/m0
    fedannot simulate jobs/fedavg --data runs/m0 --seed 100 --set keep_rounds=[6,8,10,12] --out runs/m0-average
    python tests/benchmarks/completeness_by_round.py runs/m0-average runs/m0

The truth is the fraction of the lesions that were drawn which the site annotates; only generated data know it.
"""

import argparse
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from scipy.stats import spearmanr

from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.manifest import read_manifest
from fedannot.custom.data.site_data import SiteData, load_site_data
from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.methods.fedia.completeness import Completeness
from fedannot.custom.methods.fedia.lesion_counts import count_site_lesions
from fedannot.custom.methods.fedia.predicted_lesions import confident_completeness, predict_lesions
from fedannot.custom.methods.fedia.settings import FedIASettings
from fedannot.custom.methods.lookup import read_job_settings
from fedannot.custom.networks.building import build_network
from fedannot.custom.networks.devices import ready_to_compute
from fedannot.custom.run.state import RunState, kept_state_file


def kept_states(run: Path) -> list[RunState]:
    """Return the states of a run that its job kept, by round."""
    states = [RunState.load(file) for file in run.rglob(kept_state_file("*"))]
    return sorted(states, key=lambda state: state.round_number)


def true_completeness(federation: Path, site: str) -> float:
    """Return the fraction of a site's lesions that are annotated."""
    manifest = read_manifest(federation / site)
    missing = None if manifest is None else manifest.missing_lesions
    return 1.0 if missing is None else missing.num_kept / missing.num_lesions


def estimates(state: RunState, sites: Mapping[str, SiteData]) -> dict[str, dict[str, float]]:
    """Return what each estimator says of every site, predicted with a state's model."""
    settings = read_job_settings(state.settings)
    network = build_network(**settings.network.model_dump())
    network.load_state_dict(state.params)
    network = ready_to_compute(network)
    result: dict[str, dict[str, float]] = {"counts": {}, "matched": {}, "sure": {}}
    smallest = FedIASettings.model_fields["smallest_lesion"].default
    for site, data in sites.items():
        inference, num_classes = Inference.of(settings), len(data.classes)
        counts = count_site_lesions(network, data.cases, num_classes, inference)
        result["counts"][site] = Completeness.of_counts(counts.annotated, counts.predicted).value
        result["matched"][site] = Completeness.of_matches(counts.annotated, counts.predicted, counts.matched).value
        lesions = predict_lesions(network, data.cases, inference, smallest=smallest)
        result["sure"][site] = confident_completeness(lesions, num_classes, seed=0).value
    return result


def main() -> None:
    """Print a line per kept round and estimator."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="output folder of the run")
    parser.add_argument("federation", type=Path, help="the data that it was trained on")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    names = read_federation(arguments.federation).sites
    truth = {site: true_completeness(arguments.federation, site) for site in names}
    print("round  estimator  mean absolute error  mean error  rank correlation  " + "  ".join(names))
    print(" " * 70 + "  ".join(f"{truth[site]:6.2f}" for site in names) + "  (true)")
    with tempfile.TemporaryDirectory() as cache:
        sites = {site: load_site_data(arguments.federation / site, Path(cache), site=site) for site in names}
        for state in kept_states(arguments.run):
            for estimator, values in estimates(state, sites).items():
                errors = [values[site] - truth[site] for site in names]
                rank = spearmanr(list(values.values()), list(truth.values())).statistic
                print(
                    f"{state.round_number:5d}  {estimator:9s}  {statistics.fmean(map(abs, errors)):19.2f}  "
                    f"{statistics.fmean(errors):+10.2f}  {rank:16.2f}  "
                    + "  ".join(f"{values[site]:6.2f}" for site in names)
                )


if __name__ == "__main__":
    main()
