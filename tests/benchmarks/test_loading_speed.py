"""Loading a site's volumes: first and later passes beside MONAI's datasets, and the memory that a large site takes.
The largest picture that is read, and a datalist of 300,000 cases.

    pytest -m benchmark -s tests/benchmarks/test_loading_speed.py

The first needs FEDANNOT_REAL_DATA (the hippocampus volumes); the others make their data.
"""

import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import nibabel
import numpy as np
import pytest
import torch
from monai.data import CacheDataset, PersistentDataset
from monai.transforms import Transform
from nibabel.nifti1 import Nifti1Image
from PIL import Image

from fedannot.apps.checking.reading import CaseReader
from fedannot.custom.data.datalist import Case, cases_of, read_datalist, write_datalist
from fedannot.custom.data.description import (
    ImageDescription,
    SliceDescription,
    VolumeDescription,
    write_site_description,
)
from fedannot.custom.data.preparation import build_preparation, build_volume_pipeline
from fedannot.custom.data.site_data import load_site_data
from fedannot.transforms.loading.volume_pipeline import VolumePipeline
from fedannot.transforms.strict_files import read_json

pytestmark = pytest.mark.benchmark

CLASSES = {"labels": {0: 0, 1: 1, 2: 2}, "classes": ("anterior", "posterior")}
PASSES = 5
NUM_LARGE_SITE = 2000
NUM_LISTED = 300_000
LARGEST_SIDE = 8192


@pytest.fixture
def site(real_data, tmp_path):
    """A site with all hippocampus volumes."""
    source = real_data / "hippocampus-msd"
    cases, _ = cases_of(read_json(source / "datalist.json", "a datalist")["items"], source / "datalist.json", "items")
    folder = tmp_path / "site"
    for kind in ("images", "labels"):
        shutil.copytree(source / kind, folder / kind)
    moved = [Case(folder / "images" / case.image.name, folder / "labels" / case.label.name) for case in cases]
    write_datalist(folder / "datalist.json", {"training": moved})
    return folder


def touched(images: Iterable[torch.Tensor]) -> float:
    """Read every value once."""
    return sum(float(image.sum()) for image in images)


class Prepare(Transform):
    """What MONAI's datasets keep: they take a plain function for a random step and repeat it in every pass."""

    def __init__(self, pipeline: VolumePipeline) -> None:
        self._pipeline = pipeline

    def __call__(self, data: dict[str, Path]) -> dict[str, torch.Tensor]:
        samples = self._pipeline(data)
        assert samples.label is not None
        return {"image": samples.image, "label": samples.label}


def timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


@pytest.mark.filterwarnings("error:Corrupt cache file")
@pytest.mark.parametrize(
    "description",
    [SliceDescription(size=(48, 64), **CLASSES), VolumeDescription(**CLASSES)],
    ids=["slices", "whole"],
)
def test_passes_beside_monai(site, tmp_path, description):
    write_site_description(site, description)
    items = [
        {"image": case.image, "label": case.label} for case in read_datalist(site / "datalist.json").section("training")
    ]
    prepare = Prepare(build_volume_pipeline(description))
    folders = iter(range(100))

    def ours(cache: Path) -> float:
        return touched(case.image for case in load_site_data(site, cache, site="a").cases)

    def persistent(cache: Path) -> float:
        dataset = PersistentDataset(items, prepare, cache_dir=cache)
        return touched(dataset[index]["image"] for index in range(len(items)))

    def fresh(load: Callable[[Path], float]) -> float:
        return timed(lambda: load(tmp_path / f"cache{next(folders)}"))

    def cached() -> tuple[float, list[float]]:
        held: list[CacheDataset] = []
        first = timed(lambda: held.append(CacheDataset(items, prepare, num_workers=2, progress=False)))
        first += timed(lambda: touched(held[0][index]["image"] for index in range(len(items))))
        later = [timed(lambda: touched(held[0][index]["image"] for index in range(len(items)))) for _ in range(PASSES)]
        return first, later

    ours(tmp_path / "ours")
    loaded = load_site_data(site, tmp_path / "ours", site="a").cases
    persistent(tmp_path / "persistent")
    rows: dict[str, tuple[float | None, list[float]]] = {
        "fedannot": (fresh(ours), [timed(lambda: ours(tmp_path / "ours")) for _ in range(PASSES)]),
        "fedannot, loaded": (None, [timed(lambda: touched(case.image for case in loaded)) for _ in range(PASSES)]),
        "PersistentDataset": (
            fresh(persistent),
            [timed(lambda: persistent(tmp_path / "persistent")) for _ in range(PASSES)],
        ),
    }
    rows["CacheDataset, in memory"] = cached()
    print(f"\n{description.pipeline}, {len(items)} volumes, cases per second")
    for name, (start, passes) in rows.items():
        rate = "" if start is None else f"{len(items) / start:.0f}"
        print(f"{name:25} first {rate:>7}   later {len(items) / statistics.median(passes):9.0f}")


LOADING = """
import resource, sys, time
from pathlib import Path
from fedannot.custom.data.site_data import load_site_data
import fedannot.transforms.loading.volume_pipeline
def memory(kind):
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(kind)) / 1024
before, packages = memory("RssAnon"), memory("VmRSS")
started = time.perf_counter()
data = load_site_data(Path(sys.argv[1]), Path(sys.argv[2]), site="a")
seconds = time.perf_counter() - started
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
prepared = sum(case.image.numel() * 4 + case.label.numel() for case in data.cases) / 2**20
for case in data.cases:
    case.image.sum(), case.label.sum()
print(f"{len(data.cases)} volumes, {prepared:.0f} MiB prepared, {len(data.cases) / seconds:.0f} per second; "
      f"resident at most {peak:.0f} MiB while loading, {packages:.0f} MiB before; "
      f"after reading every value the process's own memory has grown from {before:.0f} to {memory('RssAnon'):.0f} MiB, "
      f"beside {memory('RssFile'):.0f} MiB of mapped files")
"""


def test_memory_of_a_large_site(tmp_path):
    site = tmp_path / "site"
    (site / "images").mkdir(parents=True)
    (site / "labels").mkdir()
    generator = np.random.default_rng(0)
    base = generator.integers(0, 255, (64, 64, 64), dtype=np.uint8)
    mask = np.zeros_like(base)
    mask[20:40, 20:40, 20:40] = 1
    cases = [Case(site / f"images/{i:04d}.nii", site / f"labels/{i:04d}.nii") for i in range(NUM_LARGE_SITE)]
    for index, case in enumerate(cases):
        nibabel.save(Nifti1Image(np.roll(base, index), np.eye(4)), case.image)
        nibabel.save(Nifti1Image(mask, np.eye(4)), case.label)
    write_datalist(site / "datalist.json", {"training": cases})
    write_site_description(site, VolumeDescription(labels={0: 0, 1: 1}, classes=("lesion",)))
    for name in ("first", "later"):
        command = [sys.executable, "-c", LOADING, str(site), str(tmp_path / "cache")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=580, check=True)
        print(f"\n{name} load: {done.stdout.strip()}")


def test_the_largest_picture(tmp_path):
    Image.new("RGB", (LARGEST_SIDE, LARGEST_SIDE)).save(tmp_path / "image.png")
    Image.new("L", (LARGEST_SIDE, LARGEST_SIDE)).save(tmp_path / "label.png")
    description = ImageDescription(channels=3, size=(256, 256), labels={0: 0, 1: 1}, classes=("lesion",))
    prepare, check = build_preparation(description), CaseReader(tmp_path, description)
    case = Case(tmp_path / "image.png", tmp_path / "label.png")
    print(
        f"\nblank PNG of {LARGEST_SIDE} × {LARGEST_SIDE} with its mask: prepared in {timed(lambda: prepare(case)):.1f} "
        f"s, checked in {timed(lambda: check('training', case)):.1f} s"
    )


@pytest.mark.parametrize("folders", [1, 100, NUM_LISTED])
def test_a_long_datalist(tmp_path, folders):
    """In one folder, in some, and in one of each case; the files themselves need not be there."""
    cases = [
        Case(
            tmp_path / f"{number % folders}" / f"{number}.png", tmp_path / f"{number % folders}" / f"{number}_mask.png"
        )
        for number in range(NUM_LISTED)
    ]
    write_datalist(tmp_path / "datalist.json", {"training": cases})
    seconds = timed(lambda: read_datalist(tmp_path / "datalist.json"))
    print(f"\n{NUM_LISTED} cases in {folders} folders: read in {seconds:.1f} s")
