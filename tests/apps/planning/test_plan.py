import math
from pathlib import Path
from typing import Any

import pytest
import torch

from fedannot.apps import plan
from fedannot.apps.runs.job import JobError
from fedannot.custom import Cells, LesionImages, LesionVolumes, build_network, write_phantom_federation
from fedannot.custom.methods.lookup import find_method

SMALL = {"network.features": [4, 4, 8, 8, 8, 4], "rounds": 4}


def test_a_plan_counts_steps_and_traffic(tmp_path: Path) -> None:
    """Five images in batches of two are three steps, in two epochs six, at two sites in four rounds 48."""
    write_phantom_federation(tmp_path / "data", LesionImages(), num_sites=2, images_per_site=5, test_images=3)
    changes = SMALL | {"training.batch_size": 2, "training.local_epochs": 2}
    result = plan("fedavg", data=tmp_path / "data", changes=changes, steps=1)
    assert [(site.site, site.samples, site.steps) for site in result.sites] == [("site-1", 5, 6), ("site-2", 5, 6)]
    assert (result.steps, result.test_samples, result.uses_generated_images) == (48, 3, False)
    network = build_network(features=(4, 4, 8, 8, 8, 4), upsample="nontrainable")
    size = sum(tensor.numel() * tensor.element_size() for tensor in network.state_dict().values())
    assert result.step.model_mb == size / 2**20
    # To two sites and back, four times.
    assert result.traffic_mb == pytest.approx(16 * size / 2**20)
    scoring = 4 * 3 * result.step.prediction_seconds
    assert result.seconds == pytest.approx(48 * result.step.seconds + scoring)
    assert result.seconds_side_by_side == pytest.approx(24 * result.step.seconds + scoring)
    # Weights, gradients and Adam's two moments at least.
    assert result.memory_mb > result.process_mb + 4 * result.step.model_mb


@pytest.mark.parametrize(("precision", "size"), [("bf16", 2), ("int8", 1)])
def test_a_plan_counts_the_bytes_of_fewer_bits(precision: str, size: int) -> None:
    """Kernels take 2 bytes a number to the sites, and 2 or 1 back; vectors keep their 4, and int8 has scales."""
    changes = SMALL | {"update_precision": precision, "model_precision": "bf16"}
    result = plan("fedavg", changes=changes, steps=1)
    network = build_network(features=(4, 4, 8, 8, 8, 4), upsample="nontrainable")
    kernels = [tensor for tensor in network.parameters() if tensor.ndim > 1]
    numbers, channels = sum(kernel.numel() for kernel in kernels), sum(len(kernel) for kernel in kernels)
    others = sum(t.numel() * t.element_size() for t in network.state_dict().values()) - 4 * numbers
    assert result.step.model_mb * 2**20 == 2 * numbers + others
    assert result.step.update_mb * 2**20 == size * numbers + others + (4 * channels if size == 1 else 0)
    assert result.traffic_mb == pytest.approx(4 * 8 * (result.step.model_mb + result.step.update_mb))


def test_slices_and_patches_are_what_is_counted(tmp_path: Path) -> None:
    """Of volumes with twelve slices."""
    write_phantom_federation(tmp_path / "data", LesionVolumes(), num_sites=2, images_per_site=3, test_images=1)
    changes = SMALL | {"warmup_rounds": 2, "training.local_steps": 7, "training.gradient_clipping": 12}
    result = plan("fedia", data=tmp_path / "data", changes=changes, steps=1)
    assert {site.steps for site in result.sites} == {7}, "so many, whatever the epochs"
    assert {site.samples for site in result.sites} == {36}
    assert result.test_samples == 12


def test_classes_are_planned_too(tmp_path: Path) -> None:
    write_phantom_federation(tmp_path / "data", Cells(), num_sites=2, images_per_site=10, test_images=8)
    small = {"network.widths": [4, 4, 8, 8], "rounds": 2, "training.batch_size": 4}
    result = plan("fedavg_classification", data=tmp_path / "data", changes=small, steps=1)
    epochs = result.sites[0].steps // math.ceil(10 / 4)
    assert result.sites[0].steps == 3 * epochs
    assert result.test_samples == 8


def test_generated_images_are_counted_without_drawing_them_all() -> None:
    threads, state = torch.get_num_threads(), torch.random.get_rng_state()
    result = plan("fedaaai", changes=SMALL, steps=1)
    # 12 images in batches of 4, three epochs; 50 test images.
    assert {(site.samples, site.steps) for site in result.sites} == {(12, 9)}
    assert (len(result.sites), result.test_samples, result.uses_generated_images) == (8, 50, True)
    assert str(result).startswith(
        "The images are generated: no data were given.\nfedaaai (feda3i): 4 rounds at 8 sites"
    )
    assert '<td class="number">9</td>' in result._repr_html_()
    # A caller's process is the caller's.
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_plan_counts_the_passes_of_a_method(tmp_path: Path) -> None:
    """Scales of 1 and 2 see 1 + 4 times the pixels."""
    write_phantom_federation(tmp_path / "data", LesionImages(), num_sites=2, images_per_site=2, test_images=1)
    plans = {
        name: plan(name, data=tmp_path / "data", changes=SMALL | own, steps=1)
        for name, own in (("fedavg", {}), ("adele", {"scales": [1, 2]}))
    }
    assert [plans[name].step_factor for name in plans] == [1.0, 5.0]
    for result in plans.values():
        scoring = result.scored_rounds * result.test_samples * result.step.prediction_seconds
        assert result.seconds == pytest.approx(result.steps * result.step_factor * result.step.seconds + scoring)
    assert "s for a step of training; adele takes 5 times that, by its passes." in str(plans["adele"])
    assert "by its passes" not in str(plans["fedavg"])
    weights = {name: plans[name].step.model_mb * 4 for name in ("fedavg", "adele")}
    kept = {name: plans[name].step.training_mb - weights[name] for name in weights}
    assert kept["adele"] == pytest.approx(5 * kept["fedavg"])


@pytest.mark.parametrize(
    ("task", "method", "changes", "expected"),
    [
        ("segmentation", "adele", {}, (3.74, 3.74)),
        ("segmentation", "rmd", {}, (4.0, 4.0)),
        ("segmentation", "rmd", {"distillation_weight": 0}, (2.0, 2.0)),
        ("segmentation", "ditto", {}, (2.0, 1.0)),
        ("segmentation", "feddm", {"rounds": 4, "training": {"loss": "ce"}}, (1.5, 1.0)),
        ("classification", "fedfixer", {"rounds": 10, "warmup_rounds": 4}, (1.6, 1.0)),
        ("classification", "fedgp", {}, (1.0, 1.0)),
    ],
)
def test_methods_say_how_much_they_compute_and_keep(
    task: str, method: str, changes: dict[str, Any], expected: tuple[float, float]
) -> None:
    """Two networks that teach each other have two passes each. Two peers' forward passes are two thirds of a step."""
    settings = find_method(task, method).settings.model_validate({"task": task} | changes)
    assert (settings.step_factor, settings.kept_factor) == pytest.approx(expected)


def test_what_cannot_be_planned_is_named() -> None:
    with pytest.raises(JobError, match="did you mean 'fedavg'"):
        plan("fedavgg")
