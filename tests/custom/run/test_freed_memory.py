"""A process of ours keeps what it has freed; others are left as they are."""

import os
import subprocess
import sys

import pytest

# Page faults of what a training step does: it frees what the next one takes.
STEPS = """
import resource
from fedannot.custom.run.freed_memory import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        blocks = [bytearray(2**20) for _ in range(4)]
        del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

before = faults()
print(keep_freed_memory(), faults() < before / 5)
"""


def printed(**environment: str) -> str:
    others = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    command = [sys.executable, "-c", STEPS]
    return subprocess.run(command, capture_output=True, text=True, env=others | environment, check=True).stdout


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_freed_memory_is_taken_again_without_asking_the_system() -> None:
    assert printed() == "True True\n"


def test_a_users_own_choice_stays() -> None:
    assert printed(MALLOC_TRIM_THRESHOLD_="131072").startswith("False")
