"""The figures of the league in tables: row by row, models of each site, settings, what leaves, what is absent."""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from textwrap import shorten

from fedannot.custom.methods import METHODS

from .figures import REFERENCE, CaseDifference, League, LeagueFigures, Machine, MethodFigures, gives_models_to_sites
from .markdown import bullet, cell, number, p_value, paragraph, signed, table
from .rows import tuning_row_of
from .settings import Choice, choice_for, published

_LONGEST_CELL = 78
_MOST_FIELDS = 15
_MOST_NAMED = 3
_COSTS = ["CPU s per round", "clock s per round", "memory MiB", "MB sent", "fields"]


def figures_page(league: League) -> str:
    """Return the page with the tables; rows of one seed have no standard deviation and no test over seeds."""
    parts = ["# Figures of the league", *map(paragraph, _HEAD)]
    for row in league.rows:
        parts += [f"## `{row.row}`", paragraph(f"{row.what}. {_of_row(row)}"), _figures(row)]
        if row.is_on_several_machines:
            parts.append(_machines(row))
    for heading, text in (
        ("Models of each site", _personal(league.rows)),
        ("Settings", _settings(league)),
        ("Settings that were tried", _tried(league.choices)),
        ("Fields that may leave besides those of FedAvg", _fields(league.rows)),
        ("Without figures", _absent(league.compared)),
    ):
        if text:
            parts += [f"## {heading}", text]
    return "\n\n".join(parts) + "\n"


_FIRST = "first values"
_HEAD = (
    "The [league](league.md) is their summary. Scores are in percent, the mean of the last rounds. A dash: not "
    "known, or not defined.",
    "Columns with “cases” compare the final models in the same test cases. They hold points, the 95 % interval by "
    "resampling patients, and Wilcoxon's p with Holm's correction over the row's methods. p, seeds: paired t-test.",
    "CPU seconds are of all cores and sites, with loading and scoring. Machines differ, so they compare methods of one "
    "row. Seconds by the clock grow where other runs load the machine, and compare no methods. Memory is the most of "
    "any seed: one process has all sites and the server.",
    "“MB sent” is the model that a site sends in a round, in 10⁶ bytes, without statistics and what it receives. "
    "FedSelect's sites send nothing in some rounds; FedDM's receive a second model. “Fields” counts what may leave "
    "besides what FedAvg sends.",
)


def _of_row(row: LeagueFigures) -> str:
    score = "Macro F1; cases by accuracy" if row.task == "classification" else "Dice"
    rival = row.best_rival
    return f"{score}." if rival is None else f"{score}. Best rival: {rival.method}."


def _figures(row: LeagueFigures) -> str:
    """The methods with one model for all sites, the best first."""
    has_empty = any(value is not None for method in row.ranked for value in method.left_empty)
    headings = ["method", "each seed", "mean ± SD", f"− {REFERENCE}", "p, seeds", f"cases: − {REFERENCE}", "p"]
    headings += ["cases: − best rival", "p", *(["left empty %"] if has_empty else []), "slope", *_COSTS]
    lines = [
        [
            method.shown,
            _seeds(method.scores),
            _mean_and_deviation(method),
            signed(method.difference),
            p_value(method.p_seeds),
            *_on_cases(method.on_cases, method.p_cases),
            *_on_cases(method.on_cases_of_rival, None),
            *([_seeds(method.left_empty, 0)] if has_empty else []),
            signed(method.slope, 2),
            *_costs(method),
        ]
        for method in row.ranked
    ]
    return table(headings, lines)


def _machines(row: LeagueFigures) -> str:
    """Which methods of each seed were computed where."""
    lines = []
    for index, seed in enumerate(row.seeds):
        methods_of: dict[str, list[str]] = {}
        for method in row.methods:
            if index < len(method.machines):
                methods_of.setdefault(_in_words(method.machines[index]), []).append(method.method)
        parts = "; ".join(f"{', '.join(methods)} on {where}" for where, methods in methods_of.items())
        lines.append(bullet(f"Seed {seed}: {parts}."))
    return "Methods of one seed ran on different processors or PyTorch versions:\n\n" + "\n".join(lines)


def _in_words(machine: Machine) -> str:
    return f"{machine.processor or 'an unknown processor'} with PyTorch {machine.torch or 'of an unknown version'}"


def _on_cases(test: CaseDifference | None, p: float | None) -> tuple[str, str]:
    if test is None:
        return "–", p_value(p)
    return f"{signed(test.mean)} ({signed(test.low)} to {signed(test.high)})", p_value(test.p)


def _costs(method: MethodFigures) -> list[str]:
    times = number(method.cpu_seconds_per_round, 2), number(method.seconds_per_round, 2)
    return [*times, number(method.memory_mb, 0), number(method.model_mb, 2), str(len(method.fields))]


def _personal(rows: Sequence[LeagueFigures]) -> str:
    """Methods with a model of each site, and federated averaging: final models on generic and on own cases."""
    headings = ["row", "method", "generic: each seed", "mean", "own cases: each seed", "mean", *_COSTS]
    lines = []
    for row in rows:
        if not any(method.is_personal for method in row.methods):
            continue
        for method in row.methods:
            if method.is_personal or method.method == REFERENCE:
                values = [text for of in (method.generic, method.own) for text in (_seeds(of), _mean(of))]
                lines.append([f"`{row.row}`", method.method, *values, *_costs(method)])
    return table(headings, lines) if lines else ""


def _settings(league: League) -> str:
    """The settings of each method in rows of a kind, besides those of the rows, and how they were chosen.

    Published values that the method's job does not have stand below the table.
    """
    kinds: dict[tuple[str, str, str], dict[tuple[str, str], list[str]]] = {}
    for row in league.rows:
        for method in row.methods:
            if method.method != REFERENCE:
                rows_of = kinds.setdefault((row.task, method.method, tuning_row_of(row.row)), {})
                rows_of.setdefault(_given(method, row, league.choices), []).append(f"`{row.row}`")
    if not kinds:
        return ""
    lines = []
    for (task, name, kind), rows_of in sorted(kinds.items(), key=lambda item: item[0]):
        # Rows of one kind differ until all have been run again with the chosen settings.
        others, most = "all others" if len(rows_of) > 1 else "all", max(rows_of.values(), key=len)
        for (shown, how), rows in rows_of.items():
            named = others if rows is most else ", ".join(rows)
            lines.append([name, task, f"`{kind}`" if kind else "", named, shown, how])
    names = dict.fromkeys(method.method for row in league.rows for method in row.methods)
    values = [bullet(f"Published values of {name}: {_shown(published(name))}.") for name in names if published(name)]
    parts = [table(["method", "task", "kind of rows", "rows", "settings", "chosen"], lines), "\n".join(values)]
    return "\n\n".join(part for part in parts if part)


def _given(method: MethodFigures, row: LeagueFigures, choices: Sequence[Choice]) -> tuple[str, str]:
    """A method's settings, and how they were chosen."""
    if method.settings is None:
        return "not known", "an earlier version"
    is_first = method.settings == published(method.method)
    shown = _FIRST if is_first and method.settings else _shown(method.settings)
    if method.is_ours:
        return shown, "own method, trials not counted"
    choice = choice_for(row.task, method.method, tuning_row_of(row.row), choices)
    if choice is None or method.settings != choice.best:
        if not is_first:
            return shown, "of an earlier choice"
        return shown, "first values, nothing tried" if choice is None else "first values, not those that were chosen"
    return shown, f"number {choice.chosen + 1} of {len(choice.tried)}, seeds {', '.join(map(str, choice.seeds))}"


def _tried(choices: Sequence[Choice]) -> str:
    """The scores of all settings that were tried, in the order of the trials."""
    lines = [
        [
            choice.method,
            choice.task,
            _shown(settings) if index else _FIRST,
            ", ".join(f"`{row}`" for row in choice.rows),
            _seeds(scores),
            "yes" if index == choice.chosen else "",
        ]
        for choice in sorted(choices, key=lambda choice: (choice.task, choice.method))
        for index, (settings, scores) in enumerate(zip(choice.tried, choice.scores, strict=True))
    ]
    headings = ["method", "task", "settings", "rows", "score of each, mean of the seeds", "chosen"]
    return table(headings, lines) if lines else ""


def _shown(settings: Mapping[str, object]) -> str:
    return ", ".join(f"`{name}={value}`" for name, value in settings.items()) or "the job's"


def _fields(rows: Sequence[LeagueFigures]) -> str:
    """What a site may send in addition to what it sends in federated averaging; by task where that is another."""
    tasks_of: dict[tuple[str, tuple[str, ...]], str] = {}
    for row in rows:
        for method in row.methods:
            if method.fields:
                tasks_of.setdefault((method.method, method.fields), row.task)
    count = Counter(name for name, _ in tasks_of)
    lines = []
    for (name, fields), task in tasks_of.items():
        many = f"{len(fields)}, see [league.json](league.json)"
        shown = many if len(fields) > _MOST_FIELDS else ", ".join(f"`{field}`" for field in fields)
        models = "; sites receive the models of single other sites" if gives_models_to_sites(name) else ""
        lines.append(bullet(f"{name}{f', {task}' if count[name] > 1 else ''}: {shown}{models}."))
    return "\n".join(lines)


def _absent(rows: Sequence[LeagueFigures]) -> str:
    """What has no figures, in one line for all rows with the same reason; methods of another task go without saying."""
    tasks = {(method.task, method.name) for method in METHODS}
    rows_of: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        for method in row.absent:
            if method.status == "not defined" and (row.task, method.method) not in tasks:
                continue
            rows_of.setdefault((method.method, method.status, method.reason), []).append(row.row)
    lines = [
        [method, status, shorten(cell(reason), _LONGEST_CELL, placeholder=" …"), _names(names)]
        for (method, status, reason), names in sorted(rows_of.items())
    ]
    return table(["method", "why", "reason", "rows"], lines) if lines else ""


def _names(names: Sequence[str]) -> str:
    return f"{len(names)} rows" if len(names) > _MOST_NAMED else ", ".join(f"`{name}`" for name in names)


def _seeds(values: Sequence[float | None], decimals: int = 1) -> str:
    return " / ".join(number(value, decimals) for value in values) or "–"


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return number(statistics.fmean(known) if known else None)


def _mean_and_deviation(method: MethodFigures) -> str:
    deviation = method.standard_deviation
    return number(method.mean) if deviation is None else f"{number(method.mean)} ± {number(deviation)}"
