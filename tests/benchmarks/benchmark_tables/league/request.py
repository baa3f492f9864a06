"""What is asked of the league: rows, methods and seeds, with the folders that they need."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedannot.apps.commands.bench import BenchmarkError
from fedannot.apps.runs.ray_engine import RayEngine
from fedannot.apps.runs.run_share import RunShare
from fedannot.custom.methods import METHODS

from .rows import LeagueRow


@dataclass(frozen=True)
class LeagueRequest:
    """What is to be made.

    Attributes:
        rows: by name.
        methods: names of methods; None for all.
        seeds: of each row.
        out: output folder.
        jobs: a folder of jobs; None for those that are installed.
        only: the share of each row's runs that is made here.
        processes: runs at a time; None for one per core, or what Ray has room for.
        engine: what is asked of Ray; None for processes of this machine.
    """

    rows: Mapping[str, LeagueRow]
    methods: Sequence[str] | None
    seeds: Sequence[int]
    out: Path
    jobs: Path | None = None
    only: RunShare | None = None
    processes: int | None = None
    engine: RayEngine | None = None


def chosen_methods(names: str | None) -> list[str] | None:
    """Return the methods named in a list with commas, None for all.

    Raises:
        BenchmarkError: if there is no such method.
    """
    if names is None:
        return None
    asked, known = [name.strip() for name in names.split(",")], {method.name for method in METHODS}
    if unknown := [name for name in asked if name not in known]:
        raise BenchmarkError(f"There are no methods {unknown}; the methods are: {', '.join(sorted(known))}.")
    return asked


def use_packs(rows: Mapping[str, LeagueRow], data: Path | None, *, chosen: bool) -> dict[str, LeagueRow]:
    """Return the rows that can be made, and let their writers find the packs of real images.

    Args:
        rows: by name.
        data: the folder of the packs; None for that of the environment variable FEDANNOT_REAL_DATA.
        chosen: whether a person has named the rows; else rows whose packs are absent are left out.

    Raises:
        BenchmarkError: if a named row needs packs that are absent.
    """
    if data is not None:
        if not data.is_dir():
            raise BenchmarkError(f"--data: found no folder {data}; expected that of the packs of real images.")
        os.environ["FEDANNOT_REAL_DATA"] = str(data)
    if "FEDANNOT_REAL_DATA" in os.environ:
        return dict(rows)
    if chosen and (absent := [name for name, row in rows.items() if row.needs_data]):
        raise BenchmarkError(
            f"The rows {', '.join(absent)} are made of packs of real images; name their folder: --data."
        )
    return {name: row for name, row in rows.items() if not row.needs_data}
