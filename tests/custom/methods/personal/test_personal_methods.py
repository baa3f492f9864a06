"""Methods with personal parts at one site: what is trained, what is shared, and what stays as it was received."""

import copy

import pytest
import torch

from fedannot.custom.method_settings import (
    DecoupledSettings,
    DittoSettings,
    FedAvgSettings,
    FedRepSettings,
    SingleSiteSettings,
)
from fedannot.custom.methods.decoupled.adaptation import LocalModel
from fedannot.custom.methods.personal.personal_methods import RoundOfTraining, personal_method
from fedannot.custom.networks.described import described_network
from fedannot.custom.training.batches import SampleBatches
from fedannot.custom.training.loop import train
from fedannot.custom.training.objectives import training_objective

NETWORK = {"features": (4, 4, 8, 8, 8, 4)}
TRAINING = {"batch_size": 4, "local_epochs": 1, "learning_rate": 0.01}
COMMON = {"network": NETWORK, "training": TRAINING, "rounds": 4}
DECOUPLED = DecoupledSettings.model_validate(
    COMMON | {"network": NETWORK | {"latent": 3, "encoder_features": (4, 8)}, "warmup_rounds": 1}
)
FEDREP = FedRepSettings.model_validate(COMMON)
DITTO = DittoSettings.model_validate(COMMON)
SINGLE = SingleSiteSettings.model_validate(COMMON)
ALL = pytest.mark.parametrize("settings", [DECOUPLED, FEDREP, DITTO, SINGLE], ids=lambda settings: settings.method)


@pytest.fixture
def batches():
    generator = torch.Generator().manual_seed(0)
    labels = torch.zeros(8, 16, 16, dtype=torch.uint8)
    labels[:, 4:12, 4:12] = 1
    images = labels[:, None] + 0.3 * torch.randn(8, 1, 16, 16, generator=generator)
    return SampleBatches(images, labels, 4, torch.device("cpu"))


def this_round(batches, number=2, seed=5):
    return RoundOfTraining(number, batches, seed)


def train_plainly(network, batches, training, seed=5):
    objective = training_objective(training, network)
    train(network, batches, objective, training, learning_rate=training.learning_rate, seed=seed)


def values(network):
    return {name: tensor.clone() for name, tensor in network.state_dict().items()}


def changed(before, network):
    return {name for name, tensor in network.state_dict().items() if not torch.equal(before[name], tensor)}


@ALL
def test_a_round_trains_and_the_same_seed_gives_the_same_bits(settings, batches):
    method = personal_method(settings)
    results = []
    for _ in range(2):
        shared = described_network(settings.network)
        personal = method.start(shared, seed=1)
        before = values(personal)
        outcome = method.train(shared, personal, this_round(batches))
        assert outcome.mean_loss > 0
        assert changed(before, personal)
        results.append((values(shared), values(personal)))
    for one, other in zip(*results, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)


@ALL
def test_the_shared_part_has_no_tensor_of_the_personal_one(settings, batches):
    method, shared = personal_method(settings), described_network(settings.network)
    personal = method.start(shared, seed=1)
    method.train(shared, personal, this_round(batches))
    own = [tensor for tensor in personal.state_dict().values() if tensor.numel() > 1]
    storages = {tensor.data_ptr() for tensor in shared.state_dict().values()}
    assert own
    for tensor in own:
        assert tensor.data_ptr() not in storages
        assert not any(
            tensor.shape == sent.shape and torch.equal(tensor, sent) for sent in shared.state_dict().values()
        )


@ALL
def test_the_local_model_gives_logits(settings):
    method, shared = personal_method(settings), described_network(settings.network)
    model = method.local_model(shared, method.start(shared, seed=1)).eval()
    assert model(torch.zeros(2, 1, 16, 16)).shape == (2, 2, 16, 16)


def test_decoupled_predictions_train_all_but_w_in_the_shared_network(batches):
    method, shared = personal_method(DECOUPLED), described_network(DECOUPLED.network)
    personal, before = method.start(shared, seed=1), values(shared)
    method.train(shared, personal, this_round(batches))
    assert {name.split(".")[0] for name in changed(before, shared)} == {"unet", "prior", "posterior", "head"}
    assert isinstance(method.local_model(shared, personal), LocalModel)


def test_the_warm_up_is_the_first_rounds(batches):
    """W goes to the identity in the warm-up, from a mean trace of about 1."""
    method, shared = personal_method(DECOUPLED), described_network(DECOUPLED.network)
    traces = {}
    for number in (1, 2):
        network = copy.deepcopy(shared)
        personal = method.start(network, seed=1)
        for _ in range(5):
            method.train(network, personal, this_round(batches, number))
        images = next(iter(batches.epoch(torch.Generator().manual_seed(0)))).images
        with torch.no_grad():
            flips = personal(images, network.unet(images), network.prior(images).mean)
        traces[number] = float(flips.diagonal(dim1=1, dim2=2).sum(-1).mean())
    assert traces[1] > traces[2] + 0.05


def test_fedrep_shares_the_representation_and_its_own_head_goes_back_as_it_came(batches):
    method, shared = personal_method(FEDREP), described_network(FEDREP.network)
    personal, before = method.start(shared, seed=1), values(shared)
    method.train(shared, personal, this_round(batches))
    blocks = {name.split(".")[0] for name in changed(before, shared)}
    assert "final_conv" not in blocks
    assert {"conv_0", "down_4", "upcat_1"} <= blocks
    assert changed({name.removeprefix("final_conv."): value for name, value in before.items()}, personal)
    assert all(parameter.requires_grad for parameter in shared.parameters())


def test_fedrep_trains_the_head_with_the_representation_fixed_and_then_the_other_way_round(batches):
    method, shared = personal_method(FEDREP), described_network(FEDREP.network)
    personal = method.start(shared, seed=1)
    model = method.local_model(shared, personal)
    seen = []

    class Spy:
        samples_per_epoch = batches.samples_per_epoch

        def epoch(self, generator):
            seen.append({name for name, parameter in model.named_parameters() if parameter.requires_grad})
            return batches.epoch(generator)

    method.train(shared, personal, this_round(Spy()))
    head, representation = seen
    assert head == {"final_conv.weight", "final_conv.bias"}
    assert head.isdisjoint(representation)
    assert head | representation == {name for name, _ in model.named_parameters()}


def test_dittos_shared_network_is_that_of_federated_averaging(batches):
    method, shared = personal_method(DITTO), described_network(DITTO.network)
    plain = copy.deepcopy(shared)
    method.train(shared, method.start(shared, seed=1), this_round(batches))
    train_plainly(plain, batches, FedAvgSettings.model_validate(COMMON).training)
    assert all(torch.equal(value, shared.state_dict()[name]) for name, value in plain.state_dict().items())


def test_dittos_personal_network_stays_near_where_the_weight_is_large(batches):
    distances = []
    for weight in (0.0, 100.0):
        method = personal_method(DITTO.model_copy(update={"personal_proximal_weight": weight}))
        shared = described_network(DITTO.network)
        start, personal = copy.deepcopy(shared), method.start(shared, seed=1)
        for number in range(4):
            method.train(copy.deepcopy(shared), personal, this_round(batches, number))
        pairs = zip(personal.parameters(), start.parameters(), strict=True)
        distances.append(sum(float((one - other).square().sum()) for one, other in pairs))
    assert distances[1] < 0.5 * distances[0]


def test_a_site_by_itself_sends_back_what_it_got(batches):
    method, shared = personal_method(SINGLE), described_network(SINGLE.network)
    personal, before = method.start(shared, seed=1), values(shared)
    method.train(shared, personal, this_round(batches))
    assert not changed(before, shared)
    plain = described_network(SINGLE.network)
    train_plainly(plain, batches, SINGLE.training)
    assert all(torch.equal(value, personal.state_dict()[name]) for name, value in plain.state_dict().items())


def test_a_method_without_a_personal_part_is_refused():
    with pytest.raises(TypeError, match="a method with personal parts, but got FedAvgSettings"):
        personal_method(FedAvgSettings())
