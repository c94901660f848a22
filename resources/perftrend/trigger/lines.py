"""Which lines of a comment its author wrote as text: not quoted, not code.

A comment may be typed into Gerrit or sent by mail. So both Markdown and the habits of mail programs count:

- a line that begins with ``>`` is quoted, and so is everything below a line such as "On Monday Jane wrote:"
  unless the next line begins with ``>``: then only the lines that do are;
- code is what stands between fences, between backticks, or behind four blanks or a tab.

Regular expressions go over the whole text, and Python over what they found alone: a comment may hold a log of
a megabyte. Each of them takes time that is linear in the text, and so does all of it together.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

_BLANKS = r"[^\S\n]*+"
_QUOTED = rf"{_BLANKS}[>\uff1e]"


def _fenced(mark: str, *, name: str, info: str) -> str:
    """Return the pattern of a fence, of the lines below it, and of the fence that ends them, if one does."""
    closing = rf"(?![ ]{{4}}){_BLANKS}(?P={name}){mark}*+{_BLANKS}$"
    return rf"[ ]{{0,3}}(?P<{name}>{mark}{{3,}}+){info}[^\n]*+(?:\n(?!{closing})[^\n]*+)*+(?:\n[^\n]*+)?"


def _behind(words: Iterable[str], end: str) -> str:
    """Return the pattern of a place that one of these words, and an end, stand before."""
    # All that one look takes together has to have the same length.
    by_length = itertools.groupby(sorted(words, key=len), key=len)
    looks = ("|".join(re.escape(word).replace("_", r"\b") + end for word in same) for _, same in by_length)
    return "|".join(f"(?<={look})" for look in looks)


_BACKTICKS = _fenced("`", name="backticks", info=r"(?=[^`\n]*$)")
_TILDES = _fenced("~", name="tildes", info="")
_COLON = r"[:\uff1a]"
_WROTE = ("_wrote", "_a écrit", "_escribió", "_ha scritto", "_escreveu", "_schreef", "写道", "寫道")
"""A _ is the beginning of a word, which letters without blanks between words do not tell."""
_TAIL = "".join(f"[{''.join(word[place] for word in _WROTE)}]" for place in (-2, -1))
_WROTE_COLON = "|".join(
    rf"(?<={_TAIL}{end}{_COLON})(?:{_behind(_WROTE, end + _COLON)})" for end in ("", r"\s")
)
# Each begins with a line break, not with ^: to the next line break the module re goes faster. Repetitions go
# to the end of the line at once, and back to a certain letter or to the last one, instead of looking at each.
_FOREIGN = re.compile(
    rf"""\n(?=[^\n]{{3}})(?!{_BLANKS}$)(?:
      {_BACKTICKS} | {_TILDES}
    | (?!{_QUOTED})(?:
        (?>[^\n]*\S)(?:{_WROTE_COLON})
      | [^\n]*(?-i:Begin\ forwarded\ message:)
      | [^\n]*(?-i:\ has\ posted\ comments\ on\ this\ change)
      | {_BLANKS}(?=[_\-fvaod])(?:  # what the following begin with: most lines need no more
          _{{20,}}+{_BLANKS}$
        | -{{2,}}+[ ]?(?:Original|Forwarded|Urspr\u00fcngliche)[ ](?:message|Nachricht)
        | (?:from|von):[^\S\n]++[^\n]++\n
          {_BLANKS}(?:sent|date|to|cc|subject|gesendet|an|betreff):[^\S\n]++[^\n]
        | (?:am|op|den)\s(?=(?>[^\n]*\S)(?<={_COLON}))(?-i:
            [^\n]*schrieb\b(?<=\bschrieb) | [^\n]*schreef\b(?<=\bschreef) | [^\n]*skrev\b(?<=\bskrev)
          )
        )
      )[^\n]*+
      (?:(?:\s*+[>\uff1e][^\n]*+)++ | (?s:.*+))
    )""",
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
"""Fenced code, or a line that tells of a quotation, and that."""

_PARAGRAPH_ABOVE = re.compile(rf"(?s:.*)^(?:{_BLANKS}\n|{_QUOTED})", re.MULTILINE)
_PARAGRAPH_BELOW = re.compile(rf"^(?:{_BLANKS}$|{_QUOTED})", re.MULTILINE)
_TICKS = re.compile("`+")
_MOST_TICKS = 50_000
"""Backticks of a text; what has more is code, or made to be slow, and no line of it is surely text."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the author's own, and what stands directly above and below it in the same paragraph."""

    text: str
    above: str
    below: str


def own_lines(comment: str, wanted: re.Pattern[str], is_wanted: Callable[[str], bool]) -> Iterator[Line]:
    """Yield the wanted lines that the author wrote as text, in order.

    :param comment: the text, without invisible characters.
    :param wanted: finds whole lines, by themselves and with the line break before them, that are perhaps
        wanted; none that is indented as code.
    :param is_wanted: asked about each of them after those above it were yielded.
    """
    if comment.count("`") > _MOST_TICKS:
        return
    text = f"\n{comment}"
    parts, paragraph = _OwnParts(text), None
    for line in wanted.finditer(text):
        start, written = line.start() + 1, line[0][1:]
        if is_wanted(written) and parts.reach(start):
            if paragraph is None or start >= paragraph.end:
                paragraph = _Paragraph.around(text, parts.start, parts.end, line)
            if not paragraph.is_code(start):
                yield Line(written, paragraph.above(start), paragraph.below(line.end()))


class _OwnParts:
    """What stands between fenced code and quotations that a line tells of, one part after the other."""

    def __init__(self, text: str) -> None:
        self._length = len(text)
        self._foreign = _FOREIGN.finditer(text)
        self.start = self.end = self._next = 0

    def reach(self, position: int) -> bool:
        """Go to the part that a position is in, and tell whether there is one.

        :param position: none before those of earlier calls.
        """
        if position >= self._next:
            self._go_to(position)
        return position < self.end

    def _go_to(self, position: int) -> None:
        start = self._next
        for found in self._foreign:
            after = found.end()
            if after > position:
                self.start, self.end, self._next = start, found.start(), after
                return
            start = after
        self.start, self.end, self._next = start, self._length, self._length


class _Paragraph:
    """The lines between blank and quoted ones."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self._text = text
        self._start = start
        self.end = end
        self._spans = _code_spans(text, start, end)
        self._span = next(self._spans, None)

    @classmethod
    def around(cls, text: str, start: int, end: int, line: re.Match[str]) -> _Paragraph:
        """Return the paragraph of a line found with its line break, from a start to an end of the text."""
        above = _PARAGRAPH_ABOVE.match(text, start, line.start() + 1)
        below = _PARAGRAPH_BELOW.search(text, line.end() + 1, end)
        return cls(
            text,
            text.find("\n", above.end() - 1) + 1 if above else start,
            below.start() if below else end,
        )

    def is_code(self, position: int) -> bool:
        """Whether a position is between backticks; positions are asked about in order."""
        while self._span and self._span[1] <= position:
            self._span = next(self._spans, None)
        return self._span is not None and self._span[0] < position

    def above(self, start: int) -> str:
        """Return the line above the one that starts there; empty: there is none."""
        return self._text[max(self._text.rfind("\n", 0, start - 1) + 1, self._start) : start - 1]

    def below(self, end: int) -> str:
        """Return the line below the one that ends there; empty: there is none."""
        after = self._text.find("\n", end + 1, self.end)
        return self._text[end + 1 : self.end if after < 0 else after]


def _code_spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of what stands between two equal runs of backticks."""
    runs = [found.span() for found in _TICKS.finditer(text, start, end)]
    partners: list[int | None] = [None] * len(runs)
    nearest: dict[int, int] = {}
    for number in reversed(range(len(runs))):
        length = runs[number][1] - runs[number][0]
        partners[number] = nearest.get(length)
        nearest[length] = number
    number = 0
    while number < len(runs):
        partner = partners[number]
        if partner is not None:
            yield runs[number][0], runs[partner][1]
        number = number + 1 if partner is None else partner + 1
