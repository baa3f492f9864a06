"""The federation's page of an audit: sites side by side, without a case; one file that asks for nothing elsewhere."""

import math
from collections.abc import Callable
from pathlib import Path

from markupsafe import Markup, escape

from ...custom.data.whole_files import write_text
from ...custom.run.summary_record import Summary
from ...transforms.printable import printable
from .federation_report import ParameterTable, federation_report
from .pages import page_of_text

FEDERATION_PAGE = "audit.html"

_NAME_WIDTH, _PLOT_WIDTH, _ROW_HEIGHT, _TOP = 130, 600, 28, 8
_MOST_TICKS = 9
# Right of the plot, for the half of the last figure of the axis that reaches beyond it.
_LAST_FIGURE = 40


def write_federation_page(summary: Summary, file: Path) -> Path:
    """Write the page of an audited federation, from what its server knows.

    Args:
        summary: of the run.
        file: the page.

    Raises:
        DataError: if the run audited nothing.
    """
    report = federation_report(summary)
    file.parent.mkdir(parents=True, exist_ok=True)
    styles = ("site_page.css", "channel_tables.css", "federation_page.css")
    charts = [bias_chart(table) for table in report.tables]
    page = page_of_text("federation_page.html", styles, report=report, charts=charts)
    write_text(file, page, shared=True)
    return file


def bias_chart(table: ParameterTable) -> Markup | None:
    """Draw every site's effect with its interval; None where there is none.

    Args:
        table: of one parameter.
    """
    rows = [row for row in table.rows if row.effect is not None]
    if not rows:
        return None
    ends = [value for row in rows for value in (row.low, row.high) if value is not None and math.isfinite(value)]
    low, high = min([*ends, 0.0]), max([*ends, 0.0])
    step = _tick_step(high - low)
    low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    low, high = (low - step, high + step) if low == high else (low, high)

    def x(value: float) -> float:
        return round(_NAME_WIDTH + _PLOT_WIDTH * (value - low) / (high - low), 1)

    height = _TOP + _ROW_HEIGHT * len(table.rows)
    parts = [_grid(low, high, step, x, height, rows[0].unit)]
    for index, row in enumerate(table.rows):
        y = _TOP + _ROW_HEIGHT * (index + 0.5)
        parts.append(Markup('<text x="0" y="{}">{}</text>').format(y + 4, printable(row.site)))
        if row.effect is None or row.low is None or row.high is None:
            continue
        style = row.style
        parts.append(
            Markup(
                '<line class="{0}" x1="{1}" x2="{2}" y1="{3}" y2="{3}"/><circle class="{0}" cx="{4}" cy="{3}" r="5"/>'
            ).format(style, x(row.low), x(row.high), y, x(row.effect))
        )
    title = escape(f"{table.title}, by site with 90 % intervals; the table below has the figures")
    return Markup('<svg viewBox="0 0 {} {}" role="img"><title>{}</title>{}</svg>').format(
        _NAME_WIDTH + _PLOT_WIDTH + _LAST_FIGURE, height + 26, title, Markup("").join(parts)
    )


def _grid(low: float, high: float, step: float, x: Callable[[float], float], height: float, unit: str) -> Markup:
    """Lines and figures of the axis."""
    parts = []
    for number in range(round((high - low) / step) + 1):
        value = low + number * step
        name = "zero" if abs(value) < step / 2 else "grid"
        parts.append(
            Markup(
                '<line class="{0}" x1="{1}" x2="{1}" y1="0" y2="{2}"/><text class="tick" x="{1}" y="{3}" '
                'text-anchor="middle">{4}</text>'
            ).format(
                name,
                x(value),
                height,
                height + 18,
                f"{value:+g} {unit}".replace("-", "−") if abs(value) > step / 2 else f"0 {unit}",
            )
        )
    return Markup("").join(parts)


def _tick_step(extent: float) -> float:
    """A round step that gives a few figures."""
    if not extent > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(extent / _MOST_TICKS))
    return next(power * factor for factor in (1, 2, 5, 10) if extent / (power * factor) <= _MOST_TICKS)
