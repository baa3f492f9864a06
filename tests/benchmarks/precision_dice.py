"""Dice of bfloat16 and of float32: federated averaging, the same data, start weights and batches, seed by seed.

    python tests/benchmarks/precision_dice.py phantom --out OUT
    FEDANNOT_REAL_DATA=DATA python tests/benchmarks/precision_dice.py busi --rounds 40 --out OUT

One run at a time on one thread, by `fedannot compare`: finished runs in the folder are kept.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from real_federations import write_breast_lesions

ARMS = ["fedavg", "bf16=fedavg", "--set", "bf16:training.precision=bf16"]


def main() -> int:
    """Write the federations that are not there, compare, and return the comparison's exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", choices=("phantom", "busi"))
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    command = [str(Path(sys.executable).parent / "fedannot"), "compare", *ARMS, "--seeds", str(options.seeds)]
    command += ["--set", f"rounds={options.rounds}", "--processes", "1"]
    command += ["--out", str(options.out / f"{options.data}_{options.rounds}")]
    if options.data == "busi":
        for seed in range(options.seeds):
            if not (folder := options.out / "federations" / str(seed)).is_dir():
                write_breast_lesions(folder, seed)
        command += ["--data", str(options.out / "federations" / "{seed}")]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
