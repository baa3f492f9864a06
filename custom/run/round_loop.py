"""The course of rounds that every method shares, whatever carries the messages between server and sites."""

import gc
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from ...transforms.errors import DataError
from ..aggregation.influence import InfluenceBounds
from ..aggregation.reported_counts import ReportedCounts, claim_limit
from ..data.participant_folder import WAITING_FOLDER
from ..data.tensor_files import write_tensors
from ..evaluation.score_records import RoundScores
from ..evaluation.scoring import Scoring
from ..interface.method import ServerMethod
from ..interface.views import Round
from ..networks.layout import NetworkLayout
from ..outbound.registry import OutboundRegistry
from ..records.plain_values import check_restorable, finite
from ..records.record_lines import RecordLog, lines_up_to
from ..records.round_records import ROUND_RECORDS, VERSION, Bounded, RoundRecord
from ..refusals import RefusalReason
from ..settings import RunSettings
from ..task_names import FINGERPRINT, TRAIN, VALIDATE, VALIDATE_CLASSES
from ..training.component_check import check_training
from ..training.schedules import first_rate
from .answers import Answers
from .continuing import earlier_state, named_with_its_file, start_params
from .final_model import ModelChoice
from .model_rounding import ModelRounding
from .reading import METRICS_FILE
from .round_record import note_weights, progress_sentence, round_scalars
from .round_scoring import RoundScoring
from .round_training import Averaged, RoundTraining, TrainingRun, checked_model, share_refusal
from .run_progress import ProgressTracker, give_noted
from .scored_rounds import scored_records
from .server_test import ServerTest
from .state import (
    SCORED_MODEL_FILE,
    STATE_FILE,
    SUMMARY_FILE,
    RunFailedError,
    RunState,
    TooFewResultsError,
    kept_state_file,
)
from .summary import complete_summary_file, scores_of, summarize, write_unfinished_summary
from .transport import CONTINUED_JOB, CONTINUED_ROUND, Link, Messages, Params, Request, RunContext

# Whose samples tasks are about; a site's claims of the one kind say nothing of the other.
_TRAINING, _VALIDATION, _CASES = "training", "validation", "cases"
# What the number in an answer counts, by task: the samples of training unless it is here.
_COUNTED = {VALIDATE: _VALIDATION, VALIDATE_CLASSES: _VALIDATION, FINGERPRINT: _CASES}


class RoundLoop:
    """Runs the rounds of a job with its method.

    In every round the sites get the global model with the task ``train``; their models are averaged with the method's
    weights. The global model is scored on the server's test set where it has one, else by the sites on their own
    validation cases, as often as the settings say. They also say which model is the result, see
    :class:`fedannot.custom.run.final_model.ModelChoice`. After every round the state is written in one step, and a job
    with ``resume_from`` continues from it with the same bits.

    Args:
        settings: the job's settings.
        method: what the job's method does at the server.
        registry: the fields that may leave a site.
        link: carries the messages.

    Attributes:
        progress: how far the run is, at every moment.
        refused: why sites were refused in this round, by name.
    """

    def __init__(self, settings: RunSettings, method: ServerMethod, registry: OutboundRegistry, link: Link) -> None:
        self.settings = settings
        self.refused: dict[str, RefusalReason] = {}
        # As above, with the errors of sites of a simulation, which no record holds.
        self._errors: dict[str, RefusalReason] = {}
        self._shown_errors: set[tuple[str, ...]] = set()
        self._method = method
        self._registry, self._link = registry, link
        self._scoring = Scoring.of(settings.task)
        self.progress = ProgressTracker(settings)
        self._num_samples: dict[str, int] = {}
        self._preparations: dict[str, list[float]] = {}
        self._claims = {kind: ReportedCounts(link.warning) for kind in (_TRAINING, _VALIDATION, _CASES)}
        self._continued: dict[str, str | int] = {}
        self._of_weights: dict[str, Any] = {}
        self._choice = ModelChoice.of(settings)
        self._scored = ModelChoice.of_scored_round(settings)
        self._final_scores: RoundScores | None = None
        self._has_asked = False

    # --- the run

    def run(self, beginning: RunContext) -> None:
        """Run all rounds.

        Raises:
            RunFailedError: if too many rounds in a row had no usable result, or no site can choose the best model.
            DataError: if the start model that the settings name, or the server's test set, cannot be used.
            ResumeError: if the run to be continued does not fit the job.
            SettingsError: if a class that the settings name for training cannot be used.
        """
        check_training(self.settings)
        self._prepare(beginning)
        summary = beginning.run_folder / SUMMARY_FILE
        try:
            self._run_rounds(beginning)
        except BaseException:
            with suppress(DataError, OSError):
                complete_summary_file(summary)
            raise
        self._restore_log()
        complete_summary_file(summary)

    def _run_rounds(self, beginning: RunContext) -> None:
        if self.state.is_over(self.settings):
            # A run that was killed after its last round: no round comes whose end would write its result.
            self._write_result()
        failed_rounds = 0
        for round_number in range(self.state.round_number + 1, self.settings.rounds + 1):
            if self._choice.is_over:
                break
            started = time.monotonic()
            self.refused, self._errors, self._of_weights, self._scores.of_sites = {}, {}, {}, {}
            self.progress.begin_round(round_number, self.state.history, beginning.absent)
            self._round = self._round_of(round_number)
            self._method.before_round(self._round)
            if self._link.is_stopped():
                return
            if self._method.restarts(self._round):
                self.state.params = self._rounding.first(start_params(self._beginning, self._link.info))
                for choice in self._choices:
                    choice.restart()
                self._round = self._round_of(round_number)
            failed_rounds = 0 if self._train() else failed_rounds + 1
            if self._link.is_stopped():
                return
            record = self._record(started, counts=not failed_rounds)
            if self.settings.needs_validation and self._link.is_stopped():
                # Some sites may not have validated it; who goes on with the run does the round again.
                return
            self._finish(record)
            if failed_rounds >= self.settings.max_failed_rounds:
                raise TooFewResultsError(failed_rounds, self.settings.min_sites, self._errors)
        if failed_rounds:
            self._link.warning(
                f"No site's model counts in the last {failed_rounds} rounds; the model is of before them."
            )
        if not any(record.sites for record in self.state.history):
            raise RunFailedError("No round had a usable result: the model is the one that the run began with.")
        self._conclude()

    def _conclude(self) -> None:
        """Do what comes after the last round, with the model that is the result."""
        last, final = self.state.round_number, self._choice.describe(self.state.round_number)
        params = self._choice.params(self.state.params)
        if len(final.rounds) > 1:
            # It is the model of no round, and so was not scored.
            self._round = replace(self._round_of(last), reports=self.state.history[-1].sites)
            self._final_scores = self._scores.score(self._round, params, last=True)
        self._round = replace(self._round_of(last), params=params)
        if self._method.after_rounds(self._round) or self._final_scores is not None:
            self._write_result()
        if self._choice.is_over and last < self.settings.rounds:
            self._link.info(
                f"Ends early: no better validation in {self.settings.patience} validations since round "
                f"{final.rounds[0]}."
            )
        self._link.info(f"{self.settings.method}: finished {last} rounds.")

    def _prepare(self, beginning: RunContext) -> None:
        self._beginning = beginning
        params = start_params(beginning, self._link.info) if beginning.state is None else dict(beginning.params)
        self.state = RunState(self.settings.method, self.settings.model_dump(mode="json"), 0, params)
        self._layout = NetworkLayout.of(beginning.network, params, self.settings.blocks)
        self._rounding = ModelRounding(self.settings, self._layout)
        self.state.params = self._rounding.first(params)
        self._server_test = ServerTest(
            beginning.network, self.settings, beginning.private_folder, beginning.config_folder
        )
        self._scores = RoundScoring(self.settings, self._method, self._server_test, self._ask)
        if self._method.is_scored_at_server:
            self._server_test.check_data()
        if beginning.state is not None:
            earlier = earlier_state(beginning.state, self.settings, self._method.rounds_of_averaging, params)
            with named_with_its_file(beginning.state):
                self._resume(earlier)
        self._round = self._round_of(self.state.round_number)
        validated = any(record.validation_score is not None for record in self.state.history)
        if self.settings.needs_validation and not validated:
            self._check_validation()
        self._begin_log(beginning)
        if beginning.absent:
            self._link.warning(f"Not there when the job started, and not in it: {', '.join(beginning.absent)}.")

    def _begin_log(self, beginning: RunContext) -> None:
        """Begin the metrics file with the records of the run that is continued; lines that a state counts on stay."""
        self._log, lines = RecordLog(beginning.run_folder / METRICS_FILE), b""
        if beginning.state is not None and self.state.logged is not None:
            lines = lines_up_to(beginning.state.with_name(METRICS_FILE), self.state.logged)
        self._log.begin(lines, self.state.history[lines.count(b"\n") :])

    def _restore_log(self) -> None:
        """Write the metrics file again if anything else has changed it: the state is to count on its lines."""
        if not self._log.is_as_written:
            self._link.warning(f"{METRICS_FILE} of this run was changed or removed; it is written again.")
            self._log.begin(records=self.state.history)

    def _check_validation(self) -> None:
        """Let the sites score the start model, so that a run whose model they cannot choose does not begin.

        Raises:
            RunFailedError: if they give no score.
        """
        answers = self._scores.answers_without_score(self.state.round_number + 1)
        if answers is None or self._link.is_stopped():
            return
        raise self._scores.no_validation(answers, "final_model" if self._choice.needs_validation else "scored_rounds")

    def _resume(self, earlier: RunState) -> None:
        self.state, kept = earlier, earlier.method_state
        self._num_samples = dict(kept["num_samples"])
        self._preparations = dict(kept.get("preparations", {}))
        self._claims = {
            kind: ReportedCounts(self._link.warning, kept["first_claims"].get(kind)) for kind in self._claims
        }
        self._rounding.restore(kept.get("residual", {}), earlier.params)
        self._choice.restore(kept.get("final", {}), earlier.round_number)
        if self._scored is not None:
            self._scored.restore(kept.get("scored", {}), earlier.round_number)
        self._method.restore(kept["method"], earlier.history)
        # Sites find in it what they had made of their annotations.
        self._continued = {CONTINUED_JOB: kept["job"], CONTINUED_ROUND: earlier.round_number}
        self._link.info(f"Continuing after round {earlier.round_number} of {self.settings.resume_from}.")

    def _round_of(self, round_number: int) -> Round:
        return Round(
            number=round_number,
            params=self.state.params,
            blocks=self._layout.blocks,
            trained=self._layout.trained,
            history=self.state.history,
            num_samples=self._num_samples,
            bounds=InfluenceBounds(self.settings.influence, self._link.warning),
            ask=partial(self._ask, round_number),
            info=self._link.info,
            warning=self._link.warning,
            is_stopped=self._link.is_stopped,
            reviewed=lambda params=None: self._server_test.reviewed(params or self.state.params),
        )

    def refuse(self, site: str, reason: RefusalReason) -> None:
        """Take note of why a site's answer does not count; the first reason stays."""
        self._errors.setdefault(site, reason)
        self.refused.setdefault(site, reason.without_error)
        self.progress.refuse(site, reason.without_error)
        self._link.warning(f"Refused {site}: {reason}.")
        lines = tuple(reason.error_lines)
        if lines not in self._shown_errors:
            self._shown_errors.add(lines)
            # A log has one line for each message.
            for line in lines:
                self._link.warning(f"{site}: {line}")

    @property
    def _message(self) -> dict[str, object]:
        return {**self._continued, **self._method.message(self._round)}

    def _ask(
        self,
        number: int,
        task: str,
        sites: Collection[str] | None = None,
        params: Params | None = None,
        own_messages: Messages | None = None,
    ) -> dict[str, dict[str, Any]]:
        """Send a model, by default the global one, with a task whose answers carry no model; return usable answers."""
        claims = self._claims[_COUNTED.get(task, _TRAINING)]
        answers = Answers(task, number, self._registry, self.settings.network.num_classes, self.refuse)
        request = Request(task, number, params or self.state.params, self._message, sites, own_messages or {})
        give_noted(self._link, request, answers.receive, self.refuse, self.progress)
        return answers.counted(claims, claim_limit(max(len(self._link.sites()), 1)))

    # --- a round

    @property
    def _of_all_rounds(self) -> TrainingRun:
        waiting = self._beginning.private_folder / WAITING_FOLDER
        return TrainingRun(self.settings, self._layout, self._registry, self._claims[_TRAINING], waiting, self.refuse)

    def _train(self) -> bool:
        """Let the sites train, and average their models; False if too few gave a usable one."""
        this_round, asked = self._round, self._asked_to_train()
        if not self._has_asked:
            self._link.info(f"Round {this_round.number}/{self.settings.rounds}: {len(asked)} sites train.")
            self._has_asked = True
        training = RoundTraining(self._of_all_rounds, self._method, this_round, len(asked))
        own_messages = self._method.own_messages(this_round)
        request = Request(TRAIN, this_round.number, self.state.params, self._message, asked, own_messages)
        give_noted(self._link, request, training.receive, self.refuse, self.progress)
        self._num_samples |= training.num_samples
        self._preparations |= training.preparations
        this_round.reports, this_round.drifts = training.reports, training.drifts
        if len(training.reports) < self.settings.min_sites:
            self._link.error(
                f"Round {this_round.number}: {len(training.reports)} usable results, at least "
                f"{self.settings.min_sites} are needed; the global model stays as it is."
            )
            training.give_up()
            return False
        averaged = training.average()
        self._of_weights = note_weights(averaged.weights, self.state.history, self._link.warning) | averaged.chosen
        if (refused := share_refusal(averaged.weights, self._beginning.largest_share)) is not None:
            self.refuse(*refused)
            training.give_up()
            return False
        this_round.second_average, this_round.weighed = averaged.second_average, averaged.weights
        self.state.params = self._rounding.next(self._combined(averaged))
        training.give_up()
        self._method.after_training(this_round)
        return True

    def _asked_to_train(self) -> list[str]:
        """The sites that the method asks to train, sorted."""
        there = sorted(self._link.sites())
        asked = sorted(self._method.sites_to_train(self._round, there))
        if unknown := sorted(set(asked) - set(there)):
            raise ValueError(f"The method {self.settings.method!r} asks {unknown}, which are not among {there}.")
        return asked

    def _combined(self, averaged: Averaged) -> dict[str, torch.Tensor]:
        """The model that the method makes of the round's average and models, which then go."""
        this_round = self._round
        this_round.average, this_round.models = averaged.params, averaged.models
        combined = self._method.combine(this_round)
        this_round.average, this_round.models = {}, None
        if combined is averaged.params:
            return averaged.params
        return checked_model(combined, self.state.params, self.settings.method)

    def _finish(self, record: RoundRecord) -> None:
        """Write what the round leaves behind."""
        this_round, folder = self._round, self._beginning.run_folder
        self.state.round_number = this_round.number
        self.state.method_state = {
            "num_samples": dict(self._num_samples),
            "first_claims": {kind: dict(claims.first) for kind, claims in self._claims.items()},
            "preparations": dict(self._preparations),
            "job": self._beginning.job_id,
            "method": self._method.state(),
        }
        if residual := self._rounding.state():
            self.state.method_state["residual"] = residual
        if final := self._choice.state():
            self.state.method_state["final"] = final
        if self._scored is not None and (scored := self._scored.state()):
            self.state.method_state["scored"] = scored
        check_restorable(self.state.method_state, f"the state of the method {self.settings.method!r}")
        self._restore_log()
        self.state.history.append(record)
        self.state.save(folder / STATE_FILE, self._log)
        if this_round.number in self.settings.keep_rounds:
            # Other runs go on with it, elsewhere.
            self.state.save(folder / kept_state_file(this_round.number))
        self._log.append(record)
        self._write_result()
        self.progress.finish_round(self.state.history)
        self._show(record)
        if self.settings.task_process:
            # NVFlare's tasks and messages refer to each other in circles, with the models in them.
            gc.collect()

    def _record(self, started: float, *, counts: bool) -> RoundRecord:
        """Score the model, and put together what is known of the round; one that does not count has no new model."""
        this_round, touched = self._round, self._round.bounds.touched
        scores = self._scores.score(this_round, self.state.params)
        validation = self._scores.validation_score(this_round, scores) if counts else None
        if counts:
            for choice in self._choices:
                choice.note(this_round.number, self.state.params, validation)
        common: dict[str, object] = {
            "version": VERSION,
            "round": this_round.number,
            "stage": self._method.stage(this_round),
            **scores.model_dump(exclude_unset=True),
            "sites": dict(sorted(this_round.reports.items())),
            "refused": dict(sorted(self.refused.items())),
            **self._of_weights,
        }
        if validation is not None:
            common["validation_score"] = validation
        if touched:
            common["bounded"] = {site: Bounded.model_validate(what) for site, what in sorted(touched.items())}
        added = self._method.record(this_round)
        common["seconds"] = round(time.monotonic() - started, 3)
        record = ROUND_RECORDS[self.settings.task].of(common, added)
        plain = record.plain()
        # As the file has it, from which a restart takes it.
        return record if (kept := finite(plain)) == plain else type(record).model_validate(kept)

    def _write_result(self) -> None:
        """Write the result and the summary as they are after the last finished round."""
        self._link.write_model(self._choice.params(self.state.params))
        final = self._choice.describe(self.state.round_number)
        scores = self._final_scores if len(final.rounds) > 1 else scores_of(self.state.history, final)
        summary = summarize(
            self.state,
            self._method.describe(self._round),
            absent=self._beginning.absent,
            server_threads=torch.get_num_threads(),
            final_model=final,
            final_scores=scores,
            with_rounds=False,
        )
        self._write_scored_model()
        write_unfinished_summary(self._beginning.run_folder / SUMMARY_FILE, summary, self._log.position)

    @property
    def _choices(self) -> list[ModelChoice]:
        return [self._choice] if self._scored is None else [self._choice, self._scored]

    def _write_scored_model(self) -> None:
        """Write the model of the round that is reported, if this is chosen and its model is known."""
        if self._scored is None:
            return
        file, last = self._beginning.run_folder / SCORED_MODEL_FILE, self.state.round_number
        (number,) = self._scored.describe(last).rounds
        if [record.round for record in scored_records(self.state.history, "best")] != [number]:
            # The better round was before the sites began anew, or in a run whose state kept no such model.
            file.unlink(missing_ok=True)
        elif number == last or not file.is_file():
            write_tensors(file, {"round": number, "model": dict(self._scored.params(self.state.params))})

    def _show(self, record: RoundRecord) -> None:
        """Draw a round's numbers, and say in a sentence how far the run is."""
        shown = (*self._scoring.names, "effective_sites", *self._method.round_scalars)
        for tag, value in round_scalars(record, shown, self._method.site_scalars).items():
            self._link.draw(tag, value, record.round)
        for site, score in self._scores.of_sites.items():
            self._link.draw(f"validation_{self._scoring.names[0]}/{site}", score, record.round)
        if (rate := first_rate(self.settings.training, record.round, self.settings.rounds)) is not None:
            self._link.draw("learning_rate", rate, record.round)
        self._link.info(progress_sentence(self.state.history, self.settings.rounds, self._scoring))
