"""`auto` at a site: estimates of its own annotation bias, and training on corrected annotations."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import compress
from typing import Any

from pydantic import TypeAdapter
from torch import nn

from ...corrections.kinds import BoundaryShift, Correction, MissedObjectsIgnored, ObjectsRelabelled, in_order, of_kind
from ...corrections.model import Corrections
from ...corrections.targets import case_files, with_relabelled_objects
from ...data.datalist import TRAINING
from ...data.site_data import LoadedCase, SiteData
from ...evaluation.inference import Inference
from ...interface.views import Answer, SiteView, Trained
from ...seeding import derive_seed
from ...task_names import (
    COMPARE_SCORES,
    CORRECT_ANNOTATION_BIAS,
    ESTIMATE_ANNOTATION_BIAS,
    KEEP_SCORES,
    MEASURE_BOUNDARY_PROFILE,
    MEASURE_PROFILE_ERROR,
)
from ..fedavg.site import FedAvgSite
from .scored_cases import reviewed_cases, rollback_answer, without_held_out
from .settings import AutoSettings

_ASKED: TypeAdapter[tuple[Correction, ...]] = TypeAdapter(tuple[Correction, ...])
_OF_ROLLBACK = (KEEP_SCORES, COMPARE_SCORES)
_OF_PROFILE = (MEASURE_BOUNDARY_PROFILE, MEASURE_PROFILE_ERROR)


class AutoSite(FedAvgSite):
    """Reports how it annotates when it is asked, and trains on annotations with the corrections that it is asked for.

    Corrections lie in the run's folder, and are applied in memory. Where a run is continued they are taken over.
    """

    settings: AutoSettings

    def train(self, network: nn.Module, site: SiteView) -> Trained:
        """Train on corrected annotations; without a correction this is federated averaging."""
        learnt = without_held_out(site, self.settings.held_out)
        trained = super().train(network, learnt)
        if learnt is not site and trained.trained_on is None:
            return replace(trained, trained_on=learnt.load(TRAINING).units)
        return trained

    def training_flags(self, site: SiteView) -> Mapping[str, Any]:
        """Say whether the corrections that were asked for are made."""
        return {} if site.corrections.latest() is None else {"has_undone": True}

    def answer(self, task: str, network: nn.Module, site: SiteView) -> Answer:
        """Answer what is asked of annotation bias and boundary profile, and by the rollback check; or correct."""
        if task in _OF_ROLLBACK:
            return rollback_answer(task, network, site, self.settings.held_out, self._dice)
        site = without_held_out(site, self.settings.held_out)
        if task == CORRECT_ANNOTATION_BIAS:
            self._correct(network, site)
            return Answer({"has_undone": True})
        if task in _OF_PROFILE:
            return self._profile(task, site)
        if task != ESTIMATE_ANNOTATION_BIAS:
            return super().answer(task, network, site)
        from ...annotation_bias.predicted_samples import predicted_by  # noqa: PLC0415
        from .bias_measurement import measure_bias  # noqa: PLC0415

        seed = derive_seed(site.seed, site.name, site.round_number, "channel")
        predict, data = predicted_by(network, Inference.of(self.settings)), site.load(TRAINING)
        relabelled = self._with_relabelled_objects(data, site)
        return measure_bias(predict, data, reviewed_cases(site), self.settings, seed=seed, relabelled=relabelled)

    def _profile(self, task: str, site: SiteView) -> Answer:
        """Curves of the given annotations, or how certain their boundary biases are; the model is not asked."""
        from .profile_request import ProfileRequest  # noqa: PLC0415
        from .profile_site import given_cases, profile_curves, profile_errors  # noqa: PLC0415

        request = ProfileRequest.model_validate(site.message.get("profile", {}))
        num_classes = self.settings.network.num_classes
        data = site.load(TRAINING)
        cases = given_cases(data, reviewed_cases(site))
        if task == MEASURE_BOUNDARY_PROFILE:
            return profile_curves(cases, request, num_classes, has_fixed_grid=data.description.has_fixed_grid)
        seed = derive_seed(site.seed, site.name, "profile")
        return profile_errors(cases, request, num_classes, seed=seed)

    def _with_relabelled_objects(self, data: SiteData, site: SiteView) -> list[LoadedCase] | None:
        """The cases with relabelled objects; None where none were relabelled."""
        stored = site.corrections.latest()
        if stored is None or not any(case.relabelled_objects and case.is_active for case in stored.corrections.cases):
            return None
        return with_relabelled_objects(stored, data.cases, len(data.classes), site.locate().folder)

    def _dice(self, network: nn.Module, data: SiteData) -> dict[str, float]:
        from .rollback_scores import patient_dice  # noqa: PLC0415

        return patient_dice(network, data, self.settings.network.num_classes, Inference.of(self.settings))

    def _correct(self, network: nn.Module, site: SiteView) -> None:
        asked = in_order(_ASKED.validate_python(site.message["corrections"]))
        missed = of_kind(asked, MissedObjectsIgnored)
        if missed is not None and set(missed.missed) != set(missed.ignored):
            raise ValueError(f"Expected missed and ignored fractions of the same classes, but got {missed}.")
        from .site_corrections import site_corrections  # noqa: PLC0415

        data = site.load(TRAINING)
        corrections, pixels = site_corrections(
            network,
            data,
            asked,
            data_folder=site.locate().folder,
            method=self.settings.method,
            round_number=site.round_number,
            inference=Inference.of(self.settings),
            reverted=site.corrections.reverted | self._reviewed(data, site),
        )
        site.corrections.write(corrections, pixels)
        site.info(f"Corrected before round {site.round_number}: {_in_words(corrections)}.")

    def _reviewed(self, data: SiteData, site: SiteView) -> frozenset[str]:
        """The annotations that a review has settled, and that stay as they are: all that nobody has restored since."""
        from ...annotation_bias.given_annotations import GivenAnnotations  # noqa: PLC0415

        reviewed, stored = reviewed_cases(site), site.corrections.latest()
        if reviewed is None:
            return frozenset()
        restored = set() if stored is None else {case.name for case in stored.corrections.cases if case.is_active}
        settled = GivenAnnotations.of(data.cases, reviewed.cases).settled
        names = (case_files(case, site.locate().folder)[0] for case in compress(data.cases, settled))
        return frozenset(names) - restored


def _in_words(corrections: Corrections) -> str:
    """For the site's log."""
    words = []
    for correction in corrections.corrections:
        if isinstance(correction, BoundaryShift):
            words += [f"contours of class {label} moved by {move:+.2f}" for label, move in correction.moves.items()]
        if isinstance(correction, MissedObjectsIgnored):
            words.append(f"{sum(case.ignored_objects for case in corrections.cases)} unannotated objects ignored")
        if isinstance(correction, ObjectsRelabelled):
            words.append(f"{sum(case.relabelled_objects for case in corrections.cases)} objects relabelled")
    return ", ".join(words) or "nothing"
