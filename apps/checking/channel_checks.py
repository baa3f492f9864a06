"""Channels of images that say less than others: missing, the same everywhere, or covering a part of the first one."""

from collections import Counter
from collections.abc import Iterator

from .facts import SiteFacts
from .finding import Finding, Severity, plural, site_finding


def check_missing_channels(site: SiteFacts) -> Iterator[Finding]:
    """Find channels that cases lack and the model sees as zeros, where the site's description says so."""
    channels = site.description.image_channels
    lacking = [case for case in site.cases if case.is_usable and case.case.num_missing_channels]
    counts = Counter(index for case in lacking for index, file in enumerate(case.case.channels) if file is None)
    if lacking:
        shown = "; ".join(f"{channels.label(index)} in {counts[index]}" for index in sorted(counts))
        yield site_finding(
            Severity.NOTE,
            "missing-channels",
            f"found {len(lacking)} of {plural(len(site.cases), 'case')} without a channel, which is zeros: {shown}.",
            "Nothing to do if the model is to work without them; else add the files to the datalist.",
            files=[case.name for case in lacking],
        )


def check_empty_channels(site: SiteFacts) -> Iterator[Finding]:
    """Find images with a channel that has one intensity everywhere, while others have more."""
    channels = site.description.image_channels
    for case, image in site.images:
        if image.empty_channels:
            shown = ", ".join(channels.label(index) for index in image.empty_channels)
            yield Finding(
                Severity.WARNING,
                "empty-channel",
                (case.name,),
                f"found one intensity everywhere in {shown}; the model sees zeros.",
                "Export the channel again, or write null in its place in the datalist.",
            )


def check_covered_channels(site: SiteFacts) -> Iterator[Finding]:
    """Find channels that do not cover all of the first one."""
    channels = site.description.image_channels
    for case, image in site.images:
        if image.covered:
            shown = ", ".join(f"{channels.label(index)} {part:.0%}" for index, part in image.covered.items())
            yield Finding(
                Severity.WARNING,
                "partly-covered",
                (case.name,),
                f"found channels that cover a part of the first one's voxels: {shown}.",
                "Nothing to do if the field of view is smaller: beyond it is the channel's smallest intensity. Else "
                "check that the files belong to one examination.",
            )
