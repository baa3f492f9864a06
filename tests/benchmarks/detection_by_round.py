"""How right the doubts of labels were, by round and site, of finished runs whose data keep the true labels.

    fedannot simulate jobs/fedgsca --out runs/cells
    python tests/benchmarks/detection_by_round.py runs/cells

A line per round: precision and recall of the suspects, the error of the noise level (mean of the sites' absolute ones)
and the fraction of right pseudo-labels over all sites; then precision / recall / noise level − true noise level by
site.
"""

import argparse
from pathlib import Path

from fedannot.apps.reports.label_findings import SelectionScores, pooled_selection, selection_scores
from fedannot.apps.reports.output import read_summary


def share(part: float, whole: float) -> str:
    """Return a percentage, a dash of nothing."""
    return f"{100 * part / whole:3.0f}" if whole else "  -"


def described(site: SelectionScores) -> str:
    """Return a site's precision, recall and the error of its noise level."""
    error = site.noise_level - site.true_noise_level
    precision, recall = (share(site.wrong_suspects, whole) for whole in (site.suspects, site.wrong))
    return f"{precision}/{recall}/{error:+.2f}"


def main() -> None:
    """Print a line per round in which samples were selected."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="output folder of the run")
    run: Path = parser.parse_args().run
    summary = read_summary(run)
    names = list(summary.sites)
    print("round  precision  recall  error  right pseudo  " + "  ".join(f"{name:>13s}" for name in names))
    for number in range(1, summary.rounds_finished + 1):
        sites = selection_scores(run, names, round_number=number)
        if sites is None:
            continue
        pooled = {key: "-" if value is None else f"{value:.2f}" for key, value in pooled_selection(sites)}
        print(
            f"{number:5d}  {pooled['precision']:>9s}  {pooled['recall']:>6s}  {pooled['noise_level_error']:>5s}  "
            f"{pooled['right_pseudo']:>12s}  " + "  ".join(f"{described(sites[name]):>13s}" for name in names)
        )


if __name__ == "__main__":
    main()
