"""A run's aggregation weights over its rounds, and how many sites they are of in effect."""

from matplotlib.figure import Figure

from ...custom.aggregation.weighting import FEW_EFFECTIVE_SITES
from ...custom.run.summary_record import Summary
from ...transforms.natural_order import natural_order

# Of more sites a legend is longer than the picture.
_MOST_IN_LEGEND = 12


def has_weights(summary: Summary) -> bool:
    """Return whether a run's summary says what the sites weighed; with one site there is nothing to see."""
    return len(summary.sites) > 1 and any(record.weights for record in summary.rounds)


def weights_figure(summary: Summary) -> Figure:
    """Draw each site's weight in every round as bars that add up to one, and the number of effective sites below.

    Of the layer blocks the one counts in which these are fewest.

    Args:
        summary: of a run for which :func:`has_weights` holds.
    """
    known = [(record.round, record.weights, record.effective_sites) for record in summary.rounds if record.weights]
    rounds = [number for number, _, _ in known]
    sites = sorted({site for _, weights, _ in known for site in weights}, key=natural_order)
    figure = Figure(figsize=(7, 5), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    bottom = [0.0] * len(rounds)
    for index, site in enumerate(sites):
        heights = [weights.get(site, 0.0) for _, weights, _ in known]
        upper.bar(rounds, heights, bottom=bottom, width=0.9, color=f"C{index % 10}", label=site)
        bottom = [base + height for base, height in zip(bottom, heights, strict=True)]
    upper.set(ylabel="weight", ylim=(0, 1), title=f"{summary.method}, seed {summary.seed}: aggregation weights")
    if len(sites) <= _MOST_IN_LEGEND:
        upper.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=8)
    effective = [(number, count) for number, _, count in known if count is not None]
    lower.plot([number for number, _ in effective], [count for _, count in effective], "-o", color="black", ms=3)
    lower.axhline(
        FEW_EFFECTIVE_SITES, color="tab:red", linestyle="--", label=f"{FEW_EFFECTIVE_SITES}: one site decides"
    )
    lower.set(xlabel="round", ylabel=f"effective sites of {len(sites)}", ylim=(0, len(sites) + 0.5))
    lower.legend(fontsize=8)
    return figure
