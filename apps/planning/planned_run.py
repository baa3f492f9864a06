"""A run on own data as it is planned: nnU-Net's recipe, with as many steps and rounds as fit a time budget.

The planned values lie in the run's folder, so that a run that is continued takes the same ones.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...custom.components.component import TARGET
from ...custom.components.merging import KEPT, merged
from ...custom.data.datalist import TESTING, TRAINING, VALIDATION
from ...custom.data.description import DESCRIPTION_FILE
from ...custom.data.federation import TEST_FOLDER, read_federation
from ...custom.data.site_data import count_cases
from ...custom.evaluation.inference import Inference
from ...custom.methods.fedavg.settings import WarmupSettings
from ...custom.planning.time_budget import PartSeconds, Rounds, RunCost, fit_rounds
from ...custom.recipe import RESEARCH
from ...custom.run.time_left import duration
from ...custom.settings import RunSettings, SettingValues, TrainingSettings
from ...transforms.errors import DataError
from ..runs.cores import estimated_step_mb, suitable_sites_at_once
from ..runs.data_compatibility import read_descriptions, settings_for_data
from ..runs.installed import installed_jobs
from ..runs.job import Job, JobError, flat_settings
from ..runs.planned_settings import PLAN_FILE, PlannedSettings
from ..runs.settings_files import Requirements, SettingsFile
from .measured_run import measure_parts
from .samples import count_samples
from .suggested import suggest_settings
from .suggestion import VALIDATE_EVERY, Choice, SuggestedSettings

DEFAULT_HOURS = 1.0

# Seconds for the command's start, figures and report, and the fraction of the time that nothing is planned for.
_CLOSING, _UNFORESEEN = 15.0, 0.05
# Mirrored images are predicted where predictions and one scoring take no more than this fraction of the time.
_MIRRORING = 0.2
# Rounds after a warm-up, at least.
_AFTER_WARMUP = 3
_MIRRORED = "inference.mirroring"
# That the plan gives for the recipe's optimizer alone.
_OF_OPTIMIZER = ("training.momentum", "training.learning_rate")
_FITTED = ("rounds", "training.local_steps")


@dataclass(frozen=True)
class NoPlan:
    """Why a run is not planned.

    Attributes:
        reason: a part of a sentence.
        is_final: whether it cannot be planned either if hours are asked for.
        is_chosen: whether it was asked for, so that nobody wonders.
    """

    reason: str
    is_final: bool = True
    is_chosen: bool = False


def why_not_planned(job: Job, data: Path | None, settings: str | None, overrides: Mapping[str, Any]) -> NoPlan | None:
    """Return why a run takes the job's settings as they are unless hours are asked for; None if it is planned.

    Args:
        job: the job.
        data: a federation's folder; None for the embedded federation.
        settings: a set of settings, by its name in the job's folder or as a file.
        overrides: single settings to change after that.

    Raises:
        JobError, SettingsError: if the job or its settings cannot be used.
        DataError: if the data cannot be read.
    """
    if data is None:
        return NoPlan("there are no data (--data)", is_chosen=True)
    if settings is not None:
        return NoPlan("--settings says how to train", is_chosen=True)
    if overrides.get("recipe", RESEARCH) != RESEARCH:
        return NoPlan(f"recipe = {overrides['recipe']} is given", is_chosen=True)
    kinds = {key: value for key, value in overrides.items() if key in ("method", "task")}
    own = job.settings_with(kinds)
    if own.task != "segmentation" or not isinstance(own.training, TrainingSettings):
        return NoPlan("classification has no plan")
    if own.training_predictions is None or own.network.refuses_components:
        return NoPlan(f"the method {own.method!r} has no plan")
    if read_federation(data).is_generated:
        return NoPlan("the images of the data were generated", is_final=False)
    if not _is_installed(job):
        return NoPlan("the job is none of fedannot's, or was changed", is_final=False)
    return None


def _is_installed(job: Job) -> bool:
    """Whether the job's settings are those of the installed job of its name."""
    installed = installed_jobs().get(job.folder.resolve().name)
    if installed is None:
        return False
    own = Job(installed.folder).settings_file
    return own.is_file() and own.read_bytes() == job.settings_file.read_bytes()


def plan_run(
    job: Job,
    data: Path | None,
    hours: float,
    out: Path,
    *,
    settings: str | None = None,
    overrides: Mapping[str, Any],
    sites_at_once: int | None = None,
) -> PlannedSettings:
    """Plan a run on data for a time that it may take on this machine, planning included; nothing is written.

    What is chosen stays: the plan has no such setting, and the others follow from it. With a network of the job's own
    (``network.features``) or another one no network is planned.

    Args:
        job: the job.
        data: a federation's folder.
        hours: that the run may take.
        out: the run's folder.
        settings: a set of settings, with which nothing is planned.
        overrides: single settings that were chosen.
        sites_at_once: how many sites will work at a time; None for as many as cores and memory are enough for.

    Raises:
        JobError: if such a run cannot be planned; the text says why.
        DataError: if the data cannot be used, or no network fits images and memory.
        SettingsError: if a setting cannot be used.
    """
    began = time.monotonic()
    obstacle = why_not_planned(job, data, settings, overrides)
    if data is None or (obstacle is not None and obstacle.is_final):
        reason = "there are no data (--data)" if obstacle is None else obstacle.reason
        raise JobError(f"A time is given (--hours), but {reason}; leave --hours out, or what it does not go with.")
    try:
        suggested = _planned(job, data, hours, _Chosen.of(job, overrides), began, sites_at_once)
    except DataError as error:
        raise DataError(f"{error} Without a plan (--no-plan) the job's own settings are taken.") from error
    as_file = SettingsFile(out / PLAN_FILE, suggested.values, Requirements(), suggested.time)
    return PlannedSettings(as_file, suggested.time, suggested.text)


def _planned(
    job: Job, data: Path, hours: float, chosen: "_Chosen", began: float, sites_at_once: int | None
) -> SuggestedSettings:
    suggested = suggest_settings(data, hours=hours, **chosen.for_suggestion(job))
    # How long scores take is measured below.
    choices = [one for one in suggested.choices if one.key != VALIDATE_EVERY and not chosen.decides(one.key)]
    described = read_descriptions(data)
    # Steps and rounds follow; until then the job's own go with its warm-up.
    planned = {choice.key: choice.value for choice in choices if choice.key not in _FITTED}
    run_settings = job.settings_with(settings_for_data(job, merged(planned, chosen.values), described))
    site = read_federation(data).sites[0]
    cases = _Cases.of(data, run_settings)
    if sites_at_once is None:
        memory = estimated_step_mb(run_settings, data / site)
        sites_at_once = suitable_sites_at_once(run_settings, cases.sites, step_mb=memory)
    parts = measure_parts(run_settings, data / site, site=site, sites_at_once=sites_at_once)
    used = time.monotonic() - began + _CLOSING + cases.all * parts.case_reading
    seconds = max(hours * 3600 * (1 - _UNFORESEEN) - used, 1.0)
    parts = replace(parts, step=parts.step * run_settings.step_factor)
    cost = _cost(run_settings, parts, cases, sites_at_once)
    passes = Inference.of(run_settings).num_passes(run_settings.network.spatial_dims)
    mirrored = replace(cost, parts=replace(parts, case=parts.case * passes))
    if mirrored.predictions + mirrored.scoring <= _MIRRORING * seconds or chosen.decides(_MIRRORED):
        cost = mirrored
    elif passes > 1:
        choices.append(Choice(_MIRRORED, False, f"predictions of mirrored images would take {passes} times as long"))
    rounds = _fitted(run_settings, cost, seconds, chosen, data)
    expected = used + cost.seconds(rounds.rounds, rounds.local_steps, rounds.scorings)
    return _with_rounds(suggested, choices, rounds, cost, chosen, expected)


@dataclass(frozen=True)
class _Chosen:
    """Settings that were chosen, by their dotted keys, and what a plan says nothing of for their sake."""

    values: SettingValues
    has_network: bool

    @classmethod
    def of(cls, job: Job, overrides: Mapping[str, Any]) -> "_Chosen":
        values = flat_settings(job.current_names(overrides))
        of_network = {key for key in values if key == "network" or key.startswith("network.")}
        of_network -= {f"network.{key}" for key in KEPT}
        # Arguments of the planned network are no settings of the job.
        known = {*job.setting_names(values), "network", f"network.{TARGET}"}
        return cls(values, bool(of_network & known))

    def for_suggestion(self, job: Job) -> dict[str, Any]:
        """What a suggestion of network and patch needs of it; what cannot be used is refused with the settings."""
        threads = self.values.get("threads", job.settings().threads)
        patch, batch = self.values.get("training.patch"), self.values.get("training.batch_size")
        is_patch = isinstance(patch, list | tuple) and all(isinstance(extent, int) for extent in patch)
        return {
            "threads": threads if isinstance(threads, int) else 1,
            "patch": patch if is_patch else None,
            "least_batch": batch if isinstance(batch, int) and batch > 0 else None,
        }

    def decides(self, key: str) -> bool:
        """Whether the plan leaves a setting out."""
        if key.startswith("network.") and self.has_network:
            return True
        if key in _OF_OPTIMIZER and any(name.startswith("training.optimizer") for name in self.values):
            return True
        if key == "training.local_steps" and self.values.get("training.local_epochs") is not None:
            return True
        return key in self.values

    def number(self, key: str) -> int | None:
        """A whole number that was chosen; None where there is none."""
        value = self.values.get(key)
        return value if isinstance(value, int) else None


@dataclass(frozen=True)
class _Cases:
    """Numbers of cases.

    Attributes:
        sites: how many sites there are.
        training: that they train on.
        scored: of one scoring.
    """

    sites: int
    training: int
    scored: int

    @classmethod
    def of(cls, data: Path, settings: RunSettings) -> "_Cases":
        folders = [data / site for site in read_federation(data).sites]
        training, validation = (sum(_count(folder, name) for folder in folders) for name in (TRAINING, VALIDATION))
        has_test = (data / TEST_FOLDER / DESCRIPTION_FILE).is_file()
        test = _count(data / TEST_FOLDER, TESTING) if has_test else 0
        scored = test + validation if settings.final_model == "best" else test or validation
        return cls(len(folders), training, scored)

    @property
    def all(self) -> int:
        """That a run reads."""
        return self.training + self.scored


def _count(folder: Path, section: str) -> int:
    try:
        return count_cases(folder, section)
    except DataError:
        # The run refuses such a site by name.
        return 0


def _cost(settings: RunSettings, parts: PartSeconds, cases: _Cases, sites_at_once: int) -> RunCost:
    return RunCost(
        parts,
        num_sites=cases.sites,
        sites_at_once=sites_at_once,
        scored_cases=cases.scored,
        predicted_cases=(settings.training_predictions or 0) * cases.training,
    )


def _fitted(settings: RunSettings, cost: RunCost, seconds: float, chosen: _Chosen, data: Path) -> Rounds:
    local_steps, epochs = chosen.number("training.local_steps"), chosen.number("training.local_epochs")
    if local_steps is None and epochs is not None:
        sites = read_federation(data).sites
        samples = sum(count_samples(data / site, TRAINING, settings) for site in sites) / len(sites)
        local_steps = max(round(epochs * samples / settings.training.batch_size), 1)
    least = settings.warmup_rounds + _AFTER_WARMUP if isinstance(settings, WarmupSettings) else 1
    return fit_rounds(
        cost,
        seconds,
        rounds=chosen.number("rounds"),
        local_steps=local_steps,
        validate_every=chosen.number(VALIDATE_EVERY),
        least_rounds=least,
    )


def _with_rounds(
    suggested: SuggestedSettings,
    choices: Sequence[Choice],
    fitted: Rounds,
    cost: RunCost,
    chosen: _Chosen,
    expected: float,
) -> SuggestedSettings:
    """The plan with rounds and steps of the run that it is for."""
    step_seconds = cost.parts.step
    training = replace(
        suggested.training, step_seconds=step_seconds, local_steps=fitted.local_steps, rounds=fitted.rounds
    )
    values = {
        "rounds": Choice(
            "rounds", fitted.rounds, f"{training.steps_of_site} steps a site in all, {duration(expected)}"
        ),
        "training.local_steps": Choice("training.local_steps", fitted.local_steps, "a round"),
    }
    final = [values.get(choice.key, choice) for choice in choices]
    if fitted.validate_every > 1 and not chosen.decides(VALIDATE_EVERY):
        reason = f"rounds: scoring {cost.scored_cases} cases takes {duration(cost.scoring)}"
        final.append(Choice(VALIDATE_EVERY, fitted.validate_every, reason))
    of_run = {"step_seconds": step_seconds, "sites_at_once": cost.sites_at_once, "expected_hours": expected / 3600}
    planned_time = suggested.time.model_copy(update=of_run)
    return replace(suggested, training=training, choices=tuple(final), time=planned_time)
