"""Tables and pictures as HTML, for notebooks and for the reports of runs; texts are escaped."""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from ...transforms.printable import printable


def html_table(columns: Mapping[str, Sequence[str]], *, left: Sequence[str] = ()) -> Markup:
    """Return a table of columns by heading, numbers to the right.

    Args:
        columns: the cells of each column, by its heading.
        left: headings of columns of words, besides the first one.

    >>> print(html_table({"site": ["a<b"], "Dice %": ["80.1"]}))
    <table><thead><tr><th scope="col">site</th><th scope="col" class="number">Dice %</th></tr></thead>
    <tbody><tr><th scope="row">a&lt;b</th><td class="number">80.1</td></tr></tbody></table>
    """
    headings = list(columns)
    classes = {name: Markup("") if name in left or name == headings[0] else _NUMBER for name in headings}
    head = Markup("").join(
        Markup('<th scope="col"{}>{}</th>').format(classes[name], printable(" ".join(name.split())))
        for name in headings
    )
    rows = Markup("").join(
        Markup('<tr><th scope="row">{}</th>{}</tr>').format(
            printable(first),
            Markup("").join(
                Markup("<td{}>{}</td>").format(classes[name], printable(cell))
                for name, cell in zip(headings[1:], cells, strict=True)
            ),
        )
        for first, *cells in zip(*columns.values(), strict=True)
    )
    return Markup("<table><thead><tr>{}</tr></thead>\n<tbody>{}</tbody></table>").format(head, rows)


_NUMBER = Markup(' class="number"')


def html_picture(file: Path, caption: str) -> Markup:
    """Return a PNG file as a figure that holds its own pixels.

    Args:
        file: the picture.
        caption: what it shows, also for those who cannot see it.
    """
    content = base64.b64encode(file.read_bytes()).decode("ascii")
    return Markup(
        '<figure><img alt="{0}" src="data:image/png;base64,{1}"><figcaption>{0}</figcaption></figure>'
    ).format(printable(caption), content)


def html_paragraphs(*texts: str) -> Markup:
    """Return texts as paragraphs; empty ones are left out.

    >>> print(html_paragraphs("Dice < 80 %", ""))
    <p>Dice &lt; 80 %</p>
    """
    return Markup("").join(Markup("<p>{}</p>").format(printable(text)) for text in texts if text)
