"""What a run says of its sites, as columns of a table: one row per site, in natural order."""

import statistics
from collections.abc import Sequence

from ...custom.methods.auto.records import BiasFindings
from ...custom.methods.auto_classification.records import ConfusionFindings
from ...custom.methods.feda3i.records import QualityFindings
from ...custom.methods.fedia.records import CompletenessFindings, CompletenessRecord
from ...custom.records.round_records import SiteReport
from ...custom.run.summary_record import Summary
from ...custom.settings import PRECISIONS_BY_BITS
from ...transforms.natural_order import natural_order
from .bias_text import LEGEND, bias_entries
from .noise_level_text import LEGEND as LEGEND_OF_LABELS
from .noise_level_text import noise_level_entries
from .output import noise_level, number, number_range

SITE, GROUP = "site", "draws"
# Columns of words; all others have numbers.
WORDS = (SITE, GROUP)
_WEIGHT_OF_SITE = "weight"

_DIFFICULTY = (
    "inside, outside: how hard the pixels just inside and just outside the annotated contours are for the model (mean "
    "cross entropy); contours that are too large have hard pixels inside"
)
_WEIGHT = (
    "noise: strength of the difference between the two, within the site's group; first w, last w: the site's weight in "
    "the first and in the last layer block"
)
_AVERAGED = "weight: of the site in the average, smallest to largest over the rounds"
_SUSPECTS = "noisy: labels that do not look right; a site lists its own with: fedannot suspects"
_COMPLETENESS = (
    "complete: lesions that the site annotates, as estimated; corrected: the round before whose training it added what "
    "it lacked"
)


def site_columns(summary: Summary) -> dict[str, list[str]]:
    """Return the cells of a table of a run's sites by heading; columns that would be empty for all sites are left out.

    Args:
        summary: of the run.
    """
    has_own_threads = len({report.num_threads for report in summary.sites.values()}) > 1
    has_own_precision = len({report.significand_bits for report in summary.sites.values()}) > 1
    columns: dict[str, list[str]] = {}
    for site in sorted(summary.sites, key=natural_order):
        report = summary.sites[site]
        level = noise_level(report)
        entries = {
            SITE: site,
            "cases": str(report.num_samples),
            "left out": str(report.num_excluded or "-"),
            "threads": str(report.num_threads or "-") if has_own_threads else "-",
            "precision": _precision(report) if has_own_precision else "-",
            "loss": number(report.train_loss, 3),
            _WEIGHT_OF_SITE: site_weights(summary, site),
            "noisy, %": "-" if level is None else f"{100 * level:z.0f}",
            **_quality_entries(summary.added(QualityFindings), site),
            **_completeness_entries(summary.added(CompletenessFindings), site),
            **bias_entries(summary.added(BiasFindings), site),
            **noise_level_entries(summary.added(ConfusionFindings), site),
        }
        for heading, entry in entries.items():
            columns.setdefault(heading, []).append(entry)
    return {heading: entries for heading, entries in columns.items() if set(entries) != {"-"}}


def _precision(report: SiteReport) -> str:
    bits = report.significand_bits
    return "-" if bits is None else PRECISIONS_BY_BITS.get(bits, f"{bits} bits")


def site_weights(summary: Summary, site: str) -> str:
    """The smallest and largest weight of a site over the rounds; a dash where single blocks have columns (FedA³I)."""
    quality = summary.added(QualityFindings)
    known = [record.weights[site] for record in summary.rounds if record.weights and site in record.weights]
    if not known or (quality is not None and quality.weights is not None):
        return "-"
    return number_range(min(known), max(known), 2)


def site_legend(summary: Summary) -> list[str]:
    """Return what the headings of the table mean that do not say it themselves, a sentence each."""
    quality, completeness = summary.added(QualityFindings), summary.added(CompletenessFindings)
    channels = summary.added(BiasFindings)
    legend = []
    if any(site_weights(summary, site) != "-" for site in summary.sites):
        legend.append(_AVERAGED)
    if quality is not None and quality.estimate is not None:
        legend.append(_DIFFICULTY)
    if quality is not None and quality.weights is not None:
        legend.append(_WEIGHT)
    if any(noise_level(report) is not None for report in summary.sites.values()):
        legend.append(_SUSPECTS)
    if completeness is not None and completeness.completeness:
        legend.append(_COMPLETENESS)
    if channels is not None and channels.channels:
        legend.append(LEGEND)
    labels = summary.added(ConfusionFindings)
    if labels is not None and labels.noise_levels:
        legend.append(LEGEND_OF_LABELS)
    return legend


def weight_beside_noise(summary: Summary) -> str | None:
    """Say why a site has much weight although it is among the noisier half, None where none has.

    Groups share the weight in a fixed proportion (FedA³I, Eq. 6), so that a site's noise counts against the members of
    its own group alone.
    """
    quality = summary.added(QualityFindings)
    if quality is None or quality.estimate is None or quality.weights is None:
        return None
    predicted = {
        site: (one.strength, weights[-1], one.group)
        for site, one in quality.estimate.sites.items()
        if one.strength is not None and one.group is not None and (weights := quality.weights.of_site(site))
    }
    if not predicted:
        return None
    middle = statistics.median(strength for strength, _, _ in predicted.values())
    equal = 1 / len(quality.weights.sites)
    noisy = [
        (strength, site) for site, (strength, weight, _) in predicted.items() if strength > middle and weight > equal
    ]
    if not noisy:
        return None
    strength, site = max(noisy)
    group = predicted[site][2]
    members = [weight for _, weight, of_group in predicted.values() if of_group == group]
    return (
        f"Large weight despite large noise: {site}, with noise {strength:z.2f}, has {predicted[site][1]:z.2f} of the "
        f"last block's weight. Sites that annotate {group} ({len(members)} of {len(predicted)}) have "
        f"{sum(members):z.2f} of it in total, however noisy the others are; within the group a noisier "
        "site weighs less."
    )


def _quality_entries(found: QualityFindings | None, site: str) -> dict[str, str]:
    """What FedA³I concluded of a site, and its weights."""
    estimate = None if found is None else found.estimate
    predicted = None if estimate is None else estimate.sites.get(site)
    row = (None if found is None or found.weights is None else found.weights.of_site(site)) or (None,)
    return {
        "inside": "-" if predicted is None else number(_total(predicted.inner), 3),
        "outside": "-" if predicted is None else number(_total(predicted.outer), 3),
        GROUP: "-" if predicted is None else predicted.group or "-",
        "noise": "-" if predicted is None else number(predicted.strength, 3),
        "first w": number(row[0], 3),
        "last w": number(row[-1], 3),
    }


def _completeness_entries(found: CompletenessFindings | None, site: str) -> dict[str, str]:
    """What FedIA concluded of a site."""
    predicted = None if found is None else (found.completeness or {}).get(site)
    return {"complete, %": _completeness(predicted), "corrected": _correction(predicted)}


def _completeness(site: CompletenessRecord | None) -> str:
    if site is None:
        return "-"
    return f"{100 * site.estimate:z.0f}" if site.is_estimable else "not estimable"


def _correction(site: CompletenessRecord | None) -> str:
    return "-" if site is None or site.corrected_before_round is None else f"round {site.corrected_before_round}"


def _total(values: Sequence[float] | None) -> float | None:
    return None if not values else sum(values)
