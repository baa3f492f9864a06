"""What a review wins back: train on erroneous annotations, on those of which a tenth was reviewed, and on right ones.

    FEDANNOT_REAL_DATA=DIR python tests/benchmarks/audit_review.py --packs hippocampus --share 0.4 --seeds 100 --out DIR

Errors of all kinds in turn are put into a fraction of the cases. An audit orders every site's cases; a reviewer looks
at the first tenth of each site's list and answers with the right annotation. Beside it the same number at random. Each
is then trained by federated averaging from the same start; the score is the test Dice, the mean of the last five
rounds. Finished runs are kept. Seeds below 100 are for figures that are reported.
"""

import argparse
import json
import os
import shutil
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from erroneous_federations import PACKS, TRUTH_FILE, Pack, put_errors

from fedannot.apps.audit.found import find_audits
from fedannot.apps.audit.running import run_audit
from fedannot.apps.reports.output import read_summary
from fedannot.apps.runs.simulate import simulate
from fedannot.custom.data.datalist import TRAINING
from fedannot.custom.data.federation import read_federation
from fedannot.custom.seeding import derive_seed
from fedannot.transforms.strict_files import read_json

JOBS = Path(__file__).parents[2] / "jobs"
CLEAN, WRONG, BY_AUDIT, AT_RANDOM = "clean", "wrong", "audit", "random"
REVIEWED = 0.1
ROUNDS = 12

# Images that are reviewed, by site.
Reviewed = Mapping[str, list[str]]


def labels_of(site: Path) -> dict[str, str]:
    """Return the annotation of each training image."""
    return {item["image"]: item["label"] for item in read_json(site / "datalist.json", "a datalist")[TRAINING]}


def first_of_audit(pack: Pack, folder: Path, seed: int) -> Reviewed:
    """Return the first tenth of each site's list."""
    out = folder / "audit"
    if not (out / "summary.json").exists():
        run_audit(out, jobs=JOBS, data=folder / WRONG, overrides={"seed": seed, **pack.settings})
    return {
        found.site: [case.image for case in found.audit.cases[: tenth(found.audit.num_cases)]]
        for found in find_audits(out)
    }


def some_at_random(folder: Path, seed: int) -> Reviewed:
    """Return as many cases of each site at random."""
    generator = np.random.default_rng(derive_seed(seed, "review at random"))
    chosen = {}
    for site in read_federation(folder / WRONG).sites:
        images = sorted(labels_of(folder / WRONG / site))
        chosen[site] = [images[index] for index in generator.permutation(len(images))[: tenth(len(images))]]
    return chosen


def tenth(count: int) -> int:
    """Return how many of so many cases are reviewed."""
    return max(1, round(REVIEWED * count))


def review(folder: Path, name: str, reviewed: Reviewed) -> int:
    """Write a copy of the erroneous federation with the right annotation of reviewed cases; return how many changed."""
    shutil.copytree(folder / WRONG, folder / name, dirs_exist_ok=True)
    changed = 0
    errors = read_json(folder / WRONG / TRUTH_FILE, "errors")
    for site, images in reviewed.items():
        labels = labels_of(folder / WRONG / site)
        for image in images:
            right, file = folder / CLEAN / site / labels[image], folder / name / site / labels[image]
            file.unlink()
            shutil.copyfile(right, file)
            changed += image in errors.get(site, {})
    return changed


def trained_dice(pack: Pack, folder: Path, name: str, seed: int) -> float:
    """Train on a federation, or find what was trained before; return the test Dice."""
    out = folder / f"run-{name}"
    if not (out / "summary.json").exists():
        overrides = {"seed": seed, **pack.settings, "rounds": ROUNDS}
        simulate(JOBS / "fedavg", out, data=folder / name, overrides=overrides, resume=out.exists())
    dice = getattr(read_summary(out).last_rounds, "dice", None)
    assert dice is not None, "expected a test set"
    return 100 * float(dice)


def run(pack: Pack, folder: Path, share: float, seed: int) -> dict[str, Any]:
    """Return test Dice of all four, and how many errors each review found."""
    for name in (CLEAN, WRONG):
        if not (folder / name).exists():
            making = folder / f"{name}-{os.getpid()}"
            pack.write(making, seed)
            if name == WRONG:
                put_errors(making, pack, share, seed)
            making.rename(folder / name)
    chosen = {BY_AUDIT: first_of_audit(pack, folder, seed), AT_RANDOM: some_at_random(folder, seed)}
    result = {name: review(folder, name, images) for name, images in chosen.items()}
    errors = sum(len(of_site) for of_site in read_json(folder / WRONG / TRUTH_FILE, "errors").values())
    reviewed = sum(len(images) for images in chosen[BY_AUDIT].values())
    dice = {name: trained_dice(pack, folder, name, seed) for name in (CLEAN, WRONG, BY_AUDIT, AT_RANDOM)}
    return {"errors": errors, "reviewed": reviewed, "errors found": result, "Dice": dice}


def main() -> None:
    """Run what is asked for, print a line per seed and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packs", nargs="+", default=["hippocampus"], choices=PACKS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[100])
    parser.add_argument("--share", type=float, default=0.4)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    for name in arguments.packs:
        runs = {}
        for seed in arguments.seeds:
            runs[seed] = run(PACKS[name], arguments.out / f"{name}-{arguments.share:g}-{seed}", arguments.share, seed)
            print(name, arguments.share, seed, json.dumps(runs[seed]), flush=True)
        gains = {
            way: statistics.fmean(item["Dice"][way] - item["Dice"][WRONG] for item in runs.values())
            for way in (CLEAN, BY_AUDIT, AT_RANDOM)
        }
        print(name, "points over the erroneous ones:", json.dumps(gains))
        content = {"share": arguments.share, "runs": runs, "gains": gains}
        (arguments.out / f"{name}-{arguments.share:g}.json").write_text(json.dumps(content, indent=2))


if __name__ == "__main__":
    main()
