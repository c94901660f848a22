"""The grammar as one regular expression, for Jenkins's Gerrit Trigger plugin.

The plugin searches each comment for a Java pattern and starts the job where it finds one. The pattern made
here finds a line that :func:`perftrend.trigger.parse`, given that line alone, returns a trigger for, and no
other: jobs are started by requests, and not by sentences, unknown testbeds or words that are no tags. What
depends on other lines (quotations without ``>``, fences, paragraphs) no pattern can tell: the job parses the
whole comment again, and ends where nothing is asked of it. Refusals are told by the listener alone.

It is written in what Java and Python have in common, in ASCII, and without nested repetition.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import ceil, floor

from perftrend.trigger.arguments import LONGEST_WORD, MOST_WORDS
from perftrend.trigger.expressions import CHARACTERS, FIRST
from perftrend.trigger.options import DEFAULT_LIMITS, Limits
from perftrend.trigger.parsing import LONGEST_LINE
from perftrend.trigger.prose import COURTESY, PARTICLES, RESULTS, VERBS
from perftrend.trigger.words import ALMOST_A_NAME, HASHED, NAME, PLACE, Word, compiled

_GAP = r" \t\r\u00A0"
_DASHES = r"(?:--|[\u2013\u2014]-?)"
_SPACE = f"[{_GAP}]++"
_END = rf"[{_GAP}]*+\.?[{_GAP}]*+(?![^\n])"
_ENDED = rf"(?![^{_GAP}\n])"
_ENDED_OR_STOPPED = rf"(?![^{_GAP}.\n])"

_NEVER = "(?!)"

_OPERATOR = "(?:AND|OR|NOT|&)"
_WHOLE = rf"[{CHARACTERS}\&\[\]!]"
_SET = rf"\[!?(?:(?!AND|OR|NOT)[{CHARACTERS}])+\]"
_EXPRESSION = (
    rf"(?!{_OPERATOR}\.?{_ENDED})(?:NOT)?"
    rf"(?:[{FIRST}]|{_SET})[{CHARACTERS}\&]*(?:{_SET}[{CHARACTERS}\&]*)*(?<![.:])"
)
_WRONG_EXPRESSION = (
    rf"(?![^\n]*[{_GAP}]!?(?!{_OPERATOR}{_ENDED})(?:(?:AND|OR|&)"
    rf"|{_WHOLE}*{_OPERATOR}(?:{_OPERATOR}|[_.:+=\-]|(?!{_WHOLE}))"
    rf"|(?:{_WHOLE}*{_OPERATOR})?(?i:n_*o_*n_*e_*|[0-9a-f]{{7,40}})(?:{_OPERATOR}|\.?(?!{_WHOLE}))"
    f"|{_WHOLE}{{{LONGEST_WORD + 1}}}))"
)
_JOINED = rf"{_EXPRESSION}(?:{_SPACE}{_OPERATOR}{_SPACE}(?!NOT){_EXPRESSION})*"
_LIST = r"#[A-Za-z0-9](?:[._-]?[A-Za-z0-9_]){0,99}"
_TAGS = f"(?:{_SPACE}NOT{_SPACE}{_JOINED})?(?:{_SPACE}(?:{_LIST}|!?{_JOINED}))*"


def java_pattern(
    words: Mapping[str, str],
    testbeds: Iterable[str] | None,
    *,
    job: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> str:
    """Return the pattern of a line that asks for a job.

    :param words: all trigger words and their jobs, as :func:`parse` takes them.
    :param testbeds: the testbeds that may be asked for; None: any well-formed name.
    :param job: whose triggers are found; None: those of all jobs.
    :param limits: what the options may ask for.
    :raises SettingsError: for trigger words that cannot be used.
    """
    every = compiled(words)
    names = NAME if testbeds is None else "|".join(map(re.escape, sorted(testbeds))) or _NEVER
    asked = "|".join(
        _head(word, names) + (f"{_SPACE}[0-9A-Fa-f]{{7,40}}" if word.job == HASHED else "")
        for word in every
        if job in (None, word.job)
    )
    second = "|".join(_head(word, f"{names}|{ALMOST_A_NAME}") for word in every)
    return (
        rf"(?<![^\n])(?![^\n]{{{LONGEST_LINE + 1}}})[ \u00A0]{{0,3}}(?:{asked or _NEVER}){_ENDED_OR_STOPPED}"
        rf"(?!(?:{_SPACE}[^{_GAP}\n]+){{{MOST_WORDS + 1}}}){_SENTENCE}{_WRONG_EXPRESSION}"
        rf"(?![^\n]*[{_GAP}](?!{_WHOLE}*{_OPERATOR})(?:{second})[,;!.]?{_ENDED})"
        f"{_TAGS}{_options(limits)}{_END}"
    )


def _head(word: Word, names: str) -> str:
    before, after = (
        _SPACE.join(re.escape(part) for part in text.split(" ")) for text in word.pattern.split(PLACE)
    )
    return f"(?i:{before}(?:{names}){after})"


_SAID = "|".join(sorted(word for word in VERBS | PARTICLES | COURTESY if word.isalpha()))
_SENTENCE = (
    rf"(?![^\n]*[{_GAP}](?:(?i:{_SAID})|(?!AND|OR|NOT)(?i:and|or|not)|{'|'.join(sorted(RESULTS))})"
    rf"[.,;:!?]*{_ENDED})"
)


def _options(limits: Limits) -> str:
    least, most = limits.multiplicity
    counts = "|".join(map(str, range(least, most + 1)))
    value = rf"(?:=|{_SPACE})"
    once = "".join(
        rf"(?![^\n]*{_DASHES}(?i:{name})[^\n]*{_DASHES}(?i:{name}))"
        for name in ("duration", "multiplicity", "dry-run")
    )
    return (
        f"{once}(?:{_SPACE}{_DASHES}{_ENDED_OR_STOPPED})?"
        rf"(?:{_SPACE}{_DASHES}(?i:duration{value}(?:{_seconds(*limits.duration_s)})s?"
        rf"|multiplicity{value}(?:{counts})|dry-run){_ENDED_OR_STOPPED}){{0,3}}"
    )


def _seconds(least: float, most: float) -> str:
    """Return the numbers from the least to the most, in tenths."""
    tenths = range(ceil(round(least * 10, 6)), floor(round(most * 10, 6)) + 1)
    by_whole: dict[int, list[int]] = {}
    for tenth in tenths:
        by_whole.setdefault(tenth // 10, []).append(tenth % 10)
    full = [str(whole) for whole, parts in by_whole.items() if len(parts) == 10]  # noqa: PLR2004 - tenths
    partly = [
        rf"{whole}\.[{''.join(map(str, parts))}]" + (f"|{whole}" if 0 in parts else "")
        for whole, parts in by_whole.items()
        if len(parts) < 10  # noqa: PLR2004 - tenths
    ]
    return "|".join([*([rf"(?:{'|'.join(full)})(?:\.[0-9])?"] if full else []), *partly])
