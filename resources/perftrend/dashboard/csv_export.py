"""CSV exports of the pages.

Spreadsheets evaluate a text as a formula if it begins with ``=``, ``+``, ``-``, ``@`` or some kinds of
whitespace. A leading apostrophe prevents that.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable

_FORMULA = re.compile(r"[\s\x00\ufeff'\"]*[=+\-@\uff1d\uff0b\uff0d\uff20|%]|[\t\r\n]")


def as_cell(content: str) -> str:
    """Return a text as a cell that spreadsheets do not evaluate as a formula."""
    return f"'{content}" if _FORMULA.match(content) else content


def as_csv(rows: Iterable[Iterable[object]]) -> str:
    """Return rows as CSV, the headings first.

    :param rows: cells; texts that others chose as returned by :func:`as_cell`.
    """
    written = io.StringIO(newline="")
    csv.writer(written).writerows(rows)
    return written.getvalue()
