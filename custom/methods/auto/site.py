"""`auto` at a site: estimates of its own annotation bias, and training on corrected annotations."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field, TypeAdapter
from torch import nn

from ...corrections.kinds import (
    BoundaryShift,
    Correction,
    MaskShift,
    MissedObjectsIgnored,
    ObjectsRelabelled,
    in_order,
    of_kind,
)
from ...corrections.model import Corrections
from ...corrections.targets import with_relabelled_objects
from ...data.datalist import TRAINING
from ...data.site_data import LoadedCase, SiteData
from ...evaluation.inference import Inference
from ...interface.views import Answer, SiteView, Trained
from ...outbound.fields import MINIMUM_CASES
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
from .asked_groups import GROUP
from .outbound import ANNOTATOR_GROUPS, MOST_GROUPS, MOVED_PATIENTS, NUM_SAMPLES
from .scored_cases import reviewed_cases, rollback_answer, without_held_out
from .settings import AutoSettings

# The provenance of what no server has asked for.
_AT_THE_SITE = "auto, at the site"
_ASKED: TypeAdapter[tuple[Correction, ...]] = TypeAdapter(tuple[Correction, ...])
_ASKED_BY_ANNOTATOR: TypeAdapter[dict[int, tuple[BoundaryShift, ...]]] = TypeAdapter(
    dict[Annotated[int, Field(ge=0, le=MOST_GROUPS)], tuple[BoundaryShift, ...]]
)
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
            return replace(trained, trained_on=trained.outcome.units_of(learnt.load(TRAINING).units))
        return trained

    def training_flags(self, site: SiteView) -> Mapping[str, Any]:
        """Say whether the corrections that were asked for are made, and whether all masks are moved back."""
        stored = site.corrections.latest()
        if stored is None:
            return {}
        asked = {} if stored.corrections.provenance.method == _AT_THE_SITE else {"has_undone": True}
        patients = len(set(site.load(TRAINING).units)) if stored.corrections.of(MaskShift) is not None else 0
        return asked | ({MOVED_PATIENTS: patients} if patients >= MINIMUM_CASES else {})

    def answer(self, task: str, network: nn.Module, site: SiteView) -> Answer:
        """Answer what is asked of annotation bias and boundary profile, and by the rollback check; or correct."""
        if task in _OF_ROLLBACK:
            return rollback_answer(task, network, _with_own_masks(site), self.settings.held_out, self._dice)
        site = without_held_out(site, self.settings.held_out)
        if task == CORRECT_ANNOTATION_BIAS:
            self._correct(network, site)
            return Answer({"has_undone": True})
        if task in _OF_PROFILE:
            return self._profile(task, network, site)
        if task != ESTIMATE_ANNOTATION_BIAS:
            return super().answer(task, network, site)
        from ...annotation_bias.predicted_samples import predicted_by  # noqa: PLC0415
        from .bias_measurement import measure_bias  # noqa: PLC0415

        seed = derive_seed(site.seed, site.name, site.round_number, "channel")
        own = _with_own_masks(site)
        predict = predicted_by(network, Inference.of(self.settings))
        data, of_site = self._group(site, own.load(TRAINING))
        answer = measure_bias(
            predict,
            data,
            reviewed_cases(own),
            self.settings,
            seed=seed,
            relabelled=self._with_relabelled_objects(site),
            is_part=self._is_by_annotator,
        )
        return self._without_samples(self._released(site, Answer({**answer.fields, **of_site}, answer.samples)))

    def _without_samples(self, answer: Answer) -> Answer:
        """An answer without its samples where masks may be moved: one patient could change those of all others."""
        return Answer(answer.fields) if self.settings.correct_shift or self._is_by_annotator else answer

    def _released(self, site: SiteView, answer: Answer) -> Answer:
        """An answer without the classes of an annotator that too few patients have."""
        from .annotator_groups import without_few  # noqa: PLC0415

        return Answer(without_few(answer.fields), answer.samples) if site.message.get(GROUP) else answer

    @property
    def _is_by_annotator(self) -> bool:
        return self.settings.is_by_annotator

    def _group(self, site: SiteView, data: SiteData) -> tuple[SiteData, dict[str, Any]]:
        """The cases of the group that is asked, and what is said of groups with the first question."""
        from .annotator_groups import site_groups  # noqa: PLC0415

        if not self._is_by_annotator:
            if GROUP in site.message:
                raise ValueError("Expected a question to the whole site, but the server asks for one annotator.")
            return data, {}
        groups, number = site_groups(site, data), site.message.get(GROUP)
        if number is None:
            of_site = {ANNOTATOR_GROUPS: len(groups.numbers), NUM_SAMPLES: data.num_samples}
            return groups.of(data, 0, site.locate().folder), of_site
        if type(number) is not int or not 0 <= number <= len(groups.numbers):
            raise ValueError(f"Expected the number of a group from 0 to {len(groups.numbers)}, but got {number!r}.")
        return groups.of(data, number, site.locate().folder), {}

    def _profile(self, task: str, network: nn.Module, site: SiteView) -> Answer:
        """Curves of the given annotations, or how certain their boundary biases are; the model is not asked."""
        from .profile_request import ProfileRequest  # noqa: PLC0415
        from .profile_site import given_cases, profile_curves, profile_errors  # noqa: PLC0415

        request = ProfileRequest.model_validate(site.message.get("profile", {}))
        num_classes = self.settings.network.num_classes
        if self.settings.correct_shift and task == MEASURE_BOUNDARY_PROFILE and request.halvings is None:
            self._correct_shift(network, site)
        own = _with_own_masks(site)
        data, of_site = self._group(site, own.load(TRAINING))
        cases = given_cases(data, reviewed_cases(own))
        if task == MEASURE_BOUNDARY_PROFILE:
            answer = profile_curves(cases, request, num_classes, has_fixed_grid=data.description.has_fixed_grid)
            patients = len({case.patient for case in cases})
            has_moved = own is not site and patients >= MINIMUM_CASES
            moved = {MOVED_PATIENTS: patients} if has_moved else {}
            # As with its models; cases of a review may have no curve.
            weight = {NUM_SAMPLES: data.num_samples} | of_site
            whole = Answer({**answer.fields, **weight, **moved}, answer.samples)
            return self._without_samples(self._released(site, whole))
        seed = derive_seed(site.seed, site.name, "profile")
        return self._released(site, profile_errors(cases, request, num_classes, seed=seed))

    def _correct_shift(self, network: nn.Module, site: SiteView) -> None:
        """Move all masks back if images show that they are shifted: at the site's first question, never again."""
        stored = site.corrections.latest()
        if stored is not None and stored.corrections.of(MaskShift) is not None:
            return
        shift = self._measured_shift(site)
        if shift is not None:
            others = () if stored is None else stored.corrections.corrections
            method = _AT_THE_SITE if stored is None else stored.corrections.provenance.method
            self._make((shift, *others), network, site, method=method)

    def _measured_shift(self, site: SiteView) -> MaskShift | None:
        """The shift of all masks as they were given, None where none is to be corrected."""
        from .profile_site import given_cases  # noqa: PLC0415
        from .shift_site import measured_shift  # noqa: PLC0415

        cases = given_cases(site.load(TRAINING), reviewed_cases(site))
        seed = derive_seed(site.seed, site.name, "shift")
        return measured_shift(cases, self.settings.network.num_classes, seed=seed)

    def _with_relabelled_objects(self, site: SiteView) -> list[LoadedCase] | None:
        """The cases with relabelled objects, moved back where the site has done so; None where none were relabelled."""
        stored = site.corrections.latest()
        if stored is None or not any(case.relabelled_objects and case.is_active for case in stored.corrections.cases):
            return None

        def load(section: str) -> SiteData:
            data = site.load(section)
            folder = site.locate().folder
            return replace(data, cases=tuple(with_relabelled_objects(stored, data.cases, len(data.classes), folder)))

        # Objects were chosen where they are annotated.
        return list(_with_own_masks(replace(site, load=load)).load(TRAINING).cases)

    def _dice(self, network: nn.Module, data: SiteData) -> dict[str, float]:
        from .rollback_scores import patient_dice  # noqa: PLC0415

        return patient_dice(network, data, self.settings.network.num_classes, Inference.of(self.settings))

    def _correct(self, network: nn.Module, site: SiteView) -> None:
        asked = in_order(_ASKED.validate_python(site.message["corrections"]))
        missed = of_kind(asked, MissedObjectsIgnored)
        if missed is not None and set(missed.missed) != set(missed.ignored):
            raise ValueError(f"Expected missed and ignored fractions of the same classes, but got {missed}.")
        if of_kind(asked, MaskShift) is not None:
            raise ValueError("Expected a site to measure the shift of its masks itself, but the server asks for one.")
        own = _own_shift(site)
        if own is None and self.settings.correct_shift and site.corrections.latest() is None:
            # It had one, and lost its corrections with it, or it has none.
            own = self._measured_shift(site)
        corrections = (*asked, *(() if own is None else (own,)))
        by_annotator = _ASKED_BY_ANNOTATOR.validate_python(site.message.get("by_annotator", {}))
        if by_annotator and (asked or not self._is_by_annotator):
            raise ValueError("Expected corrections of the whole site or by annotator as the job says, but got both.")
        if asked and self._is_by_annotator:
            raise ValueError("Expected corrections by annotator as the job says, but got those of the whole site.")
        self._make(corrections, network, site, method=self.settings.method, by_annotator=by_annotator)

    def _make(
        self,
        asked: Sequence[Correction],
        network: nn.Module,
        site: SiteView,
        *,
        method: str,
        by_annotator: Mapping[int, tuple[Correction, ...]] | None = None,
    ) -> None:
        """Choose what is corrected of each case, and keep it."""
        from .protected_cases import protected_cases  # noqa: PLC0415
        from .site_corrections import site_corrections  # noqa: PLC0415

        data = site.load(TRAINING)
        corrections, pixels = site_corrections(
            network,
            data,
            asked,
            data_folder=site.locate().folder,
            method=method,
            round_number=site.round_number,
            inference=Inference.of(self.settings),
            reverted=protected_cases(site, data),
        )
        if by_annotator:
            from .annotator_groups import site_groups  # noqa: PLC0415

            corrections = corrections.by_group(by_annotator, site_groups(site, data).cases)
        site.corrections.write(corrections, pixels)
        site.info(f"Corrected before round {site.round_number}: {_in_words(corrections)}.")


def _own_shift(site: SiteView) -> MaskShift | None:
    """The shift of all masks that the site has corrected, None without one."""
    stored = site.corrections.latest()
    return None if stored is None else stored.corrections.of(MaskShift)


def _with_own_masks(site: SiteView) -> SiteView:
    """The site with its own masks moved back, where it has corrected their shift; else the site itself."""
    shift = _own_shift(site)
    if shift is None:
        return site
    from .shift_site import with_masks_moved_back  # noqa: PLC0415

    return with_masks_moved_back(site, shift)


def _in_words(corrections: Corrections) -> str:
    """For the site's log."""
    words = []
    for correction in corrections.every:
        if isinstance(correction, MaskShift):
            words.append(f"all masks moved by {', '.join(f'{move:+z.2f}' for move in correction.moves)} along the axes")
        if isinstance(correction, BoundaryShift):
            words += [f"contours of class {label} moved by {move:+z.2f}" for label, move in correction.moves.items()]
        if isinstance(correction, MissedObjectsIgnored):
            words.append(f"{sum(case.ignored_objects for case in corrections.cases)} unannotated objects ignored")
        if isinstance(correction, ObjectsRelabelled):
            words.append(f"{sum(case.relabelled_objects for case in corrections.cases)} objects relabelled")
    return ", ".join(words) or "nothing"
