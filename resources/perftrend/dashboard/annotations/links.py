"""Plain text of users as HTML: web addresses become links, everything else is escaped."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

from perftrend.dashboard.formats import plain

# Only http and https, which browsers do not execute. A full stop at the end belongs to the sentence.
_ADDRESS = re.compile(r"https?://[^\s<>\"'`\\^{|}]*[^\s<>\"'`\\^{|}.,;:!?()\[\]]")


def linked(text: str) -> Markup:
    """Return a text as HTML in which http and https addresses are links."""
    text = plain(text)
    pieces = []
    end = 0
    for found in _ADDRESS.finditer(text):
        pieces.append(escape(text[end : found.start()]))
        pieces.append(Markup('<a href="{0}" rel="noopener noreferrer nofollow">{0}</a>').format(found[0]))
        end = found.end()
    return Markup("").join([*pieces, escape(text[end:])])
