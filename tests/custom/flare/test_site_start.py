"""Only a site's process that NVFlare starts has MONAI without optional packages; every other keeps MONAI whole."""

import subprocess
import sys

UNUSED = ("ignite", "matplotlib", "pandas", "scipy.optimize", "scipy.signal", "skimage", "sklearn", "tensorboard")

LIGHT = "from fedannot.custom.flare.site_start import import_monai_without_extras\nimport_monai_without_extras()\n"

# The executor of a process whose program is the one of an NVFlare simulator's site.
START_OF_RUN = """
import sys
from importlib.machinery import ModuleSpec
sys.modules["__main__"].__spec__ = ModuleSpec("{program}", None)

from pathlib import Path
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_context import FLContext
from fedannot.apps.runs.job import Job
from fedannot.custom.flare.executor import FederatedExecutor

settings = Job(Path("jobs/fedavg")).settings().model_dump(mode="json")
FederatedExecutor(settings).handle_event(EventType.START_RUN, FLContext())
print("monai" in sys.modules, "skimage" in sys.modules)
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_networks_leave_monai_whole():
    """What needs scikit-image and matplotlib works in a process that has built every network."""
    out = run(
        "from fedannot.custom.networks.building import build_classifier, build_network\n"
        "from fedannot.custom.methods.decoupled.network import build_decoupled_network\n"
        "build_network(), build_classifier(depth=18), build_decoupled_network()\n"
        "import torch\n"
        "from monai.transforms import KeepLargestConnectedComponent\n"
        "from monai.visualize import matshow3d\n"
        "mask = torch.zeros(1, 4, 4)\n"
        "mask[0, 0, :2] = mask[0, 3, 3] = 1\n"
        "print(int(KeepLargestConnectedComponent()(mask).sum()))\n"
        "matshow3d(mask.numpy(), show=False)\n"
    )
    assert out.splitlines() == ["2"]


def test_a_site_process_of_nvflare_starts_light():
    program = "nvflare.private.fed.app.simulator.simulator_worker"
    assert run(START_OF_RUN.format(program=program)).split() == ["True", "False"]


def test_another_process_does_not():
    assert run(START_OF_RUN.format(program="notebook")).split() == ["False", "False"]


def test_unused_packages_are_not_loaded_and_can_be_loaded_afterwards():
    out = run(
        f"{LIGHT}import sys\n"
        f"print([name for name in {UNUSED!r} if name in sys.modules])\n"
        "import matplotlib.pyplot, scipy.signal, sklearn.mixture\n"
        "print(scipy.signal.hilbert([1.0, 0.0]).shape)\n"
    )
    assert out.splitlines() == ["[]", "(2,)"]


def test_what_sites_use_of_monai_works_without_them():
    code = (
        "import torch\n"
        "from fedannot.custom.networks.building import build_network\n"
        "network = build_network()\n"
        "from fedannot.custom.settings import TrainingSettings\n"
        "from fedannot.custom.training.losses import build_loss\n"
        "from fedannot.custom.evaluation.segmentation_scores import score_labels\n"
        "from fedannot.transforms.noise.contour_evolution import ContourEvolution\n"
        "labels = torch.zeros(32, 32, dtype=torch.uint8)\n"
        "labels[8:20, 8:24] = 1\n"
        "print(score_labels(labels.roll(1, 0), labels, 1))\n"
        "print(float(build_loss(TrainingSettings(loss='ce_dice'))(torch.zeros(1, 2, 32, 32), labels[None, None])))\n"
        "print(int(ContourEvolution(2.0, 0.5).set_random_state(0)(labels.numpy()).sum()))\n"
    )
    assert run(LIGHT + code) == run(code)


def test_packages_that_are_loaded_already_stay():
    out = run(
        "import sys, matplotlib, sklearn\n"
        "before = [matplotlib, sklearn]\n"
        f"{LIGHT}"
        "print([sys.modules[module.__name__] is module for module in before])\n"
    )
    assert out.strip() == "[True, True]"
