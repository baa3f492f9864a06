"""How Sphinx builds the documentation site (`make docs`): the README and docs as they lie; links are checked."""

from importlib.metadata import version as version_of

project = "fedannot"
version = release = version_of(project)
copyright = "the fedannot maintainers, Apache-2.0"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
# The source is the repository's root, so that links between README, docs and files stay as they are.
root_doc = "docs/site/index"
include_patterns = ["*.md", "docs/**.md"]
exclude_patterns = [".*", "build", "runs", "tests", "apps", "custom", "transforms", "src", "jobs", "*.egg-info"]

# Headings are reached by the names that GitHub gives them.
myst_heading_anchors = 4
autodoc_member_order = "alphabetical"
autodoc_typehints = "description"
# Of a class its own docstring says what its arguments are.
autodoc_class_signature = "separated"
nitpicky = False

html_theme = "furo"
html_title = f"fedannot {release}"
html_extra_path = ["root"]
html_show_sourcelink = False
