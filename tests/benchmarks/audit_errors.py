"""How well an audit finds injected errors, kind by kind, beside other scores: a short federation on erroneous
annotations.

    FEDANNOT_REAL_DATA=DIR python tests/benchmarks/audit_errors.py --packs phantom busi --seeds 100 --out DIR

Errors of all kinds are in one federation, each case has at most one; the early model of federated averaging predicts
all cases, those that it was trained on (`--profile quick`). With `--folds 2` as many rounds make each of two models,
which predict the patients that they have not learnt (`--profile thorough`). A row of a kind tells its cases from those
without any error; the row "all" tells every erroneous case from them by the score of the case in the audit's list.
Cases are ranked over all sites together. What was trained is kept in the output folder. Seeds below 100 are for figures
that are reported.
"""

import argparse
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from audit_baselines import baseline_scores
from erroneous_federations import PACKS, TRUTH_FILE, Pack, put_errors
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

from fedannot.apps.runs.participants import JOB_ID
from fedannot.apps.runs.simulate import RUN_FOLDER, simulate
from fedannot.custom.audit.findings import CASES_FOLDER
from fedannot.custom.audit.measuring import examined_cases, measured_site
from fedannot.custom.audit.reporting import audited_cases
from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.participant_folder import PRIVATE_FOLDER
from fedannot.custom.data.site_data import LoadedCase, SiteData, load_site_data
from fedannot.custom.data.tensor_files import load_latest_tensors
from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.methods.audit.folds import parts
from fedannot.custom.methods.audit.folds_site import REFERENCE_MODELS_FOLDER
from fedannot.custom.methods.audit.reference_models import ReferenceModels
from fedannot.custom.methods.audit.settings import FoldsSettings
from fedannot.custom.methods.lookup import read_job_settings
from fedannot.custom.networks.building import build_network
from fedannot.custom.networks.devices import ready_to_compute
from fedannot.custom.run.state import STATE_FILE, RunState
from fedannot.custom.settings import RunSettings

JOBS = Path(__file__).parents[2] / "jobs"
QUICK, THOROUGH = "fedavg", "audit"
ALL = "all"
AUDIT = "audit"

Floats = NDArray[np.float64]
# By the name of a score, the scores of a federation's cases.
Scores = dict[str, list[float]]
NetworkOf = Callable[[LoadedCase], torch.nn.Module]


@dataclass(frozen=True)
class Predicted:
    """A short federation that is trained.

    Attributes:
        folder: where its data and its run lie.
        settings: of the run.
        network: the global model.
        seed: of the run.
    """

    folder: Path
    settings: RunSettings
    network: torch.nn.Module
    seed: int

    @property
    def inference(self) -> Inference:
        """How models are run."""
        return Inference.of(self.settings)

    def network_of(self, data: SiteData) -> NetworkOf:
        """Return which model predicts a case of a site: of several parts that which has not learnt it."""
        if not isinstance(self.settings, FoldsSettings):
            return lambda _: self.network
        run, rounds = self.folder / "run" / RUN_FOLDER / data.site / PRIVATE_FOLDER / JOB_ID, self.settings.rounds
        result = {
            fold: load_latest_tensors([(run / REFERENCE_MODELS_FOLDER / f"part_{fold + 1}", rounds)])
            for fold in range(self.settings.folds - 1)
        }
        kept = {fold: tensors[1] for fold, tensors in result.items() if tensors is not None}
        if len(kept) < len(result):
            raise FileNotFoundError(f"{run / REFERENCE_MODELS_FOLDER}: expected the models of {len(result)} parts.")
        of_patient = parts(data.units, self.settings.folds, seed=self.seed, site=data.site)
        return ReferenceModels(self.settings, self.network, of_patient, kept).network_of


def trained(pack: Pack, folder: Path, share: float, seed: int, folds: int) -> Predicted:
    """Make the erroneous federation and train on it, or find what was trained before."""
    state_file = folder / "run" / RUN_FOLDER / "server" / JOB_ID / STATE_FILE
    if not state_file.exists():
        pack.write(folder / "data", seed)
        if share:
            put_errors(folder / "data", pack, share, seed)
        settings = {"seed": seed, **pack.settings}
        if folds > 1:
            settings |= {"folds": folds, "rounds": folds * settings["rounds"]}
        simulate(JOBS / (QUICK if folds == 1 else THOROUGH), folder / "run", data=folder / "data", overrides=settings)
    state = RunState.load(state_file)
    of_run = read_job_settings(state.settings)
    network = build_network(**of_run.network.model_dump())
    network.load_state_dict(state.params)
    return Predicted(folder, of_run, ready_to_compute(network), seed)


def site_scores(predicted: Predicted, data: SiteData) -> Scores:
    """Return the scores of a site's cases: of every kind, of the case in the audit's list, and of the baselines."""
    folder, seed, network_of, inference = (
        predicted.folder,
        predicted.seed,
        predicted.network_of(data),
        predicted.inference,
    )
    measured = measured_site(data, network_of, inference, seed=seed)
    (folder / "audit" / CASES_FOLDER).mkdir(parents=True, exist_ok=True)
    cases = audited_cases(measured, data, folder / "data" / data.site, folder / "audit")
    by_image = {case.image: case for case in cases}
    names = [case.image_name(folder / "data" / data.site) for case in data.cases]
    result: Scores = {f"{AUDIT} {kind.kind.name}": list(kind.case_scores()) for kind in measured.kinds}
    result[AUDIT] = measured.case_scores().tolist()
    result["largest"] = [by_image[name].score for name in names]
    result["findings"] = [float(by_image[name].has_problem) for name in names]
    examined = sorted(examined_cases(data, network_of, inference), key=lambda case: case.index)
    return result | {name: scores.tolist() for name, scores in baseline_scores(examined, seed).items()}


def federation_scores(pack: Pack, folder: Path, share: float, seed: int, folds: int) -> tuple[Scores, list[str]]:
    """Return the scores of all cases, and the error of each, empty for none."""
    predicted = trained(pack, folder, share, seed, folds)
    truth = json.loads((folder / "data" / TRUTH_FILE).read_text()) if share else {}
    scores: Scores = defaultdict(list)
    errors: list[str] = []
    for site in read_federation(folder / "data").sites:
        data = load_site_data(folder / "data" / site, folder / "cache", site=site)
        started = time.monotonic()
        for name, of_site in site_scores(predicted, data).items():
            scores[name] += of_site
        of_this = truth.get(site, {})
        errors += [of_this.get(case.image_name(folder / "data" / site), "") for case in data.cases]
        print(f"  {site}: {len(data.cases)} cases, {time.monotonic() - started:.1f} s", flush=True)
    return scores, errors


def figures(scores: Floats, wrong: NDArray[np.bool_]) -> dict[str, float]:
    """Return how well scores tell wrong cases from the others."""
    order = np.argsort(-scores, kind="stable")
    result = np.cumsum(wrong[order])
    first = max(1, round(0.1 * len(wrong)))
    needed = int(np.searchsorted(result, 0.8 * wrong.sum()) + 1)
    return {
        "AUROC": float(roc_auc_score(wrong, scores)),
        "AP": float(average_precision_score(wrong, scores)),
        "precision in first 10 %": float(result[first - 1] / first),
        "share reviewed for 80 %": needed / len(wrong),
    }


def rows(pack: Pack, scores: Scores, errors: list[str]) -> dict[str, dict[str, dict[str, float]]]:
    """Return the figures by kind and by name of the score."""
    kind_of = np.array(errors)
    result: dict[str, dict[str, dict[str, float]]] = {}
    baselines = [name for name in scores if not name.startswith(AUDIT) and name != "findings"]
    for kind in (*pack.kinds, ALL):
        chosen = (kind_of == "") | ((kind_of != "") if kind == ALL else (kind_of == kind))
        wrong = kind_of[chosen] != ""
        own = AUDIT if kind == ALL else f"{AUDIT} {kind}"
        names = {AUDIT: own, **{name: name for name in baselines}}
        result[kind] = {name: figures(np.array(scores[of])[chosen], wrong) for name, of in names.items()}
    return result


def run_record(pack: Pack, scores: Scores, errors: list[str]) -> dict[str, Any]:
    """Return the fraction of cases without an error that have findings, and the figures where there are errors."""
    result, clean = np.array(scores["findings"]) > 0, np.array(errors) == ""
    return {"alarms": float(result[clean].mean()), "figures": {} if clean.all() else rows(pack, scores, errors)}


def print_rows(table: dict[str, dict[str, dict[str, float]]]) -> None:
    """Print all figures of all scores, kind by kind."""
    if not table:
        return
    names = list(next(iter(table.values())))
    print(f"{'':12s}" + "".join(f"{name:>24s}" for name in names))
    for kind, by_name in table.items():
        cells = [
            " ".join([f"{first:.3f}", *(f"{other:.2f}" for other in rest)])
            for first, *rest in (by_name[name].values() for name in names)
        ]
        print(f"{kind:12s}" + "".join(f"{cell:>24s}" for cell in cells))


def mean_rows(tables: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean over tables of the same form."""
    first = tables[0]
    if not isinstance(first, dict):
        return statistics.fmean(tables)  # type: ignore[arg-type,return-value]
    return {key: mean_rows([table[key] for table in tables]) for key in first}


def main() -> None:
    """Run what is asked for, print tables and write figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packs", nargs="+", default=["phantom"], choices=PACKS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[100])
    parser.add_argument("--shares", type=float, nargs="+", default=[0.1], help="0 counts false alarms on clean data")
    parser.add_argument(
        "--folds",
        type=int,
        default=1,
        choices=range(1, 6),
        help="parts of the patients, each predicted by a model of its own",
    )
    parser.add_argument("--rounds", type=int, help="of the short training; default: those of the pack")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    form = "" if arguments.folds == 1 else f"-{arguments.folds}-parts"
    form += f"-{arguments.rounds}-rounds" if arguments.rounds else ""
    for name in arguments.packs:
        more = {"rounds": arguments.rounds} if arguments.rounds else {}
        pack = replace(PACKS[name], settings={**PACKS[name].settings, **more})
        for share in arguments.shares:
            runs: dict[int, dict[str, Any]] = {}
            for seed in arguments.seeds:
                folder = arguments.out / f"{name}-{share:g}{form}-{seed}"
                scores, errors = federation_scores(pack, folder, share, seed, arguments.folds)
                (folder / "scores.json").write_text(json.dumps({"scores": scores, "errors": errors}))
                runs[seed] = run_record(pack, scores, errors)
                print(f"{name}, share {share:g}, seed {seed}: findings in {runs[seed]['alarms']:.1%} of right cases")
                print_rows(runs[seed]["figures"])
            content = {"share": share, "runs": runs, "mean": mean_rows(list(runs.values()))}
            print(f"mean of {len(runs)} seeds")
            print_rows(content["mean"]["figures"])
            (arguments.out / f"{name}-{share:g}{form}.json").write_text(json.dumps(content, indent=2))


if __name__ == "__main__":
    main()
