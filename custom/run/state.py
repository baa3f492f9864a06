"""What a run leaves behind after every round: the state that a restart needs, and the rounds' metrics."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypedDict

import torch

from ...transforms.errors import DataError
from ...transforms.natural_order import natural_order
from ..data.tensor_files import write_tensors
from ..former_names import with_current_keys
from ..networks.devices import preferred_device
from ..networks.precision import ComputedPrecision
from ..records.record_lines import LogPosition, RecordLog
from ..records.round_records import RoundRecord
from ..refusals import RefusalReason
from ..settings import RunSettings, SettingValues
from .later_settings import with_later_settings
from .reading import METRICS_FILE, logged_records, round_records

STATE_FILE = "fedannot_state.pt"
# The model of the round that is reported, where the sites' validation chooses it and the result is another model.
SCORED_MODEL_FILE = "scored_model.pt"
SUMMARY_FILE = "summary.json"

# Forms of the state file, with all records in it, or with those that the metrics file next to it lacks; another one
# cannot be continued.
STATE_VERSION, STATE_VERSION_BESIDE_METRICS = 2, 3

# Settings that may differ between a run and the one that continues it.
_WITHOUT_EFFECT_ON_BITS = {
    "rounds",
    "resume_from",
    "task_timeout",
    "grace_period",
    "task_process",
    "data",
    "data_required",
    "keep_rounds",
    "waiting_memory_mb",
    "scored_rounds",
    "nsd_tolerance",
}

# Schedules that spread over all rounds of a run, besides those that are classes.
_SCHEDULES_OF_ALL_ROUNDS = ("polynomial", "cosine")

# The method that others start with.
_AVERAGING = "fedavg"


def kept_state_file(round_number: int | Literal["*"]) -> str:
    """Return the name of the file with the state after a round, where the job keeps it; ``*`` gives the pattern."""
    path = Path(STATE_FILE)
    return f"{path.stem}_round_{round_number}{path.suffix}"


class RunFailedError(RuntimeError):
    """The run cannot go on; the text says why."""


class TooFewResultsError(RunFailedError):
    """Too many rounds in a row had too few usable results.

    Args:
        failed_rounds: how many.
        min_sites: usable results that a round needs.
        refused: why sites were refused in the last round, by name.
    """

    def __init__(self, failed_rounds: int, min_sites: int, refused: Mapping[str, RefusalReason]) -> None:
        super().__init__(
            f"Fewer than {min_sites} usable results in {failed_rounds} rounds in a row. Refused in the last:"
            f"{_refused_in_text(refused)}"
        )


def _refused_in_text(refused: Mapping[str, RefusalReason]) -> str:
    """Who was refused and why; in a simulation with the sites' errors, equal ones once."""
    if not any(reason.error_lines for reason in refused.values()):
        return f" {'; '.join(f'{site}: {reason}' for site, reason in sorted(refused.items())) or 'none'}."
    sites: dict[tuple[str, ...], list[str]] = {}
    for site, reason in sorted(refused.items(), key=lambda item: natural_order(item[0])):
        sites.setdefault((str(reason), *reason.error_lines), []).append(site)
    return "".join(
        f"\n{', '.join(names)}: {code}" + "".join(f"\n    {line}" for line in lines)
        for (code, *lines), names in sites.items()
    )


class ResumeError(ValueError):
    """A run cannot be continued from the given state."""


class LoopState(TypedDict, total=False):
    """What the rounds are continued with besides the model; empty before the first round is finished.

    Attributes:
        num_samples: of every site that has trained, as far as its reports count.
        first_claims: by whose samples they are of, the number that each site reported first.
        preparations: how each site prepares images, see :mod:`fedannot.custom.data.description_values`; earlier
            versions kept none.
        job: the job that the state is of.
        final: what the choice of the final model remembers; absent where that is the last one.
        scored: the same of the model of the round that is reported; absent where nothing chooses it.
        method: what the method remembers, see :meth:`fedannot.custom.interface.method.ServerMethod.state`.
        residual: by entry what was rounded off the global model; absent where it is sent as it is.
    """

    num_samples: dict[str, int]
    first_claims: dict[str, dict[str, int]]
    preparations: dict[str, list[float]]
    job: str
    final: dict[str, Any]
    scored: dict[str, Any]
    method: Mapping[str, object]
    residual: dict[str, torch.Tensor]


@dataclass
class RunState:
    """State of a run after a finished round; everything random is derived from the seed and the round.

    Attributes:
        method: the method's name.
        settings: the job's settings.
        round_number: the last finished round, 0 before the first.
        params: the global model after that round.
        method_state: what loop and method remember besides the model (numbers of samples, estimates, groups).
        history: one record per round, as in the metrics file.
        logged: up to where the metrics file next to the state has those records; None if the state has all of them.
    """

    method: str
    settings: SettingValues
    round_number: int
    params: dict[str, torch.Tensor]
    method_state: LoopState = field(default_factory=LoopState)
    history: list[RoundRecord] = field(default_factory=list)
    logged: LogPosition | None = None

    def save(self, path: Path, log: RecordLog | None = None) -> None:
        """Write the state in one step: after a crash the file holds this state or the one before.

        Args:
            path: the file.
            log: the metrics file next to it, whose records the state need not hold; None for a state that is read
                without one.
        """
        # Not asdict, which would copy the model.
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        values["history"] = [record.plain() for record in self.history[log.count if log else 0 :]]
        if log is None:
            del values["logged"]
            write_tensors(path, {"version": STATE_VERSION} | values)
        else:
            write_tensors(
                path, {"version": STATE_VERSION_BESIDE_METRICS} | values | {"logged": log.position.model_dump()}
            )

    @classmethod
    def load(cls, path: Path) -> "RunState":
        """Read a state, with the records that the metrics file next to it has.

        Raises:
            ResumeError: if the file is absent or is not a run's state, or the metrics file is not that run's.
        """
        try:
            values = torch.load(path, map_location="cpu", weights_only=True)
            version, known = values.pop("version", None), (STATE_VERSION, STATE_VERSION_BESIDE_METRICS)
            if version not in known and "method_state" in values:
                raise ResumeError(
                    f"{path} is the state of a run of another version of fedannot (form {version}, expected "
                    f"{STATE_VERSION_BESIDE_METRICS}); only the version that began the run can continue it."
                )
            state = cls(**values)
            state.history = round_records(state.history, str(path))
            if state.logged is not None:
                state.logged = LogPosition.model_validate(state.logged)
                state.history = [*logged_records(path.with_name(METRICS_FILE), state.logged), *state.history]
            return state
        except ResumeError:
            raise
        except FileNotFoundError as error:
            raise ResumeError(f"Expected the state of an earlier run at {path}, but there is no such file.") from error
        except DataError as error:
            raise ResumeError(f"The state of an earlier run cannot be used. {error}") from error
        except Exception as error:
            raise ResumeError(f"{path} is not the state of a run ({type(error).__name__}: {error}).") from error

    def check_continues(self, method: str, settings: Mapping[str, Any], rounds_of_averaging: int = 0) -> None:
        """Check that a job with these settings may continue this run: those that decide its bits must be the same.

        Args:
            method: the job's method.
            settings: the job's settings.
            rounds_of_averaging: rounds that the method starts with that are those of federated averaging; within them
                a run of federated averaging may be continued, and what it has no settings for has had no effect.

        Raises:
            ResumeError: if another method or other settings made the state.
        """
        branches = self.method == _AVERAGING and method != _AVERAGING and self.round_number <= rounds_of_averaging
        if method != self.method and not branches:
            raise ResumeError(
                f"The state is of a run of {self.method!r}, but the job is {method!r}"
                + (
                    f", which may branch from {_AVERAGING} within its first {rounds_of_averaging} rounds; the state is "
                    f"that after round {self.round_number}."
                    if self.method == _AVERAGING
                    else "."
                )
            )
        own, settings = (with_later_settings(with_current_keys(values)) for values in (self.settings, settings))
        if own["training"]["precision"] == "auto" and not self._reports_precision():
            # Of an earlier version, in which that was the default.
            own["training"] = own["training"] | {"precision": _former_auto()}
        keys = set(own) if branches else set(settings) | set(own)
        ignored = _WITHOUT_EFFECT_ON_BITS.copy()
        if branches:
            ignored.add("method")
        if not self._has_embedded_data():
            ignored.add("embedded")
        differing = sorted(key for key in keys - ignored if settings.get(key) != own.get(key))
        if differing:
            result = [text for key in differing for text in _differences(key, settings.get(key), own.get(key))]
            raise ResumeError(f"The state was made with other settings: now {', '.join(result)}.")
        _check_rounds(settings, own)
        self._check_scored_rounds(settings, own)

    def _check_scored_rounds(self, now: Mapping[str, Any], before: Mapping[str, Any]) -> None:
        """Raises ResumeError if the best round is asked for, and the sites have not validated those that are over."""
        if now["scored_rounds"] != "best" or self.round_number == 0:
            return
        if "best" not in (before["scored_rounds"], before["final_model"]):
            raise ResumeError(
                f"Found scored_rounds='best', but the state is of a run of scored_rounds={before['scored_rounds']!r}, "
                f"in whose {self.round_number} rounds the sites validated nothing; expected last, last_5 or last_10, "
                "or a new run."
            )

    def is_over(self, settings: RunSettings) -> bool:
        """Return whether a job that goes on with this run has no round left.

        Args:
            settings: the job's settings.
        """
        if self.round_number >= settings.rounds:
            return True
        without_gain = self.method_state.get("final", {}).get("without_gain", 0)
        return settings.patience is not None and without_gain >= settings.patience

    def _reports_precision(self) -> bool:
        """Whether sites have reported in which precision they computed, as they do where the job asks for one."""
        reports = [report for record in self.history for report in record.sites.values()]
        return any(report.significand_bits is not None for report in reports)

    def _has_embedded_data(self) -> bool:
        """Whether any site has trained on the embedded phantom; else its settings have had no effect."""
        reports = [report for record in self.history for report in record.sites.values()]
        return not reports or any(report.embedded_data for report in reports)


def _former_auto() -> ComputedPrecision:
    """What the precision ``auto`` was in earlier versions: mixed on a GPU."""
    return "bf16" if preferred_device().type == "cuda" else "fp32"


def _check_rounds(now: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Raises ResumeError if the learning rate would jump, since it follows from a number of rounds that has changed."""
    schedule, rounds, earlier = now["training"]["schedule"], now.get("rounds"), before.get("rounds")
    is_class = not isinstance(schedule, str) or schedule[:1].isupper()
    if rounds != earlier and (is_class or schedule in _SCHEDULES_OF_ALL_ROUNDS):
        raise ResumeError(
            f"Found rounds={rounds}, but the state is of a run of rounds={earlier} whose learning rate falls over all "
            f"rounds (training.schedule={schedule!r}); expected the same rounds. Only runs with training.schedule = "
            "constant or steps are continued with other rounds."
        )


def _differences(key: str, now: Any, before: Any) -> list[str]:
    """What differs in a setting; of a block only the settings in it that do."""
    if isinstance(now, Mapping) and isinstance(before, Mapping):
        names = sorted(name for name in set(now) | set(before) if now.get(name) != before.get(name))
        return [text for name in names for text in _differences(f"{key}.{name}", now.get(name), before.get(name))]
    return [f"{key}={now!r} instead of {before!r}"]
