"""How many injected errors a reviewer meets at the head of each site's list, in the order in which the page shows it.

    FEDANNOT_REAL_DATA=DIR python tests/benchmarks/audit_list.py --packs busi cells hippocampus --seeds 0 --out DIR

Errors of all kinds are in one federation, each case has at most one; a short federated averaging predicts all cases, as
`fedannot audit --profile quick` does. Counted are the errors of each kind among the first 10 and 20 cases of every
site's list, the fraction of correct cases with a finding, and how many cases of each list have to be looked at until
80 % of the errors are found. Compared are the softmin score, random order, and with ``--cleanlab
PYTHON`` cleanlab's own segmentation score of the same predictions. PYTHON is one with cleanlab, for example of
``python -m venv ENV && ENV/bin/pip install cleanlab``. Finished rows are kept in the output folder.
"""

import argparse
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from audit_baselines import baseline_scores
from audit_errors import QUICK, Floats, Predicted, trained
from erroneous_federations import PACKS, TRUTH_FILE, Pack

from fedannot.custom.audit.case_list import in_list_order
from fedannot.custom.audit.examined import ExaminedCase
from fedannot.custom.audit.findings import CASES_FOLDER
from fedannot.custom.audit.measuring import examined_cases, measured_site
from fedannot.custom.audit.reporting import audited_cases
from fedannot.custom.data.federation import read_federation
from fedannot.custom.data.site_data import SiteData, load_site_data

FIRST = (10, 20)
FOUND = 0.8
PAGE, CLEANLAB, FORMULA, RANDOM = "list", "cleanlab", "softmin", "random"
ALL = "all"
FIGURES_FILE = "list_figures.json"
_IMAGES = ("boundary", "missing", "spurious", "shifted", "flipped", "wrong_pair")
KINDS = {
    "phantom": _IMAGES,
    "busi": _IMAGES,
    "cells": _IMAGES,
    **dict.fromkeys(("hippocampus", "hippocampus_volumes"), (*_IMAGES, "half_volume", "swapped")),
}


@dataclass(frozen=True)
class SiteLists:
    """The lists of one site.

    Attributes:
        errors: the error of each case, empty for none, in the order of the datalist.
        orders: by name of the list the cases from its first to its last.
        accused: which cases have findings.
    """

    errors: tuple[str, ...]
    orders: Mapping[str, Sequence[int]]
    accused: frozenset[int]


def cleanlab_scores(cases: Sequence[ExaminedCase], python: str, file: Path) -> Floats:
    """Return one less cleanlab's label quality of every case, computed by a Python that has cleanlab."""
    arrays: dict[str, Any] = {}
    for number, case in enumerate(cases):
        labels, probabilities = case.annotation.astype(np.int64), case.probabilities
        if labels.ndim == 4:
            labels, probabilities = np.moveaxis(labels[0], -1, 0), np.moveaxis(probabilities[0], -1, 0)
        arrays |= {f"labels_{number}": labels, f"probabilities_{number}": probabilities}
    np.savez(file, **arrays)
    command = [python, str(Path(__file__).with_name("cleanlab_scores.py")), str(file)]
    # The other interpreter has its own packages.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    printed = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    file.unlink()
    return np.array(json.loads(printed))


def site_lists(predicted: Predicted, data: SiteData, truth: Mapping[str, str], seed: int, cleanlab: str) -> SiteLists:
    """Audit a site, and return its lists; `cleanlab` is a Python that has cleanlab, empty for none."""
    folder, network_of = predicted.folder, predicted.network_of(data)
    (folder / "audit" / CASES_FOLDER).mkdir(parents=True, exist_ok=True)
    root = folder / "data" / data.site
    measured = measured_site(data, network_of, predicted.inference, seed=seed)
    cases = audited_cases(measured, data, root, folder / "audit")
    place = {case.image_name(root): index for index, case in enumerate(data.cases)}
    examined = sorted(examined_cases(data, network_of, predicted.inference), key=lambda case: case.index)
    scores = baseline_scores(examined, seed)
    others = {name: scores[name] for name in (FORMULA, RANDOM)}
    if cleanlab:
        others[CLEANLAB] = cleanlab_scores(examined, cleanlab, folder / f"{data.site}.npz")
    orders: dict[str, Sequence[int]] = {PAGE: [place[case.image] for case in in_list_order(cases)]}
    orders |= {name: np.argsort(-of_list, kind="stable").tolist() for name, of_list in others.items()}
    return SiteLists(
        errors=tuple(truth.get(name, "") for name in place),
        orders=orders,
        accused=frozenset(place[case.image] for case in cases if case.has_problem),
    )


def figures(sites: Sequence[SiteLists], kinds: Sequence[str]) -> dict[str, Any]:
    """Return the figures of all sites together.

    Returns:
        ``errors`` and ``cases`` by number; ``accused``, the fraction of correct cases with a finding; by list, and by
        kind in it, the fraction of errors in the first cases of each site; and ``needed``, how many of each site.
    """
    correct = [(site, index) for site in sites for index, error in enumerate(site.errors) if not error]
    result: dict[str, Any] = {
        "cases": sum(len(site.errors) for site in sites),
        "errors": {
            kind: sum(_of_kind(error, kind) for site in sites for error in site.errors) for kind in (*kinds, ALL)
        },
        "accused": sum(index in site.accused for site, index in correct) / len(correct),
        "lists": {},
    }
    for name in sites[0].orders:
        ranks = {
            kind: [
                rank
                for site in sites
                for rank, index in enumerate(site.orders[name], start=1)
                if _of_kind(site.errors[index], kind)
            ]
            for kind in (*kinds, ALL)
        }
        result["lists"][name] = {
            "recall": {
                kind: {str(first): _share(of_kind, first) for first in FIRST} for kind, of_kind in ranks.items()
            },
            "needed": sorted(ranks[ALL])[int(np.ceil(FOUND * len(ranks[ALL]))) - 1],
        }
    return result


def _of_kind(error: str, kind: str) -> bool:
    return bool(error) if kind == ALL else error == kind


def _share(ranks: Sequence[int], first: int) -> float | None:
    return sum(rank <= first for rank in ranks) / len(ranks) if ranks else None


def federation_figures(pack: Pack, folder: Path, share: float, seed: int, cleanlab: str) -> dict[str, Any]:
    """Return the figures of a federation; one that was finished before is read."""
    kept = folder / FIGURES_FILE
    if kept.exists():
        content: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        return content
    predicted = trained(pack, folder, share, seed, folds=1)
    truth = json.loads((folder / "data" / TRUTH_FILE).read_text(encoding="utf-8"))
    sites = [
        site_lists(
            predicted,
            load_site_data(folder / "data" / site, folder / "cache", site=site),
            truth.get(site, {}),
            seed,
            cleanlab,
        )
        for site in read_federation(folder / "data").sites
    ]
    result = figures(sites, pack.kinds)
    kept.write_text(json.dumps(result), encoding="utf-8")
    return result


def print_figures(content: Mapping[str, Any]) -> None:
    """Print a row for each kind, a column for each list."""
    count = content["errors"][ALL]
    print(f"{count} errors in {content['cases']} cases; findings in {content['accused']:.1%} of the correct ones")
    for kind in content["errors"]:
        cells = []
        for name, of_list in content["lists"].items():
            shares = ["-" if value is None else f"{value:.2f}" for value in of_list["recall"][kind].values()]
            cells.append(f"{name} {' '.join(shares)}")
        print(f"  {kind:12s} ({content['errors'][kind]:3d})  " + "   ".join(cells))
    print("  first cases of each list for 80 %:", {name: one["needed"] for name, one in content["lists"].items()})


def main() -> None:
    """Run what is asked for, print tables and write figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packs", nargs="+", default=["phantom"], choices=PACKS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[100])
    parser.add_argument("--shares", type=float, nargs="+", default=[0.05, 0.1])
    parser.add_argument("--cleanlab", default="", help="a Python with cleanlab, which may lack all else")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    rows: dict[str, dict[int, Any]] = {}
    for seed in arguments.seeds:
        for name in arguments.packs:
            for share in arguments.shares:
                folder = arguments.out / f"{name}-{share:g}-{QUICK}-{seed}"
                pack = replace(PACKS[name], kinds=KINDS[name])
                of_seed = federation_figures(pack, folder, share, seed, arguments.cleanlab)
                rows.setdefault(f"{name} {share:g}", {})[seed] = of_seed
                print(f"{name}, share {share:g}, seed {seed}:", flush=True)
                print_figures(of_seed)
                (arguments.out / "list.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
