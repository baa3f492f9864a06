"""Decoupled predictions at a site."""

import torch
from torch import nn

from ...global_rng import briefly_seeded_rng
from ...interface.views import SiteView
from ...seeding import derive_seed
from ...training.batch import Batch, Batches
from ...training.loop import TrainingOutcome
from ...training.objectives import Step
from ..personal.site import PersonalSite
from .adaptation import AdaptationNetwork, LocalModel
from .loss import DecoupledLoss
from .network import DecoupledNetwork
from .settings import DecoupledSettings


class DecoupledSite(PersonalSite):
    """Decoupled predictions (Gao et al., MICCAI 2022): the adaptation network is personal, all else shared."""

    settings: DecoupledSettings

    def start(self, shared: nn.Module, seed: int) -> nn.Module:
        """Return an adaptation network that knows nothing; the warm-up brings it near the identity."""
        del shared
        network = self.settings.network
        with briefly_seeded_rng(seed):
            return AdaptationNetwork(
                self.settings.adaptation,
                num_outputs=network.num_classes + 1,
                latent=network.latent,
                features=network.features[-1],
                in_channels=network.in_channels,
                spatial_dims=network.spatial_dims,
            )

    def train_both(self, shared: nn.Module, personal: nn.Module, batches: Batches, site: SiteView) -> TrainingOutcome:
        """Train both networks together, by Eq. 7 in the warm-up and by Eq. 8 after it."""
        assert isinstance(shared, DecoupledNetwork)
        assert isinstance(personal, AdaptationNetwork)
        settings = self.settings
        loss = DecoupledLoss(
            is_warmup=site.round_number <= settings.warmup_rounds,
            trace_weight=settings.trace_weight,
            divergence_weight=settings.divergence_weight,
            exponent=settings.noise_exponent,
        )
        generator = torch.Generator().manual_seed(derive_seed(site.training_seed, "latent codes"))

        def objective(network: nn.Module, batch: Batch, step: Step) -> torch.Tensor:
            del network, step
            return loss(shared, personal, batch.images, batch.labels, generator)

        both = nn.ModuleList([shared, personal])
        return self.train_part(both, objective, batches, site, seed=site.training_seed)

    def local_model(self, shared: nn.Module, personal: nn.Module) -> nn.Module:
        """Return W ⊙ p."""
        assert isinstance(shared, DecoupledNetwork)
        assert isinstance(personal, AdaptationNetwork)
        return LocalModel(shared, personal)
