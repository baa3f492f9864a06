"""Two annotators at every site, of whom one draws 3 to 6 px too large: FedAvg, and `auto` by site and by annotator.

    python tests/benchmarks/annotator_bias.py --seeds 0 1 2

Four sites of twelve phantom lesions, six of each annotator; six rounds of three epochs. Of each seed and arm it prints
the test Dice in %, mean of the last two rounds, and the largest and the smallest shift that anybody corrects, in px.
"""

import argparse
import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedannot.apps.runs.job import Job
from fedannot.apps.runs.progress import Progress
from fedannot.apps.runs.simulate import simulate
from fedannot.apps.terminal import Terminal
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation

JOBS = Path(__file__).parents[2] / "jobs"
# On images four times as large.
TOO_LARGE = "M(25,-25,2,1)"
SETTINGS = {"rounds": 6, "training.local_epochs": 3, "threads": 1}
_AUTO = {"correct": ["offset"], "warmup_rounds": 2, "estimates": 2}
ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "fedavg": ("fedavg", {}),
    "auto by site": ("auto", _AUTO),
    "auto by annotator": ("auto", _AUTO | {"bias_unit": "annotator"}),
    "fedavg, clean": ("fedavg", {}),
}


def main() -> None:
    """Run every arm of the seeds, and print a line of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    given = parser.parse_args()
    for seed in given.seeds:
        for arm in given.arms:
            with TemporaryDirectory() as folder:
                summary = run(arm, seed, Path(folder))
            dice = statistics.mean(100 * record["dice"] for record in summary["rounds"][-2:])
            shifts = corrected(summary)
            said = (
                f"{len(shifts)} corrected, {min(shifts):.1f} to {max(shifts):.1f} px" if shifts else "nothing corrected"
            )
            print(f"seed {seed}  {arm:18} {dice:5.1f}  {said}", flush=True)


def run(arm: str, seed: int, folder: Path) -> dict[str, Any]:
    """Write the sites of a seed, and return the summary of one arm."""
    drawing = LesionImages(TOO_LARGE, exact=True, stratified=0.5)
    write_phantom_federation(folder / "data", drawing, num_sites=4, seed=seed, images_per_site=12, test_images=30)
    for file in (folder / "data").glob("site-*/datalist.json"):
        content = json.loads(file.read_text(encoding="utf-8"))
        cases = [_of_annotator(case, is_exact=bool(n % 2)) for n, case in enumerate(content["training"])]
        if arm.endswith("clean"):
            cases = [case | {"label": case["clean_label"]} for case in cases]
        file.write_text(json.dumps(content | {"training": cases}), encoding="utf-8")
    method, settings = ARMS[arm]
    job = Job.open(JOBS / method).copy_with(SETTINGS | settings | {"seed": seed}, folder / "job")
    with (folder / "log.txt").open("w") as log:
        simulate(job.folder, folder / "out", data=folder / "data", progress=Progress(Terminal(file=log)))
    result: dict[str, Any] = json.loads((folder / "out" / "summary.json").read_text(encoding="utf-8"))
    return result


def corrected(summary: Mapping[str, Any]) -> list[float]:
    """Return the shifts of the last estimate, in pixels; empty where nothing is corrected."""
    estimates = summary.get("channels") or [{"sites": {}}]
    sites = estimates[-1]["sites"].values()
    return [shift for site in sites for one in site["corrections"] for shift in one.get("bias", {}).values()]


def _of_annotator(case: Mapping[str, Any], *, is_exact: bool) -> dict[str, Any]:
    own = {"label": case["clean_label"]} if is_exact else {}
    return {**case, **own, "annotator": "exact" if is_exact else "large"}


if __name__ == "__main__":
    main()
