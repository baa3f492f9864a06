"""FedBN at a site: its own normalisation layers, and those that were received sent back."""

from pathlib import Path

from support.personal import DATA, averaged_alone, changed, received, same, site_part, train_round, values
from support.site_views import HandmadeSite
from torch import nn

from fedannot.custom.methods.fedbn.normalisation import normalisations


def entries_of_batch_norm(network: nn.Module) -> set[str]:
    return {
        f"{name}.{entry}"
        for name, module in network.named_modules()
        if isinstance(module, nn.BatchNorm2d)
        for entry in module.state_dict()
    }


def test_normalisation_goes_back_as_it_came_and_all_else_is_trained(tmp_path: Path) -> None:
    method = site_part("fedbn")
    network = received(method)
    before, normalisation = values(network), entries_of_batch_norm(network)
    assert normalisation
    train_round(method, network, tmp_path)
    assert changed(before, values(network)) == set(before) - normalisation


def test_the_own_model_of_one_round_is_what_training_makes_of_the_received_one(tmp_path: Path) -> None:
    method = site_part("fedbn")
    network = received(method)
    train_round(method, network, tmp_path, 1)
    view = HandmadeSite(tmp_path, DATA).view(method, 1)
    expected = averaged_alone(method.settings, received(method), view.training_seed)
    assert same(values(method.model_in_use(network, view)), expected)


def test_a_site_goes_on_with_its_own_normalisation(tmp_path: Path) -> None:
    method = site_part("fedbn")
    train_round(method, received(method), tmp_path, 1)
    own = method.model_in_use(received(method), HandmadeSite(tmp_path, DATA).view(method, 1))
    expected = averaged_alone(method.settings, own, HandmadeSite(tmp_path, DATA).view(method, 2).training_seed)
    network = received(method)
    train_round(method, network, tmp_path, 2)
    assert same(values(method.model_in_use(network, HandmadeSite(tmp_path, DATA).view(method, 2))), expected)


def test_without_normalisation_it_is_federated_averaging(tmp_path: Path) -> None:
    method = site_part("fedbn")
    made = [nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 2, 1)) for _ in range(2)]
    made[1].load_state_dict(made[0].state_dict())
    train_round(method, made[0], tmp_path)
    seed = HandmadeSite(tmp_path, DATA).view(method, 2).training_seed
    assert same(values(made[0]), averaged_alone(method.settings, made[1], seed))


def test_layers_of_normalisation_are_told_by_their_classes() -> None:
    """Also those without a common base; a constraint of weights is none of them, whatever its name."""
    layers = [nn.BatchNorm2d(2), nn.GroupNorm(1, 2), nn.LayerNorm(2), nn.InstanceNorm2d(2), nn.RMSNorm(2)]
    constrained = nn.utils.parametrizations.spectral_norm(nn.Conv2d(2, 2, 1))
    assert normalisations(nn.Sequential(*layers, constrained, nn.Linear(2, 2))) == layers
