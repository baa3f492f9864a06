"""Runs whose test or validation cases have nothing annotated in part: such cases are distinguished from the others."""

import io
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import nibabel
import numpy as np
import pytest
from PIL import Image
from plain_records import simulate
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fedannot.apps.reports.centre_scores import centre_scores
from fedannot.apps.reports.output import read_summary
from fedannot.apps.reports.summary_text import print_summary
from fedannot.apps.terminal import Terminal
from fedannot.custom.data.datalist import TESTING, TRAINING, VALIDATION, read_datalist
from fedannot.custom.data.json_record import read_record
from fedannot.custom.data.personal_files import LOCAL_SCORES_FILE, PERSONAL_FOLDER
from fedannot.custom.data.phantoms.chambers import Chambers
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.evaluation.local_scores import LocalScores


def remove_annotations(folder: Path, section: str, cases: Sequence[int]) -> None:
    """Leave nothing annotated in some cases of a section; the files stay."""
    listed = read_datalist(folder / "datalist.json").section(section)
    for number in cases:
        file = listed[number].label
        if file.suffix == ".png":
            Image.fromarray(np.zeros_like(np.asarray(Image.open(file)))).save(file)
        else:
            volume = nibabel.load(file)
            nibabel.save(nibabel.Nifti1Image(np.zeros(volume.shape, np.uint8), volume.affine), file)


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Sites that annotate nothing, so that their model finds nothing; of five test images two are empty."""
    folder = tmp_path / "pictures"
    write_phantom_federation(folder, LesionImages(), num_sites=2, images_per_site=4, test_images=5, seed=3)
    for site in ("site-1", "site-2"):
        remove_annotations(folder / site, TRAINING, range(4))
    remove_annotations(folder / "test", TESTING, (1, 4))
    return folder


def test_a_model_that_finds_nothing_scores_nothing(
    small_job: Callable[..., Path], pictures: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    summary = simulate(
        small_job("fedavg", rounds=1, training__local_epochs=10, training__learning_rate=0.02), out, data=pictures
    )
    assert summary["last_round"] == {"dice": 0.0, "left_empty": 1.0, "hd95": None, "hd95_undefined": 3}
    assert summary["rounds"][-1]["num_annotated_per_class"] == [3]
    record = json.loads((out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert (record["dice"], record["left_empty"], record["num_cases"]) == (0.0, 1.0, 5)
    text = io.StringIO()
    result = read_summary(out)
    print_summary(result.model_copy(update={"last_rounds": result.last_round}), Terminal(file=text, width=200))
    assert "Dice 0.0 %, 100.0 % of the empty cases left empty, HD95 - px, 3 missed" in text.getvalue()
    (events,) = out.glob("run/**/events.out.tfevents*")
    scalars = EventAccumulator(str(events)).Reload()
    assert [event.value for event in scalars.Scalars("left_empty")][-1] == 1.0


def test_a_site_that_annotates_nothing_has_the_weight_of_the_loss_of_one(
    small_job: Callable[..., Path], tmp_path: Path
) -> None:
    """FedIA's published weights: softmax(â_k / ℓ_k) with â = 0 and ℓ = 1, and never the share of its samples."""
    data = tmp_path / "pictures"
    write_phantom_federation(data, LesionImages(), num_sites=3, images_per_site=4, test_images=1, seed=3)
    remove_annotations(data / "site-2", TRAINING, range(4))
    job = small_job("fedia", rounds=2, embedded__sites=3, embedded__completeness=[0.5, 1.0, 1.0])
    summary = simulate(job, tmp_path / "out", data=data)
    record = json.loads((tmp_path / "out" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    sent, estimates = record["sites"], summary["completeness"]
    assert (sent["site-2"]["dice_loss"], sent["site-2"]["num_dice_patients"]) == (None, 0)
    assert (estimates["site-2"]["estimate"], estimates["site-1"]["estimate"]) == (0.0, 0.8)
    powers = {
        site: math.exp(estimates[site]["estimate"] / (1.0 if of["dice_loss"] is None else of["dice_loss"]))
        for site, of in sent.items()
    }
    weights = {site: power / sum(powers.values()) for site, power in powers.items()}
    assert record["weights"] == pytest.approx(weights)
    assert record["weights"]["site-2"] < 0.15


@pytest.fixture
def chambers(tmp_path: Path) -> Path:
    """Six validation volumes at each of two sites; three of site 1 are empty, all of site 2."""
    folder = tmp_path / "chambers"
    write_phantom_federation(folder, Chambers(), num_sites=2, images_per_site=1, test_images=1)
    remove_annotations(folder / "site-1", VALIDATION, range(3))
    remove_annotations(folder / "site-2", VALIDATION, range(6))
    return folder


def test_a_site_whose_cases_are_empty_has_no_dice_of_its_own(
    small_job: Callable[..., Path], chambers: Path, tmp_path: Path
) -> None:
    """The sites' models alone count: what the round's record pools, the sites' files and a comparison keep."""
    job = small_job("single_site", rounds=1, training__batch_size=18, validate_every=1, embedded__sites=2)
    summary = simulate(job, tmp_path / "out", data=chambers)
    files = [
        next((tmp_path / "out" / "run").glob(f"{site}/private/*/{PERSONAL_FOLDER}/{LOCAL_SCORES_FILE}"))
        for site in ("site-1", "site-2")
    ]
    first, second = (scores.models["local"] for file in files if (scores := read_record(file, LocalScores)))
    assert first.dice is not None
    assert second.dice is None
    assert first.left_empty is not None
    assert second.left_empty is not None
    (record,) = summary["rounds"]
    assert record["dice"] == pytest.approx(first.dice)
    assert record["left_empty"] == pytest.approx((3 * first.left_empty + 6 * second.left_empty) / 9)
    assert record["num_annotated_per_class"] == [3]
    centres = centre_scores(tmp_path / "out", read_summary(tmp_path / "out"), chambers)
    assert centres is not None
    assert centres.own == {"site-1": first.dice}
