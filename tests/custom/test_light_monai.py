"""What a site's process loads for a network, each time in a process of its own."""

import subprocess
import sys

UNUSED = ("ignite", "matplotlib", "pandas", "scipy.optimize", "scipy.signal", "skimage", "sklearn", "tensorboard")


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_network_loads_no_unused_package_and_they_can_be_loaded_afterwards():
    out = run(
        "import sys\n"
        "from fedannot.custom.networks import build_network\n"
        "build_network()\n"
        f"print([name for name in {UNUSED!r} if name in sys.modules])\n"
        "import matplotlib.pyplot, scipy.signal, sklearn.mixture\n"
        "print(scipy.signal.hilbert([1.0, 0.0]).shape)\n"
    )
    assert out.splitlines() == ["[]", "(2,)"]


def test_what_sites_use_of_monai_works_without_them():
    code = (
        "import torch\n"
        "from fedannot.custom.networks import build_network\n"
        "network = build_network()\n"
        "from fedannot.custom.local_training import build_loss\n"
        "from fedannot.custom.evaluation import score_labels\n"
        "from fedannot.transforms.contour_evolution import ContourEvolution\n"
        "labels = torch.zeros(32, 32, dtype=torch.uint8)\n"
        "labels[8:20, 8:24] = 1\n"
        "print(score_labels(labels.roll(1, 0), labels, 1))\n"
        "print(float(build_loss('ce_dice')(torch.zeros(1, 2, 32, 32), labels[None, None])))\n"
        "print(int(ContourEvolution(2.0, 0.5).set_random_state(0)(labels.numpy()).sum()))\n"
    )
    plain = code.replace("network = build_network()", "import monai.networks")
    assert run(code) == run(plain.replace("from fedannot.custom.networks import build_network\n", "", 1))


def test_packages_that_are_loaded_already_stay():
    out = run(
        "import sys, matplotlib, sklearn\n"
        "before = [matplotlib, sklearn]\n"
        "from fedannot.custom.networks import build_network\n"
        "build_network()\n"
        "print([sys.modules[module.__name__] is module for module in before])\n"
    )
    assert out.strip() == "[True, True]"
