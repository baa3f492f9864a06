"""Pictures that training reads otherwise than somebody may expect: without their colours, or turned upright."""

from collections.abc import Iterator

from .facts import SiteFacts
from .finding import Finding, Severity, plural, site_finding


def check_colours(site: SiteFacts) -> Iterator[Finding]:
    """Find pictures with colours that the description makes grey."""
    coloured = [case.name for case, image in site.images if image.has_colours]
    if coloured and site.description.in_channels == 1:
        yield site_finding(
            Severity.NOTE,
            "colours-left-out",
            f"found colours in {len(coloured)} of {plural(len(site.images), 'image')}, which are read as grey.",
            "Nothing to do if colours say nothing here; else write channels: 3 into data.yaml, for all sites alike.",
            files=coloured,
        )


def check_turned_pictures(site: SiteFacts) -> Iterator[Finding]:
    """Find pictures that EXIF turns: a mask drawn on the pixels as stored lies elsewhere."""
    turned = [case.name for case, image in site.images if image.is_turned_by_exif]
    if turned:
        yield site_finding(
            Severity.NOTE,
            "turned-image",
            f"found an orientation of EXIF in {len(turned)} of {plural(len(site.images), 'image')}; they are read as "
            "viewers show them.",
            "Look at the contact sheet: a mask that was drawn on the pixels as stored lies elsewhere.",
            files=turned,
        )
