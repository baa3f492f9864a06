"""What the rollback check of `auto` finds where correcting is right, and where it is wrong: on the generated lesions.

    python tests/benchmarks/rollback_check.py --seeds 100 101

Ten sites of 16 images, of which four are held out (`held_out = 0.25`), 12 rounds, warm-up 5. In the federation "right"
four sites draw larger by 15 to 25 px on 256 × 256 pixels, the others right. In "wrong" all sites draw right, and four
have eight reviewed cases that are too small by 4 px of the network's 64 × 64: their contours are moved inward. In "all
alike" all sites draw larger and the four have reviewed cases that are right: correcting is right at four of ten, and
those that correct nothing prefer what is as large as their own. Without a veto the run without a check has the same
bits, and is not made. Test Dice in %, mean of the last five rounds; seeds below 100 are for figures that are reported.
"""

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fedannot.apps.runs.simulate import simulate
from fedannot.apps.wording.decisions import rollback_in_words
from fedannot.custom.corrections.kinds import BoundaryShift
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.methods.auto.records import BiasFindings, RollbackRecord
from fedannot.transforms.move_contour import MoveContour
from fedannot.transforms.strict_files import read_json

JOBS = Path(__file__).parents[2] / "jobs"
SITES, ODD, IMAGES, REVIEWED = 10, 4, 16, 8
SETTINGS = {"rounds": 12}
AUTO = SETTINGS | {"warmup_rounds": 5, "held_out": 0.25}
REVIEWERS_ERROR = -4.0
ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "fedavg": ("fedavg", SETTINGS),
    "checked": ("auto", AUTO),
    "unchecked": ("auto", AUTO | {"rollback_rounds": 0}),
}


def odd_sites() -> list[str]:
    """Return the names of the sites that are not like the others."""
    return [f"site-{index}" for index in range(1, ODD + 1)]


def change(folder: Path, site: str, changed: Any) -> None:
    """Change the datalist of a site."""
    file = folder / site / "datalist.json"
    file.write_text(json.dumps(changed(read_json(file, "a datalist"))), encoding="utf-8")


def right(folder: Path, seed: int) -> None:
    """Four sites draw larger."""
    drawing = LesionImages("M(25,-25,10,1)", exact=True, stratified=0.6)
    write_phantom_federation(folder, drawing, num_sites=SITES, seed=seed, images_per_site=IMAGES)
    for index in range(ODD + 1, SITES + 1):
        change(folder, f"site-{index}", lambda content: content | {"training": clean(content)})


def wrong(folder: Path, seed: int) -> None:
    """Four sites have reviewed cases that are too small."""
    write_phantom_federation(folder, LesionImages(), num_sites=SITES, seed=seed, images_per_site=IMAGES)
    move = MoveContour(REVIEWERS_ERROR)
    for site in odd_sites():
        cases = read_json(folder / site / "datalist.json", "a datalist")["training"][:REVIEWED]
        reference = []
        for case in cases:
            mask = np.asarray(Image.open(folder / site / case["label"])) > 0
            name = f"reviewed_{Path(case['label']).name}"
            Image.fromarray((np.asarray(move(mask.astype(np.uint8))) * 255).astype(np.uint8)).save(folder / site / name)
            reference.append({"image": case["image"], "label": name})
        change(folder, site, lambda content, reference=reference: content | {"reference": reference})


def all_alike(folder: Path, seed: int) -> None:
    """All sites draw larger, and four know it."""
    drawing = LesionImages("M(25,-25,10,1)", exact=True, stratified=0.6)
    write_phantom_federation(folder, drawing, num_sites=SITES, seed=seed, images_per_site=IMAGES)
    for site in odd_sites():
        change(folder, site, lambda content: content | {"reference": clean(content)[:REVIEWED]})


def clean(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the training cases of a datalist with their clean labels as the given ones."""
    return [{**case, "label": case["clean_label"]} for case in content["training"]]


FEDERATIONS = {"right": right, "wrong": wrong, "all alike": all_alike}


def last_rounds(summary: dict[str, Any]) -> float:
    """Return the mean Dice of the last five rounds in percent."""
    return 100 * statistics.fmean(record["dice"] for record in summary["rounds"][-5:])


def print_federation(name: str, seed: int, out: Path) -> None:
    """Run all arms on one federation and print a line for each."""
    folder = out / f"{name.replace(' ', '-')}-{seed}"
    if not (folder / "data").exists():
        FEDERATIONS[name](folder / "data", seed)
    has_vetoed = False
    for arm, (job, settings) in ARMS.items():
        if arm == "unchecked" and not has_vetoed:
            continue
        file = folder / arm / "summary.json"
        if not file.is_file():
            simulate(JOBS / job, folder / arm, data=folder / "data", overrides=settings | {"seed": seed})
        summary = json.loads(file.read_text(encoding="utf-8"))
        channels = BiasFindings.model_validate({"channels": summary.get("channels") or []}).channels
        sites = channels[0].sites if channels else {}
        corrected = [site for site, record in sites.items() if record.of(BoundaryShift) is not None]
        rollback = summary.get("rollback")
        has_vetoed |= bool(rollback and rollback["has_vetoed"])
        print(
            f"{name:10s} seed {seed} {arm:10s} Dice {last_rounds(summary):5.1f}  {summary['seconds']:4.0f} s"
            + (f"  corrected at {len(corrected)}" if arm != "fedavg" else "")
            + (f"\n    {rollback_in_words(RollbackRecord.model_validate(rollback))}" if rollback else ""),
            flush=True,
        )


def main() -> None:
    """Print what comes of all federations and seeds; finished runs are kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[100])
    parser.add_argument("--federations", nargs="+", choices=list(FEDERATIONS), default=list(FEDERATIONS))
    parser.add_argument("--out", type=Path, default=Path("runs/bench/shadow"))
    arguments = parser.parse_args()
    for seed in arguments.seeds:
        for name in arguments.federations:
            print_federation(name, seed, arguments.out)


if __name__ == "__main__":
    main()
