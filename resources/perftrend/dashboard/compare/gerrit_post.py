"""A table as a message in Gerrit, which is posted only once even if the form is sent several times.

The message has one sentence, the cells that differ most, and a link to the whole table. The table is indented
by four spaces, so that Gerrit shows it unchanged in a monospaced font, and no line of it is interpreted as a
comment that requests a job.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from perftrend.clients.gerrit import ReviewVerdict, connect
from perftrend.dashboard.compare.comparison import PairComparison
from perftrend.dashboard.compare.models import PostedEntry, Question, Ratio, ToPost, Verdict
from perftrend.dashboard.context import AppContext
from perftrend.dashboard.formats import plain, value
from perftrend.errors import SettingsError
from perftrend.text import align, relative_change

RACE_S = 2.0
"""Time that a form sent a second time waits for the first."""
_NONCE_LIFE = timedelta(days=7)
_JOB = "perftrend-compare"
# Two concurrent requests must not both find that Gerrit does not have the message yet.
_ONE_AT_A_TIME = threading.Lock()
_CELLS = 15
"""Maximum number of lines of the table."""
_LONGEST = 60
"""Maximum number of characters of a name."""
_INDENT = "    "
_HEADINGS = ("test", "of", "left", "right", "", "left is")
_NAMES = 2
"""Number of columns with names, which come first."""
_SHOWN = ("worse", "better")


def digest_of(text: str) -> str:
    """Return the digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def why_not(site: AppContext) -> str:
    """Return why messages cannot be posted; empty if they can."""
    if not site.settings.gerrit.post:
        return "gerrit.post is off; messages are not posted"
    try:
        connect(site.settings.gerrit)
    except SettingsError as error:
        return str(error)
    return "" if site.settings.gerrit.user else "gerrit.user is not set; set it to post messages"


def post(
    site: AppContext, requested: Question, wanted: ToPost, text: str, *, user: str, link: str
) -> PostedEntry:
    """Post a text on a change and record it with the user in the activity log.

    Gerrit is first queried for the message, so that a double click, a browser that sends the form again or a
    process that was killed meanwhile does not cause a duplicate.

    :raises ServiceError: if Gerrit refuses or fails.
    :raises UsageError: if the patch set does not exist.
    """
    gerrit = connect(site.settings.gerrit)
    # Each query has its own job name, so that its message does not replace that of another query.
    same_data = requested.but(ratio="percent", noise=False, sort="weight", reverse=False, first=0, row="")
    job = f"{_JOB}-{digest_of(same_data)[:12]}"
    now = datetime.now(UTC)
    if not site.store.spent.spend(digest_of(f"compare {wanted.nonce}"), now, now + _NONCE_LIFE):
        # Another process may be posting it at this moment.
        time.sleep(RACE_S)
    with _ONE_AT_A_TIME:
        change = gerrit.change(wanted.change)
        patch_set = wanted.patch_set or change.current.number
        posted = gerrit.post(change.number, patch_set, ReviewVerdict(job, text, link=link))
    if posted.is_new:
        detail = f"patch set {patch_set}: {text}"
        site.store.activity.record(user, "posted", f"change {change.number}", detail)
    page = gerrit.page(change)
    return PostedEntry(change=change.number, patch_set=patch_set, page=page, is_new=posted.is_new)


def message(comparison: PairComparison, *, ratio: Ratio, user: str, link: str) -> str:
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
        legend = f"The {ratio.noun} is {ratio.meaning}. Those within the noise (99 %) are omitted."
        paragraphs += [_table(comparison, differing, verdicts, ratio), legend]
    if comparison.simulated:
        paragraphs.append(f"Simulated, no packet was sent: {', '.join(map(_line, comparison.simulated))}.")
    if link:
        paragraphs.append(f"Whole table: {link}")
    return "\n\n".join(paragraphs) + "\n"


def _sentence(comparison: PairComparison, verdicts: Sequence[Verdict], user: str) -> str:
    left, right = map(_line, comparison.titles)
    counts = {verdict: verdicts.count(verdict) for verdict in ("worse", "better", "no value")}
    rest = len(verdicts) - sum(counts.values())
    summary = f"{counts['worse']} worse, {counts['better']} better, {rest} within noise"
    without = f", {counts['no value']} without a value" if counts["no value"] else ""
    return f"{_line(user)} compares {left} (left) with {right} (right): {summary}{without}."


def _table(
    comparison: PairComparison, differing: list[int], verdicts: Sequence[Verdict], ratio: Ratio
) -> str:
    layout, found = comparison.layout, comparison.ratios
    numbers = found.signed if ratio is Ratio.SIGNED else found.plain
    cells = [tuple(each or ratio.noun for each in _HEADINGS)]
    for pair in differing[:_CELLS]:
        left, right = (value(side(pair).value, comparison.units[pair]) for side in comparison.sides)
        row, name = layout.rows[layout.row_of[pair]], layout.columns[layout.column_of[pair]].name
        number = float(numbers[pair])
        written = relative_change(number - 1) if ratio is Ratio.PERCENT else f"{number:.3f}"
        cells.append((_line(row), _line(name), left, right, written, verdicts[pair]))
    filled = [place for place in range(len(_HEADINGS)) if any(row[place] for row in cells[1:])]
    names = sum(place < _NAMES for place in filled)
    lines = align([[row[place] for place in filled] for row in cells], left=names)
    more = len(differing) - _CELLS
    if more > 0:
        lines.append(f"… and {more} more")
    return "\n".join(f"{_INDENT}{line}" for line in lines)


def _line(text: str) -> str:
    shown = " ".join(plain(text).split())
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"
