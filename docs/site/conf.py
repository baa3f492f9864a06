"""How Sphinx builds the documentation site (`make docs`): the README and docs as they lie; links are checked."""

from importlib.metadata import version as version_of

from docutils import nodes
from sphinx.application import Sphinx

project = "fedannot"
version = release = version_of(project)
copyright = "the fedannot maintainers, Apache-2.0"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
# The source is the repository's root, so that links between README, docs and files stay as they are.
root_doc = "docs/site/index"
include_patterns = ["*.md", "docs/**.md"]
exclude_patterns = [".*", "build", "runs", "tests", "apps", "custom", "transforms", "src", "jobs", "*.egg-info"]

# Headings are reached by the names that GitHub gives them; mathematics is written as GitHub reads it.
myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["math"]
autodoc_member_order = "alphabetical"
autodoc_typehints = "description"
# Of a class its own docstring says what its arguments are.
autodoc_class_signature = "separated"
nitpicky = False

html_theme = "furo"
html_title = f"fedannot {release}"
html_extra_path = ["root"]
html_show_sourcelink = False


def _out_of_the_menu(app: Sphinx, _doctree: nodes.document) -> None:
    """Let pages of the laboratory stand in no menu; every other page has to."""
    if app.env.docname.startswith("docs/lab/"):
        app.env.metadata[app.env.docname]["orphan"] = True


def setup(app: Sphinx) -> None:
    """Connect what this configuration adds to Sphinx."""
    app.connect("doctree-read", _out_of_the_menu)
