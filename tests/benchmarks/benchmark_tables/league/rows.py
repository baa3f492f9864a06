"""Rows of the league: federations on which every method of their task is compared."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from .. import auto, decoupled, feda3i, fedgsca, fedia
from ..rows import MakeData

CELL_WARMUP_ROUNDS = 9
# With the eight test volumes of the single methods' cards, Holm's correction over 13 methods leaves no p of Wilcoxon's
# test below 0.10.
_TEST_VOLUMES = 16
_WITH_TEST = f", {_TEST_VOLUMES} for the test"


@dataclass(frozen=True)
class LeagueRow:
    """A federation of the league.

    Attributes:
        what: what the data are, for the table.
        task: what is learnt.
        make: writes the federation into a folder that does not exist yet, for a seed.
        settings: settings of all methods that have them.
        clean: the row of the same images with clean annotations; empty for such a row itself.
        tuning_row: where settings for it are chosen, one of :data:`TUNING_ROWS`.
        needs_data: whether it is made of the packs of real images.
    """

    what: str
    task: Literal["segmentation", "classification"]
    make: MakeData
    settings: Mapping[str, Any] = field(default_factory=dict)
    clean: str = ""
    tuning_row: str = "choice-contours"
    needs_data: bool = False


def _lesions(what: str, make: MakeData, *, clean: str = "lesions-clean") -> LeagueRow:
    return LeagueRow(f"lesions, {what}", "segmentation", make, feda3i.SETTINGS, clean)


def _cells(what: str, label_noise: str | None) -> LeagueRow:
    settings = {"warmup_rounds": CELL_WARMUP_ROUNDS}
    clean = "" if label_noise is None else "cells-clean"
    make = fedgsca.cells(label_noise)
    return LeagueRow(f"cells, {what}", "classification", make, settings, clean, "choice-labels")


def _missed(what: str, make: MakeData, *, clean: str = "") -> LeagueRow:
    """Where lesions are missing, methods that replace labels only add lesions, as FedIA's authors let them."""
    settings = fedia.STEADY | {"direction": "add"}
    return LeagueRow(f"{what}; labels are added only", "segmentation", make, settings, clean, "choice-missed")


def _chambers(what: str, protocols: str | None) -> LeagueRow:
    clean = "" if protocols is None else "chambers-alike"
    make = decoupled.chambers(protocols, test_volumes=_TEST_VOLUMES)
    settings = auto.SETTINGS_OF_PROTOCOLS
    return LeagueRow(f"chambers, {what}{_WITH_TEST}", "segmentation", make, settings, clean, "choice-protocols")


def _crowd_cells(folder: Path, seed: int) -> None:
    from real_federations import write_cells

    write_cells(folder, seed)


def _expert_cells(folder: Path, seed: int) -> None:
    from real_federations import write_majority_cells

    write_majority_cells(folder, seed)


ROWS: Mapping[str, LeagueRow] = {
    "lesions-clean": _lesions("clean contours", feda3i.phantom(None), clean=""),
    "lesions-shrink": _lesions(f"N_S, mostly smaller: {feda3i.NOISE_SMALLER}", feda3i.phantom(feda3i.NOISE_SMALLER)),
    "lesions-expand": _lesions(f"N_E, mostly larger: {feda3i.NOISE_LARGER}", feda3i.phantom(feda3i.NOISE_LARGER)),
    "lesions-uniform": _lesions(
        f"N_S, strengths U(0, 25): {feda3i.NOISE_SMALLER}", feda3i.phantom(feda3i.NOISE_SMALLER, stratified=None)
    ),
    "lesions-weak": _lesions("weak: M(8,-8,4,0.2)", feda3i.phantom("M(8,-8,4,0.2)")),
    "lesions-larger": _lesions("all larger: M(25,-25,10,1)", feda3i.phantom("M(25,-25,10,1)")),
    "lesions-scanner": _lesions("one honest site with another scanner", auto.one_site(auto.another_scanner)),
    "missed-none": _missed(
        f"volumes, all lesions annotated{_WITH_TEST}", fedia.volumes(None, test_volumes=_TEST_VOLUMES)
    ),
    "missed": _missed(
        f"volumes, 2/4/6/8 tenths annotated{_WITH_TEST}",
        fedia.volumes(fedia.MS[2], test_volumes=_TEST_VOLUMES),
        clean="missed-none",
    ),
    "chambers-alike": _chambers("all annotate alike", None),
    "chambers-protocols": _chambers(f"protocols {decoupled.PROTOCOLS}", decoupled.PROTOCOLS),
    "cells-clean": _cells("all labels right", None),
    "cells-s40": _cells("labels S40", "S40"),
    "cells-c20": _cells("labels C20", "C20"),
    "cells-mixed": _cells("labels 0-S40-P20-C20", "0-S40-P20-C20"),
    "experts": LeagueRow(
        "BUBIL cells, the experts' majority", "segmentation", _expert_cells, feda3i.SETTINGS, needs_data=True
    ),
    "annotators": LeagueRow(
        "BUBIL cells, a site per source with a crowd set's masks",
        "segmentation",
        _crowd_cells,
        feda3i.SETTINGS,
        "experts",
        needs_data=True,
    ),
}

# Settings are chosen on other noise than is reported, and on other phantoms where there are any.
TUNING_ROWS: Mapping[str, LeagueRow] = {
    "choice-contours": LeagueRow(
        "lesions of six sites, M(16,-16,7,0.2)",
        "segmentation",
        feda3i.phantom("M(16,-16,7,0.2)", num_sites=6),
        feda3i.SETTINGS,
    ),
    "choice-missed": _missed("pictures of many objects, 3/5/7/9 tenths annotated", fedia.pictures(fedia.MS[1])),
    "choice-protocols": LeagueRow(
        "chambers, protocols 0-0-C(12,5)-D(12,5)",
        "segmentation",
        decoupled.chambers("0-0-C(12,5)-D(12,5)"),
        auto.SETTINGS_OF_PROTOCOLS,
    ),
    "choice-labels": _cells("labels P20", "P20"),
}


def tuning_row_of(name: str) -> str:
    """Return where settings for a row are chosen; empty for a row that is no more."""
    return ROWS[name].tuning_row if name in ROWS else ""
