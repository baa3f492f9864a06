"""What runs return as plain values, as their files hold them, and records of rounds and sites made of few values."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedannot.apps.reports import output
from fedannot.apps.reports.compared_runs import ComparedRun, Comparison
from fedannot.apps.runs import compare as comparing
from fedannot.apps.runs import simulate as simulating
from fedannot.apps.wording.refusals import refusal_in_words
from fedannot.custom.records.round_records import Record, RoundRecord, SiteReport
from fedannot.custom.refusals import RefusalReason
from fedannot.custom.run.reading import round_record
from fedannot.custom.run.summary_record import SUMMARIES, Summary


def _plain(function: Callable[..., Record]) -> Callable[..., dict[str, Any]]:
    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> dict[str, Any]:
        return function(*args, **options).plain()

    return call


simulate = _plain(simulating.simulate)
compare = _plain(comparing.compare)
collect_output = _plain(output.collect_output)
read_summary = _plain(output.read_summary)


def in_words(refused: Any) -> Any:
    """Why a result is refused, in words; by site where it is by site; None where it is not refused."""
    if refused is None:
        return None
    if isinstance(refused, Mapping) and "code" not in refused:
        return {site: in_words(reason) for site, reason in refused.items()}
    return refusal_in_words(RefusalReason.model_validate(refused))


def report(**fields: Any) -> dict[str, Any]:
    """A site's report as files hold it."""
    return {"num_samples": 1, "num_excluded": 0, "embedded_data": False, "train_loss": None} | fields


def site_report(**fields: Any) -> SiteReport:
    """A site's report as methods see it."""
    return SiteReport.model_validate(report(**fields))


def record(round_number: int, **fields: Any) -> RoundRecord:
    """The record of a round, of a segmentation unless the fields have F1."""
    scores = ("f1", "recall", "precision") if "f1" in fields else ("dice", "left_empty", "hd95")
    values = {"round": round_number, "stage": "federated averaging", "evaluated_on": None, "seconds": 1.0}
    values |= {"sites": {}, "refused": {}} | dict.fromkeys(scores)
    return round_record(values | fields, "a test")


_SCORES = {"segmentation": ("dice", "left_empty", "hd95"), "classification": ("f1", "recall", "precision")}


def summary_values(**fields: Any) -> dict[str, Any]:
    """A run's summary as files hold it, complete, with what is given of it and of its rounds."""
    scores = dict.fromkeys(_SCORES[fields.get("task", "segmentation")])
    values: dict[str, Any] = {"version": 2, "task": "segmentation", "method": "fedavg", "seed": 0, "rounds_finished": 1}
    values |= {"sites": {}, "refusals": [], "bounded": [], "seconds": 1.0, "settings": {}, **fields}
    for name in ("last_rounds", "last_round"):
        values[name] = scores | fields.get(name, {})
    values["sites"] = {site: report(**found) for site, found in values["sites"].items()}
    values["rounds"] = [
        {"round": number, "stage": "federated averaging", "seconds": 1.0, **scores, **found}
        for number, found in enumerate(fields.get("rounds", ()), start=1)
    ]
    return values


def summary(**fields: Any) -> Summary:
    """A run's summary, as above."""
    values = summary_values(**fields)
    return SUMMARIES[values["task"]].model_validate(values)


def compared_run(**fields: Any) -> ComparedRun:
    """What a comparison keeps of a run."""
    scores = dict.fromkeys(_SCORES[fields.get("task", "segmentation")])
    values: dict[str, Any] = {"arm": "fedavg", "task": "segmentation", "method": "fedavg", "seed": 0, "num_sites": 2}
    values |= {"groups": "-", "p_value": None, "groups_as_drawn": None, "completeness": None, "corrections": None}
    values |= {"selection": None, "rare_recall": None, "centres": None, "seconds": 1.0, "peak_memory_mb": 1.0, **fields}
    for name in ("last_rounds", "last_round"):
        values[name] = scores | fields.get(name, {})
    values["rounds"] = [
        {"round": number, **scores, **found} for number, found in enumerate(fields.get("rounds", ()), start=1)
    ]
    return ComparedRun.model_validate(values)


def comparison(runs: Sequence[Mapping[str, Any]], **fields: Any) -> Comparison:
    """What a comparison found, of runs as for :func:`compared_run`."""
    made = tuple(compared_run(**run) for run in runs)
    values = {"reference": made[0].arm, "data": None, "seeds": (0,), "paired": ()} | fields
    return Comparison.model_validate(values | {"runs": made})
