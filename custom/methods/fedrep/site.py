"""FedRep at a site."""

import copy

from torch import nn

from ...components.component import ComponentError
from ...interface.views import SiteView
from ...networks.building import layer_blocks
from ...networks.parts import with_part
from ...seeding import derive_seed
from ...training.batch import Batches
from ...training.loop import TrainingOutcome
from ...training.objectives import training_objective
from ..personal.site import PersonalSite
from .settings import FedRepSettings


class FedRepSite(PersonalSite):
    """FedRep (Collins et al., *Exploiting Shared Representations for Personalized Federated Learning*, ICML 2021).

    The last block of the network, the head, is personal. In every round the head is trained first, with the received
    representation fixed, then the representation with that head fixed. The shared network's own head stays as it was
    received, so that nothing of the personal one is in a result.
    """

    settings: FedRepSettings

    def start(self, shared: nn.Module, seed: int) -> nn.Module:
        """Return the head of the received network."""
        del seed
        head = layer_blocks(shared)[-1]
        if head in dict(shared.named_parameters()):
            raise ComponentError(
                f"The last block of {type(shared).__name__} is the parameter {head!r}, expected a layer."
            )
        return copy.deepcopy(shared.get_submodule(head))

    def train_both(self, shared: nn.Module, personal: nn.Module, batches: Batches, site: SiteView) -> TrainingOutcome:
        """Train the head, then the representation."""
        together = self.local_model(shared, personal)
        head = {id(parameter) for parameter in personal.parameters()}
        trained = [parameter for parameter in together.parameters() if parameter.requires_grad]

        def train_alone(part: str, epochs: int | None = None) -> TrainingOutcome:
            for parameter in trained:
                parameter.requires_grad_((id(parameter) in head) == (part == "head"))
            objective = training_objective(self.settings.training)
            seed = derive_seed(site.training_seed, part)
            return self.train_part(together, objective, batches, site, seed=seed, part=part, epochs=epochs)

        train_alone("head", self.settings.head_epochs)
        outcome = train_alone("representation")
        for parameter in trained:
            parameter.requires_grad_(True)
        return outcome

    def local_model(self, shared: nn.Module, personal: nn.Module) -> nn.Module:
        """Return the shared network with the personal head; the two share their other parameters."""
        return with_part(shared, layer_blocks(shared)[-1], personal)
