"""Programs and commands of the project as processes of their own, which must end well."""

import os
import subprocess
import sys
from pathlib import Path


def run_python(folder: Path, *words: str, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run Python with these words in a folder, and return what it wrote; seconds that it may take."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done
