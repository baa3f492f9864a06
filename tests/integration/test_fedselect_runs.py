"""A whole run of FedSelect: sites rest, and a run that is continued has the same bits."""

import json
from pathlib import Path
from typing import Any

from support.whole_runs import Model, assert_began_after, kept_state, run_job, same_model

from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation

SMALL = {
    "rounds": 5,
    "keep_rounds": [3],
    "warmup_rounds": 1,
    "network.features": [4, 4, 8, 8, 8, 4],
    "network.upsample": "nontrainable",
    "training.optimizer": "sgd",
    "training.momentum": 0.5,
    "training.keep_optimizer": True,
    "training.gradient_clipping": 5,
    "training.learning_rate": 0.01,
    "training.batch_size": 2,
    "training.local_epochs": 1,
}


def run(out: Path, **changes: Any) -> Model:
    return run_job("fedselect", SMALL | changes, out)


def test_a_continued_run_in_which_sites_rest_has_the_same_bits(tmp_path: Path) -> None:
    write_phantom_federation(tmp_path / "data", LesionImages(), num_sites=3, images_per_site=4, test_images=1)
    whole = run(tmp_path / "whole")
    server = tmp_path / "whole/run/server/simulate_job"
    rounds = [json.loads(line) for line in (server / "metrics.jsonl").read_text().splitlines()]
    assert [len(record["asked"]) for record in rounds] == [2] * 5
    assert [record["scorer_site"] is None for record in rounds] == [True, False, False, False, False]
    assert json.loads((server / "summary.json").read_text())["scorer_steps"] == 4
    continued = run(tmp_path / "continued", resume_from=kept_state(tmp_path / "whole", 3))
    assert_began_after(tmp_path / "continued", 3)
    assert same_model(continued, whole)
