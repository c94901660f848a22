"""How Sphinx builds this documentation."""

from __future__ import annotations

import perftrend

project = "perftrend"
author = "The perftrend authors"
copyright = "The perftrend authors"
version = release = perftrend.__version__

extensions = ["matplotlib.sphinxext.plot_directive", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
# Figures are made by the code, whenever the documentation is built.
plot_formats = ["svg"]
plot_html_show_formats = plot_html_show_source_link = False
html_theme = "furo"
html_title = f"perftrend {release}"

autodoc_typehints = "none"
autodoc_member_order = "bysource"
default_role = "literal"

# Names of other projects' types; their documentation is not at hand where this one is built.
nitpick_ignore_regex = [
    (r"py:.*", r"(numpy|np|sqlalchemy|collections|datetime|pathlib|pydantic)\..*"),
    (r"py:exc", r"\w+Error"),  # no page describes the exceptions
]
