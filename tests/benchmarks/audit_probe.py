"""Whether what leaves sites in an audit says which site it is, where all have the same kind of data.

    python tests/benchmarks/audit_probe.py --runs 12 --out DIR

Federations of three sites with the same number of generated images of one distribution are audited, each with a seed of
its own. All that leaves a site is recorded behind its filters: every number, of every tensor its mean and deviation. A
probe learns from all runs but one which site sent what, and guesses the sites of that run. As many guesses are right as
by chance, a third, unless a message says more than a site's data do. With one number added that is the site's own, the
probe finds it: it is able to.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from nvflare.apis.shareable import Shareable
from scipy.stats import binomtest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedannot.apps.runs.participants import SiteParticipant
from fedannot.apps.runs.simulate import simulate
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation

JOB = Path(__file__).parents[2] / "jobs" / "audit"
SITES = ("site-1", "site-2", "site-3")
SETTINGS = {
    "rounds": 4,
    "network.features": [4, 4, 8, 8, 8, 4],
    "training.local_epochs": 2,
    "min_predicted_fraction": 0.0,
}
IMAGES = 8
# The site's own number, which the probe must find.
LEAK = "leak"

Floats = NDArray[np.float64]


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Yield all numbers in what a site sends, with where they are."""
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from numbers(entry, f"{path}/{key}")
    elif isinstance(value, (list, tuple)):
        for index, entry in enumerate(value):
            yield from numbers(entry, f"{path}/{index}")
    elif isinstance(value, (torch.Tensor, np.ndarray)):
        array = np.asarray(value, dtype=np.float64)
        yield f"{path}/mean", float(array.mean())
        yield f"{path}/deviation", float(array.std())
    elif isinstance(value, (bool, int, float)):
        yield path, float(value)


def sent_numbers(folder: Path, seed: int) -> dict[str, dict[str, float]]:
    """Audit a federation; return all numbers that each site sent."""
    sent: dict[str, dict[str, float]] = defaultdict(dict)
    counts: dict[str, int] = defaultdict(int)
    do_task = SiteParticipant.do_task

    def recorded(self: SiteParticipant, task: Any, server_context: Any) -> Shareable:
        result = do_task(self, task, server_context)
        counts[self.name] += 1
        sent[self.name].update(numbers(result.get("DXO"), f"{counts[self.name]:03}"))
        return result

    write_phantom_federation(
        folder / "data", LesionImages(), num_sites=len(SITES), seed=seed, images_per_site=IMAGES, test_images=4
    )
    SiteParticipant.do_task = recorded  # type: ignore[method-assign]
    try:
        simulate(JOB, folder / "out", data=folder / "data", overrides=SETTINGS | {"seed": seed})
    finally:
        SiteParticipant.do_task = do_task  # type: ignore[method-assign]
    return dict(sent)


def table(runs: list[dict[str, dict[str, float]]]) -> tuple[list[str], Floats]:
    """Return the names of all numbers that every site sent in every run, and the numbers ``(runs, sites, n)``."""
    names = sorted(set.intersection(*(set(of_site) for run in runs for of_site in run.values())))
    values = np.array([[[run[site][name] for name in names] for site in SITES] for run in runs])
    return names, np.nan_to_num(values, posinf=0.0, neginf=0.0)


def right_guesses(values: Floats) -> int:
    """Return of how many sites the probe guesses right which one it is, each run left out in turn."""
    right = 0
    labels = np.arange(len(SITES))
    for left_out in range(len(values)):
        others = np.delete(values, left_out, axis=0)
        probe = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=2000))
        probe.fit(others.reshape(-1, values.shape[-1]), np.tile(labels, len(others)))
        right += int((probe.predict(values[left_out]) == labels).sum())
    return right


def main() -> None:
    """Run the audits, and print how often the probe is right, without and with a leak."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    runs = []
    for seed in range(arguments.runs):
        folder = arguments.out / f"run-{seed}"
        file = folder / "sent.json"
        if not file.exists():
            sent = sent_numbers(folder, seed)
            file.write_text(json.dumps(sent))
        runs.append(json.loads(file.read_text()))
    names, values = table(runs)
    guesses = len(values) * len(SITES)
    leaking = np.concatenate([values, np.broadcast_to(np.arange(3.0)[:, None], (len(values), 3, 1))], axis=2)
    result = {"numbers": len(names), "guesses": guesses}
    for name, of in (("right", values), (f"right with a {LEAK}", leaking)):
        right = right_guesses(of)
        test = binomtest(right, guesses, 1 / len(SITES), alternative="greater")
        result |= {name: right, f"{name}: p": float(test.pvalue)}
    print(json.dumps(result))
    (arguments.out / "probe.json").write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
