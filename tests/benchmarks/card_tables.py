"""The long tables of docs/benchmarks and docs/lab: makes the lines between two marks again from the JSON files.

    python tests/benchmarks/card_tables.py docs/benchmarks/*.md docs/lab/*.md

A mark is a comment before a table that says which file, rows and arms it shows. `table` has a line for each row of data
and a column for each arm: the reference's mean, the others' difference to it. `scores` has a line for each arm of each
row, with the score of every seed. `centres` has a line for each arm, with the Dice on generic data and on sites' own.
`beside` keeps the table and its words, and makes the figures of FedAvg, of `auto` and of their difference again, in the
lines whose column `row` names a row.

    <!-- table feda3i.json rows=ns-d,ne-d arms=fedavg,feda3i -->
    <!-- scores fedia.json rows=ms-2 -->
    <!-- centres decoupled.json rows=generic -->
    <!-- beside auto.json auto_real.json -->
    <!-- end -->
"""

import re
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmark_tables.figures import ArmFigures, RowFigures, read_table
from benchmark_tables.tables import FINDINGS, shown_difference

MARK = re.compile(
    r"(?P<mark><!-- (?P<layout>table|scores|centres|beside) (?P<options>[^\n]+) -->\n)(?P<body>.*?)(?=<!-- end -->)",
    re.S,
)


def regenerated(text: str, folder: Path) -> str:
    """Return a page with the tables between its marks made from the files that they name."""
    return MARK.sub(lambda found: f"{found['mark']}{_table(found, folder)}", text)


def _table(found: re.Match[str], folder: Path) -> str:
    layout = found["layout"]
    file, *given = found["options"].split()
    if layout == "beside":
        return _beside(found["body"], [row for name in (file, *given) for row in read_table(folder / name)])
    chosen = {name: values.split(",") for name, values in (option.split("=", 1) for option in given)}
    rows = {row.row: row for row in read_table(folder / file)}
    named = [rows[name] for name in chosen["rows"]]
    makers = {"table": _by_arms, "scores": _by_seeds, "centres": _by_centres}
    lines = makers[layout](named, chosen)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _beside(body: str, rows: Sequence[RowFigures]) -> str:
    """The same table with its figures made again; every row of the files has to be in it."""
    headings, divider, *lines = body.splitlines()
    names = [cell.strip() for cell in headings.split("|")]
    missing, made = {row.row: row for row in rows}, [headings, divider]
    for line in lines:
        cells = [cell.strip() for cell in line.split("|")]
        if (row := missing.pop(cells[names.index("row")].strip("`"), None)) is None:
            raise ValueError(f"No row of the figures, or one that is there twice: {line}")
        fedavg, auto = (next(arm for arm in row.arms if arm.arm == name) for name in ("fedavg", "auto"))
        cells[names.index("FedAvg")] = _scores(fedavg)
        cells[names.index("auto")] = "the same bits" if auto.scores == fedavg.scores else _scores(auto)
        cells[names.index("auto − FedAvg")] = _difference(auto)
        made.append(" | ".join(cells).strip())
    if missing:
        raise ValueError(f"Rows of the figures that are in no line: {', '.join(missing)}")
    return "\n".join(made) + "\n"


def _scores(arm: ArmFigures) -> str:
    return " / ".join(f"{value:.1f}" for value in arm.scores)


def _difference(arm: ArmFigures) -> str:
    """Its mean and standard deviation; the mean stands out where it is the larger of both."""
    differences = arm.differences or ()
    if not any(differences):
        return "0.0"
    mean, *spread = shown_difference(differences).replace("-", "−").split(" ", 1)
    stands_out = len(differences) > 1 and statistics.fmean(differences) > statistics.stdev(differences)
    return " ".join([f"**{mean}**" if stands_out else mean, *spread])


def _arms(row: RowFigures, chosen: dict[str, list[str]]) -> list[ArmFigures]:
    """The arms of a row that are shown, in the order of the mark."""
    result = {arm.arm: arm for arm in row.arms}
    return [result[name] for name in chosen.get("arms", result) if name in result]


def _by_arms(rows: Sequence[RowFigures], chosen: dict[str, list[str]]) -> Iterator[list[str]]:
    """A line for each row; `of` names an arm of which `findings` are shown, by parts of their headings."""
    findings = [heading for part in chosen.get("findings", []) for heading in FINDINGS if part in heading]
    headings = ["data", *chosen["arms"], *findings]
    yield headings
    yield ["---"] * len(headings)
    for row in rows:
        result = {arm.arm: arm for arm in _arms(row, chosen)}
        cells = [_of_arm(result.get(name)) for name in chosen["arms"]]
        findings_of_arm = result.get(chosen.get("of", chosen["arms"])[-1])
        yield [
            row.what,
            *cells,
            *("" if findings_of_arm is None else FINDINGS[heading](findings_of_arm) for heading in findings),
        ]


def _of_arm(arm: ArmFigures | None) -> str:
    if arm is None:
        return ""
    return f"{statistics.fmean(arm.scores):.1f}" if arm.differences is None else shown_difference(arm.differences)


def _by_seeds(rows: Sequence[RowFigures], chosen: dict[str, list[str]]) -> Iterator[list[str]]:
    """A line for each arm of each row, with the score of every seed."""
    headings = ["data", "arm", "each seed", "mean", "difference"]
    yield headings
    yield ["---"] * len(headings)
    for row in rows:
        for index, arm in enumerate(_arms(row, chosen)):
            mean = f"{statistics.fmean(arm.scores):.1f}"
            yield [row.what if index == 0 else "", arm.arm, _scores(arm), mean, shown_difference(arm.differences)]


def _by_centres(rows: Sequence[RowFigures], chosen: dict[str, list[str]]) -> Iterator[list[str]]:
    """A line for each arm of one row: Dice on generic data and on sites' own cases, the others' as differences."""
    (row,) = rows
    sites = sorted({site for arm in row.arms for found in arm.centres if found for site in found.own})
    yield ["arm", "generic", "own cases", *sites]
    yield ["---"] * (3 + len(sites))
    reference: list[list[float]] = []
    for arm in _arms(row, chosen):
        known = [found for found in arm.centres if found is not None]
        generic = [100 * (found.generic or 0.0) for found in known]
        own = [100 * statistics.fmean(found.own.values()) for found in known]
        if not reference:
            reference = [generic, own]
            cells = [f"{statistics.fmean(values):.1f}" for values in reference]
        else:
            cells = [
                shown_difference([one - other for one, other in zip(values, fixed, strict=True)])
                for values, fixed in zip((generic, own), reference, strict=True)
            ]
        at_sites = [statistics.fmean(100 * found.own[site] for found in known if site in found.own) for site in sites]
        yield [arm.arm, *cells, *(f"{value:.1f}" for value in at_sites)]


def main() -> None:
    """Make the tables of the named pages again."""
    for name in sys.argv[1:]:
        page = Path(name)
        text = page.read_text(encoding="utf-8")
        page.write_text(regenerated(text, page.parent), encoding="utf-8")


if __name__ == "__main__":
    main()
