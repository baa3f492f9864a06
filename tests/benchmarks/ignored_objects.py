"""How many of the objects that sites left out are ignored in training, and how many of those were really left out.

    python tests/benchmarks/ignored_objects.py runs/bench/auto/ms-2 runs/bench/auto/ms-3

A line for each run and each round before which sites corrected something, of all its sites together: the objects of the
clean masks that the given ones have nothing of, the fraction of them in which something is ignored, and the fraction of
the ignored objects that the clean masks have something of. The last line has all of them together. Every folder is
searched for what sites have corrected.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from fedannot.apps.reports.corrections import find_corrections
from fedannot.custom.corrections.store import StoredCorrections, read_corrections, record_folders
from fedannot.custom.corrections.targets import case_files
from fedannot.custom.data.site_data import SiteData, load_site_data
from fedannot.transforms.connected_lesions import label_lesions


@dataclass
class Found:
    """Counts of objects, of some sites together."""

    left_out: int = 0
    left_out_and_ignored: int = 0
    ignored: int = 0
    ignored_and_right: int = 0

    def __add__(self, other: "Found") -> "Found":
        return Found(*(one + two for one, two in zip(astuple(self), astuple(other), strict=True)))

    def in_words(self) -> str:
        """Return the counts and their shares."""
        recall = 100 * self.left_out_and_ignored / max(self.left_out, 1)
        right = 100 * self.ignored_and_right / max(self.ignored, 1)
        counts = f"left out {self.left_out:4d}  ignored {self.ignored:4d}"
        return f"{counts}  of what is left out {recall:3.0f} %  right {right:3.0f} %"

    def add(self, given: NDArray[np.uint8], clean: NDArray[np.uint8], ignored: NDArray[np.bool_]) -> None:
        """Count the objects of a sample."""
        objects, count = label_lesions(clean != 0)
        left_out = set(range(1, count + 1)) - set(np.unique(objects[given != 0]).tolist())
        self.left_out += len(left_out)
        self.left_out_and_ignored += len(left_out & set(np.unique(objects[ignored]).tolist()))
        places, count = label_lesions(ignored)
        self.ignored += count
        self.ignored_and_right += len(set(np.unique(places[(clean != 0) & ignored]).tolist()) - {0})


def records(folders: Sequence[Path]) -> Iterator[StoredCorrections]:
    """Yield all records of what sites have corrected, also those of earlier rounds."""
    for folder in folders:
        for site in find_corrections(folder):
            run = site.folder.parents[1]
            for _, record in record_folders(run):
                yield StoredCorrections(record, read_corrections(record))


def add_site(found: Found, record: StoredCorrections, data: SiteData, folder: Path) -> None:
    """Count the objects of a site."""
    pixels = record.pixels(len(data.classes))
    for case in data.cases:
        of_case = pixels.get(case_files(case, folder)[0])
        if case.clean_label is None:
            continue
        given = case.label.numpy()
        ignored = None if of_case is None else of_case.ignored
        if ignored is None:
            ignored = np.zeros(given.shape, dtype=np.bool_)
        for sample in zip(given, case.clean_label.numpy(), ignored, strict=True):
            found.add(*sample)


def main() -> None:
    """Print the lines of all runs in the named folders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="output folders of benchmarks or runs")
    by_run: dict[tuple[str, int], Found] = defaultdict(Found)
    for record in records(parser.parse_args().folders):
        corrections = record.corrections
        # <run>/run/<site>/private/simulate_job/corrections/round_<number>
        run, folder = str(record.folder.parents[5]), Path(corrections.data)
        with TemporaryDirectory() as cache:
            data = load_site_data(folder, Path(cache), site=corrections.site)
            add_site(by_run[run, corrections.round_number], record, data, folder)
    for (run, number), result in sorted(by_run.items()):
        print(f"before round {number:2d}  {result.in_words()}  ({run})")
    print(f"all together     {sum(by_run.values(), Found()).in_words()}")


if __name__ == "__main__":
    main()
