"""Which lines of a comment its author wrote as text: not quoted, not code.

A comment may be typed into Gerrit or sent by mail. So both Markdown and the habits of mail programs count:

- a line that begins with ``>`` is quoted, and so is everything below a line such as "On Monday Jane wrote:"
  unless the next line begins with ``>``: then only the lines that do are;
- code is what stands between fences, between backticks, or behind four blanks or a tab.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

_STRUCTURE = re.compile(
    r"""
      (?P<blank>\s*$)
    | (?P<fence>[ ]{0,3}(?:`{3,}(?=[^`]*$)|~{3,}))
    | (?P<quote>\s*[>\uff1e])
    | (?P<forwarded>\s*(?:_{20,}\s*$
        |-{2,}[ ]?(?:Original|Forwarded|Urspr\u00fcngliche)[ ](?:message|Nachricht)))
    """,
    re.VERBOSE | re.IGNORECASE,
)
_FORWARDED = ("Begin forwarded message:", " has posted comments on this change")
_WROTE_AT_THE_END = re.compile(
    r"(?:\b(?:wrote|a écrit|escribió|ha scritto|escreveu|schreef)|写道|寫道)\s?[:\uff1a]$", re.IGNORECASE
)
_WROTE_BEFORE_THE_NAME = re.compile(r"(?:am|op|den)\s.*\b(?:schrieb|schreef|skrev)\b", re.IGNORECASE)
_MAIL_FIELD = re.compile(r"(?:sent|date|to|cc|subject|gesendet|an|betreff):\s", re.IGNORECASE)
_FROM_FIELD = re.compile(r"(?:from|von):\s", re.IGNORECASE)
_TICKS = re.compile("`+")
_INDENT_OF_CODE = 4
_LONGEST_VERB = 20


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the author's own, and what stands directly above and below it in the same paragraph."""

    text: str
    above: str
    below: str


def own_lines(comment: str, is_wanted: Callable[[str], bool]) -> Iterator[Line]:
    """Yield the lines that the author wrote as text, in order.

    :param comment: the text, without invisible characters.
    :param is_wanted: tells by a line alone whether anybody wants it.
    """
    for paragraph in _paragraphs(comment.split("\n")):
        wanted = [number for number, text in enumerate(paragraph) if is_wanted(text)]
        if wanted:
            yield from _text_of(paragraph, wanted)


def _paragraphs(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield the lines between blank, quoted and fenced ones."""
    fence = ""
    told = False  # by a line such as "On Monday Jane wrote:", that a quotation follows
    paragraph: list[str] = []
    for line in lines:
        if fence:
            fence = "" if _closes(line, fence) else fence
            continue
        found = None if line[:1].isalnum() else _STRUCTURE.match(line)
        kind = found.lastgroup if found else None
        if told and kind not in ("blank", "quote"):
            return
        told = kind == "forwarded" or (told and kind == "blank")
        if kind is None:
            told = _tells_of_a_quotation(line, paragraph)
            if not told:
                paragraph.append(line)
                continue
        if paragraph:
            yield paragraph
            paragraph = []
        fence = found["fence"].strip() if found and kind == "fence" else ""
    yield paragraph


def _closes(line: str, fence: str) -> bool:
    text = line.strip()
    return len(text) >= len(fence) and not text.strip(fence[0]) and not line.startswith(" " * _INDENT_OF_CODE)


def _tells_of_a_quotation(line: str, above: Sequence[str]) -> bool:
    text = line.strip()
    if text[-1:] in (":", "\uff1a") and (
        _WROTE_AT_THE_END.search(text, len(text) - _LONGEST_VERB) or _WROTE_BEFORE_THE_NAME.match(text)
    ):
        return True
    if any(mark in text for mark in _FORWARDED):
        return True
    return bool(above) and bool(_MAIL_FIELD.match(text)) and bool(_FROM_FIELD.match(above[-1].strip()))


def _text_of(paragraph: Sequence[str], wanted: Iterable[int]) -> Iterator[Line]:
    """Yield the wanted lines of a paragraph, but for those that begin within code."""
    ends = list(accumulate(len(text) + 1 for text in paragraph))
    spans = _code_spans("\n".join(paragraph))
    span = next(spans, None)
    for number in wanted:
        text = paragraph[number]
        position = ends[number] - len(text) - 1
        while span and span[1] <= position:
            span = next(spans, None)
        in_code = span is not None and span[0] < position
        if not in_code and not _is_indented(text):
            above = paragraph[number - 1] if number else ""
            below = paragraph[number + 1] if number + 1 < len(paragraph) else ""
            yield Line(text, above, below)


def _is_indented(text: str) -> bool:
    indent = text[: len(text) - len(text.lstrip())]
    return "\t" in indent or len(indent) >= _INDENT_OF_CODE


def _code_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of what stands between two equal runs of backticks."""
    runs = [found.span() for found in _TICKS.finditer(text)]
    partners: list[int | None] = [None] * len(runs)
    nearest: dict[int, int] = {}
    for number in reversed(range(len(runs))):
        start, end = runs[number]
        partners[number] = nearest.get(end - start)
        nearest[end - start] = number
    number = 0
    while number < len(runs):
        partner = partners[number]
        if partner is not None:
            yield runs[number][0], runs[partner][1]
        number = number + 1 if partner is None else partner + 1
