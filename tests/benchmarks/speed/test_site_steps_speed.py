"""Steps of a site beside its training, in CPU seconds of one thread, beside the obvious ways to make them."""

import copy
from collections.abc import Callable

import pytest
import torch
from measuring import compare_processor_times
from monai.metrics import compute_hausdorff_distance
from test_federation_overhead import FEATURES

from fedannot.custom.evaluation.segmentation_scores import hausdorff_95, surface_distances
from fedannot.custom.networks.described import described_network
from fedannot.custom.networks.devices import ready_to_compute
from fedannot.custom.networks.received import received_network
from fedannot.custom.settings import NetworkSettings

pytestmark = pytest.mark.benchmark

NETWORK = NetworkSettings(features=FEATURES, upsample="nontrainable")
# A step takes about a millisecond.
NUMBER, TURNS = 20, 7


def often(action: Callable[[], object]) -> Callable[[], object]:
    def make() -> None:
        for _ in range(NUMBER):
            action()

    return make


def compare(speed_table, what: str, **actions: Callable[[], object]) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        made = {name.replace("_", " "): often(action) for name, action in actions.items()}
        compare_processor_times(speed_table, what, made, turns=TURNS, number=NUMBER)
    finally:
        torch.set_num_threads(before)


def test_the_received_network(speed_table):
    start = ready_to_compute(described_network(NETWORK))
    received = {name: value.contiguous() for name, value in described_network(NETWORK, 1).state_dict().items()}

    def general() -> torch.nn.Module:
        network = copy.deepcopy(start)
        network.load_state_dict(received)
        return network

    assert all(
        torch.equal(value, general().state_dict()[name])
        for name, value in received_network(NETWORK, received).state_dict().items()
    )
    compare(
        speed_table,
        "the received network",
        deepcopy_and_load=general,
        in_one_pass=lambda: received_network(NETWORK, received),
    )


def test_the_seed_of_a_task(speed_table):
    compare(
        speed_table,
        "the seed of a task",
        manual_seed=lambda: torch.manual_seed(1),
        of_the_processor_alone=lambda: torch.default_generator.manual_seed(1),
    )


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_hd95_of_a_small_image(speed_table):
    rows, columns = torch.meshgrid(torch.arange(64.0), torch.arange(64.0), indexing="ij")
    found, true = ((torch.hypot(rows - 32, columns - 32 + shift) < radius) for shift, radius in ((0, 14), (3, 11)))

    def by_monai() -> float:
        pair = (mask[None, None].float() for mask in (found, true))
        return float(compute_hausdorff_distance(*pair, include_background=True, percentile=95))

    def here() -> float:
        return hausdorff_95(surface_distances(found, true, None))

    assert here() == pytest.approx(by_monai(), abs=1e-5)
    compare(speed_table, "HD95 in pixels, 64 × 64", MONAI=by_monai, SciPy=here)
