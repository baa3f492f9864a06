"""Data that are prepared in other ways than in the run: nothing is scored or exported with them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from plain_records import simulate

from fedannot.apps.bundling.source import read_source
from fedannot.apps.reports.compared_results import results_of_run
from fedannot.custom.data.datalist import TESTING, read_datalist
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.transforms.errors import DataError


def test_a_description_that_was_changed_since_the_run_is_named(small_job: Callable[..., Path], tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    write_phantom_federation(data, LesionImages(), num_sites=2, images_per_site=3, test_images=2)
    simulate(small_job("fedavg", rounds=1), out, data=data)
    before = results_of_run(out, data)
    for name in ("results.csv", "results.json"):
        (out / name).unlink()
    files = [data / site / "data.yaml" for site in ("site-1", "site-2", "test")]
    texts = [file.read_text(encoding="utf-8") for file in files]
    for file, text in zip(files, texts, strict=True):
        assert "- 64\n- 64\n" in text
        file.write_text(text.replace("- 64\n- 64\n", "- 48\n- 48\n"), encoding="utf-8")
    for use in (results_of_run, lambda run, folder: read_source(run, data=folder)):
        with pytest.raises(
            DataError, match=r"site-1/data\.yaml: prepares images in other ways than site-1 .* in size:"
        ):
            use(out, data)
    assert not (out / "results.csv").exists()
    for file, text in zip(files, texts, strict=True):
        file.write_text(text, encoding="utf-8")
    assert results_of_run(out, data) == before
    # A case that is left out changes no number of another one's patient.
    for name in ("results.csv", "results.json"):
        (out / name).unlink()
    (first, *_) = read_datalist(data / "test" / "datalist.json").section(TESTING)
    Path(first.image).write_bytes(b"no image")
    later = results_of_run(out, data)
    of_test = [line for line in before if line.site == "test"]
    assert {line.patient for line in of_test} == {"patient-1", "patient-2"}
    assert [line for line in later if line.site == "test"] == [line for line in of_test if line.case != "case-1"]
