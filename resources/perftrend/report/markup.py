"""The environment of the report's HTML and SVG templates."""

from __future__ import annotations

import jinja2


def environment() -> jinja2.Environment:
    """Return an environment that escapes everything, and raises errors for undefined variables."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader(__package__),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
