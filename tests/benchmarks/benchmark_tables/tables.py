"""The tables of a benchmark, in Markdown."""

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fedannot.apps.reports.annotation_findings import PrecisionAndRecall, pooled_correction
from fedannot.apps.reports.centre_scores import CentreScores
from fedannot.apps.reports.label_findings import PooledSelection, pooled_selection
from fedannot.custom.data.whole_files import write_text
from fedannot.custom.run.summary_record import LAST_ROUNDS

from .figures import ArmFigures, RowFigures, read_table


def write_table(figures: Sequence[RowFigures], file: Path) -> None:
    """Write the figures of rows as JSON, and beside them, with the ending ``.md``, as a table.

    Rows that the file has already stay in it, so a table can be made a row at a time; the same row is replaced.

    Raises:
        DataError: if the file is there and is no such table.
    """
    figures = list({row.row: row for row in [*read_table(file), *figures]}.values())
    write_text(file, json.dumps([row.plain() for row in figures], indent=1, ensure_ascii=False) + "\n", shared=True)
    write_text(file.with_suffix(".md"), markdown_table(figures), shared=True)


def markdown_table(figures: Sequence[RowFigures]) -> str:
    """Return the rows as a Markdown table: an arm per line, its score with every seed, and the difference to the
    reference.

    What methods found out about annotations has columns where any of the rows has something to say. Where methods are
    among the arms whose sites have models of their own, what counts is the Dice of the final models on generic data and
    on each site's own; such rows have a table of their own.
    """
    of_centres = [row for row in figures if any(found is not None for arm in row.arms for found in arm.centres)]
    others = [row for row in figures if row not in of_centres]
    tables = [make(rows) for make, rows in ((_table_of_scores, others), (_table_of_centres, of_centres)) if rows]
    return "\n".join(tables)


def _table_of_scores(figures: Sequence[RowFigures]) -> str:
    """The mean score of the last rounds, and what methods found out about annotations."""
    findings = {
        heading: show for heading, show in FINDINGS.items() if any(show(arm) for row in figures for arm in row.arms)
    }
    score = "macro F1 %" if any(arm.f1 for row in figures for arm in row.arms) else "Dice %"
    headings = ["data", "arm", f"{score}, each seed", "mean", "difference", *findings]
    lines = [f"| {' | '.join(headings)} |", "|---" * len(headings) + "|"]
    for row in figures:
        for index, arm in enumerate(row.arms):
            cells = [
                row.what if index == 0 else "",
                arm.arm,
                " / ".join(f"{value:.1f}" for value in arm.scores),
                f"{statistics.fmean(arm.scores):.1f}",
                shown_difference(arm.differences),
                *(show(arm) for show in findings.values()),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _table_of_centres(figures: Sequence[RowFigures]) -> str:
    """Dice of the final models: on generic data, and on the sites' own cases, their mean and site by site.

    Differences are of seeds with both scores, and of the sites that both arms have scores of.
    """
    sites = sorted({site for row in figures for arm in row.arms for scores in _known(arm) for site in scores.own})
    headings = ["data", "arm"]
    for what in ("generic", "own cases"):
        headings += [f"{what}: Dice %, each seed", "mean", "difference"]
    lines = [f"| {' | '.join([*headings, *sites])} |", "|---" * (len(headings) + len(sites)) + "|"]
    for row in figures:
        for index, arm in enumerate(row.arms):
            cells = [row.what if index == 0 else "", arm.arm]
            for score in (_generic, _own):
                values = [score(scores, scores) for scores in arm.centres]
                known = [value for value in values if value is not None]
                cells.append(" / ".join("-" if value is None else f"{value:.1f}" for value in values))
                cells.append(f"{statistics.fmean(known):.1f}" if known else "-")
                pairs = list(zip(arm.centres, row.arms[0].centres, strict=True))
                both = [(score(one, other), score(other, one)) for one, other in pairs]
                differences = [one - other for one, other in both if one is not None and other is not None]
                cells.append(shown_difference(differences if index else None))
            cells += [_mean_at(site, _known(arm)) for site in sites]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _known(arm: ArmFigures) -> list[CentreScores]:
    return [scores for scores in arm.centres if scores is not None]


def _generic(scores: CentreScores | None, other: CentreScores | None) -> float | None:
    """The Dice on generic data, in percent."""
    del other
    return None if scores is None or scores.generic is None else 100 * scores.generic


def _own(scores: CentreScores | None, other: CentreScores | None) -> float | None:
    """The mean Dice in percent on the own cases of the sites that another run has scores of, too."""
    if scores is None or other is None:
        return None
    known = [scores.own[site] for site in sorted(set(scores.own) & set(other.own))]
    return 100 * statistics.fmean(known) if known else None


def _mean_at(site: str, centres: Sequence[CentreScores]) -> str:
    """The mean Dice of a site's own cases over the seeds with which any of them is annotated."""
    known = [100 * found.own[site] for found in centres if site in found.own]
    return f"{statistics.fmean(known):.1f}" if known else "-"


def shown_difference(differences: Sequence[float] | None) -> str:
    """Return the mean of differences to the reference and, of several seeds, their standard deviation."""
    if differences is None:
        return ""
    if not differences:
        return "-"
    mean = f"{statistics.fmean(differences):+.1f}"
    return mean if len(differences) == 1 else f"{mean} ± {statistics.stdev(differences):.1f}"


def _left_empty(arm: ArmFigures) -> str:
    """The fraction of the test's empty cases that were left empty, of each seed."""
    return " / ".join(_percent(share) for share in arm.left_empty if share is not None)


def _groups(arm: ArmFigures) -> str:
    """How often the groups are those drawn; where the data have no noise or there are no groups, what was found."""
    known = [agree for agree in arm.groups_as_drawn if agree is not None]
    none = sum(found == "none" for found in arm.groups)
    if all(found == "-" for found in arm.groups):
        return ""
    parts = [f"{sum(known)} of {len(known)}"] if known else []
    parts += [f"none in {none}"] if none else []
    return ", ".join(parts)


def _completeness(arm: ArmFigures) -> str:
    """The mean absolute error of the estimated completeness, of each seed."""
    return " / ".join(f"{found.mean_absolute_error:.2f}" for found in arm.completeness if found is not None)


def _corrections(arm: ArmFigures) -> str:
    """Precision and recall of the added voxels over all sites, of each seed."""
    pooled = [pooled_correction(sites) for sites in arm.corrections if sites]
    return " / ".join(_right(found) for found in pooled if found.precision is not None)


def _right(found: PrecisionAndRecall) -> str:
    return f"{_percent(found.precision)}, {_percent(found.recall)}"


def _selections(arm: ArmFigures) -> list[PooledSelection]:
    """How right the doubts of labels were over all sites, of each seed."""
    return [pooled_selection(sites) for sites in arm.selection if sites]


def _selection(arm: ArmFigures) -> str:
    """Precision and recall of the doubted labels over all sites, of each seed."""
    return " / ".join(_right(found) for found in _selections(arm))


def _noise_level(arm: ArmFigures) -> str:
    """The mean absolute error of the sites' noise levels, of each seed."""
    return " / ".join(f"{found.noise_level_error:.2f}" for found in _selections(arm))


def _pseudo_labels(arm: ArmFigures) -> str:
    """The fraction of the pseudo-labels that are right, over all sites, of each seed."""
    return " / ".join(_percent(found.right_pseudo) for found in _selections(arm))


def _rare_recall(arm: ArmFigures) -> str:
    """The mean recall of the rarer half of the classes, of each seed."""
    return " / ".join(_percent(recall) for recall in arm.rare_recall if recall is not None)


def _stability(arm: ArmFigures) -> str:
    """FedGSCA's measure of stability (Eq. 18), the mean over the last five rounds and all seeds."""
    values = [value for rounds in arm.stability for value in rounds[-LAST_ROUNDS:] if value is not None]
    return f"{statistics.fmean(values):.2f}" if values else ""


def _effective_sites(arm: ArmFigures) -> str:
    """The smallest number of effective sites of a round, of each seed."""
    return " / ".join(f"{count:.1f}" for count in arm.effective_sites if count is not None)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f}"


# What methods found out about annotations, by the heading of its column.
FINDINGS: Mapping[str, Callable[[ArmFigures], str]] = {
    "left empty %": _left_empty,
    "groups as drawn": _groups,
    "error of completeness": _completeness,
    "added voxels: precision, recall %": _corrections,
    "wrong labels: precision, recall %": _selection,
    "error of noise level": _noise_level,
    "right pseudo-labels %": _pseudo_labels,
    "recall of the rarer classes %": _rare_recall,
    "stability": _stability,
    "fewest effective sites": _effective_sites,
}
