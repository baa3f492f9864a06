"""What NVFlare stores of a run, or returns, names and shows no participant's file; and the search finds what does."""

import base64
import gzip
import io
import json
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import JOBS
from PIL import Image
from support.leaks import Needles, leaks_in, needles_of, tell_tale

from fedannot.apps.runs.in_process import run_in_process
from fedannot.apps.runs.job import Job
from fedannot.custom.data.location import DATA_VARIABLE
from fedannot.custom.data.phantoms.cells import Cells
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.data.site_data import LoadedCase, load_site_data

SITES = ("site-1", "site-2", "site-3")
SMALL = {"rounds": 2, "training.local_epochs": 1}
SEGMENTATION = SMALL | {"network.features": [4, 4, 8, 8, 8, 4], "min_predicted_fraction": 0.0}
CLASSIFICATION = SMALL | {"network.widths": [4, 4, 8, 8], "training.batch_size": 8}
# Jobs whose sites keep names, masks, models or nothing of their files.
RUNS: dict[str, dict[str, Any]] = {
    "fedavg": {key: value for key, value in SEGMENTATION.items() if key != "min_predicted_fraction"},
    "audit": SEGMENTATION | {"folds": 2},
    "fedgsca": CLASSIFICATION | {"warmup_rounds": 1},
}


def federation(folder: Path, *, has_masks: bool, images_per_site: int = 6) -> Path:
    """Three sites and a test set of tell-tale names, in each of which one image cannot be read."""
    data = folder / "Weiß-archive-Zq81k"
    drawing = LesionImages("M(25,-25,2,0.5)", exact=True, stratified=0.5) if has_masks else Cells("0-S50-S50")
    write_phantom_federation(data, drawing, num_sites=3, seed=3, images_per_site=images_per_site, test_images=3)
    for part in (*SITES, "test"):
        tell_tale(data / part)
        unreadable(data / part).write_bytes(b"broken")
    return data


def unreadable(folder: Path) -> Path:
    """The image that cannot be read."""
    return sorted((folder / "images").iterdir())[0]


SECTIONS = dict.fromkeys(SITES, "training") | {"test": "testing"}
# Of a participant's workspace what NVFlare neither stores nor returns.
NOT_STORED = ("private", "local", "cache")


@pytest.mark.parametrize("name", RUNS)
def test_a_job_s_workspaces_name_and_show_nothing_of_anybody_s_files(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not the server's, of which NVFlare returns all, and not the sites'; they name their data as in a hospital."""
    data = federation(tmp_path, has_masks=name != "fedgsca")
    monkeypatch.setenv(DATA_VARIABLE, str(data))
    job = Job.open(JOBS / name).copy_with(RUNS[name], tmp_path / "job")
    run = tmp_path / "run"
    with caplog.at_level("INFO"):
        run_in_process(job, SITES, run)
    needles = needles_of(SECTIONS, data, tmp_path / "cache")
    for participant in ("server", *SITES):
        assert leaks_in(run / participant, needles, skip=NOT_STORED) == []
        assert stat.S_IMODE((run / participant / "private").stat().st_mode) == 0o700
    assert all(unreadable(data / part).name in caplog.text for part in SECTIONS)
    if name != "fedavg":
        assert leaks_in(run / "site-1" / "private", needles) != []


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Needles, Path, LoadedCase]:
    """What is searched for, the folder of a site, and one of its cases."""
    folder = tmp_path_factory.mktemp("searched")
    data = federation(folder, has_masks=True)
    needles = needles_of(SECTIONS, data, folder / "cache")
    return needles, data / "site-2", load_site_data(data / "site-2", folder / "cache", site="site-2").cases[-1]


def file_of(case: LoadedCase) -> Path:
    assert case.files is not None
    return case.files.image


def numpy_file(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def archive(content: bytes, name: str = "data") -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as files:
        files.writestr(name, content)
    return stream.getvalue()


def saved(value: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


def picture(pixels: Any) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


# What is planted, made of a case: names in all ways of writing, pixels in all forms.
PLANTED: dict[str, Callable[[LoadedCase], bytes]] = {
    "a name in a log": lambda case: f"case {case.name} is left out".encode(),
    "a stem": lambda case: f"about {case.name[5:-4]}!".encode(),
    "a folder": lambda case: str(file_of(case).parents[2]).encode(),
    "a name in JSON": lambda case: json.dumps({"message": f"x {case.name}"}).encode(),
    "a name in UTF-16": lambda case: f"x {case.name}".encode("utf-16-le"),
    "a name in base64": lambda case: b"key=" + base64.b64encode(f"xy {case.name}, no image".encode()),
    "a name in gzip": lambda case: gzip.compress(case.name.encode()),
    "a name in a zip in a zip": lambda case: archive(archive(case.name.encode())),
    "a name of a zip's member": lambda case: archive(b"1", case.name),
    "the file": lambda case: file_of(case).read_bytes(),
    "the file in base64": lambda case: base64.encodebytes(file_of(case).read_bytes()),
    "rows of the image": lambda case: b"--" + np.asarray(Image.open(file_of(case))).tobytes(),
    "the prepared image": lambda case: b"---" + case.image.numpy().tobytes(),
    "the prepared image in half precision": lambda case: b"-" + case.image.half().numpy().tobytes(),
    "the prepared mask": lambda case: b"-" + case.label.numpy().tobytes(),
    "the prepared mask in float32": lambda case: case.label.float().numpy().tobytes(),
    "a tensor in another scale": lambda case: saved({"model": {"w": 3 * case.image.half() + 1}}),
    "an array in another scale": lambda case: numpy_file(0.5 - case.image.numpy()[0, 0].astype(np.float64)),
    "an array in an archive": lambda case: archive(numpy_file(2 * case.image.numpy())),
    "a picture made again": lambda case: picture(255 - np.asarray(Image.open(file_of(case)))),
}


@pytest.mark.parametrize("what", PLANTED)
def test_the_search_finds_what_is_planted(
    searched: tuple[Needles, Path, LoadedCase], what: str, tmp_path: Path
) -> None:
    needles, _, case = searched
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "planted").write_bytes(PLANTED[what](case))
    leaks = leaks_in(tmp_path, needles)
    assert leaks
    assert all(leak.startswith("job/planted") for leak in leaks)


def test_the_search_finds_nothing_in_other_numbers(searched: tuple[Needles, Path, LoadedCase], tmp_path: Path) -> None:
    weights = saved({"w": torch.randn(2, 64, 64, generator=torch.Generator().manual_seed(0))})
    (tmp_path / "harmless").write_bytes(np.random.default_rng(0).bytes(4096) + weights)
    assert leaks_in(tmp_path, searched[0]) == []


def test_the_search_finds_a_file_by_its_own_name(searched: tuple[Needles, Path, LoadedCase], tmp_path: Path) -> None:
    needles, _, case = searched
    (tmp_path / f"{case.name}.txt").touch()
    assert leaks_in(tmp_path, needles) != []
