from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from test_runs import tags_of

from fedannot.apps import ProgressStep, check, import_folders
from fedannot.custom import LesionImages, NoiseChoice, add_contour_noise, write_phantom_federation
from fedannot.transforms import DataError


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Six pictures with masks, of which one is no picture."""
    generator = np.random.default_rng(0)
    for kind in ("images", "masks"):
        (tmp_path / kind).mkdir()
        for number in range(6):
            pixels = generator.integers(0, 256, (32, 32)) if kind == "images" else 255 * np.eye(32, dtype=int)
            Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / kind / f"{number}.png")
    (tmp_path / "images" / "5.png").write_bytes(b"none")
    return tmp_path


def test_folders_become_a_federation(folders: Path) -> None:
    steps: list[ProgressStep] = []
    made = import_folders(
        folders / "images",
        folders / "masks",
        folders / "mine",
        sites=2,
        test=0.2,
        size=(32, 32),
        on_progress=steps.append,
    )
    assert [site.site for site in made.sites] == ["site-1", "site-2", "test"]
    assert sum(site.cases for site in made.sites) == 5
    assert made.report.labels == {0: 0, 255: 1}
    assert str(made) == f"{folders / 'mine'}: 5 cases in 3 folders, 1 left out"
    html = made._repr_html_()
    # Four rows of sites with their headings, three of what was left out.
    assert tags_of(html)["tr"] == 7
    assert "Left out: " in html
    assert [(step.text, step.done, step.total) for step in steps if step.done == 1] == [
        ("Reading the cases", 1, 6),
        ("Copying the sites&#39; cases".replace("&#39;", "'"), 1, 2),
    ]


def test_what_is_wrong_is_shown_with_what_to_do(folders: Path) -> None:
    write_phantom_federation(folders / "data", LesionImages(), num_sites=2, images_per_site=3, test_images=1)
    for mask in (folders / "data" / "site-2").glob("labels/*"):
        mask.write_bytes(b"none")
    steps: list[ProgressStep] = []
    result = check(folders / "data", on_progress=steps.append)
    assert not result.can_train
    assert result.findings["site-1"] == ()
    assert str(result).startswith("phantom-lesions2d: cannot train; ")
    html = result._repr_html_()
    assert tags_of(html)["tr"] == 1 + len(result.findings["site-2"])
    assert "site-2" in html
    assert [step.total for step in steps if step.text == "Reading site-1"] == [3, 3, 3]
    with pytest.raises(DataError, match=r"found neither federation\.yaml nor data\.yaml"):
        check(folders)


def test_noise_says_how_far_it_is(folders: Path) -> None:
    write_phantom_federation(folders / "data", LesionImages(), num_sites=2, images_per_site=1, test_images=1)
    said: list[tuple[str, int, int]] = []
    choice = NoiseChoice("M(25,-25,10,0.5)")
    add_contour_noise(folders / "data", folders / "noisy", choice, watch=lambda *step: said.append(step))
    assert said == [("Copying the sites", 0, 2), ("Copying the sites", 1, 2)]
