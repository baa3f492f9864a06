"""Whose process it is: a run that is called as a function leaves nothing changed behind it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

TIMEOUT_SECONDS = 240

# What a run could change for all that the caller does afterwards.
PROGRAM = """
import json, logging, os, random, sys, warnings
import numpy as np
import torch
from pathlib import Path
from fedannot.apps.runs.simulate import simulate

def state():
    root = logging.getLogger()
    return {
        "threads": torch.get_num_threads(),
        "torch": torch.get_rng_state().sum().item(),
        "numpy": float(np.random.get_state()[1].sum()),
        "python": hash(random.getstate()),
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "log": [root.level, len(root.handlers), len(root.filters)],
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "type": str(torch.get_default_dtype()),
        "gradients": torch.is_grad_enabled(),
        "filters": len(warnings.filters),
        "path": list(sys.path),
        "absent": sorted(name for name, module in sys.modules.items() if module is None),
        "step": hasattr(torch.optim.Adam.step, "__wrapped__"),
    }

# What libraries do when they are loaded is theirs.
import fedannot.apps.commands.preloaded, matplotlib.pyplot
parameter = torch.zeros(1, requires_grad=True)
parameter.sum().backward()
torch.optim.Adam([parameter]).step()
torch.set_num_threads(2)
torch.manual_seed(5)
before = state()
simulate(Path(sys.argv[1]), Path(sys.argv[2]))
after = state()
from monai.transforms import KeepLargestConnectedComponent
assert KeepLargestConnectedComponent()(torch.ones(1, 4, 4)).sum() == 16
print(json.dumps({key: [before[key], after[key]] for key in before if before[key] != after[key]}))
"""


def test_a_run_leaves_the_callers_process_as_it_was(small_job: Callable[..., Path], tmp_path: Path) -> None:
    job = small_job("fedavg", rounds=1, embedded__sites=2)
    command = [sys.executable, "-c", PROGRAM, str(job), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {}
