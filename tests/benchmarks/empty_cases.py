"""How many cases of the benchmarks' test sets, and of the cases that sites score, have a class that is not annotated.

    FEDANNOT_REAL_DATA=DIR python tests/benchmarks/empty_cases.py [--rows busi-ns,ms-0] [--first-seed 0] [--seeds 3]

Makes the data of every segmentation row as the row does and looks at the annotations as they are scored. Without real
data only the rows with generated images are made. Dice is over annotated cases, so that rows without empty cases have
the same score whatever becomes of those.
"""

import argparse
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmark_tables import decoupled, feda3i, fedia
from benchmark_tables.rows import Row, chosen_rows
from compare_on_real_images import ROWS as REAL_ROWS

from fedannot.custom.data.datalist import TESTING, VALIDATION
from fedannot.custom.data.federation import TEST_FOLDER, read_federation
from fedannot.custom.data.site_data import SiteData, count_cases, load_site_data


def segmentation_rows() -> Mapping[str, Row]:
    """Return the rows whose score is Dice, by name."""
    rows = {**feda3i.ROWS, **fedia.ROWS, **{f"chambers-{name}": row for name, row in decoupled.ROWS.items()}}
    if "FEDANNOT_REAL_DATA" in os.environ:
        rows |= {name: row for name, row in REAL_ROWS.items() if not name.startswith("blood-")}
    return rows


def empty_cases(data: SiteData) -> list[int]:
    """Return the number of cases without each foreground class."""
    classes = range(1, len(data.description.classes) + 1)
    return [sum(not (case.label == index).any() for case in data.cases) for index in classes]


def scored_data(federation: Path, cache: Path) -> Iterator[SiteData]:
    """Load the test set of a federation, and the validation cases of each site that has any."""
    yield load_site_data(federation / TEST_FOLDER, cache, section=TESTING, site=TEST_FOLDER)
    for site in read_federation(federation).sites:
        if count_cases(federation / site, VALIDATION):
            yield load_site_data(federation / site, cache, section=VALIDATION, site=site)


def main() -> None:
    """Count and print, a line for every row and seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", help="names separated by commas; default: all")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    total = 0
    for name, row in chosen_rows(segmentation_rows(), arguments.rows).items():
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            with tempfile.TemporaryDirectory() as folder:
                row.make(Path(folder) / "data", seed)
                result = [
                    (data.site, len(data.cases), empty_cases(data))
                    for data in scored_data(Path(folder) / "data", Path(folder) / "cache")
                ]
            total += sum(sum(empty) for _, _, empty in result)
            described = "; ".join(f"{site}: {empty} of {cases}" for site, cases, empty in result)
            print(f"{name}, seed {seed}: cases without each class: {described}", flush=True)
    print(f"In all rows together: {total}.")


if __name__ == "__main__":
    main()
