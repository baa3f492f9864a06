"""Only a site's process that NVFlare starts has MONAI without optional packages; every other keeps MONAI whole."""

import subprocess
import sys

UNUSED = ("ignite", "matplotlib", "pandas", "scipy.optimize", "scipy.signal", "skimage", "sklearn", "tensorboard")

BARE = "from fedannot.custom.flare.site_start import train_without_compiler\ntrain_without_compiler()\n"
LIGHT = "from fedannot.custom.flare.site_start import import_light_monai\nimport_light_monai()\n"

# The executor of a process whose program is the one of an NVFlare simulator's site.
START_OF_RUN = """
import sys
from importlib.machinery import ModuleSpec
sys.modules["__main__"].__spec__ = ModuleSpec("{program}", None)

from pathlib import Path
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_context import FLContext
from fedannot.apps.runs.job import Job
from fedannot.custom.flare.executor import SegmentationExecutor

settings = Job(Path("jobs/fedavg")).settings().model_dump(mode="json")
SegmentationExecutor(settings).handle_event(EventType.START_RUN, FLContext())
print("monai" in sys.modules, "skimage" in sys.modules)

import torch
parameter = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.Adam([parameter])
optimizer.zero_grad()
parameter.sum().backward()
optimizer.step()
print("torch._dynamo" in sys.modules)
"""

# Parameters and state after three steps of one optimiser after the other on a seeded problem.
STEPS = """
import hashlib, sys, torch

def trained(kind, **options):
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(5, 3, generator=generator, requires_grad=True), torch.zeros(3, requires_grad=True)]
    optimizer = kind(weights, lr=0.1, **options)
    for _ in range(3):
        optimizer.zero_grad()
        (torch.randn(4, 5, generator=generator) @ weights[0] + weights[1]).pow(2).mean().backward()
        optimizer.step()
    assert all(weight.is_leaf for weight in weights)
    state = [value for entry in optimizer.state.values() for value in entry.values()]
    found = hashlib.sha256()
    for value in weights + state:
        found.update(value.detach().numpy().tobytes())
    return found.hexdigest()

for kind, options in (
    (torch.optim.Adam, {"betas": (0.9, 0.99), "fused": True}),
    (torch.optim.Adam, {"betas": (0.9, 0.99), "foreach": True}),
    (torch.optim.Adam, {"weight_decay": 0.1}),
    (torch.optim.SGD, {"momentum": 0.9, "weight_decay": 1e-2}),
    (torch.optim.SGD, {"momentum": 0.9, "fused": True}),
):
    print(trained(kind, **options))
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
    assert run(START_OF_RUN.format(program=program)).split() == ["True", "False", "False"]


def test_another_process_does_not():
    assert run(START_OF_RUN.format(program="notebook")).split() == ["False", "False", "True"]


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
        "from fedannot.custom.training.losses import segmentation_loss\n"
        "from fedannot.custom.evaluation.segmentation_scores import score_labels\n"
        "from fedannot.transforms.noise.contour_evolution import ContourEvolution\n"
        "labels = torch.zeros(32, 32, dtype=torch.uint8)\n"
        "labels[8:20, 8:24] = 1\n"
        "print(score_labels(labels.roll(1, 0), labels, 1))\n"
        "print(float(segmentation_loss('ce_dice')(torch.zeros(1, 2, 32, 32), labels[None, None])))\n"
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


def test_steps_without_the_compiler_are_those_of_pytorch_bit_for_bit():
    """Before and after an optimiser was made, which PyTorch wraps once more."""
    late = "import torch\ntorch.optim.Adam([torch.zeros(1, requires_grad=True)]).zero_grad()\n"
    expected = run(STEPS)
    assert len(set(expected.split())) == 5
    assert run(BARE + STEPS) == run(late + BARE + STEPS) == run(BARE + BARE + STEPS) == expected


def test_steps_do_not_load_the_compiler():
    in_use = 'import sys\nprint("torch._dynamo" in sys.modules)\n'
    assert run(BARE + STEPS + in_use).split()[-1] == "False"
    assert run(STEPS + in_use).split()[-1] == "True"
