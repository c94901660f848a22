"""How Sphinx builds this documentation."""

from __future__ import annotations

import sys
from pathlib import Path

import perftrend

# Jobs are scripts of the checkout, not part of the installed package.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

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
nitpick_ignore_regex = [(r"py:.*", r"(numpy|np|sqlalchemy|collections|datetime|pathlib|pydantic)\..*")]
