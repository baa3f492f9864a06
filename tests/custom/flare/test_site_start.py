"""Only a site's process that NVFlare starts has MONAI without optional packages; every other keeps MONAI whole."""

import json
import subprocess
import sys
from typing import Any

import pytest

UNUSED = ("ignite", "matplotlib", "pandas", "scipy.optimize", "scipy.signal", "skimage", "sklearn", "tensorboard")

# The executor of a process whose program is the given one, at the start of a run.
START_OF_RUN = f"""
import json, sys
from importlib.machinery import ModuleSpec
sys.modules["__main__"].__spec__ = ModuleSpec(sys.argv[1], None)

from pathlib import Path
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_context import FLContext
from fedannot.apps.runs.job import Job
from fedannot.custom.flare.executor import FederatedExecutor

settings = Job(Path("jobs/fedavg")).settings().model_dump(mode="json")
seen = {{"before": [name for name in ("monai", *{UNUSED!r}) if name in sys.modules]}}
FederatedExecutor(settings).handle_event(EventType.START_RUN, FLContext())
seen["loaded"] = [name for name in ("monai", *{UNUSED!r}) if name in sys.modules and name not in seen["before"]]
"""

WHAT_SITES_USE = """
import torch
from fedannot.custom.networks.building import build_classifier, build_network
from fedannot.custom.methods.decoupled.network import build_decoupled_network
build_network(), build_classifier(depth=18), build_decoupled_network()
from fedannot.custom.settings import TrainingSettings
from fedannot.custom.training.losses import build_loss
from fedannot.custom.evaluation.segmentation_scores import score_labels
from fedannot.transforms.noise.contour_evolution import ContourEvolution
labels = torch.zeros(32, 32, dtype=torch.uint8)
labels[8:20, 8:24] = 1
seen["used"] = [
    str(score_labels(labels.roll(1, 0), labels, 1)),
    float(build_loss(TrainingSettings(loss='ce_dice'))(torch.zeros(1, 2, 32, 32), labels[None, None])),
    int(ContourEvolution(2.0, 0.5).set_random_state(0)(labels.numpy()).sum()),
]
"""

LOADED_AFTERWARDS = """
import matplotlib.pyplot, scipy.signal, sklearn.mixture
seen["hilbert"] = scipy.signal.hilbert([1.0, 0.0]).shape
"""

# What needs scikit-image and matplotlib.
WHOLE_MONAI = """
from monai.transforms import KeepLargestConnectedComponent
from monai.visualize import matshow3d
mask = torch.zeros(1, 4, 4)
mask[0, 0, :2] = mask[0, 3, 3] = 1
seen["largest"] = int(KeepLargestConnectedComponent()(mask).sum())
matshow3d(mask.numpy(), show=False)
"""

LOADED_BEFORE = """
import json, sys, matplotlib, sklearn
before = [matplotlib, sklearn]
from fedannot.custom.flare.site_start import import_monai_without_extras
import_monai_without_extras()
seen = [sys.modules[module.__name__] is module for module in before]
"""


def run(code: str, program: str = "") -> Any:
    """What the code has seen, in a process of its own."""
    words = [sys.executable, "-c", f"{code}\nprint(json.dumps(seen))", program]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def of_site() -> dict[str, Any]:
    """A process of a site that NVFlare's simulator has started."""
    program = "nvflare.private.fed.app.simulator.simulator_worker"
    seen: dict[str, Any] = run(START_OF_RUN + WHAT_SITES_USE + LOADED_AFTERWARDS, program)
    return seen


@pytest.fixture(scope="module")
def of_another() -> dict[str, Any]:
    """Another process, which has built every network."""
    seen: dict[str, Any] = run(START_OF_RUN + WHAT_SITES_USE + WHOLE_MONAI, "notebook")
    return seen


def test_a_site_process_of_nvflare_starts_light_and_another_does_not(
    of_site: dict[str, Any], of_another: dict[str, Any]
) -> None:
    assert of_site["loaded"] == ["monai"]
    assert of_another["loaded"] == []
    # The executor's own.
    assert of_site["before"] == of_another["before"] == ["scipy.optimize"]


def test_unused_packages_can_be_loaded_afterwards(of_site: dict[str, Any]) -> None:
    assert of_site["hilbert"] == [2]


def test_what_sites_use_of_monai_works_without_them(of_site: dict[str, Any], of_another: dict[str, Any]) -> None:
    assert of_site["used"] == of_another["used"]


def test_networks_leave_monai_whole(of_another: dict[str, Any]) -> None:
    """What needs scikit-image and matplotlib works in a process that has built every network."""
    assert of_another["largest"] == 2


def test_packages_that_are_loaded_already_stay() -> None:
    assert run(LOADED_BEFORE) == [True, True]
