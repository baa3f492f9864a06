import os

# Tiny arrays: threads cost more than they bring, and several runs share the machine. Must come before NumPy and torch.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from pathlib import Path

import pytest

REAL_DATA_VARIABLE = "FEDANNOT_REAL_DATA"


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of real medical images, named by an environment variable; tests that need it are skipped without."""
    folder = os.environ.get(REAL_DATA_VARIABLE)
    if not folder:
        pytest.skip(f"needs real images: set {REAL_DATA_VARIABLE} to the folder that holds busi-breast-us")
    path = Path(folder)
    if not path.is_dir():
        pytest.skip(f"{REAL_DATA_VARIABLE} names {path}, which is no folder")
    return path
