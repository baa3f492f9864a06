"""A run's aggregation weights over its rounds, and how many sites they are of in effect."""

from collections.abc import Sequence
from math import nan

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...custom.aggregation.weighting import FEW_EFFECTIVE_SITES
from ...custom.run.summary_record import Summary
from ...transforms.natural_order import natural_order
from ...transforms.printable import drawable
from .colours import VERMILLION, area_style

# Of more sites a legend is longer than the picture, and bars are too thin to be known.
_MOST_IN_LEGEND = 12
_Weights = Sequence[tuple[int, dict[str, float]]]


def has_weights(summary: Summary) -> bool:
    """Return whether a run's summary says what the sites weighed; with one site there is nothing to see."""
    return len(_weighted_sites(summary)) > 1


def weights_figure(summary: Summary) -> Figure:
    """Draw each site's weight in every round, and the number of effective sites below.

    Weights are bars that add up to one; of many sites a row each, the darker the more. Of the layer blocks the one
    counts in which these are fewest.

    Args:
        summary: of a run for which :func:`has_weights` holds.
    """
    known = [(record.round, record.weights) for record in summary.rounds if record.weights]
    sites = _weighted_sites(summary)
    figure = Figure(figsize=(7, max(5.0, 2.2 + 0.17 * len(sites))), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(figure.get_figheight() - 1.7, 1.7))
    upper.set(title=f"{drawable(summary.method)}, seed {summary.seed}: aggregation weights")
    if len(sites) <= _MOST_IN_LEGEND:
        _draw_bars(upper, known, sites)
    else:
        _draw_rows(upper, known, sites)
    effective = [(record.round, count) for record in summary.rounds if (count := record.effective_sites) is not None]
    lower.plot([number for number, _ in effective], [count for _, count in effective], "-o", color="black", ms=3)
    lower.axhline(
        FEW_EFFECTIVE_SITES, color=VERMILLION, linestyle="--", label=f"{FEW_EFFECTIVE_SITES}: one site decides"
    )
    lower.set(xlabel="round", ylabel=f"effective sites of {len(sites)}", ylim=(0, len(sites) + 0.5))
    lower.legend(fontsize=8)
    return figure


def _weighted_sites(summary: Summary) -> list[str]:
    """The sites that had a weight in any round. Of a swarm the summary names no others."""
    return sorted({site for record in summary.rounds for site in record.weights or ()}, key=natural_order)


def _draw_bars(axes: Axes, known: _Weights, sites: Sequence[str]) -> None:
    """A bar for every round, with a part for every site."""
    rounds = [number for number, _ in known]
    bottom = [0.0] * len(rounds)
    for index, site in enumerate(sites):
        colour, hatch = area_style(index)
        heights = [weights.get(site, 0.0) for _, weights in known]
        axes.bar(
            rounds,
            heights,
            bottom=bottom,
            width=0.9,
            color=colour,
            hatch=hatch,
            edgecolor="white",
            label=drawable(site),
        )
        bottom = [base + height for base, height in zip(bottom, heights, strict=True)]
    axes.set(ylabel="weight", ylim=(0, 1))
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=8)


def _draw_rows(axes: Axes, known: _Weights, sites: Sequence[str]) -> None:
    """A row for every site, with a cell for every round; a round without weights stays white."""
    first, last = known[0][0], known[-1][0]
    of_round = dict(known)
    cells = [[of_round.get(number, {}).get(site, nan) for number in range(first, last + 1)] for site in sites]
    shown = axes.imshow(
        cells,
        aspect="auto",
        cmap="cividis_r",
        vmin=0,
        interpolation="none",
        extent=(first - 0.5, last + 0.5, len(sites) - 0.5, -0.5),
    )
    axes.set_yticks(range(len(sites)), [drawable(site) for site in sites], fontsize=6)
    axes.figure.colorbar(shown, ax=axes, label="weight")
