"""Rounds as a method sees them at the server, made by hand."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from plain_records import record, report, site_report

from fedannot.custom.aggregation.influence import InfluenceBounds
from fedannot.custom.aggregation.settings import InfluenceSettings
from fedannot.custom.interface.views import Round
from fedannot.custom.records.round_records import RoundRecord

BLOCKS = ("first", "last")

Asked = Callable[[str, Collection[str] | None], dict[str, dict[str, Any]]]


class NoModels:
    """Models that wait for their weights, at which nobody looks."""

    sites: Sequence[str] = ()

    def params(self, site: str) -> dict[str, torch.Tensor]:
        raise AssertionError(f"Nobody looks at the model of {site}.")


def nobody(task: str, sites: Collection[str] | None = None) -> dict[str, dict[str, Any]]:
    raise AssertionError(f"Nobody is asked for {task!r} of {sites}.")


def as_record(given: RoundRecord | Mapping[str, Any]) -> RoundRecord:
    """Return the record of a round that is given by a few values."""
    if isinstance(given, RoundRecord):
        return given
    sites = {site: report(**fields) for site, fields in given["sites"].items()}
    return record(
        given["round"], **{name: value for name, value in given.items() if name != "round"} | {"sites": sites}
    )


def round_of(
    number: int,
    *,
    history: Sequence[Mapping[str, Any]] = (),
    num_samples: Mapping[str, int] | None = None,
    reports: Mapping[str, Mapping[str, Any]] | None = None,
    drifts: Mapping[str, float] | None = None,
    influence: Mapping[str, Any] | None = None,
    blocks: tuple[str, ...] = BLOCKS,
    ask: Any = nobody,
    said: list[str] | None = None,
    stopped: bool = False,
) -> Round:
    """Return a round; `said` gets what the method writes to the log."""
    sentences = [] if said is None else said
    return Round(
        number=number,
        params={},
        blocks=blocks,
        history=[as_record(item) for item in history],
        num_samples=num_samples or {},
        bounds=InfluenceBounds(InfluenceSettings.model_validate(influence or {}), sentences.append),
        ask=ask,
        info=sentences.append,
        warning=sentences.append,
        is_stopped=lambda: stopped,
        reports={site: site_report(**report) for site, report in (reports or {}).items()},
        drifts=drifts or {},
    )
