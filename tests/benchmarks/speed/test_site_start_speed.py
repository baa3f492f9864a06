"""How long a site's process takes to start: the modules that it imports, each in a new process."""

import statistics
import subprocess
import sys
import time

import pytest
from measuring import Measurement

pytestmark = pytest.mark.benchmark

REPEATS = 5
STARTS = {
    "Python": "pass",
    "PyTorch": "import torch",
    "MONAI's network": "from monai.networks.nets.basic_unet import BasicUNet",
    "MONAI's network, light": (
        "from fedannot.custom.flare.site_start import import_monai_without_extras; import_monai_without_extras()\n"
        "from monai.networks.nets.basic_unet import BasicUNet"
    ),
    "NVFlare's site process": "import nvflare.private.fed.app.simulator.simulator_worker",
    "NVFlare's site process with tensors": (
        "import nvflare.private.fed.app.simulator.simulator_worker, nvflare.app_opt.pt.decomposers"
    ),
    "the executor": "import nvflare.private.fed.app.simulator.simulator_worker, fedannot.custom.flare.executor",
    "the executor with a network": (
        "import nvflare.private.fed.app.simulator.simulator_worker, fedannot.custom.flare.executor\n"
        "from fedannot.custom.flare.site_start import import_monai_without_extras; import_monai_without_extras()\n"
        "from fedannot.custom.networks.building import build_network; build_network()"
    ),
    **{
        f"the executor with a network that is trained by {what}": (
            "import nvflare.private.fed.app.simulator.simulator_worker, fedannot.custom.flare.executor\n"
            "from fedannot.custom.flare.site_start import import_monai_without_extras; import_monai_without_extras()\n"
            "from fedannot.custom.networks.building import build_network; network = build_network()\n"
            f"{optimizer}.zero_grad()"
        )
        for what, optimizer in {
            "PyTorch's Adam": "from torch.optim import Adam; Adam(network.parameters(), fused=True)",
            "Adam without the compiler": (
                "from fedannot.custom.settings import TrainingSettings\n"
                "from fedannot.custom.training.optimizers import build_optimizer\n"
                "build_optimizer(network, TrainingSettings(), 1e-3)"
            ),
        }.items()
    },
}


def test_start_of_a_site(speed_table):
    times: dict[str, list[float]] = {name: [] for name in STARTS}
    for _ in range(REPEATS):
        for name, code in STARTS.items():
            started = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], timeout=120, check=True, capture_output=True)
            times[name].append(time.perf_counter() - started)
    for name, values in times.items():
        speed_table.add(Measurement(f"start of a process: {name}", statistics.median(values)))
