"""What all pages share: templates that escape what they are given, and what a page may load."""

import base64
import hashlib
from collections.abc import Iterable

from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ...transforms.errors import DataError
from ...transforms.printable import printable

# In this order, since the last ones act on what the first ones declare.
_SITE_PROGRAM = (
    "state",
    "case_list",
    "pixels",
    "annotations",
    "viewer",
    "case_view",
    "decisions",
    "plot",
    "controls",
    "changes",
    "mend",
    "start",
)


def page_environment() -> Environment:
    """Return where templates of pages come from; whatever they are given is escaped."""
    return Environment(
        loader=_loader(), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


def page_source(name: str) -> str:
    """Return a style or a program of a page, as it stands in it.

    Raises:
        DataError: if it could end the element that the page puts it in.
    """
    text, _, _ = _loader().get_source(page_environment(), name)
    if "</" in text:
        raise DataError(f"{name}: found '</', which may end the element that the page puts it in.")
    return text


def page_of_text(template: str, styles: Iterable[str], **values: object) -> str:
    """Return a page that runs no program; its policy allows none.

    Args:
        template: its name.
        styles: names of its styles, in their order.
        values: what the template shows, besides `style`, `policy` and `printable`.

    Raises:
        DataError: as :func:`page_source`.
    """
    style = "".join(map(page_source, styles))
    rendered = page_environment().get_template(template)
    return rendered.render(values, style=Markup(style), policy=content_policy(style), printable=printable)


def site_program() -> str:
    """Return the program of a site's page: its parts, in one scope of their own.

    Raises:
        DataError: as :func:`page_source`.
    """
    parts = "\n".join(page_source(f"site_page/{name}.js") for name in _SITE_PROGRAM)
    return f'"use strict";\n(() => {{\n{parts}}})();\n'


def content_policy(style: str, *scripts: str, is_served: bool = False) -> str:
    """Return what a page may load: itself, pictures that it holds, and what its own server gives.

    Args:
        style: the page's only style.
        scripts: its programs.
        is_served: whether it asks the server that it comes from.
    """
    hashes = " ".join(f"'{_source_hash(script)}'" for script in scripts)
    run = f"script-src {hashes}; " if scripts else ""
    asked = "connect-src 'self'; " if is_served else ""
    return (
        f"default-src 'none'; {run}style-src '{_source_hash(style)}'; img-src data:; "
        f"{asked}base-uri 'none'; form-action 'none'"
    )


def _source_hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
    return f"sha256-{digest}"


def _loader() -> BaseLoader:
    """The templates of audits, then those of reports."""
    apps = (__package__ or "").rpartition(".")[0]
    return ChoiceLoader([PackageLoader(f"{apps}.{name}", "templates") for name in ("audit", "reports")])
