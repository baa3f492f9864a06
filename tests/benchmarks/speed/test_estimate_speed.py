"""The noise estimate of a site beside one evaluation of the model on it, pictures, slices and whole volumes."""

import pytest
from measuring import time_in_turns

from fedannot.apps.importing.datalists import read_source_datalist
from fedannot.apps.importing.options import ImportOptions
from fedannot.apps.importing.plan import SiteChoice
from fedannot.apps.importing.writing import write_imported_federation
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.data.site_data import load_site_data
from fedannot.custom.evaluation.inference import Inference
from fedannot.custom.evaluation.segmentation_scores import evaluate
from fedannot.custom.methods.feda3i.learning_difficulty import site_difficulty
from fedannot.custom.networks.building import build_network
from fedannot.custom.networks.devices import ready_to_compute

pytestmark = pytest.mark.benchmark

FEATURES = (16, 32, 64, 128, 128, 16)


def report(speed_table, cases, inference, spatial_dims, what):
    """Time both with a model that gives masks of ordinary size: half of every image."""
    network = ready_to_compute(build_network(features=FEATURES, upsample="nontrainable", spatial_dims=spatial_dims))
    times = time_in_turns(
        {
            "evaluation": lambda: evaluate(network, cases, 1, inference),
            "inference alone": lambda: list(inference.predictions(network, cases)),
            "noise estimate": lambda: site_difficulty(network, cases, 1, inference),
        },
        repeats=5,
    )
    speed_table.compare(times, reference="evaluation", what=what, goals={"noise estimate": "≤ 1.5"})


def test_pictures(speed_table, tmp_path):
    write_phantom_federation(tmp_path / "data", LesionImages(), num_sites=1, images_per_site=48, test_images=1)
    cases = load_site_data(tmp_path / "data" / "site-1", tmp_path / "cache", site="site-1").cases
    report(speed_table, cases, Inference(8), 2, "48 phantoms 64 × 64")


@pytest.mark.parametrize("sliced", [True, False], ids=["slices", "whole"])
def test_volumes(speed_table, real_data, tmp_path, sliced):
    options = ImportOptions(
        pipeline="volume_slices" if sliced else "volume",
        keys={"size": (48, 64)} if sliced else {},
        labels={1: 1, 2: 1},
        classes=("hippocampus",),
    )
    dataset = read_source_datalist(real_data / "hippocampus-msd" / "datalist.json")
    write_imported_federation([dataset], tmp_path / "data", SiteChoice(26), options, test_share=0.02, seed=0)
    cases = load_site_data(tmp_path / "data" / "site-1", tmp_path / "cache", site="site-1").cases
    inference = Inference(8) if sliced else Inference(8, (32, 48, 32))
    form = "slices" if sliced else "whole volumes"
    report(speed_table, cases, inference, 2 if sliced else 3, f"{len(cases)} hippocampi, {form}")
