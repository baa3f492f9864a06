"""Recorded steps of training: what they compute, and when they are used. On a CPU recordings are plain calls."""

import copy

import pytest
import torch

from fedannot.custom.networks.copying import network_copy
from fedannot.custom.networks.described import described_network
from fedannot.custom.networks.received import received_network
from fedannot.custom.networks.second_network import with_second_network
from fedannot.custom.settings import NetworkSettings, TrainingSettings
from fedannot.custom.training import captured_steps
from fedannot.custom.training.batches import SampleBatches
from fedannot.custom.training.loop import TrainingStopped, train
from fedannot.custom.training.losses import DiceRecord, build_loss
from fedannot.custom.training.objectives import ProximalPenalty, Step, Sum, SupervisedObjective, training_objective
from fedannot.custom.training.optimizers import build_optimizer
from fedannot.custom.training.steps import SingleSteps, loss_scaler

NETWORK = NetworkSettings(features=(4, 4, 8, 8, 8, 4), upsample="nontrainable")
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def weights(seed):
    """Start weights of the network, and images and labels of a site: 10, so that the last batch of 4 has 2."""
    generator = torch.Generator().manual_seed(seed)
    params = received_network(NETWORK, described_network(NETWORK).state_dict()).state_dict()
    noise = {
        name: value.cpu() + 0.1 * torch.randn(value.shape, generator=generator)
        for name, value in params.items()
        if value.is_floating_point() and "running_var" not in name
    }
    images = torch.randn(10, 1, 16, 16, generator=generator)
    return {**{name: value.cpu() for name, value in params.items()}, **noise}, images, (images[:, 0] > 0.5).byte()


def trained(seed, training, *, rate=2**-7, alter=None, objective=None, should_stop=None):
    """The weights and the outcome of a round at a site."""
    params, images, labels = weights(seed)
    network = received_network(NETWORK, params)
    if alter is not None:
        alter(network)
    device = next(network.parameters()).device
    batches = SampleBatches(images, labels, training.batch_size, device)
    made = training_objective(training) if objective is None else objective(training)
    outcome = train(network, batches, made, training, learning_rate=rate, seed=seed, should_stop=should_stop)
    return {name: value.cpu() for name, value in network.state_dict().items()}, outcome


def assert_same(first, second, tolerance=0.0):
    assert (first[1].samples, first[1].steps) == (second[1].samples, second[1].steps)
    assert first[1].mean_loss == pytest.approx(second[1].mean_loss, abs=tolerance)
    for name, value in second[0].items():
        torch.testing.assert_close(first[0][name], value, atol=tolerance, rtol=0)


@pytest.fixture
def recordings(monkeypatch):
    """Record on a CPU: a recording calls again what it was made of. Shows the batch sizes that were recorded."""
    made = []

    def recorded(make_step, device):
        made.append(len(make_step.__closure__[0].cell_contents.images))
        return make_step

    monkeypatch.setattr(captured_steps, "is_recording_device", lambda device: True)
    monkeypatch.setattr(captured_steps, "synchronise", lambda device: None)
    monkeypatch.setattr(captured_steps, "recorded", recorded)
    monkeypatch.setattr(captured_steps, "_LAUNCHING", 0.0)
    monkeypatch.setattr(captured_steps, "_kept", captured_steps._Kept())
    return made


SETTINGS = {
    "adam": {},
    "sgd": {"optimizer": "sgd", "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    "clipped": {"gradient_clipping": 0.1},
    "near the received model": {"proximal_weight": 0.5, "loss": "ce_dice"},
    "weights of classes": {"class_weights": (1.0, 3.0)},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_recorded_steps_are_the_single_ones_at_every_site_and_in_every_round(recordings, name, monkeypatch):
    training = TrainingSettings(batch_size=4, local_epochs=3, **SETTINGS[name])
    # A recorded optimizer has its rate in float32; these are the same there.
    rates = [2**-7, 2**-9]
    recorded = [trained(seed, training, rate=rate) for seed, rate in ((0, rates[0]), (1, rates[1]), (0, rates[0]))]
    # Four whole batches and three of 2 came in the first round, four and three in the second: one recording of each.
    assert recordings == [4, 2]
    monkeypatch.setattr(captured_steps, "is_recording_device", lambda device: False)
    single = [trained(seed, training, rate=rate) for seed, rate in ((0, rates[0]), (1, rates[1]))]
    for ours, expected in zip(recorded, [*single, single[0]], strict=True):
        # PyTorch's fused SGD rounds otherwise than the one that is not.
        assert_same(ours, expected, 1e-6 if name == "sgd" else 0.0)


class Halved(SupervisedObjective):
    """Another objective, of the same attributes."""

    def __call__(self, network, batch, step):
        return 0.5 * super().__call__(network, batch, step)


def frozen(network):
    next(network.parameters()).requires_grad_(False)


def hooked(network):
    network.conv_0.register_forward_hook(lambda module, arguments, output: 2 * output)


def told_otherwise(network):
    for module in network.modules():
        if hasattr(module, "eps"):
            module.eps = 1.0


def with_own_pass(network):
    of_class = network.forward
    network.forward = lambda images: 2 * of_class(images)


OTHERS = {
    "another objective": {"objective": lambda training: Halved(build_loss(training))},
    "a record of samples": {
        "objective": lambda training: SupervisedObjective(
            build_loss(training), DiceRecord(annotated_only=False, device=torch.device("cpu"))
        )
    },
    "a layer that is not trained": {"alter": frozen},
    "a layer that does something else": {"alter": hooked},
    "layers with another setting": {"alter": told_otherwise},
    "a network with a pass of its own": {"alter": with_own_pass},
    "float16": {"training": {"precision": "fp16"}},
    "an optimizer of one's own": {"training": {"optimizer": {"_target_": "AdamW"}}},
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_might_compute_something_else_is_not_recorded(recordings, name, monkeypatch):
    other = OTHERS[name]
    training = TrainingSettings(batch_size=4, local_epochs=3, **other.get("training", {}))
    trained(0, TrainingSettings(batch_size=4, local_epochs=3))
    assert recordings == [4]
    ours = trained(0, training, alter=other.get("alter"), objective=other.get("objective"))
    assert recordings == [4]
    monkeypatch.setattr(captured_steps, "is_recording_device", lambda device: False)
    assert_same(ours, trained(0, training, alter=other.get("alter"), objective=other.get("objective")))


class Remembering(torch.nn.Module):
    """A network that adds what it has seen, in a place of its own, to what it computes."""

    def __init__(self, place):
        super().__init__()
        self.layer = torch.nn.Conv2d(1, 2, 1)
        if place == "attribute":
            self._seen = [torch.zeros(1)]
        else:
            self.register_buffer("seen", torch.zeros(1), persistent=place == "state dict")

    def forward(self, images):
        seen = self.seen if hasattr(self, "seen") else self._seen[0]
        seen += images.detach().std()
        return self.layer(images) * seen


@pytest.mark.parametrize("place", ["state dict", "buffer that is not persistent", "attribute"])
def test_a_network_that_remembers_beside_its_state_dict_is_not_recorded(recordings, monkeypatch, place):
    """What it remembers of one site would count at the next one."""
    start = Remembering(place)
    monkeypatch.setattr(captured_steps, "start_network_of", lambda network: start)
    training = TrainingSettings(batch_size=5, local_epochs=3)

    def trained_at(site):
        network, (_, images, labels) = copy.deepcopy(start), weights(site)
        batches = SampleBatches(images, labels, 5, torch.device("cpu"))
        outcome = train(network, batches, training_objective(training), training, learning_rate=0.1, seed=0)
        return network.state_dict(), outcome

    ours = [trained_at(site) for site in (0, 1)]
    assert bool(recordings) is (place == "state dict")
    monkeypatch.setattr(captured_steps, "is_recording_device", lambda device: False)
    for site in (0, 1):
        assert_same(ours[site], trained_at(site))


def test_steps_that_fill_the_device_are_not_recorded(recordings, monkeypatch):
    monkeypatch.setattr(captured_steps, "_LAUNCHING", 1.1)
    trained(0, TrainingSettings(batch_size=4, local_epochs=3))
    assert recordings == []


def test_recordings_are_few_enough_for_the_memory(recordings, monkeypatch):
    training = TrainingSettings(batch_size=4, local_epochs=3)
    expected = [trained(0, training) for _ in range(2)]
    assert recordings == [4, 2]
    monkeypatch.setattr(captured_steps, "_kept", captured_steps._Kept())
    monkeypatch.setattr(captured_steps, "_MOST_RECORDINGS", 1)
    for ours in expected:
        assert_same(trained(0, training), ours)
    assert recordings == [4, 2, 4]


def test_another_thread_begins_when_a_network_has_its_weights(recordings, monkeypatch):
    """Threads launch beside each other on a GPU: what one has launched may not be done when another begins."""
    events = []
    copy, give_back = captured_steps._copy, captured_steps._Kept.give_back
    monkeypatch.setattr(captured_steps, "_copy", lambda *tensors: (events.append("copy"), copy(*tensors)))
    monkeypatch.setattr(captured_steps, "synchronise", lambda device: events.append("wait"))
    monkeypatch.setattr(captured_steps._Kept, "give_back", lambda *of: (events.append("give back"), give_back(*of)))
    trained(0, TrainingSettings(batch_size=4, local_epochs=1))
    assert events[-3:] == ["copy", "wait", "give back"]


def test_what_an_objective_compares_with_stays_its_own(recordings):
    """Another site's round writes over what the recording reads."""
    training = TrainingSettings(batch_size=4, local_epochs=1)
    first, second = (ProximalPenalty(0.5, received_network(NETWORK, weights(seed)[0])) for seed in (2, 1))
    before = [value.clone() for value in first.reference]
    for seed, penalty in enumerate((first, second)):
        trained(seed, training, objective=lambda asked, added=penalty: Sum(training_objective(asked), added))
    assert recordings == [4]
    assert all(map(torch.equal, first.reference, before))


def test_gradients_of_two_networks_are_clipped_apart(recordings):
    training = TrainingSettings(batch_size=4, gradient_clipping=0.1)
    _, images, labels = weights(0)
    batch = next(SampleBatches(images, labels, 4, torch.device("cpu")).epoch(torch.Generator().manual_seed(0)))
    both = with_second_network(described_network(NETWORK, seed=0), described_network(NETWORK, seed=1))
    objective = Sum(SupervisedObjective(build_loss(training)), ProximalPenalty(5.0, both))
    with torch.no_grad():
        for parameter in both.parameters():
            parameter.add_(0.1)
    recorded, single = network_copy(both), network_copy(both)
    steps = captured_steps.CapturedSteps(recorded, objective, training)
    steps.begin(recorded, objective)
    steps.set_learning_rate(2**-7)
    steps.step(batch, Step(0, 0, 1))
    steps.end(recorded)
    optimizer = build_optimizer(single, training, 2**-7)
    SingleSteps(single, objective, optimizer, loss_scaler(single, "fp32"), 0.1).step(batch, Step(0, 0, 1))
    for name, value in single.state_dict().items():
        assert torch.equal(recorded.state_dict()[name], value), name


def test_what_was_stopped_in_the_middle_is_not_used_again(recordings):
    training = TrainingSettings(batch_size=4, local_epochs=3)
    expected = trained(0, training)
    asked = iter([False] * 5 + [True])
    with pytest.raises(TrainingStopped):
        trained(1, training, should_stop=lambda: next(asked))
    assert_same(trained(0, training), expected)


def test_trainings_at_the_same_time_have_a_network_each(recordings):
    training = TrainingSettings(batch_size=4, local_epochs=3)
    expected = [trained(seed, training) for seed in (0, 1)]
    within = []

    def train_another():
        if not within:
            within.append(None)
            within[0] = trained(1, training)
        return False

    assert_same(trained(0, training, should_stop=train_another), expected[0])
    assert_same(within[0], expected[1])


# Adam makes large steps of small gradients, so that other last bits of a penalty or a norm grow.
ON_GPU = {
    "adam": {},
    "sgd": {"optimizer": "sgd", "momentum": 0.9},
    "clipped": {"optimizer": "sgd", "gradient_clipping": 0.1},
    "near the received model": {"optimizer": "sgd", "proximal_weight": 0.5, "loss": "ce_dice"},
}


@GPU
@pytest.mark.parametrize("name", ON_GPU)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_on_a_gpu_they_train_what_single_steps_train(name, precision, monkeypatch):
    monkeypatch.setattr(captured_steps, "_LAUNCHING", 0.0)
    monkeypatch.setattr(captured_steps, "_kept", captured_steps._Kept())
    training = TrainingSettings(batch_size=4, local_epochs=3, precision=precision, **ON_GPU[name])
    recorded = [trained(seed, training) for seed in (0, 1, 0)]
    monkeypatch.setattr(captured_steps, "is_recording_device", lambda device: False)
    for ours, seed in zip(recorded, (0, 1, 0), strict=True):
        single = trained(seed, training)
        assert ours[1].mean_loss == pytest.approx(single[1].mean_loss, abs=0.01)
        # Sums on a GPU have no order.
        noise = distance(single[0], trained(seed, training)[0])
        assert distance(ours[0], single[0]) <= 3 * noise + 0.05 * distance(single[0], weights(seed)[0])


def distance(one, other):
    """Mean absolute difference of two models' weights."""
    pairs = [(value.double(), other[name].double()) for name, value in one.items() if "num_" not in name]
    return float(torch.cat([(one - other).abs().flatten() for one, other in pairs]).mean())
