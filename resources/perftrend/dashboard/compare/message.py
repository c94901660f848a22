"""Message for Gerrit: one sentence, the cells that differ most, and a link to the whole table.

The table is indented by four spaces, so that Gerrit shows it unchanged in a monospaced font, and no line of
it is interpreted as a comment that requests a job.
"""

from __future__ import annotations

from collections.abc import Sequence

from perftrend.dashboard.compare.comparing import Comparison
from perftrend.dashboard.compare.model import Verdict
from perftrend.dashboard.compare.question import Ratio
from perftrend.dashboard.formats import plain, value

_CELLS = 15
"""Maximum number of lines of the table."""
_LONGEST = 60
"""Maximum number of characters of a name."""
_INDENT = "    "
_HEADINGS = ("test", "of", "left", "right", "ratio", "left is")
_RIGHT = frozenset({2, 3, 4})
_SHOWN = ("worse", "better")


def message(comparison: Comparison, *, ratio: Ratio, user: str, link: str) -> str:
    """Return the text of the message.

    :param ratio: the notation of ratios.
    :param user: the user who posts it.
    :param link: the address of the table; empty if other users could not open it.
    """
    verdicts = comparison.verdicts
    differing = [pair for pair, verdict in enumerate(verdicts) if verdict in _SHOWN]
    # The largest first; among equals the worse first.
    differing.sort(key=lambda pair: (-abs(comparison.ratios.gain[pair]), comparison.ratios.gain[pair]))
    paragraphs = [_sentence(comparison, verdicts, user)]
    if differing:
        legend = f"The ratio is {ratio.meaning}. Ratios within the noise (99 %) are omitted."
        paragraphs += [_table(comparison, differing, verdicts, ratio), legend]
    if comparison.simulated:
        paragraphs.append(f"Simulated, no packet was sent: {', '.join(map(_line, comparison.simulated))}.")
    if link:
        paragraphs.append(f"Whole table: {link}")
    return "\n\n".join(paragraphs) + "\n"


def _sentence(comparison: Comparison, verdicts: Sequence[Verdict], user: str) -> str:
    left, right = map(_line, comparison.titles)
    counts = {verdict: verdicts.count(verdict) for verdict in ("worse", "better", "no value")}
    rest = len(verdicts) - sum(counts.values())
    told = f"{counts['worse']} worse, {counts['better']} better, {rest} within noise"
    without = f", {counts['no value']} without a value" if counts["no value"] else ""
    return f"{_line(user)} compares {left} (left) with {right} (right): {told}{without}."


def _table(comparison: Comparison, differing: list[int], verdicts: Sequence[Verdict], ratio: Ratio) -> str:
    layout, found = comparison.layout, comparison.ratios
    numbers = found.plain if ratio is Ratio.PLAIN else found.signed
    cells = [_HEADINGS]
    for pair in differing[:_CELLS]:
        left, right = (value(side(pair).value, comparison.units[pair]) for side in comparison.sides)
        row, name = layout.rows[layout.row_of[pair]], layout.columns[layout.column_of[pair]].name
        written = f"{float(numbers[pair]):.3f}"
        cells.append((_line(row), _line(name), left, right, written, verdicts[pair]))
    kept = [place for place in range(len(_HEADINGS)) if any(row[place] for row in cells[1:])]
    widths = [max(len(row[place]) for row in cells) for place in kept]
    lines = [
        "  ".join(
            row[place].rjust(width) if place in _RIGHT else row[place].ljust(width)
            for place, width in zip(kept, widths, strict=True)
        ).rstrip()
        for row in cells
    ]
    more = len(differing) - _CELLS
    if more > 0:
        lines.append(f"… and {more} more")
    return "\n".join(f"{_INDENT}{line}" for line in lines)


def _line(text: str) -> str:
    shown = " ".join(plain(text).split())
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"
