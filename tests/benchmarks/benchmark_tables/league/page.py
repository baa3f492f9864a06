"""The page of the league: the answer, a map of all methods and rows, what the rows say, and how to add a method."""

import statistics
from collections import Counter
from collections.abc import Sequence

from fedannot.apps.checking.finding import plural
from fedannot.custom.run.summary_record import LAST_ROUNDS

from .figures import (
    OURS,
    REFERENCE,
    CaseDifference,
    League,
    LeagueFigures,
    MethodFigures,
    gives_models_to_sites,
    shown_name,
)
from .markdown import number, paragraph, signed, table
from .rows import tuning_row_of
from .settings import MOST_TRIED, choice_for, published

# Points of Dice or F1: what noise must cost at least for a row to say anything of robustness, how far a round may still
# move a baseline that is trained to its end, and what a large difference is.
LEAST_LOSS = 6.0
LARGEST_SLOPE = 0.5
LARGE = 2.0
# What a phantom is fixed by: the score of FedAvg on clean annotations.
LOWEST_CLEAN, HIGHEST_CLEAN = 80.0, 92.0
# Agreement of annotations without an error, in percent.
ALL_RIGHT = 100.0
LEVEL = 0.05
# Rows that a sentence names, and leads; of more it says the number alone. Sentences of the answer's first paragraph.
_MOST_NAMED, _MOST_BEATEN, _MOST_LEADS = 10, 14, 3
_FIRST = 3
_MARKS = {"not defined": "n/d", "failed": "failed", "unfinished": "open"}


def league_page(league: League) -> str:
    """Return the page, whose sentences and lines are short enough for the documentation."""
    parts = [
        "# League: all methods on all rows",
        paragraph(
            "**Question.** Which method makes the best model, for clean, wrong and real annotations? All have the "
            "network, training and rounds of FedAvg. Methods of papers have one budget of settings. `auto` was made on "
            "phantoms and noise like these. Scores are Dice or macro F1 in percent."
        ),
        *_answer(league),
        "## Heat map",
        heat_map(league.compared),
        "## Rows",
        _rows(league),
        "## Settings, costs and what leaves",
        paragraph(_budget(league)),
        *([paragraph(_of_ours(league))] if _of_ours(league) else []),
        "## Add a method",
        paragraph(
            "A method takes part by its line in `METHODS` and its job. Its first settings are its job's, or an entry "
            "of `PUBLISHED` in `tests/benchmarks/benchmark_tables/league/settings.py`. At most "
            f"{_in_words(MOST_TRIED)} others that are tried stand in `tests/benchmarks/league_settings.yaml`."
        ),
        _COMMANDS,
    ]
    return "\n\n".join(parts) + "\n"


def _answer(league: League) -> list[str]:
    """The answer in paragraphs that are not too long."""
    first, rest = (answer(league)[:_FIRST], answer(league)[_FIRST:])
    return [paragraph(" ".join(part)) for part in ([f"**Answer.** {first[0]}", *first[1:]], rest) if part]


_COMMANDS = """```sh
fedannot bench league --plan                               # methods, what is not defined, hours
fedannot bench league --choose --methods NAME              # tries settings on seeds 100 and 101, and rows of its own
fedannot bench league --methods NAME                       # runs what is missing; finished runs are kept
fedannot bench league --rows annotators --data PACKS --only 1/4
fedannot bench league --table docs/benchmarks              # these pages from the finished runs, without a run
```"""


def answer(league: League) -> list[str]:
    """Return the answer in at most five sentences; the methods that are ahead of `auto` come first."""
    rows = league.compared
    with_ours = [row for row in rows if row.ours is not None and len(row.ranked) > 1]
    beaten = [(row, ahead[0]) for row in with_ours if (ahead := rivals_ahead(row))]
    sentences = []
    if beaten:
        names = [row.row for row, _ in beaten]
        shown = f": {_list(names, _MOST_BEATEN)}" if len(names) <= _MOST_BEATEN else ""
        with_it = "" if len(with_ours) == len(rows) else f" that {'has' if len(with_ours) == 1 else 'have'} it"
        count = plural(len(with_ours), "row") + with_it
        sentences.append(f"Another method is ahead of `auto` in {len(beaten)} of {count}{shown}.")
        sentences.append(_leads(beaten))
    elif with_ours:
        where = f"any of {len(with_ours)} rows" if len(with_ours) > 1 else f"`{with_ours[0].row}`"
        sentences.append(f"No method is ahead of `auto` in {where}.")
    sentences += [*_against_reference(rows), *_robustness(league), _coverage(rows)]
    return sentences[:5]


def rivals_ahead(row: LeagueFigures) -> list[MethodFigures]:
    """Return the methods with one model for all sites whose mean is above that of `auto`, the best first."""
    if (ours := row.ours) is None:
        return []
    return [method for method in row.ranked if not method.is_ours and method.mean > ours.mean]


def _leads(beaten: Sequence[tuple[LeagueFigures, MethodFigures]]) -> str:
    """The largest leads, and how many of all are more than chance over cases."""
    gaps = [(best.mean - row.ours.mean, best.method, row.row) for row, best in beaten if row.ours is not None]
    largest = sorted(gaps, reverse=True)[:_MOST_LEADS]
    shown = ", ".join(f"{method} by {_points(gap)} in `{row}`" for gap, method, row in largest)
    what = "Ahead in points" if len(largest) == len(gaps) else "Furthest ahead, in points"
    tests = [test for row, best in beaten if (test := _test_against(row, best)) is not None]
    found = sum(_sign(test) < 0 for test in tests)
    if not tests:
        return f"{what}: {shown}; none of it is tested case by case."
    leads = "lead holds" if len(tests) == 1 else "leads hold"
    tested = "" if len(tests) == len(gaps) else " tested"
    return f"{what}: {shown}; {found} of {len(tests)}{tested} {leads} case by case (p < {LEVEL:g})."


def _points(gap: float) -> str:
    """A lead, which is more than nothing."""
    return f"{gap:.1f}" if gap >= 0.05 else "less than 0.1"


def _test_against(row: LeagueFigures, best: MethodFigures) -> CaseDifference | None:
    """How `auto` differs from the best method in the same cases; None where that was not tested."""
    if (ours := row.ours) is None:
        return None
    return ours.on_cases if best.method == REFERENCE else ours.on_cases_of_rival


def _sign(test: CaseDifference | None) -> int:
    """1 above, -1 below, 0 if the difference is not significant."""
    if test is None or test.p is None or test.p >= LEVEL:
        return 0
    return 1 if test.mean > 0 else -1


def _against_reference(rows: Sequence[LeagueFigures]) -> list[str]:
    known = [(row.row, _sign(ours.on_cases)) for row in rows if (ours := row.ours) is not None and ours.on_cases]
    if not known:
        return []
    signs = Counter(sign for _, sign in known)
    worse = [name for name, sign in known if sign < 0]
    shown = f": {_list(worse)}" if 0 < len(worse) <= _MOST_NAMED else ""
    return [
        f"Case by case (p < {LEVEL:g}) `auto` is above FedAvg in {signs[1]} of {plural(len(known), 'row')} and below "
        f"it in {signs[-1]}{shown}."
    ]


def _robustness(league: League) -> list[str]:
    weak = [
        row.row
        for row in league.rows
        if row.agreement != ALL_RIGHT and (loss := loss_by_noise(row, league)) is not None and loss < LEAST_LOSS
    ]
    if not weak:
        return []
    return [
        f"The noise costs FedAvg less than {LEAST_LOSS:g} points, which says nothing of robustness, in {_list(weak)}."
    ]


def _coverage(rows: Sequence[LeagueFigures]) -> str:
    counts = sorted({len(row.seeds) for row in rows})
    seeds = plural(counts[0], "seed") if len(counts) == 1 else f"{counts[0]}–{counts[-1]} seeds"
    open_ = sum(method.status == "unfinished" for row in rows for method in row.absent)
    failed = sum(method.status == "failed" for row in rows for method in row.absent)
    moving = [row.row for row in rows if (slope := _slope(row)) is not None and abs(slope) > LARGEST_SLOPE]
    these = "This is" if len(rows) == 1 else "These are"
    text = f"{these} {plural(len(rows), 'row')} of {seeds}, {plural(open_, 'cell')} open and {failed} failed"
    return f"{text}; FedAvg still moves in {_list(moving)}." if moving else f"{text}."


def _slope(row: LeagueFigures) -> float | None:
    reference = row.of(REFERENCE)
    return None if reference is None else reference.slope


def _list(names: Sequence[str], most: int = _MOST_NAMED) -> str:
    return f"{len(names)} rows" if len(names) > most else ", ".join(f"`{name}`" for name in names)


def loss_by_noise(row: LeagueFigures, league: League) -> float | None:
    """Return the points that the noise of a row costs federated averaging, over the seeds that the row has in common
    with that of clean annotations; None where nobody knows.
    """
    clean = next((other for other in league.rows if other.row == row.clean), None)
    if clean is None:
        return None
    noisy_scores, clean_scores = _scores_by_seed(row), _scores_by_seed(clean)
    losses = [score - noisy_scores[seed] for seed, score in clean_scores.items() if seed in noisy_scores]
    return statistics.fmean(losses) if losses else None


def _scores_by_seed(row: LeagueFigures) -> dict[int, float]:
    reference = row.of(REFERENCE)
    return {} if reference is None else dict(zip(row.seeds, reference.scores, strict=True))


def heat_map(rows: Sequence[LeagueFigures]) -> str:
    """Return the map: a line for each method with one model for all sites, a column for each row."""
    found = {row.row: {method.shown: method for method in row.ranked} for row in rows}
    absent = {row.row: _absent_marks(row) for row in rows}
    names = dict.fromkeys(name for of_row in found.values() for name in of_row)
    first = [name for name in (REFERENCE, OURS[0]) if name in names]
    order = [*first, *sorted((name for name in names if name not in first), key=lambda name: -_mean_gain(name, found))]
    lines = [
        [
            f"{name}*" if gives_models_to_sites(name) else name,
            *(_map_cell(found[row.row], name, absent[row.row].get(name, "n/d")) for row in rows),
        ]
        for name in order
    ]
    legend = (
        "Points above FedAvg, whose line has its score. ▲ and ▼: above or below it in the same test cases, "
        f"Holm's p < {LEVEL:g}; twice from {LARGE:g} points on. ·: not significant, or final models and rounds "
        f"differ in sign. Bold: best of the row. n/d: not defined there; open: not finished.{_without_marks(rows)}"
    )
    if any(map(gives_models_to_sites, order)):
        legend += " *: sites receive the models of single other sites, which all of them have to allow."
    return table(["method", *(f"`{row.row}`" for row in rows)], lines) + "\n\n" + paragraph(legend)


def _without_marks(rows: Sequence[LeagueFigures]) -> str:
    """Name the rows whose test patients are too few for a significant difference."""
    few = [row.row for row in rows if (smallest := row.smallest_p) is not None and smallest >= LEVEL]
    return f" Too few test patients for any mark: {_list(few)}." if few else ""


def _absent_marks(row: LeagueFigures) -> dict[str, str]:
    """Why a method has no figure, by its name on the page; of two of one name what is defined counts."""
    in_order = sorted(row.absent, key=lambda method: method.status != "not defined")
    return {shown_name(method.method): _MARKS[method.status] for method in in_order}


def _mean_gain(name: str, found: dict[str, dict[str, MethodFigures]]) -> float:
    gains = [of_row[name].difference or 0.0 for of_row in found.values() if name in of_row]
    return sum(gains) / len(gains)


def _map_cell(of_row: dict[str, MethodFigures], name: str, absent: str) -> str:
    if (method := of_row.get(name)) is None:
        return absent
    best = max(one.mean for one in of_row.values())
    text = number(method.mean) if method.difference is None else f"{_mark(method)} {signed(method.difference)}"
    return f"**{text}**" if method.mean == best else text


def _mark(method: MethodFigures) -> str:
    """The mark of the difference in the same cases; none where the means over rounds say the contrary."""
    sign, difference = _sign(method.on_cases), method.difference or 0.0
    if sign == 0 or sign * difference <= 0:
        return "·"
    return ("▲" if sign > 0 else "▼") * (2 if abs(difference) >= LARGE else 1)


def _rows(league: League) -> str:
    headings = [
        "row",
        "data",
        "seeds",
        "patients",
        "agreement %",
        "FedAvg",
        "cost of noise",
        "slope",
        "best",
        "best rival",
        "auto less it",
    ]
    lines = []
    for row in league.rows:
        reference, rival, ours = row.of(REFERENCE), row.best_rival, row.ours
        lines.append(
            [
                f"`{row.row}`",
                row.what,
                str(len(row.seeds)),
                "–" if row.num_patients is None else str(row.num_patients),
                number(row.agreement),
                number(None if reference is None else reference.mean),
                number(loss_by_noise(row, league)),
                signed(_slope(row), 2),
                "–" if row.is_reference_alone else f"{row.ranked[0].shown} {number(row.ranked[0].mean)}",
                "–" if rival is None else f"{rival.shown} {number(rival.mean)}",
                signed(None if ours is None or rival is None else ours.mean - rival.mean),
            ]
        )
    text = (
        "Patients: of the test set. Agreement: Dice of noisy to clean masks, or the share of right labels. Slope: "
        f"points that FedAvg gains a round in the last {LAST_ROUNDS}. A best rival is of a paper, in hindsight."
        f"{_reference_alone(league.rows)}"
    )
    notes = f"{_machines(league.rows)}{_clean_elsewhere(league)}{_clean_outside(league.rows)}"
    return "\n\n".join([table(headings, lines), paragraph(text), *([paragraph(notes.strip())] if notes else [])])


def _clean_elsewhere(league: League) -> str:
    """Name the rows whose cost of noise is also of other arithmetic."""
    by_name = {row.row: row for row in league.rows}
    named = [row.row for row in league.rows if row.clean in by_name and row.is_on_other_processors(by_name[row.clean])]
    return f" FedAvg ran on other processors in the clean row of {_list(named)}." if named else ""


def _clean_outside(rows: Sequence[LeagueFigures]) -> str:
    """Name the phantoms on which federated averaging is too good, or too bad, without any noise."""
    named = [
        row.row
        for row in rows
        if row.agreement == ALL_RIGHT
        and not row.clean
        and (reference := row.of(REFERENCE)) is not None
        and not LOWEST_CLEAN <= reference.mean <= HIGHEST_CLEAN
    ]
    if not named:
        return ""
    return (
        f" Without noise a phantom should have FedAvg between {LOWEST_CLEAN:g} and {HIGHEST_CLEAN:g}. It has not: "
        f"{_list(named)}."
    )


def _reference_alone(rows: Sequence[LeagueFigures]) -> str:
    """Name the rows that compare nothing."""
    alone = [row.row for row in rows if row.is_reference_alone]
    return f" FedAvg was run alone, for the cost of noise, in {_list(alone)}." if alone else ""


def _budget(league: League) -> str:
    return (
        "Each method of a paper has one budget for each kind of rows: its first values, and at most "
        f"{_in_words(MOST_TRIED)} others on seeds from 100. The first are published ones or the job's. They are tried "
        f"with other noise, mostly of the same phantoms. In these figures {_how_chosen(league)} "
        "[Figures](league_figures.md): each seed, tests, time, memory, traffic, fields that leave, models of each "
        "site. All of it as records: [league.json](league.json). Dropped: [lab](../lab/league.md)."
    )


def _of_ours(league: League) -> str:
    """What is said of the project's own method, whose rules nobody has counted the trials of."""
    if not any(row.ours for row in league.rows):
        return ""
    return (
        "The rules of `auto` were made on these phantoms, with seeds from 100 and no limit of trials. Some were made "
        "after reported seeds of “weak” and of 2/4/6/8 tenths had been seen ([lab](../lab/auto.md))."
    )


def _machines(rows: Sequence[LeagueFigures]) -> str:
    """Where methods of one seed were not computed alike, or by other code; nothing where nobody knows of any."""
    mixed = [row.row for row in rows if row.is_on_several_machines]
    of_code = [row.row for row in rows if row.has_several_commits]
    return "".join(
        (
            f" Methods of one seed ran on different processors or PyTorch versions in {_list(mixed)}." if mixed else "",
            f" Runs are of more than one commit in {_list(of_code)}." if of_code else "",
        )
    )


def _compared(row: LeagueFigures) -> list[MethodFigures]:
    return [method for method in row.methods if method.method != REFERENCE]


def _how_chosen(league: League) -> str:
    """How many rivals of rows have figures of settings that were chosen among several, and of which others."""
    results = [(row, method) for row in league.rows for method in _compared(row) if not method.is_ours]
    chosen = earlier = 0
    for row, method in results:
        choice = choice_for(row.task, method.method, tuning_row_of(row.row), league.choices)
        if choice is not None and choice.best == method.settings:
            chosen += 1
        elif method.settings is not None and method.settings != published(method.method):
            earlier += 1
    if not chosen and not earlier:
        return "all methods of papers have these first values."
    text = (
        f"{chosen} of {plural(len(results), 'result')} {'is' if len(results) == 1 else 'are'} of the best of at most "
        f"{_in_words(MOST_TRIED + 1)}, {len(results) - chosen - earlier} of the first values."
    )
    return f"{text} Of an earlier choice {'is' if earlier == 1 else 'are'} {earlier}." if earlier else text


def _in_words(count: int) -> str:
    return {4: "four", 5: "five"}.get(count, str(count))
