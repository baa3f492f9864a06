"""What a federation's folders hold, as columns of a table; for the person who has the data."""

from collections.abc import Sequence

from ...custom.data.overview import SiteOverview


def federation_columns(sites: Sequence[SiteOverview]) -> dict[str, list[str]]:
    """Return the cells of a table with a row per site by heading; columns that would be empty are left out.

    Args:
        sites: from :func:`fedannot.custom.data.overview.federation_overview`.
    """
    rows = [
        {
            "site": row.site,
            "cases": str(row.cases),
            "excluded": str(row.excluded),
            "μ": "-" if row.mean is None else f"{row.mean:+z.1f}",
            "σ": "-" if row.spread is None else f"{row.spread:z.1f}",
            "protocol": row.protocol or "-",
            "discs, px": row.discs or "-",
            "complete, %": "-" if row.completeness is None else f"{100 * row.completeness:z.0f}",
            "wrong, %": "-" if row.wrong is None else f"{100 * row.wrong:z.1f}",
            "Dice to clean, %": "-" if row.dice is None else f"{100 * row.dice:z.1f}",
        }
        for row in sites
    ]
    columns = {heading: [row[heading] for row in rows] for heading in rows[0]}
    return {heading: cells for heading, cells in columns.items() if set(cells) != {"-"}}
