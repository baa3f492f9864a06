import copy
import copyreg

import pytest
import torch
from torch import nn

from fedannot.custom.networks.building import build_classifier, build_network
from fedannot.custom.networks.copying import NetworkTemplate, network_copy
from fedannot.custom.networks.devices import ready_to_compute


class Referring(nn.Module):
    """Two names for one layer, one tensor for two layers, a list of layers that is not registered, and hooks."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 2, 3)
        self.second = nn.Conv2d(1, 2, 3)
        self.second.weight = self.first.weight
        self.order = [self.second, self.first]
        self.seen, self.settings = [], {"scale": [2.0]}
        self.first.register_forward_hook(lambda layer, inputs, output: output * 3)
        self.register_buffer("mean", torch.tensor([1.0, 2.0]))

    def forward(self, image):
        self.seen.append(len(self.seen))
        return sum(layer(image) for layer in self.order) * self.settings["scale"][0] + self.mean.sum()


class Counted(nn.Module):
    """A module that says itself how it is copied."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.copies = 0

    def __deepcopy__(self, memo):
        twin = Counted()
        twin.load_state_dict(self.state_dict())
        twin.copies = self.copies + 1
        return twin


class Dynamic(nn.Linear):
    """A module whose own lookup of attributes says how it is copied."""

    def __getattr__(self, name):
        return (lambda memo: Counted()) if name == "__deepcopy__" else super().__getattr__(name)


class Registered(nn.Linear):
    """A module of a type for which Python's table says how it is copied."""


class Hashed(nn.Linear):
    """A module that a dictionary finds by one of its attributes."""

    def __hash__(self):
        return hash(self.in_features)


class Keyed(nn.Module):
    """A module with a dictionary whose key is a layer."""

    def __init__(self):
        super().__init__()
        self.layer = Hashed(2, 2)
        self.scales = {self.layer: 2.0}


class Watching(nn.Module):
    """A module whose own method is a hook of its layer, and one tensor with two names."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.calls = 0
        self.layer.register_forward_hook(self.count)
        self.register_buffer("mean", torch.zeros(2))
        self.register_buffer("same_mean", self.mean)

    def count(self, layer, inputs, output):
        self.calls += 1

    def forward(self, image):
        return self.layer(image) + self.mean


@pytest.fixture
def image():
    return torch.rand(2, 1, 16, 16, generator=torch.Generator().manual_seed(0))


def check_same_and_apart(network, twin, image):
    assert [name for name, _ in twin.named_modules()] == [name for name, _ in network.named_modules()]
    assert [type(part) for part in twin.modules()] == [type(part) for part in network.modules()]
    assert {id(part) for part in twin.modules()}.isdisjoint(id(part) for part in network.modules())
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    assert torch.equal(twin.eval()(image), network.eval()(image))
    with torch.no_grad():
        for tensor in twin.state_dict().values():
            tensor.add_(1)
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())


def test_the_copy_of_a_network_is_that_of_the_general_copy(image):
    network = build_network(features=(4, 4, 4, 4, 4, 4)).to(memory_format=torch.channels_last)
    network.get_parameter("conv_0.conv_0.conv.weight").requires_grad_(False)
    twin, expected = network_copy(network), copy.deepcopy(network)
    for part, other in zip(twin.modules(), expected.modules(), strict=True):
        assert list(vars(part)) == list(vars(other))
        assert {name: type(value) for name, value in vars(part).items()} == {
            name: type(value) for name, value in vars(other).items()
        }
        assert part.extra_repr() == other.extra_repr()
    for tensor, other in zip(twin.parameters(), expected.parameters(), strict=True):
        assert torch.equal(tensor, other)
        assert (tensor.stride(), tensor.requires_grad) == (other.stride(), other.requires_grad)
    check_same_and_apart(network, twin, image)


def test_references_within_a_network_are_kept(image):
    network = Referring()
    twin = network_copy(network)
    assert twin.second.weight is twin.first.weight
    assert twin.order == [twin.second, twin.first]
    check_same_and_apart(network, twin, image)
    twin.settings["scale"][0] = 5.0
    twin.first.register_forward_hook(lambda layer, inputs, output: output)
    assert network.settings == {"scale": [2.0]}
    assert (len(network.first._forward_hooks), len(twin.first._forward_hooks)) == (1, 2)
    assert (network.seen, twin.seen) == ([0], [0])


def test_a_module_that_says_how_it_is_copied_is_asked():
    network = nn.Sequential(Counted(), nn.ReLU())
    assert network_copy(network)[0].copies == 1
    # Its weights are flattened again by its own way of being restored.
    recurrent = nn.Sequential(nn.LSTM(2, 3))
    twin = network_copy(recurrent)
    assert twin[0]._flat_weights[0] is twin[0].weight_ih_l0


def test_other_ways_to_say_how_a_module_is_copied_are_taken(monkeypatch):
    assert isinstance(network_copy(nn.Sequential(Dynamic(2, 2)))[0], Counted)
    own = nn.Linear(2, 2)
    own.__dict__["__deepcopy__"] = lambda memo: Counted()
    assert isinstance(network_copy(nn.Sequential(own))[0], Counted)
    monkeypatch.setitem(copyreg.dispatch_table, Registered, lambda module: (Counted, ()))
    assert isinstance(network_copy(nn.Sequential(Registered(2, 2)))[0], Counted)


def test_a_layer_that_is_found_by_its_attributes_is_the_key_of_the_copy():
    twin = network_copy(Keyed())
    assert twin.scales == {twin.layer: 2.0}


@pytest.mark.parametrize(
    "change",
    [
        nn.utils.parametrizations.weight_norm,
        nn.utils.parametrizations.spectral_norm,
        nn.utils.parametrizations.orthogonal,
        lambda layer: nn.Sequential(layer, nn.LazyLinear(3)),
    ],
)
def test_changed_layers_are_copied_as_by_the_general_copy(change):
    network = nn.Sequential(change(nn.Linear(2, 2)), nn.ReLU())
    twin, expected = network_copy(network).eval(), copy.deepcopy(network).eval()
    assert [type(part) for part in twin.modules()] == [type(part) for part in expected.modules()]
    values = torch.tensor([[1.0, -2.0]])
    torch.manual_seed(0)
    result = twin(values)
    torch.manual_seed(0)
    assert torch.equal(result, expected(values))
    before = [tensor.clone() for tensor in network.parameters() if not nn.parameter.is_lazy(tensor)]
    with torch.no_grad():
        for tensor in twin.parameters():
            tensor.add_(1)
    after = [tensor for tensor in network.parameters() if not nn.parameter.is_lazy(tensor)]
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_a_hook_that_is_a_method_is_that_of_the_copy():
    network = Watching()
    twin = network_copy(network)
    twin(torch.ones(1, 2))
    assert (network.calls, twin.calls) == (0, 1)
    assert twin.same_mean is twin.mean
    assert twin.mean is not network.mean


def with_hook(network):
    network[0].register_forward_hook(lambda layer, inputs, output: output)


def with_gradient(network):
    network[0].weight.grad = torch.ones_like(network[0].weight)


def with_tied_weights(network):
    network[2].weight = network[0].weight


def with_common_memory(network):
    network[2].weight = nn.Parameter(network[0].weight.detach())


def with_hook_of_a_tensor(network):
    network[0].weight.register_hook(lambda gradient: gradient)


def with_named_tensor(network):
    network[0].weight.role = "first"


def with_function(network):
    network[0].scale = torch.relu


def with_own_loading(network):
    network[0].register_load_state_dict_post_hook(lambda module, keys: None)


@pytest.mark.parametrize(
    "change",
    [
        with_hook,
        with_gradient,
        with_tied_weights,
        with_common_memory,
        with_hook_of_a_tensor,
        with_named_tensor,
        with_function,
        with_own_loading,
    ],
)
def test_a_network_with_more_than_values_is_left_to_the_general_copy(change):
    network = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    assert NetworkTemplate(network).is_plain
    change(network)
    template = NetworkTemplate(network)
    assert not template.is_plain
    assert template.with_weights(network.state_dict()) is None


def test_modules_with_slots_or_their_own_loading_are_left_to_the_general_copy():
    class Slotted(nn.Linear):
        __slots__ = ("kept",)

    class Loading(nn.Linear):
        def _load_from_state_dict(self, *args, **kwargs):
            super()._load_from_state_dict(*args, **kwargs)

    assert not any(NetworkTemplate(nn.Sequential(kind(2, 2))).is_plain for kind in (Slotted, Loading))


@pytest.mark.parametrize(
    "network",
    [
        ready_to_compute(build_network(features=(4, 4, 4, 4, 4, 4), upsample="nontrainable")),
        ready_to_compute(build_classifier(1, 3, 10, (4, 4, 4, 4), "small")),
    ],
    ids=["BasicUNet", "ResNet"],
)
def test_other_weights_are_those_that_pytorch_loads(network):
    template = NetworkTemplate(network)
    assert template.is_plain
    generator = torch.Generator().manual_seed(3)
    params = {
        name: torch.rand(value.shape, generator=generator) if value.is_floating_point() else value + 7
        for name, value in network.state_dict().items()
    }
    before = {name: value.clone() for name, value in network.state_dict().items()}
    first, second, expected = template.with_weights(params), template.with_weights(params), copy.deepcopy(network)
    expected.load_state_dict(params)
    images = torch.rand(2, 1, 32, 32, generator=generator)
    for twin in (first, second):
        assert list(twin.state_dict()) == list(expected.state_dict())
        for value, other in zip(twin.state_dict().values(), expected.state_dict().values(), strict=True):
            assert torch.equal(value, other)
            assert (value.stride(), value.dtype) == (other.stride(), other.dtype)
        # Trained in place, neither changes the other, the template or what was received.
        twin.train()(images).sum().backward()
        torch.optim.SGD(twin.parameters(), 1.0).step()
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert all(torch.equal(value, params[name]) for name, value in template.with_weights(params).state_dict().items())
    for one, other in zip(first.state_dict().values(), second.state_dict().values(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    "change",
    [
        lambda params: params.pop("0.bias"),
        lambda params: params.update(more=torch.zeros(1)),
        lambda params: params.update({"0.bias": torch.zeros(1, 2)}),
        lambda params: params.update({"0.bias": torch.zeros(2, dtype=torch.float64)}),
        lambda params: params.update({"0.bias": torch.zeros(2).to_sparse()}),
    ],
)
def test_weights_that_differ_in_form_are_left_to_pytorch(change):
    network = nn.Sequential(nn.Linear(2, 2))
    params = dict(network.state_dict())
    change(params)
    assert NetworkTemplate(network).with_weights(params) is None
