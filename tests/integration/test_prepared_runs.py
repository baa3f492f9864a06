"""Prepared images and runs: each image is decoded once whatever runs on it, and no run keeps a pixel of it."""

import hashlib
import re
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from plain_records import compare, simulate

from fedannot.apps.runs.arms import Arm
from fedannot.custom.data import case_preparation
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.data.site_data import SiteData, load_site_data
from fedannot.custom.data.store_location import CACHE_VARIABLE

SITES, IMAGES, TEST_IMAGES = 3, 4, 5
CASES = SITES * IMAGES + TEST_IMAGES
FEWEST_BYTES = 64


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty store, for the processes of runs as well."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "store"))
    return tmp_path / "store"


@pytest.fixture
def federation(tmp_path: Path) -> Path:
    folder = tmp_path / "federation"
    write_phantom_federation(
        folder, LesionImages(), num_sites=SITES, seed=4, images_per_site=IMAGES, test_images=TEST_IMAGES
    )
    return folder


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which images were decoded in this process."""
    names: list[str] = []
    original = case_preparation.decode

    def counted(preparation, case, site):  # type: ignore[no-untyped-def]
        names.append(case.image.name)
        return original(preparation, case, site)

    monkeypatch.setattr(case_preparation, "decode", counted)
    return names


def sections_of(federation: Path, folder: Path) -> list[SiteData]:
    """All cases of a federation, read once more into another store."""
    sites = [(federation / f"site-{number}", "training") for number in range(1, SITES + 1)]
    return [
        load_site_data(site, folder, section=section, site=site.name)
        for site, section in (*sites, (federation / "test", "testing"))
    ]


def pieces(sections: list[SiteData]) -> list[bytes]:
    """From the middle of each image and mask, what no other file holds by chance."""
    tensors = [tensor for data in sections for case in data.cases for tensor in (case.image, case.label)]
    middles = [tensor.flatten()[tensor.numel() // 2 :].numpy().tobytes() for tensor in tensors]
    chosen = [middle[:FEWEST_BYTES] for middle in middles if len(set(middle[:FEWEST_BYTES])) > 1]
    assert len(chosen) > CASES
    return chosen


def flat_files(sections: list[SiteData]) -> set[str]:
    """Digests of all images of a section one after the other, and as above of its annotations."""
    tensors = [tensor for data in sections for tensor in (data.images, data.labels, data.clean_labels)]
    return {hashlib.sha256(tensor.numpy().tobytes()).hexdigest() for tensor in tensors if tensor is not None}


def test_a_second_run_decodes_nothing_and_no_run_keeps_a_pixel(
    small_job: Callable[..., Path], store: Path, federation: Path, decoded: list[str], tmp_path: Path
) -> None:
    outs = [tmp_path / "first", tmp_path / "second"]
    for out in outs:
        simulate(small_job("fedavg", rounds=2), out, data=federation)
        assert len(decoded) == (CASES if out == outs[0] else 0)
        decoded.clear()
    first, second = (torch.load(out / "model.pt", weights_only=True)["model"] for out in outs)
    assert all(torch.equal(first[name], second[name]) for name in first)
    texts = pieces(sections_of(federation, tmp_path / "other"))
    stored = [file.read_bytes() for file in store.rglob("*") if file.is_file()]
    assert all(any(text in content for content in stored) for text in texts)
    kept = {file: file.read_bytes() for out in outs for file in out.rglob("*") if file.is_file()}
    assert len(kept) > 20
    assert [file for file, content in kept.items() if any(text in content for text in texts)] == []
    assert not [path for out in outs for path in out.rglob("*") if path.name == "prepared"]


def test_three_arms_decode_each_image_once_and_store_one_copy(
    small_job: Callable[..., Path], store: Path, tmp_path: Path
) -> None:
    """Without data each run draws the same images into a folder of its own."""
    embedded = {"embedded__sites": SITES, "embedded__images_per_site": IMAGES, "embedded__test_images": TEST_IMAGES}
    job, out = small_job("fedavg", rounds=1, **embedded), tmp_path / "out"
    arms = [Arm(f"rate-{rate}", job, {"training.learning_rate": rate}) for rate in (0.001, 0.002, 0.003)]
    compare(arms, out, data=None, seeds=[0], overrides={})
    logs = [file.read_text(encoding="utf-8") for file in sorted(out.glob("runs/*/log.txt"))]
    assert len(logs) == len(arms)
    counts = [int(number) for log in logs for number in re.findall(r"Site \S+: (\d+) of \d+ cases decoded", log)]
    assert sum(counts) == CASES
    (drawn, *_) = out.glob("runs/*/data")
    stored = sorted(file.name for file in (store / "blobs").iterdir())
    assert stored == sorted(flat_files(sections_of(drawn, tmp_path / "other")))
    assert len(list((store / "packs").iterdir())) == SITES + 1
    assert {stat.S_IMODE(path.stat().st_mode) for path in (store, *store.rglob("*"))} == {0o700, 0o600}
