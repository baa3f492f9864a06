"""FedGP without the graph network at a site: doubtful labels are left out, and centroids are the last layer."""

import shlex
from collections.abc import Collection
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from ....transforms.array_types import Floats
from ...corrections.kinds import CasesRelabelled
from ...corrections.model import Provenance
from ...corrections.targets import AS_GIVEN, Targets, case_files
from ...data.datalist import TRAINING
from ...data.site_data import LoadedCase, SiteData
from ...evaluation.inference import Inference, evaluating
from ...interface.views import SiteView, Trained
from ...networks.hashing import model_hash
from ...outbound.fields import MINIMUM_CASES
from ..auto.protected_cases import reviewed_names
from ..fedavg.site import FedAvgSite
from ..fedcorr.corrected_cases import class_corrections
from ..fedfixer.sample_scores import kept_samples
from ..fedhac.prototypes import HeadInputs
from ..personal.kept_module import keep_module, restore_module
from .centroid_head import CentroidObjective, find_head, fixed
from .centroids import OwnCentroids
from .label_cleaning import Cleaning, cleaned_labels
from .server import KNOWN_CLASSES
from .settings import FedGPSettings

CENTROID_FOLDER = "class_centroids"


class FedGPSite(FedAvgSite):
    """Trains with class centroids as the last layer, after the warm-up without doubtful labels; files never change.

    Its own centroids are kept in the run's folder from round to round, and so are its corrections. The network's own
    last layer stays as it was received, so that nothing of the centroids is in a model that leaves.
    """

    settings: FedGPSettings

    def targets(self, site: SiteView) -> Targets:
        """Return that labels count as they are loaded: corrections are in them already."""
        del site
        return AS_GIVEN

    def train(self, network: nn.Module, site: SiteView) -> Trained:
        """Train the network in place, but its last layer; class means of its features go with it."""
        data, settings = site.load(TRAINING), self.settings
        head = network.get_submodule(find_head(network, settings.network))
        assert isinstance(head, nn.Linear)
        own = OwnCentroids(head.out_features, head.in_features)
        restore_module(own, site, CENTROID_FOLDER)
        own.to(head.weight.device)
        known = set(site.message.get(KNOWN_CLASSES, ()))
        cleaning, used = None, None
        if site.round_number > settings.warmup_rounds:
            cleaning = self._cleaned(network, head, own, known, data, site)
            used = self._used(cleaning, data, site)
            self._record(cleaning, network, data, site)
            used = None if bool(used.all()) else used
        objective = CentroidObjective(
            self.objective(network, site, None),
            head,
            own,
            known,
            norm_weight=settings.norm_weight,
            trusted=None if cleaning is None else torch.from_numpy(cleaning.trusted),
            unlikely=None if cleaning is None else torch.from_numpy(cleaning.unlikely),
            negative_weight=settings.negative_weight,
        )
        with fixed(head):
            batches = self.batches(data, network, Targets(used=used))
            outcome = self.train_part(network, objective, batches, site, seed=site.training_seed)
        own.finish_round()
        keep_module(own, site, CENTROID_FOLDER, settings.keep_rounds)
        fields = own.report(data.units)
        if not fields:
            site.info(f"Round {site.round_number}: too few patients for a class centroid to leave the site.")
        return Trained(outcome, fields, None if cleaning is None else outcome.units_of(data.units))

    def _cleaned(
        self,
        network: nn.Module,
        head: nn.Linear,
        own: OwnCentroids,
        known: Collection[int],
        data: SiteData,
        site: SiteView,
    ) -> Cleaning:
        """What the received model and both heads make of the labels."""
        settings, folder = self.settings, site.locate().folder
        received = head.weight.detach()
        rows = own.or_else(received)
        shared = torch.stack([received[label] if label in known else row for label, row in enumerate(rows)])
        decided = reviewed_names(site, data) | site.corrections.reverted
        return cleaned_labels(
            features_of(network, head, data.cases, Inference.of(settings)),
            data.labels.numpy().astype(np.int64),
            (shared.double().cpu().numpy(), rows.double().cpu().numpy()),
            settled=np.array([case_files(case, folder)[0] in decided for case in data.cases]),
            core_share=settings.core_share,
            confidence=settings.pseudo_label_confidence,
            alpha=settings.propagation,
            num_neighbours=settings.neighbours,
        )

    def _used(self, cleaning: Cleaning, data: SiteData, site: SiteView) -> torch.Tensor:
        """Which samples are trained on: those that say anything, and others until they are of three patients."""
        says = cleaning.trusted | (cleaning.unlikely.any(axis=1) & (self.settings.negative_weight > 0))
        used = kept_samples(
            torch.from_numpy(np.where(says, -1.0, 1.0 + cleaning.losses)),
            torch.ones(len(says), dtype=torch.bool),
            data.units,
            patients=max(MINIMUM_CASES, site.floor.patients),
            samples=site.floor.samples_per_step,
        )
        # What comes along has its given label.
        cleaning.trusted[used.numpy() & ~says] = True
        return used

    def _record(self, cleaning: Cleaning, network: nn.Module, data: SiteData, site: SiteView) -> None:
        """Keep which labels do not count in this round, as a record that can be looked at and reverted."""
        folder, left_out = site.locate().folder, ~cleaning.trusted
        probabilities = Inference.of(self.settings).class_probabilities(network, data.cases)
        made = class_corrections(
            data,
            data.labels,
            probabilities,
            folder,
            Provenance.now(self.settings.method, site.round_number, model_hash(network.state_dict())),
            CasesRelabelled(noise_level=float(left_out.mean())),
            site.corrections.reverted,
            left_out=frozenset(np.flatnonzero(left_out).tolist()),
        )
        stored = site.corrections.write(made)
        site.info(
            f"Round {site.round_number}: of {len(data.cases)} labels {int(left_out.sum())} do not count. To look at "
            f"them or to revert: fedannot corrections show {shlex.quote(str(stored.folder))}"
        )


def features_of(network: nn.Module, head: nn.Linear, cases: Collection[LoadedCase], inference: Inference) -> Floats:
    """Return what the last layer gets of every sample, ``(N, D)`` float64; what is not finite counts as 0.

    Args:
        network: the model; it is run in evaluation mode.
        head: its last layer.
        cases: the cases.
        inference: how the model is run; images are not mirrored.
    """
    plain, parts = replace(inference, mirroring=False), []
    for batch in plain.batches(tuple(cases)):
        with evaluating(network), HeadInputs([head]) as inputs:
            plain.logits(network, batch.images)
        parts.append(inputs.features.double().cpu().numpy())
    features: Floats = np.nan_to_num(np.concatenate(parts), nan=0.0, posinf=0.0, neginf=0.0)
    return features
