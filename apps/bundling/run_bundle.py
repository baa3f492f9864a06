"""Run the bundle that this file lies in over the images of a folder; needs MONAI, and not the packages of its commands.

Every bundle has a copy of it as `run.py`.
"""

import argparse
from pathlib import Path

from monai.bundle import run


def main() -> None:
    """Read the command line and run the bundle."""
    parser = argparse.ArgumentParser(description="Run this bundle over the images below a folder.")
    parser.add_argument("--dataset_dir", required=True, help="folder of the images")
    parser.add_argument("--output_dir", required=True, help="folder of the results; it is made if need be")
    parser.add_argument(
        "--write_probabilities", action="store_true", help="write the probability of each class beside a mask"
    )
    arguments = parser.parse_args()
    bundle = Path(__file__).resolve().parent
    run(
        config_file=str(bundle / "configs" / "inference.json"),
        bundle_root=str(bundle),
        dataset_dir=arguments.dataset_dir,
        output_dir=arguments.output_dir,
        write_probabilities=arguments.write_probabilities,
    )


if __name__ == "__main__":
    main()
