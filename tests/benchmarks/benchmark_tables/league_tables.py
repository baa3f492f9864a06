"""The page of the league, in Markdown: what is best in each row, where `auto` is beaten, and the tables."""

import statistics
from collections.abc import Sequence

from fedannot.apps.reports.output import number
from fedannot.custom.run.summary_record import LAST_ROUNDS

from .league_figures import League, LeagueFigures, MethodFigures

REFERENCE = "fedavg"
AUTO = ("auto", "auto_classification")
# Points of Dice or F1: what noise must cost at least for a row to say anything of robustness, and what a round may
# still gain in a baseline that is trained to its end.
LEAST_LOSS = 6.0
LARGEST_SLOPE = 0.5


def league_page(league: League) -> str:
    """Return the page; rows of one seed have no standard deviation and no test over seeds."""
    parts = [
        "# League",
        _rivals_ahead(league.rows),
        "All methods have the network, training and rounds of federated averaging. A warm-up is as long as the row "
        "says. All other settings of a method are the published values, or those of its job; none was tuned. Scores "
        "are Dice or macro F1 in percent.",
        "\n".join(f"- {sentence}" for row in league.rows for sentence in _sentences(row, league)),
        _scores(league.rows),
        _details(league.rows),
    ]
    if any(method.is_personal for row in league.rows for method in row.methods):
        parts.append(_personal(league.rows))
    parts.append(_fields(league.rows))
    if absent := [(row.row, method) for row in league.rows for method in row.absent]:
        lines = [[row, method.method, method.status, _cell(method.reason)] for row, method in absent]
        parts.append("## Without figures\n\n" + _table(["row", "method", "why", "reason"], lines))
    return "\n\n".join(part for part in parts if part) + "\n"


def rivals_ahead(row: LeagueFigures) -> list[MethodFigures]:
    """Return the methods with one model for all sites whose mean is above that of `auto`, the best first."""
    auto = _auto(row)
    if auto is None:
        return []
    ahead = [method for method in _global(row) if method.method not in AUTO and method.mean > auto.mean]
    return sorted(ahead, key=lambda method: -method.mean)


def _rivals_ahead(rows: Sequence[LeagueFigures]) -> str:
    with_auto = [row for row in rows if _auto(row) is not None]
    if not with_auto:
        return ""
    beaten = [(row, ahead) for row in with_auto if (ahead := rivals_ahead(row))]
    if not beaten:
        return f"No method is ahead of `auto` in any of {len(with_auto)} rows."
    sentences = [f"Another method is ahead of `auto` in {len(beaten)} of {len(with_auto)} rows."]
    for row, (best, *_) in beaten:
        auto = _auto(row)
        gap = best.mean - (auto.mean if auto else 0.0)
        sentences.append(f"In {row.row} {best.method} is {gap:.1f} points ahead of it.")
    return " ".join(sentences)


def _sentences(row: LeagueFigures, league: League) -> list[str]:
    if not (methods := _global(row)):
        return []
    best, reference = max(methods, key=lambda method: method.mean), row.of(REFERENCE)
    text = f"{row.row} ({row.what}): {best.method} is best with {best.mean:.1f} %"
    if reference is not None and best.method != REFERENCE:
        text += f"; {REFERENCE} has {reference.mean:.1f} %"
    result = [f"{text}."]
    clean = next((other.of(REFERENCE) for other in league.rows if other.row == row.clean), None)
    if reference is not None and clean is not None and (loss := clean.mean - reference.mean) < LEAST_LOSS:
        result.append(
            f"{row.row} says nothing of robustness: the noise costs {REFERENCE} {loss:.1f} points, less than "
            f"{LEAST_LOSS:g}."
        )
    if reference is not None and reference.slope is not None and reference.slope > LARGEST_SLOPE:
        result.append(
            f"In {row.row} {REFERENCE} still gains {reference.slope:.1f} points a round in the last {LAST_ROUNDS}."
        )
    return result


def _auto(row: LeagueFigures) -> MethodFigures | None:
    return next((method for method in row.methods if method.method in AUTO), None)


def _global(row: LeagueFigures) -> list[MethodFigures]:
    return [method for method in row.methods if not method.is_personal]


def _scores(rows: Sequence[LeagueFigures]) -> str:
    names = list(dict.fromkeys(method.method for row in rows for method in _global(row)))
    lines = []
    for row in rows:
        found = {method.method: method for method in _global(row)}
        best = max((method.mean for method in found.values()), default=None)
        lines.append([row.row, *(_score(found.get(name), best) for name in names)])
    return "## Scores\n\n" + _table(["row", *names], lines)


def _score(method: MethodFigures | None, best: float | None) -> str:
    if method is None:
        return "-"
    text = f"{method.mean:.1f}" if method.difference is None else f"{method.mean:.1f} ({method.difference:+.1f})"
    return f"**{text}**" if method.mean == best else text


def _details(rows: Sequence[LeagueFigures]) -> str:
    headings = ["row", "method", "each seed", "mean ± SD", f"− {REFERENCE}", "p, seeds", "p, cases (Holm)", "slope"]
    headings += ["s per round", "memory MB", "model MB sent", "further fields"]
    lines = [
        [
            row.row,
            method.method,
            " / ".join(f"{score:.1f}" for score in method.scores),
            _mean_and_deviation(method),
            "" if method.difference is None else f"{method.difference:+.1f}",
            number(method.p_seeds, 3),
            number(method.p_cases, 3),
            number(method.slope, 2),
            number(method.seconds_per_round, 2),
            number(method.memory_mb, 0),
            number(method.model_mb, 2),
            str(len(method.fields)),
        ]
        for row in rows
        for method in _global(row)
    ]
    return "## Figures\n\n" + _table(headings, lines)


def _personal(rows: Sequence[LeagueFigures]) -> str:
    """Methods with a model of each site, beside federated averaging: final models on generic and on own cases."""
    headings = ["row", "method", "generic: each seed", "mean", "own cases: each seed", "mean", "s per round"]
    headings += ["memory MB", "model MB sent", "further fields"]
    lines = []
    for row in rows:
        if not any(method.is_personal for method in row.methods):
            continue
        for method in row.methods:
            if method.is_personal or method.method == REFERENCE:
                cells = [*_seeds(method.generic), *_seeds(method.own), number(method.seconds_per_round, 2)]
                costs = [number(method.memory_mb, 0), number(method.model_mb, 2), str(len(method.fields))]
                lines.append([row.row, method.method, *cells, *costs])
    return "## Models of each site\n\n" + _table(headings, lines)


def _fields(rows: Sequence[LeagueFigures]) -> str:
    """What a site may send in addition to what it sends in federated averaging, by method."""
    methods = {method.method: method.fields for row in rows for method in row.methods if method.fields}
    lines = [[name, ", ".join(fields)] for name, fields in methods.items()]
    return "## Further fields that may leave a site\n\n" + _table(["method", "fields"], lines) if lines else ""


def _seeds(values: Sequence[float | None]) -> tuple[str, str]:
    known = [value for value in values if value is not None]
    return " / ".join(number(value) for value in values) or "-", number(statistics.fmean(known) if known else None)


def _mean_and_deviation(method: MethodFigures) -> str:
    deviation = method.standard_deviation
    return f"{method.mean:.1f}" if deviation is None else f"{method.mean:.1f} ± {deviation:.1f}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [headings, ["---"] * len(headings), *lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
