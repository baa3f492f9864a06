"""Masks whose values are confused: the background is annotated as foreground, at a site by itself or unlike others."""

from collections.abc import Iterator, Sequence
from statistics import median

from ...custom.data.datalist import SECTIONS
from ...custom.data.description import SegmentationDescription
from .facts import CaseFacts, SiteFacts
from .finding import Finding, Severity, plural, site_finding
from .layout import MaskLayout

INVERTED, UNLIKE_OTHERS, FULL = "inverted-masks", "inverted-unlike-other-sites", "foreground-everywhere"

# Of a site's masks, those that are mostly foreground; of those with background, those that enclose it.
_NEARLY_ALL, _MOST, _FEW = 0.9, 0.75, 0.25
# A single mask of this kind is no habit of a site.
_LEAST_MASKS = 2


def check_inverted_masks(site: SiteFacts) -> Iterator[Finding]:
    """Find sites at which nearly all masks are mostly foreground, which takes the border and encloses the rest."""
    if _is_inverted(site):
        yield _finding(
            site,
            INVERTED,
            "the background looks annotated in place of the lesions",
            "Nothing to do if what is annotated really takes the border and encloses the rest.",
        )


def check_full_masks(site: SiteFacts) -> Iterator[Finding]:
    """Find masks without background, at a site whose masks are not inverted as a whole."""
    full = [case for case, layout in _masks(site) if layout.is_full]
    if full and not _is_inverted(site):
        yield site_finding(
            Severity.WARNING,
            FULL,
            f"found foreground everywhere in {plural(len(full), 'mask')} of {len(_masks(site))}.",
            "Compare them with their images; an export may have lost or inverted them. Nothing to do if the whole "
            "image is annotated.",
            files=[case.label or case.name for case in full],
        )


def check_same_polarity(sites: Sequence[SiteFacts]) -> Iterator[tuple[str, Finding]]:
    """Find sites whose masks enclose the background, where other sites' background encloses the foreground.

    Args:
        sites: the sites and the test set.

    Yields:
        Name of the site and what is wrong with it; nothing of sites that :func:`check_inverted_masks` finds.
    """
    right = [site for site in sites if _layouts(site) and _inside_out_share(site) <= _FEW]
    for site in sites:
        if _inside_out_share(site) < _MOST or _is_inverted(site):
            continue
        own, others = (
            median(layout.foreground for layout in _layouts(*chosen)) for chosen in ([site], right or [site])
        )
        if abs(1 - own - others) < abs(own - others):
            names = ", ".join(other.site for other in right)
            yield (
                site.site,
                _finding(
                    site,
                    UNLIKE_OTHERS,
                    f"at {names} the foreground takes {others:.0%} and lies inside; one of the two is the other's "
                    "inverse",
                    "Or correct the other sites, if this one is right.",
                ),
            )


def _is_inverted(site: SiteFacts) -> bool:
    layouts = _layouts(site)
    large = sum(layout.foreground > 0.5 for layout in layouts)
    return large >= _NEARLY_ALL * len(layouts) > 0 and _inside_out_share(site) >= _MOST


def _inside_out_share(site: SiteFacts) -> float:
    """Fraction of the masks with background that enclose it, 0 where they are too few."""
    layouts = [layout for layout in _layouts(site) if not layout.is_full]
    result = sum(layout.is_inside_out for layout in layouts)
    return result / len(layouts) if result >= _LEAST_MASKS else 0.0


def _finding(site: SiteFacts, kind: str, what: str, otherwise: str) -> Finding:
    masks = _masks(site)
    layouts = [layout for _, layout in masks]
    concerned = [case for case, layout in masks if layout.is_inside_out or layout.is_full]
    foreground, border = (median(getattr(layout, name) for layout in layouts) for name in ("foreground", "border"))
    return site_finding(
        Severity.WARNING,
        kind,
        f"found {foreground:.0%} of the image and {border:.0%} of its border annotated (medians of "
        f"{plural(len(masks), 'mask')}, of which {len(concerned)} take the border): {what}.",
        f"{_mending(site)} {otherwise}",
        files=[case.label or case.name for case in concerned],
    )


def _mending(site: SiteFacts) -> str:
    """How the values are mapped back, in so many letters where there are two classes."""
    description = site.description
    assert isinstance(description, SegmentationDescription)
    if len(description.classes) > 1:
        return (
            "Let the value at the border lead to 0 in 'labels' of this site's data.yaml, or of all sites with "
            "`fedannot data import --label-map`; where the classes are lost, export the masks again."
        )
    confused = {value: 1 - label for value, label in description.labels.items()}
    written = ", ".join(f"{value}: {label}" for value, label in confused.items())
    option = ",".join(f"{value}:{label}" for value, label in confused.items())
    return (
        f"Write labels: {{{written}}} in this site's data.yaml; if the masks of all sites are so, import them with "
        f"--label-map {option}."
    )


def _layouts(*sites: SiteFacts) -> list[MaskLayout]:
    return [layout for site in sites for _, layout in _masks(site)]


def _masks(site: SiteFacts) -> list[tuple[CaseFacts, MaskLayout]]:
    """The usable cases of all lists with where their foreground lies; none of classification."""
    return [
        (case, facts.layout)
        for section in SECTIONS
        for case, facts in site.annotations(section)
        if facts.layout is not None
    ]
