"""Memory and time of a site with many volumes; run with ``pytest -m benchmark -s`` to see them."""

import json
import subprocess
import sys

import nibabel
import numpy as np
import pytest

VOLUMES, SIDE = 300, 64

# A process of its own: the peak of a process never goes down.
LOAD = """
import resource, sys, time
from pathlib import Path
from fedannot.custom.data import preparation, site_data
from fedannot.transforms import volume_pipeline

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

before, start = peak(), time.perf_counter()
data = site_data.load_site_data(Path(sys.argv[1]), Path(sys.argv[2]), site="x")
print(data.num_samples, before, peak(), time.perf_counter() - start)
"""


def write_site(folder):
    """Volumes of few bytes each: one that is made of zeros but for a corner, under many names."""
    voxels = np.zeros((SIDE,) * 3, "f4")
    voxels[:2, :2, :2] = 1
    nibabel.save(nibabel.Nifti1Image(voxels, np.eye(4)), folder / "image.nii.gz")
    nibabel.save(nibabel.Nifti1Image(voxels.astype("u1"), np.eye(4)), folder / "label.nii.gz")
    items = []
    for index in range(VOLUMES):
        names = {"image": f"image-{index}.nii.gz", "label": f"label-{index}.nii.gz"}
        for kind, name in names.items():
            (folder / name).hardlink_to(folder / f"{kind}.nii.gz")
        items.append(names)
    (folder / "datalist.json").write_text(json.dumps({"training": items}))
    (folder / "data.yaml").write_text("pipeline: volume\nclasses: [a]\nlabels: {0: 0, 1: 1}\n")


def load(folder, cache):
    result = subprocess.run(
        [sys.executable, "-c", LOAD, str(folder), str(cache)], capture_output=True, text=True, check=True
    )
    samples, before, after, seconds = result.stdout.split()
    return int(samples), int(before), int(after), float(seconds)


@pytest.mark.benchmark
def test_preparing_and_loading_take_the_memory_of_a_few_volumes(tmp_path):
    (tmp_path / "site").mkdir()
    write_site(tmp_path / "site")
    tensors = VOLUMES * SIDE**3 * 5 // 2**20
    for name in ("prepared", "loaded"):
        samples, before, after, seconds = load(tmp_path / "site", tmp_path / "cache")
        assert samples == VOLUMES
        print(f"\n{name} {VOLUMES} volumes, {tensors} MiB of tensors: {after - before} MiB more, {seconds:.1f} s")
