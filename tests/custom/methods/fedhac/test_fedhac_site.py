"""FedHAC at a site: its loss, what it reports, and corrections that begin with the given annotations again."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support.kept_masks import with_first_case_kept
from support.pictures import make_data
from support.site_views import HandmadeSite
from support.volumes import make_volume
from torch import nn

from fedannot.custom.corrections.case_states import revert
from fedannot.custom.corrections.store import CorrectionStore
from fedannot.custom.data.description import VolumeDescription
from fedannot.custom.data.phantoms.lesion_images import LesionImages
from fedannot.custom.data.phantoms.writer import write_phantom_federation
from fedannot.custom.data.site_data import SiteData
from fedannot.custom.interface.method import SiteMethod
from fedannot.custom.methods.fedavg.site import FedAvgSite
from fedannot.custom.methods.fedhac.server import HAS_PROTOTYPES
from fedannot.custom.methods.fedhac.settings import FedHACSettings
from fedannot.custom.methods.fedhac.site import FedHACSite
from fedannot.custom.methods.fedia.correction import confident_classes
from fedannot.custom.methods.fedia.settings import FedIASettings
from fedannot.custom.methods.fedia.site import FedIASite
from fedannot.custom.networks.described import described_network
from fedannot.custom.networks.devices import ready_to_compute
from fedannot.custom.task_names import CORRECT_ANNOTATIONS, ESTIMATE_COMPLETENESS
from fedannot.custom.training.batch import Batch
from fedannot.custom.training.objectives import Step

NETWORK = {"features": (4, 4, 8, 8, 8, 4), "num_classes": 2}
COMMON = {
    "rounds": 9,
    "warmup_rounds": 1,
    "network": NETWORK,
    "training": {"loss": "dice", "batch_size": 3, "local_epochs": 2},
}
PLAIN = {"prototype_weight": 0.0, "proximity_weight": 0.0}
DATA = make_data([(1, 2), (1,), (2,), ()])
STEP = Step(0, 0, 1)


def method_of(**settings: Any) -> FedHACSite:
    return FedHACSite(FedHACSettings.model_validate(COMMON | settings))


def network_of(method: SiteMethod) -> nn.Module:
    torch.manual_seed(1)
    return ready_to_compute(described_network(method.settings.network))


def trained(method: SiteMethod, folder: Path, **message: Any) -> dict[str, torch.Tensor]:
    network = network_of(method)
    method.train(network, HandmadeSite(folder, DATA).view(method, 2, message))
    return network.state_dict()


def is_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


def test_without_its_weights_it_trains_as_federated_averaging_and_fedia_bit_for_bit(tmp_path: Path) -> None:
    plain = trained(method_of(**PLAIN), tmp_path / "plain")
    fedia = FedIASettings.model_validate(COMMON)
    assert is_same(plain, trained(FedIASite(fedia), tmp_path / "fedia"))
    assert is_same(plain, trained(FedAvgSite(fedia), tmp_path / "fedavg"))


def test_each_term_changes_the_training_and_the_server_ends_the_prototypes(tmp_path: Path) -> None:
    plain = trained(method_of(**PLAIN), tmp_path / "plain")
    near = trained(method_of(prototype_weight=0.0), tmp_path / "near")
    whole = trained(method_of(), tmp_path / "whole")
    assert not is_same(near, plain)
    assert not is_same(whole, near)
    assert is_same(whole, trained(method_of(), tmp_path / "again"))
    assert is_same(whole, trained(method_of(), tmp_path / "on", **{HAS_PROTOTYPES: True}))
    assert is_same(near, trained(method_of(), tmp_path / "off", **{HAS_PROTOTYPES: False}))


def gradient(method: FedHACSite, network: nn.Module, objective: Any) -> list[torch.Tensor]:
    batch = Batch(
        torch.cat([case.image for case in DATA.cases]),
        torch.stack([case.label for case in DATA.cases]),
        torch.arange(4),
    )
    return list(torch.autograd.grad(objective(network, batch, STEP), list(network.parameters())))


def test_the_proximal_gradient_is_zero_at_first_and_then_twice_the_weight_of_the_way(tmp_path: Path) -> None:
    """0.02 (w − w_t) with μ = 0.01, from the received parameters w_t."""
    near, plain = method_of(prototype_weight=0.0), method_of(**PLAIN)
    network = network_of(near).eval()
    received = [parameter.detach().clone() for parameter in network.parameters()]
    site = HandmadeSite(tmp_path, DATA)
    objectives = [(method, method.objective(network, site.view(method), None)) for method in (near, plain)]
    first = [gradient(method, network, objective) for method, objective in objectives]
    assert all(torch.equal(*pair) for pair in zip(*first, strict=True))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.5)
    with_term, without = (gradient(method, network, objective) for method, objective in objectives)
    for one, other, parameter, start in zip(with_term, without, network.parameters(), received, strict=True):
        torch.testing.assert_close(one - other, 0.02 * (parameter.detach() - start), atol=1e-5, rtol=0)


def test_whole_volumes_are_trained_on_in_patches(tmp_path: Path) -> None:
    label = torch.zeros(32, 16, 16)
    label[4:9, 4:9, 4:9] = 1
    description = VolumeDescription(classes=("lesion",), labels={0: 0, 1: 1})
    method = method_of(
        network=NETWORK | {"spatial_dims": 3, "num_classes": 1},
        training={"loss": "dice", "batch_size": 2, "patch": (32, 16, 16), "local_steps": 1},
    )
    network = network_of(method)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    site = HandmadeSite(tmp_path, SiteData("site-1", (make_volume(label),), description, ()))
    outcome = method.train(network, site.view(method, 2)).outcome
    # The constant of one class of two is in the loss, and not in the Dice loss that is followed.
    assert outcome.dice_loss is not None
    assert outcome.dice_loss + 0.005 <= outcome.mean_loss < 2
    assert not is_same(before, network.state_dict())


class Certainty(nn.Module):
    """Predicts a lesion everywhere with one probability."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.logit = nn.Parameter(torch.logit(torch.tensor(probability)))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        result = torch.zeros_like(images) + self.logit
        return torch.cat((torch.zeros_like(result), result), dim=1)


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("federation") / "data"
    write_phantom_federation(folder, LesionImages(), num_sites=1, seed=0, images_per_site=3, test_images=1)
    return folder / "site-1"


def asked(method: FedHACSite, site: HandmadeSite, number: int, probability: float) -> Any:
    view = site.view(method, number)
    assert method.answer(CORRECT_ANNOTATIONS, Certainty(probability), view).fields == {"has_corrected": True}
    return view.load("training").labels.clone()


def test_a_later_correction_begins_with_the_given_annotations(tmp_path: Path, data_folder: Path) -> None:
    """What was added before round 5, and is not predicted with confidence before round 8, is background again."""
    method, site = method_of(network=NETWORK | {"num_classes": 1}), HandmadeSite(tmp_path, data_folder=data_folder)
    given = site.view(method, 5).load("training").labels.clone()
    assert (asked(method, site, 5, 0.9) == 1).all()
    assert method.training_flags(site.view(method, 6)) == {"has_corrected": True}
    assert torch.equal(asked(method, site, 8, 0.8), given)
    assert torch.equal(site.view(method, 9).load_given().labels, given)
    # A task that comes again in its round, after a restart, finds the work done.
    assert torch.equal(asked(method, site, 8, 0.9), given)
    # In the record of the rounds before nothing has changed.
    assert (site.view(method, 7).load("training").labels == 1).all()
    assert [text.split(":")[0] for text in site.said] == ["Before round 5", "Before round 8"]


def test_what_the_data_manager_has_reverted_stays_so(tmp_path: Path, data_folder: Path) -> None:
    method, site = method_of(network=NETWORK | {"num_classes": 1}), HandmadeSite(tmp_path, data_folder=data_folder)
    given = site.view(method, 5).load("training").labels.clone()
    asked(method, site, 5, 0.9)
    revert(site.view(method, 5).corrections.folder_of(5), ["lesion_001.png"])
    labels = asked(method, site, 8, 0.9)
    names = [case.name for case in site.view(method, 8).load_given().cases]
    changed = {name for name, one, other in zip(names, labels, given, strict=True) if not torch.equal(one, other)}
    assert changed == set(names) - {"lesion_001.png"}
    stored = CorrectionStore(site.run_folder, 8).latest()
    assert stored is not None
    assert {Path(name).name for name in stored.corrections.reverted} == {"lesion_001.png"}


def test_a_mask_that_a_review_has_kept_stays_in_every_correction(tmp_path: Path, data_folder: Path) -> None:
    method = method_of(network=NETWORK | {"num_classes": 1})
    site = HandmadeSite(tmp_path, data_folder=with_first_case_kept(data_folder, tmp_path))
    given = site.view(method, 5).load_given().labels.clone()
    for round_number in (5, 8):
        labels = asked(method, site, round_number, 0.9)
        assert [torch.equal(one, other) for one, other in zip(labels, given, strict=True)] == [True, False, False]


def test_background_with_confidence_becomes_foreground_and_nothing_else() -> None:
    mask, probability = torch.tensor([[0, 1], [1, 0]]), torch.tensor([[0.9, 0.15], [0.9, 0.5]])
    logits = torch.stack((torch.zeros(2, 2), probability.logit()))[None]
    added = confident_classes(0.8)(logits)[0]
    assert torch.where(mask == 0, added, mask).tolist() == [[1, 1], [1, 0]]


@pytest.mark.parametrize("correction", [True, False])
def test_the_estimate_is_two_sums_and_flags_are_of_corrections(
    tmp_path: Path, data_folder: Path, correction: bool
) -> None:
    method = method_of(network=NETWORK | {"num_classes": 1}, correction=correction)
    site = HandmadeSite(tmp_path, data_folder=data_folder)
    answer = method.answer(ESTIMATE_COMPLETENESS, Certainty(0.9), site.view(method, 2))
    counted = {f"num_{name}_lesions" for name in ("annotated", "predicted")}
    assert set(answer.fields) == {"num_samples", "num_patients", *counted}
    assert answer.fields["num_predicted_lesions"] == 3
    assert method.training_flags(site.view(method, 2)) == ({"has_corrected": False} if correction else {})


def test_a_site_with_few_patients_reports_no_lesions(tmp_path: Path) -> None:
    method, few = method_of(), HandmadeSite(tmp_path, make_data([(1,)] * 4, units=["p", "p", "q", "q"]))
    answer = method.answer(ESTIMATE_COMPLETENESS, Certainty(0.9), few.view(method, 2))
    assert (answer.fields, answer.samples) == ({"num_samples": 4}, {})
