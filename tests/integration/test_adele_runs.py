"""Whole runs of ADELE: what it is without its parts, and a run that is continued after a correction."""

from pathlib import Path
from typing import Any

from support.whole_runs import Model, assert_began_after, kept_state, run_job, same_model

from fedannot.apps.reports.corrections import find_corrections
from fedannot.custom.corrections.kinds import PixelsReplaced
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation

# The IoU rises in round 2; any curve through it and the next one has slowed down.
SMALL = {
    "rounds": 5,
    "keep_rounds": [4],
    "scales": [0.7, 1],
    "slope_change": 1e-6,
    "correction_threshold": 0.5,
    "background_threshold": 0.5,
    "network.features": [4, 4, 8, 8, 8, 4],
    "network.upsample": "nontrainable",
    "training.loss": "ce",
    "training.learning_rate": 0.05,
    "training.learning_rate_steps": [],
    "training.batch_size": 1,
    "training.local_epochs": 4,
    "training.augmentation": ["flip"],
}
PLAIN = {"scales": [1], "consistency_weight": 0.0}


def run(out: Path, job: str = "adele", **changes: Any) -> Model:
    settings = SMALL | changes
    if job != "adele":
        settings = {key: value for key, value in settings.items() if "." in key or key in ("rounds", "keep_rounds")}
    return run_job(job, settings, out)


def test_a_continued_run_corrects_alike_and_has_the_same_bits(tmp_path: Path) -> None:
    write_phantom_federation(tmp_path / "data", LesionImages(), num_sites=2, images_per_site=3, test_images=1)
    masks = {file: file.read_bytes() for file in (tmp_path / "data").glob("site-*/labels/*")}
    whole = run(tmp_path / "whole")
    made = [item.corrections for item in find_corrections(tmp_path / "whole")]
    assert {file: file.read_bytes() for file in masks} == masks
    rounds = [kind.rounds for item in made if (kind := item.of(PixelsReplaced)) is not None]
    assert rounds == [{1: 4}] * 2
    assert all(item.replaced_file for item in made)
    state = kept_state(tmp_path / "whole", 4)
    assert same_model(run(tmp_path / "continued", resume_from=state), whole)
    assert_began_after(tmp_path / "continued", 4)


def test_without_its_parts_it_is_federated_averaging(tmp_path: Path) -> None:
    write_phantom_federation(tmp_path / "data", LesionImages(), num_sites=2, images_per_site=3, test_images=1)
    short = {"rounds": 1, "keep_rounds": [], "training.local_epochs": 1}
    averaged = run(tmp_path / "averaged", "fedavg", **short)
    # What is measured before a round changes nothing of it.
    assert same_model(run(tmp_path / "plain", **PLAIN, **short), averaged)
