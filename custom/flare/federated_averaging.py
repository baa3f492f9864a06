"""The course of rounds that every method shares; by itself it is federated averaging."""

import gc
import math
import shutil
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from nvflare.apis.analytix import AnalyticsDataType
from nvflare.apis.utils.analytix_utils import create_analytic_dxo, send_analytic_dxo
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType

from ..aggregation.drift import squared_distance, stability
from ..aggregation.influence import InfluenceBounds, inner_ranges
from ..aggregation.sample_claims import SampleClaims, claim_limit
from ..aggregation.weighting import FEW_EFFECTIVE_SITES, LayerWeights, quantity_weights
from ..evaluation.global_test import ServerTest
from ..evaluation.scoring import Scoring
from ..method_settings import read_job_settings
from ..networks.building import assign_blocks, layer_blocks
from ..networks.start_weights import read_start_weights
from ..outbound.registry import OUTBOUND_FIELDS, TRAIN, VALIDATE, VALIDATE_CLASSES, report_refusal
from ..run.state import (
    METRICS_FILE,
    STATE_FILE,
    SUMMARY_FILE,
    RunState,
    append_record,
    kept_state_file,
    write_records,
)
from ..run.summary import write_summary
from ..run.threads import set_threads
from ..run.time_left import duration, time_left
from ..settings import RunSettings, SettingsError
from .asking_controller import AskingController, RunFailedError
from .job_meta import sites_of_job
from .kept_files import model_file, state_file
from .messages import CONTINUED_JOB, CONTINUED_ROUND
from .unfetched import Unfetched

# Where models wait for their weights, in the server's run folder.
_WAITING_FOLDER = "waiting_models"


# From what each site reported with its model to the weights of those sites.
WeightsByReports = Callable[[Mapping[str, Mapping[str, Any]]], LayerWeights]

# Whose samples tasks are about; a site's claims of the one kind say nothing of the other.
_TRAINING, _VALIDATION = "training", "validation"

# What the record of a round keeps of a site's report.
_REPORTED_FIELDS = tuple(field.name for field in OUTBOUND_FIELDS if TRAIN in field.tasks and field.kind != "model")


class FedAvgController(AskingController):
    """Federated averaging, and the frame of the other methods.

    Contract with the sites: the task ``train`` carries the global model and the round; the result is the trained state
    dict with ``num_samples``, ``num_excluded``, ``train_loss`` and ``embedded_data`` in its meta. A result is checked
    before it counts; a site that fails is refused by name with the reason, and the round goes on with the others. The
    global model is scored after every round on the server's test set where it has one, else by the sites on their own
    validation cases (task ``validate``, or ``validate_classes`` in classification). After every round the state is
    written in one step, and a job with ``resume_from`` continues from it with the same bits.

    A method overrides :meth:`before_round`, :meth:`aggregation_weights` or :meth:`weights_by_reports`,
    :meth:`after_training`, :meth:`after_rounds`, and :meth:`describe`.

    Args:
        settings: the job's settings; federated averaging takes those of any task.
        persistor_id: component that holds the network and writes the model.
        aggregator_id: a :class:`fedannot.custom.flare.aggregator.LayerwiseAggregator`.
        task_check_period: seconds between two looks at the tasks.

    Raises:
        SettingsError: if the settings have an unknown key or a value that is not allowed.
    """

    method: ClassVar[str] = "fedavg"
    site_scalars: ClassVar[tuple[str, ...]] = ("train_loss", "dice_loss")
    settings_type: ClassVar[type[RunSettings]] = RunSettings

    def __init__(
        self,
        settings: Mapping[str, Any],
        persistor_id: str = "persistor",
        aggregator_id: str = "aggregator",
        task_check_period: float = 0.1,
    ) -> None:
        super().__init__(read_job_settings(settings), persistor_id, task_check_period)
        if self.settings.method != self.method or not isinstance(self.settings, self.settings_type):
            raise SettingsError(
                f"settings.conf: {type(self).__name__} runs the method {self.method!r}, but the settings are those of "
                f"{self.settings.method!r} for {self.settings.task}."
            )
        self._scoring = Scoring.of(self.settings.task)
        self._aggregator_id = aggregator_id
        self.num_samples: dict[str, int] = {}
        self._claims = {kind: SampleClaims(self.warning) for kind in (_TRAINING, _VALIDATION)}
        self._bounds = InfluenceBounds(self.settings.influence, self.warning)
        self._reports: dict[str, dict[str, Any]] = {}
        self._drifts: dict[str, float] = {}
        self._statistics: dict[str, dict[str, torch.Tensor]] = {}
        self._of_weights: dict[str, Any] = {}
        self._claim_limit = 0
        self._has_asked = False
        self._absent: list[str] = []
        self._continued: dict[str, Any] = {}

    # --- what a method overrides

    def before_round(self, round_number: int) -> None:
        """Do what comes before a round's training, e.g. an estimate at the sites; federated averaging does nothing."""

    def aggregation_weights(self, round_number: int) -> LayerWeights | None:
        """Return the round's (site × block) weights, or None for quantity weights from the reported sample counts."""
        del round_number
        return None

    def weights_by_reports(self, round_number: int) -> WeightsByReports | None:
        """Return what makes the round's weights of what sites report with their models of this round.

        By default None: the weights are known before, see :meth:`aggregation_weights`. Else models wait for the weights
        until all sites have answered.
        """
        del round_number
        return None

    def after_training(self, reports: Mapping[str, Mapping[str, Any]]) -> None:
        """Take note of what sites reported with the models that make up this round's; by default nothing."""

    def after_rounds(self) -> None:
        """Do what comes after the last round, with the final model; federated averaging does nothing."""

    @property
    def is_scored_at_server(self) -> bool:
        """Whether the global model is what a test set at the server can score; else the sites are asked."""
        return True

    def task_meta(self) -> dict[str, Any]:
        """Return what goes to the sites with every task, beside the model, the round and the run that is continued."""
        return {}

    def describe_round(self) -> dict[str, Any]:
        """Return what the method adds to the record of the round that was just trained, as plain values."""
        return {}

    def stage(self, round_number: int) -> str:
        """Return the name of the stage that a round belongs to."""
        del round_number
        return "federated averaging"

    @property
    def rounds_of_averaging(self) -> int:
        """Number of rounds at the start in which the method is federated averaging, and may continue a run of it."""
        return 0

    def method_state(self) -> dict[str, Any]:
        """Return what the method must remember across a restart, as plain values."""
        return {}

    def restore_method_state(self, state: Mapping[str, Any]) -> None:
        """Take back what :meth:`method_state` returned; federated averaging left nothing."""

    def describe(self) -> dict[str, Any]:
        """Return what the method adds to the run's summary, as plain values."""
        return {}

    # --- the run

    def run_rounds(self) -> None:
        """Run all rounds.

        Raises:
            RunFailedError: if too many rounds in a row had no usable result, or there is no start model.
            DataError: if the start model that the settings name, or the server's test set, cannot be used.
            ResumeError: if the run to be continued does not fit the job.
        """
        set_threads(self.settings.threads, self._site_config_folder())
        self._prepare()
        if self.state.round_number >= self.settings.rounds:
            # A run that was killed after its last round: no round comes whose end would write its result.
            self._write_result()
        failed_rounds = 0
        for round_number in range(self.state.round_number + 1, self.settings.rounds + 1):
            started = time.monotonic()
            self.refused, self._reports, self._drifts, self._statistics = {}, {}, {}, {}
            self._of_weights = {}
            self._bounds = InfluenceBounds(self.settings.influence, self.warning)
            self.before_round(round_number)
            if self.abort_signal.triggered:
                return
            succeeded = self._train_round(round_number)
            if self.abort_signal.triggered:
                return
            failed_rounds = 0 if succeeded else failed_rounds + 1
            self._finish_round(round_number, started)
            if failed_rounds >= self.settings.max_failed_rounds:
                refusals = "; ".join(f"{site}: {reason}" for site, reason in sorted(self.refused.items()))
                raise RunFailedError(
                    f"Fewer than {self.settings.min_sites} usable results in {failed_rounds} rounds in a row. "
                    f"Refused in the last: {refusals or 'none'}."
                )
        self.after_rounds()
        self.info(f"{self.method}: finished {self.settings.rounds} rounds.")

    @property
    def blocks(self) -> tuple[str, ...]:
        """The network's layer blocks in forward order."""
        return self._blocks

    @property
    def run_folder(self) -> Path:
        """The folder of the run at the server."""
        return Path(self.get_run_dir())

    def model_to_send(self, round_number: int) -> FLModel:
        """Return the global model, with what the method says to the sites and the run that is continued."""
        return FLModel(
            params=self.state.params,
            params_type=ParamsType.FULL,
            current_round=round_number,
            total_rounds=self.settings.rounds,
            meta=self._continued | self.task_meta(),
        )

    def _prepare(self) -> None:
        initial = self.load_model()
        if initial is None or not initial.params:
            raise RunFailedError("The persistor gave no start model.")
        settings = self.settings.model_dump(mode="json")
        params = dict(initial.params)
        if self.settings.start_model and not self.settings.resume_from:
            params = read_start_weights(model_file(self.settings.start_model, self.fl_ctx), params)
            self.info(f"Beginning with the weights of {self.settings.start_model}.")
        self.state = RunState(self.method, settings, 0, params)
        network = self.persistor.model
        self._blocks = layer_blocks(network, self.settings.blocks)
        self._block_of = assign_blocks(self.state.params, self._blocks)
        self._trained_names = sorted(name for name, _ in network.named_parameters())
        self._statistics_names = sorted(
            name
            for name, tensor in self.state.params.items()
            if tensor.is_floating_point() and name not in self._trained_names
        )
        self._aggregator = self.get_component(self._aggregator_id)
        self._server_test = ServerTest(network, self.settings, self.run_folder, self._site_config_folder())
        if self.is_scored_at_server:
            self._server_test.check_data()
        if self.settings.resume_from:
            self._resume(settings)
        write_records(self.run_folder / METRICS_FILE, self.state.history)
        job_id = self.fl_ctx.get_job_id()
        self._absent = sorted(
            sites_of_job(Path(self.engine.get_workspace().get_job_meta_path(job_id)))
            - {client.name for client in self.engine.get_clients()}
        )
        if self._absent:
            self.warning(f"Not there when the job started, and not in it: {', '.join(self._absent)}.")

    def _resume(self, settings: dict[str, Any]) -> None:
        earlier = RunState.load(state_file(self.settings.resume_from, self.fl_ctx))
        earlier.check_continues(self.method, settings, self.rounds_of_averaging)
        earlier.method, earlier.settings = self.method, settings
        self.state = earlier
        self.num_samples = dict(earlier.method_state["num_samples"])
        # Earlier versions kept no first claims.
        first = earlier.method_state.get("first_claims", {_TRAINING: self.num_samples})
        self._claims = {kind: SampleClaims(self.warning, first.get(kind)) for kind in self._claims}
        self.restore_method_state(earlier.method_state)
        # Sites find in it what they had made of their annotations.
        if "job" in earlier.method_state:
            self._continued = {CONTINUED_JOB: earlier.method_state["job"], CONTINUED_ROUND: earlier.round_number}
        self.info(f"Continuing after round {earlier.round_number} of {self.settings.resume_from}.")

    def _site_config_folder(self) -> Path:
        return Path(self.engine.get_workspace().get_site_config_dir())

    def _train_round(self, round_number: int) -> bool:
        known, by_reports = None, self.weights_by_reports(round_number)
        if by_reports is None:
            known = self.aggregation_weights(round_number)
        waits = by_reports is not None or self.settings.influence.has_bounds
        asked = self._sites_there()
        if not self._has_asked:
            self.info(f"Round {round_number}/{self.settings.rounds}: {len(asked)} sites train.")
            self._has_asked = True
        self._claim_limit = claim_limit(max(len(asked), 1))
        self._aggregator.start_round(
            round_number,
            self.state.params,
            self._block_of,
            known,
            num_sites=max(len(asked), 1),
            wait_in=self.run_folder / _WAITING_FOLDER if waits else None,
        )
        self.give_task(TRAIN, round_number, self._receive_model, asked)
        if len(self._reports) < self.settings.min_sites:
            self.error(
                f"Round {round_number}: {len(self._reports)} usable results, at least {self.settings.min_sites} are "
                "needed; the global model stays as it is."
            )
            self._aggregator.give_up_round()
            return False
        samples = self._samples_of_results()
        given = by_reports(self._reports) if by_reports is not None else known
        weights = self._quantity(samples) if given is None else given.only(samples)
        bounded = self._bounds.weights(weights, samples)
        self._note_weights(bounded)
        if waits:
            self._aggregator.weigh(
                None if given is None and bounded is weights else bounded,
                self._bounds.update_factors(_roots(self._drifts)),
                inner_ranges([self._statistics[site] for site in sorted(self._statistics)]),
            )
        self.state.params = self._aggregator.aggregate_model().params
        self.after_training(self._reports)
        return True

    def _note_weights(self, weights: LayerWeights) -> None:
        """Take note of how many sites the round's weights are of in effect, and warn where it is one."""
        effective = weights.fewest_effective_sites
        self._of_weights = {"effective_sites": effective}
        if effective < FEW_EFFECTIVE_SITES and len(weights.sites) > 1:
            site, weight = weights.strongest
            self._of_weights["dominant"] = {"site": site, "weight": weight}
            # Said once for all rounds in a row.
            if not (self.state.history and "dominant" in self.state.history[-1]):
                self.warning(
                    f"{site} nearly decides alone: it has {weight:.2f} of the weight in a layer block, "
                    f"{effective:.2f} effective sites of {len(weights.sites)}."
                )

    def _quantity(self, num_samples: Mapping[str, int]) -> LayerWeights:
        return LayerWeights.same_in_all_blocks(quantity_weights(num_samples), self._blocks)

    def _samples_of_results(self) -> dict[str, int]:
        return {site: report["num_samples"] for site, report in self._reports.items()}

    def _sites_there(self) -> list[str]:
        return sorted(client.name for client in self.engine.get_clients())

    def ask_sites(
        self, task: str, round_number: int, sites: Collection[str] | None = None
    ) -> dict[str, dict[str, Any]]:
        """Ask sites, as the base class does; numbers of samples in their answers count as far as in their results."""
        answers = super().ask_sites(task, round_number, sites)
        claims = self._claims[_VALIDATION if task in (VALIDATE, VALIDATE_CLASSES) else _TRAINING]
        limit = claim_limit(max(len(self._sites_there()), 1))
        for site, answer in answers.items():
            if "num_samples" in answer:
                answer["num_samples"] = min(claims.counted(site, answer["num_samples"], limit), limit)
        return answers

    def _measure_update(self, site: str, params: Mapping[str, torch.Tensor]) -> None:
        has_bound = self.settings.influence.max_update_ratio is not None
        if has_bound or self.settings.task == "classification":
            self._drifts[site] = squared_distance(params, self.state.params, self._trained_names)
        if has_bound:
            self._statistics[site] = {name: params[name].clone() for name in self._statistics_names}

    def _receive_model(self, result: FLModel) -> bool:
        site = result.meta["client_name"]
        if any(isinstance(value, Unfetched) for value in (result.params or {}).values()):
            self.refuse(site, "its model could not be fetched; see the server's log")
            return False
        reason = report_refusal(TRAIN, result.meta, self.settings.network.num_classes)
        if reason is None:
            counted = self._claims[_TRAINING].counted(site, result.meta["num_samples"], self._claim_limit)
            result.meta["num_samples"] = counted
            reason = self._aggregator.refuse_or_accept(result)
            if reason is None:
                self._measure_update(site, result.params)
            # A site that joined late is refused this once, but its number of samples counts for the next weights.
            if 1 <= counted <= self._claim_limit:
                self.num_samples[site] = counted
        if reason is not None:
            self.refuse(site, reason)
            return False
        self._reports[site] = {"train_loss": None} | {
            name: _plain(result.meta[name]) for name in _REPORTED_FIELDS if name in result.meta
        }
        return True

    def _finish_round(self, round_number: int, started: float) -> None:
        record: dict[str, Any] = {"round": round_number, "stage": self.stage(round_number)}
        record |= self._score(round_number)
        record["sites"] = dict(sorted(self._reports.items()))
        record["refused"] = dict(sorted(self.refused.items()))
        if self._bounds.touched:
            record["bounded"] = dict(sorted(self._bounds.touched.items()))
        if self._drifts and self.settings.task == "classification":
            record["stability"] = stability(self._drifts)
        record |= self._of_weights | self.describe_round()
        record["seconds"] = round(time.monotonic() - started, 3)
        self.state.round_number = round_number
        self.state.method_state = {
            "num_samples": dict(self.num_samples),
            "first_claims": {kind: dict(claims.first) for kind, claims in self._claims.items()},
            "job": str(self.fl_ctx.get_job_id()),
            **self.method_state(),
        }
        self.state.history.append(record)
        self.state.save(self.run_folder / STATE_FILE)
        if round_number in self.settings.keep_rounds:
            shutil.copyfile(self.run_folder / STATE_FILE, self.run_folder / kept_state_file(round_number))
        append_record(self.run_folder / METRICS_FILE, record)
        self._write_result()
        self._log_scalars(record)
        if self.settings.task_process:
            # NVFlare's tasks and messages refer to each other in circles, with the models in them.
            gc.collect()

    def _write_result(self) -> None:
        """Write the model and the summary as they are after the last finished round."""
        self.save_model(FLModel(params=self.state.params, params_type=ParamsType.FULL, meta={}))
        details = {"absent": self._absent, "server_threads": torch.get_num_threads()}
        write_summary(self.run_folder / SUMMARY_FILE, self.state, details | self.describe())

    def _score(self, round_number: int) -> dict[str, Any]:
        sites_are_embedded = bool(self._reports) and all(report["embedded_data"] for report in self._reports.values())
        if self.is_scored_at_server:
            scores = self._server_test.score(self.state.params, sites_are_embedded)
            if scores is not None:
                return scores
        if round_number < self.settings.rounds and round_number % self.settings.validate_every:
            return self._scoring.unscored
        answers = self.ask_sites(self._scoring.site_task, round_number)
        return self._scoring.unscored | self._scoring.pool(answers)

    def _log_scalars(self, record: Mapping[str, Any]) -> None:
        scalars = {name: record[name] for name in self._scoring.names}
        scalars |= {"accepted_sites": len(record["sites"])}
        scalars |= {name: record.get(name) for name in ("effective_sites", "stability")}
        for name in self.site_scalars:
            scalars |= {f"{name}/{site}": report.get(name) for site, report in record["sites"].items()}
        for tag, value in scalars.items():
            if value is not None:
                dxo = create_analytic_dxo(
                    tag=tag, value=float(value), data_type=AnalyticsDataType.SCALAR, global_step=record["round"]
                )
                with self.engine.new_context() as fl_ctx:
                    send_analytic_dxo(self, dxo=dxo, fl_ctx=fl_ctx)
        value = record[self._scoring.names[0]]
        score = "not scored" if value is None else f"{self._scoring.label} {100 * value:.1f} %"
        rounds_left = self.settings.rounds - record["round"]
        seconds = time_left([earlier["seconds"] for earlier in self.state.history], rounds_left)
        left = f", about {duration(seconds)} left" if rounds_left else ""
        self.info(f"Round {record['round']}/{self.settings.rounds} ({record['stage']}): {score}{left}")


def _plain(value: Any) -> Any:
    """A reported value as the state and JSON hold it, None where it is undefined."""
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _roots(squares: Mapping[str, float]) -> dict[str, float]:
    return {site: math.sqrt(square) for site, square in squares.items()}
