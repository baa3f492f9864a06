"""How well an audit of class labels finds wrong ones, beside other scores: cells of a phantom, or blood cells.

    python tests/benchmarks/audit_labels.py --out DIR --seeds 100 101
    FEDANNOT_REAL_DATA=DIR python tests/benchmarks/audit_labels.py --packs blood --out DIR --seeds 100 101

A row is one noise. `jobs/audit_classification` runs on a federation whose labels are changed by it, and all labels of
all sites are ranked together. A line has AUROC, precision among the first 10 %, and the fraction of cases to review
until 80 % of the wrong labels are found. Mean loss and confidence (1 − p of the given class) order alike. With
`--parts` each label is predicted by a model that has not learnt it, too. What is concluded of sites stands above.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmark_tables.fedgsca import cells
from numpy.typing import NDArray
from real_federations import write_blood_cells
from sklearn.metrics import roc_auc_score

from fedannot.apps.runs.participants import JOB_ID
from fedannot.apps.runs.simulate import RUN_FOLDER, simulate
from fedannot.apps.wording.parameters import conclusion_in_words
from fedannot.custom.audit.findings import AUDIT_FOLDER, SiteAudit, read_audit
from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.noise.mislabelled_copy import mislabel_cases
from fedannot.custom.data.site_data import SiteData, load_site_data
from fedannot.custom.methods.audit.folds import parts
from fedannot.custom.methods.audit.folds_site import REFERENCE_MODELS_FOLDER
from fedannot.custom.methods.audit.reference_models import ReferenceModels
from fedannot.custom.methods.audit_classification.label_scores import PredictedLabels, predicted_labels, score_labels
from fedannot.custom.methods.audit_classification.settings import AuditClassificationSettings
from fedannot.custom.networks.building import build_classifier
from fedannot.custom.networks.devices import ready_to_compute
from fedannot.custom.run.state import STATE_FILE, RunState

JOB = Path(__file__).parents[2] / "jobs" / "audit_classification"
BLOOD_TABLE = Path(__file__).with_name("blood_cells.yaml")
NOISES = ("S10", "S20", "S40", "C20")
CLEAN = "clean"

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Pack:
    """Data and the settings that fit them."""

    write: Callable[[Path, int, str | None], None]
    settings: Mapping[str, Any]


def write_cells(folder: Path, seed: int, noise: str | None) -> None:
    """Write the phantom's cells."""
    cells(noise)(folder, seed)


def write_blood(folder: Path, seed: int, noise: str | None) -> None:
    """Write blood cells of one hospital in four sites, mislabelled."""
    clean = folder if noise is None else folder.with_name("clean")
    if not clean.exists():
        write_blood_cells(clean, seed)
    if noise is not None:
        mislabel_cases(clean, folder, noise, table=BLOOD_TABLE, seed=seed)


PACKS = {"cells": Pack(write_cells, {}), "blood": Pack(write_blood, {"network.in_channels": 3})}


@dataclass(frozen=True)
class PredictedSite:
    """A site's labels, what is said of them, and what the audit wrote."""

    predicted: PredictedLabels
    wrong: NDArray[np.bool_]
    audit: SiteAudit


def audited(pack: Pack, folder: Path, noise: str | None, seed: int, profile: str | None) -> list[PredictedSite]:
    """Make the federation and audit it, or find what was made before."""
    data, run = folder / "data", folder / (profile or "audit")
    if not data.exists():
        pack.write(data, seed, noise)
    if not (run / "summary.json").exists():
        simulate(JOB, run, data=data, settings=profile, overrides={"seed": seed, **pack.settings})
    sites = read_federation(data).sites
    return [predicted_site(run, load_site_data(data / site, folder / "cache", site=site)) for site in sites]


def predicted_site(run: Path, data: SiteData) -> PredictedSite:
    """Return what the models of a finished audit say of a site's labels."""
    state = RunState.load(run / RUN_FOLDER / "server" / JOB_ID / STATE_FILE)
    settings = AuditClassificationSettings.model_validate(state.settings)
    network = build_classifier(**settings.network.model_dump())
    network.load_state_dict(state.params)
    (folder,) = (
        file.parent for file in run.glob(f"{RUN_FOLDER}/**/{AUDIT_FOLDER}/findings.json") if _is_of(file, data)
    )
    kept = {
        int(file.parent.name.removeprefix("part_")) - 1: torch.load(file, weights_only=True)
        for file in folder.parent.glob(f"{REFERENCE_MODELS_FOLDER}/*/*.pt")
    }
    part = parts(data.units, settings.folds, seed=settings.seed, site=data.site)
    models = ReferenceModels(settings, ready_to_compute(network), part, kept)
    assert data.clean_labels is not None or not kept
    true = data.labels if data.clean_labels is None else data.clean_labels
    wrong = (data.labels != true).numpy()
    return PredictedSite(predicted_labels(models, data, settings), wrong, read_audit(folder))


def _is_of(file: Path, data: SiteData) -> bool:
    return read_audit(file.parent).site == data.site


def scores_of(predicted: PredictedLabels) -> dict[str, Floats]:
    """Return the audit's scores and those of others; larger is worse."""
    p, labels = predicted.probabilities, predicted.labels
    given = p[np.arange(len(labels)), labels]
    typical = np.array(
        [given[labels == label].mean() if (labels == label).any() else 2.0 for label in range(p.shape[1])]
    )
    confident = np.where(p >= typical, p, -1.0)
    other = (confident.argmax(axis=1) != labels) & (confident.max(axis=1) > 0)
    return {
        "audit": score_labels(predicted.with_look_alikes, labels).scores,
        "no look-alikes": score_labels(p, labels).scores,
        "loss, confidence": 1 - given,
        "own thresholds": score_labels(p / typical, labels).scores,
        "margin": p.max(axis=1) - given,
        "confident joint": other + 1e-3 * (1 - given),
    }


def figures(scores: Floats, wrong: NDArray[np.bool_]) -> tuple[float, float, float]:
    """Return AUROC, precision among the first 10 %, share to review until 80 % are found."""
    result = np.cumsum(wrong[np.argsort(-scores, kind="stable")])
    first = max(1, round(0.1 * len(wrong)))
    needed = int(np.searchsorted(result, 0.8 * wrong.sum()) + 1)
    return float(roc_auc_score(wrong, scores)), float(result[first - 1] / first), needed / len(wrong)


def row_of(sites: list[PredictedSite]) -> dict[str, tuple[float, float, float]]:
    """Return the figures of all scores over all sites."""
    wrong = np.concatenate([site.wrong for site in sites])
    of_sites = [scores_of(site.predicted) for site in sites]
    return {name: figures(np.concatenate([scores[name] for scores in of_sites]), wrong) for name in of_sites[0]}


def described(site: PredictedSite) -> str:
    """Return what was concluded of a site beside the truth."""
    (conclusion,), (kind,) = site.audit.conclusions, site.audit.kinds
    expected = sum(finding.probability or 0.0 for case in site.audit.cases for finding in case.findings)
    wrong = {case.image for case in site.audit.cases if case.findings}
    auroc = "-" if kind.auroc is None else f"{kind.auroc:.3f}"
    true = float(roc_auc_score(site.wrong, scores_of(site.predicted)["audit"])) if site.wrong.any() else float("nan")
    return (
        f"    {site.audit.site}: {site.wrong.mean():.0%} wrong. {conclusion_in_words(conclusion)} "
        f"Injected errors reported with AUROC {auroc}, real ones with {true:.3f}; {len(wrong)} findings, "
        f"{expected:.0f} of them expected to be wrong, "
        f"{site.wrong.sum()} labels are."
    )


def main() -> None:
    """Run what is asked for and print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packs", nargs="+", default=["cells"], choices=PACKS)
    parser.add_argument("--noises", nargs="+", default=list(NOISES), help=f"{CLEAN} for labels as they are")
    parser.add_argument("--seeds", type=int, nargs="+", default=[100])
    parser.add_argument("--parts", action="store_true", help="also with models that have not learnt the labels")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    for name in arguments.packs:
        for noise in arguments.noises:
            rows = []
            for seed in arguments.seeds:
                folder = arguments.out / f"{name}-{noise}-{seed}"
                audit = partial(audited, PACKS[name], folder, None if noise == CLEAN else noise, seed)
                row = {}
                for profile in (None, "parts") if arguments.parts else (None,):
                    sites = audit(profile)
                    print(f"{name}, {noise}, seed {seed}{'' if profile is None else ', parts'}")
                    print("\n".join(map(described, sites)), flush=True)
                    if noise != CLEAN:
                        ending = "" if profile is None else ", parts"
                        row |= {score + ending: of_score for score, of_score in row_of(sites).items()}
                rows += [row] if row else []
            for score in rows[0] if rows else ():
                means = [statistics.fmean(values) for values in zip(*(row[score] for row in rows), strict=True)]
                each = ", ".join(f"{row[score][0]:.3f}" for row in rows)
                print(f"  {score:23s} AUROC {means[0]:.3f} ({each})  first 10 % {means[1]:.2f}  review {means[2]:.2f}")
            (arguments.out / f"{name}-{noise}.json").write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
