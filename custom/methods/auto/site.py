"""`auto` at a site: estimates of its own annotation bias, and training on corrected annotations."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter
from torch import nn

from ....transforms.errors import DataError
from ...channel.estimate_fields import sent
from ...corrections.kinds import BoundaryShift, Correction, MissedObjectsIgnored, ObjectsRelabelled, in_order, of_kind
from ...corrections.model import Corrections
from ...corrections.targets import AS_GIVEN, Targets, with_relabelled_objects
from ...data.datalist import REFERENCE, TRAINING, VALIDATION
from ...data.round_tensors import save_tensors_of_round
from ...data.site_data import LoadedCase, SiteData, count_cases
from ...evaluation.inference import Inference
from ...interface.method import SiteMethod
from ...interface.views import Answer, SiteView, Trained
from ...networks.devices import params_in_main_memory
from ...outbound.fields import MINIMUM_CASES
from ...seeding import derive_seed
from ...task_names import COMPARE_SCORES, ESTIMATE_CHANNEL, KEEP_SCORES, UNDO_CHANNEL
from ..fedavg.site import FedAvgSite
from .outbound import HELD_OUT_GAIN, REVIEWED_GAIN
from .own_share import without_own_share
from .settings import AutoSettings
from .treatments import treatment_of

# In a site's run folder: what it sent of the last rounds, where its share is to be taken out again.
OWN_FOLDER = "own_models"

_ASKED: TypeAdapter[tuple[Correction, ...]] = TypeAdapter(tuple[Correction, ...])
_OF_SHADOW = (KEEP_SCORES, COMPARE_SCORES)


class AutoSite(FedAvgSite):
    """Reports how it annotates when it is asked, and trains on annotations with the corrections that it is asked for.

    Corrections lie in the run's folder, and are applied in memory. Where a run is continued they are taken over.
    """

    settings: AutoSettings

    def __init__(self, settings: AutoSettings) -> None:
        super().__init__(settings)
        treatment = treatment_of(settings)
        self._other = None if treatment is None else treatment[0].site_half(treatment[1])

    def before_task(self, site: SiteView) -> None:
        """Take over corrections, and do what a published method does that is the treatment."""
        super().before_task(site)
        if (other := self._treating(site)) is not None:
            other.before_task(site)

    def targets(self, site: SiteView) -> Targets:
        """Return the corrected labels; without a correction this is federated averaging."""
        return AS_GIVEN if self._other is not None else super().targets(site)

    def _treating(self, site: SiteView) -> SiteMethod | None:
        """The published method in the place of undoing, unless everything is taken back."""
        return None if site.message.get("has_vetoed") else self._other

    def train(self, network: nn.Module, site: SiteView) -> Trained:
        """Train on corrected annotations; without a correction this is federated averaging."""
        learnt, other = self._without_held_out(site), self._treating(site)
        trained = super().train(network, learnt) if other is None else other.train(network, learnt)
        if self.settings.judge == "without_own":
            params = params_in_main_memory(network)
            save_tensors_of_round(site.run_folder / OWN_FOLDER, site.round_number, params, self.settings.keep_rounds)
        if learnt is not site and trained.trained_on is None:
            return replace(trained, trained_on=learnt.load(TRAINING).units)
        return trained

    def _without_held_out(self, site: SiteView) -> SiteView:
        """The site without the training patients that it keeps to score models on; itself where it keeps none."""
        if not self.settings.held_out:
            return site
        # Who is never scored on held-out patients starts without scores; likewise below.
        from .shadow_scores import held_out_patients, only  # noqa: PLC0415

        def load(section: str) -> SiteData:
            data = site.load(section)
            if section != TRAINING:
                return data
            return only(data, held_out_patients(data.units, self.settings.held_out, site), inside=False)

        return replace(site, load=load)

    def training_flags(self, site: SiteView) -> Mapping[str, Any]:
        """Say whether the corrections that were asked for are made; or what a published method says that treats."""
        other = self._treating(site)
        if other is not None:
            return other.training_flags(site)
        return {} if site.corrections.latest() is None else {"has_undone": True}

    def answer(self, task: str, network: nn.Module, site: SiteView) -> Answer:
        """Answer ``estimate_channel``, ``undo_channel`` or what the shadow check asks, or a task of the treatment."""
        if task in _OF_SHADOW:
            return self._scored(task, network, site)
        site = self._without_held_out(site)
        if task not in (ESTIMATE_CHANNEL, UNDO_CHANNEL) and self._other is not None:
            return self._other.answer(task, network, site)
        if task == UNDO_CHANNEL:
            self._correct(network, site)
            return Answer({"has_undone": True})
        from ...channel.judging import judged_by  # noqa: PLC0415
        from .channel_report import channel_report  # noqa: PLC0415

        seed = derive_seed(site.seed, site.name, site.round_number, "channel")
        judge, data = judged_by(self.judging_model(network, site), Inference.of(self.settings)), site.load(TRAINING)
        anew = self._with_relabelled_objects(data, site)
        return channel_report(judge, data, reviewed_cases(site), self.settings, seed=seed, classes_anew=anew)

    def _with_relabelled_objects(self, data: SiteData, site: SiteView) -> list[LoadedCase] | None:
        """The cases with relabelled objects; None where none were relabelled."""
        stored = None if self._other is not None else site.corrections.latest()
        if stored is None or not any(case.relabelled_objects and case.is_active for case in stored.corrections.cases):
            return None
        return with_relabelled_objects(stored, data.cases, len(data.classes), site.locate().folder)

    def judging_model(self, network: nn.Module, site: SiteView) -> nn.Module:
        """Return what judges annotations: the received model, less the site's own share where the settings ask.

        The model stays as it is where the site had no part in the last round, or was alone in it.
        """
        if self.settings.judge == "global":
            return network
        kept, total = site.kept_tensors(OWN_FOLDER, site.round_number - 1), site.message.get("samples_of_round", 0)
        num_samples = site.load(TRAINING).num_samples
        if kept is None or kept[0] != site.round_number - 1 or not total > num_samples:
            site.info("The received model judges as it is: the site has no share in the last round, or all of it.")
            return network
        judging = copy.deepcopy(network)
        judging.load_state_dict(without_own_share(network.state_dict(), kept[1], num_samples / total))
        return judging

    def _scored(self, task: str, network: nn.Module, site: SiteView) -> Answer:
        """Keep how a model scores, or say by how much this one is better than that whose scores are kept."""
        from .shadow_scores import HELD_OUT, REVIEWED, keep_scores, kept_scores, paired_gain, patient_dice  # noqa: PLC0415

        sections = {REVIEWED: reviewed_cases(site), HELD_OUT: self._held_out(site)}
        classes, inference = self.settings.network.num_classes, Inference.of(self.settings)
        dice = {
            name: patient_dice(network, data, classes, inference)
            for name, data in sections.items()
            if data is not None and len(set(data.units)) >= MINIMUM_CASES
        }
        if task == KEEP_SCORES:
            keep_scores(site.run_folder, site.round_number, dice)
            return Answer({"has_scored": bool(dice)})
        folders = (site.run_folder, *site.earlier_folders)
        before = kept_scores(folders, site.message.get("kept_round", site.round_number))
        seed = derive_seed(site.seed, site.name, "shadow")
        gains = {name: paired_gain(before.get(name, {}), dice.get(name, {}), seed=seed) for name in sections}
        return Answer(
            sent(REVIEWED_GAIN, [gains[REVIEWED]], calibrated=False)
            | sent(HELD_OUT_GAIN, [gains[HELD_OUT]], calibrated=False)
        )

    def _held_out(self, site: SiteView) -> SiteData | None:
        """The site's validation cases, else the training patients that it has kept; None without any."""
        from .shadow_scores import held_out_patients, only  # noqa: PLC0415

        if count_cases(site.locate().folder, VALIDATION):
            return _loaded(site, VALIDATION)
        data = site.load(TRAINING)
        return only(data, held_out_patients(data.units, self.settings.held_out, site), inside=True)

    def _correct(self, network: nn.Module, site: SiteView) -> None:
        asked = in_order(_ASKED.validate_python(site.message["corrections"]))
        missed = of_kind(asked, MissedObjectsIgnored)
        if missed is not None and set(missed.missed) != set(missed.ignored):
            raise ValueError(f"Expected missed and ignored fractions of the same classes, but got {missed}.")
        from .site_corrections import site_corrections  # noqa: PLC0415

        corrections, pixels = site_corrections(
            network,
            site.load(TRAINING),
            asked,
            data_folder=site.locate().folder,
            method=self.settings.method,
            round_number=site.round_number,
            inference=Inference.of(self.settings),
            reverted=site.corrections.reverted,
        )
        site.corrections.write(corrections, pixels)
        site.info(f"Corrected before round {site.round_number}: {_in_words(corrections)}.")


def reviewed_cases(site: SiteView) -> SiteData | None:
    """Return a site's reviewed cases, None where there are none that can be used: the rest of an estimate goes on."""
    return _loaded(site, REFERENCE) if count_cases(site.locate().folder, REFERENCE) else None


def _loaded(site: SiteView, section: str) -> SiteData | None:
    try:
        return site.load(section)
    except DataError as error:
        site.warning(f"The {'reviewed' if section == REFERENCE else section} cases do not count: {error}")
        return None


def _in_words(corrections: Corrections) -> str:
    """For the site's log."""
    words = []
    for one in corrections.corrections:
        if isinstance(one, BoundaryShift):
            in_training = one.moves_in_training
            words += [
                f"contours of class {label} moved by {move:+.2f}"
                + (f" (in training by {in_training[label]:+.2f})" if in_training[label] != move else "")
                for label, move in one.moves.items()
            ]
        if isinstance(one, MissedObjectsIgnored):
            words.append(f"{sum(case.ignored_objects for case in corrections.cases)} unannotated objects ignored")
        if isinstance(one, ObjectsRelabelled):
            words.append(f"{sum(case.relabelled_objects for case in corrections.cases)} objects relabelled")
    return ", ".join(words) or "nothing"
