"""The lines of a comment that are the author's own text, not quoted text or code.

A comment may be typed into Gerrit or sent by mail, so both Markdown and the conventions of mail programs
apply:

- A line that begins with ``>`` is quoted. Everything below a line such as "On Monday Jane wrote:" is quoted
  as well; if the next line begins with ``>``, only the lines that do are.
- Text between fences or backticks, or indented by four spaces or a tab, is code.

A comment may contain a log of a megabyte. Therefore, only regular expressions scan the whole text, and
Python only processes their matches. The time of each expression and of the whole search is linear in the
text.

Copied and pasted lines are normalized: their whitespace, dashes and invisible characters.

A line that begins with a trigger word may be a sentence. "perftest-2n-clx was green yesterday" has the
form of a request with three tags. It is recognized as a sentence by its words: articles, pronouns,
prepositions and verbs are not tags of tests. The words are English, the language of reviews.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

_VERBS = """
    am is are was were be been being isn't aren't wasn't weren't has have had hasn't haven't did didn't does
    doesn't do don't will won't would wouldn't can can't cannot could couldn't should shouldn't may might must
    failed fails passed passes shows showed looks looked seems seemed appears says said gives gave takes took
    ran runs works worked needs needed hangs hung crashed crashes broke breaks finished starts started stopped
    stops got gets went goes became becomes succeeded measures measured reports reported
    i i'm i'll we he she it it's they who what when where why which because although since until while
    yesterday today tomorrow already always never ever
"""
_PARTICLES = """
    the a an this that these those my our your their its of in on at to for from with without by as into about
    after before during between than then there here if but via per also still just only too
"""

_RESULTS = "SUCCESS FAILURE UNSTABLE ABORTED NOT_BUILT PASS PASSED FAIL FAILED"

VERBS = frozenset(_VERBS.split())
"""Finite verbs, their subjects, and adverbs of time that only occur in sentences."""

PARTICLES = frozenset(_PARTICLES.split())
"""Articles, prepositions and conjunctions; they indicate a sentence unless there is a courtesy word."""

COURTESY = frozenset({"please", "pls", "plz", "thanks", "thank", "thx", "again", "now", "asap", "kindly"})
"""Courtesy words; a line with one counts as a request, and is refused because the word is not a tag."""

RESULTS = frozenset(_RESULTS.split())
"""Results of jobs in reports, in upper case."""

MARKS = frozenset(("-", "=", "->", "=>", "|"))
"""Marks that are separate words in a report or a sentence, but never in a request."""

_OPERATORS = ("AND", "OR", "NOT")

ENDINGS = ".,;:!?)\"'"
"""Punctuation that may follow a word of a sentence."""

_LINK = re.compile(r"[a-z][a-z+.-]*://", re.IGNORECASE)
_LINK_TO_A_COMMIT = re.compile(r"[a-z]+://\S*/(?:\+/|commit/|c/)\S*", re.IGNORECASE)
_NEVER_LAST = PARTICLES | {"and", "or", "not", "is", "was", "were", "are"}
_VERB_FIRST = re.compile(r"(?:was|were|is|are|has|had|did)\s(?!.*\?\s*$)")
_WRAP_WIDTH = 60
"""Minimum length of a line, including the first word of the next, that a program may have wrapped."""

_BLANKS = r"[^\S\n]*+"
_QUOTED = rf"{_BLANKS}[>\uff1e]"


def is_sentence(words: Sequence[str], *, hashed: bool) -> bool:
    """Return whether the words after a trigger word indicate a sentence or a report.

    :param words: the typed words, with plain dashes.
    :param hashed: whether the first word should be a hash; a link to a commit then counts as a wrong hash.
    """
    bare = [word.rstrip(ENDINGS).replace("\u2019", "'") for word in words]
    plain = [word.lower() for word in bare if word not in _OPERATORS]
    is_polite = any(word in COURTESY for word in plain)
    if any(word in VERBS for word in plain) or plain[:1] in (["and"], ["or"], ["not"]):
        return True
    if not is_polite and (any(word in PARTICLES for word in plain) or _dash_before_words(words)):
        return True
    if hashed and words and _LINK_TO_A_COMMIT.fullmatch(words[0]):
        words = words[1:]
    return any(map(_is_report, words))


def _is_report(word: str) -> bool:
    return (
        word in MARKS
        or word.rstrip(ENDINGS) in RESULTS
        or word.endswith((":", "..", "\u2026"))
        or bool(_LINK.match(word))
    )


def _dash_before_words(words: Sequence[str]) -> bool:
    """Return whether a dash separates two parts of a sentence, instead of preceding options as ``--``."""
    known = ("-", "duration", "multiplicity", "dry")
    return any(
        word == "--" and not following.lower().startswith(known) for word, following in pairwise(words)
    )


def is_within_sentence(first: str, above: str, below: str) -> bool:
    """Return whether a line is part of a sentence on the adjacent lines.

    :param first: the first word of the line.
    :param above: the line directly above, or empty. A sentence continues from it if it is long enough to be
        wrapped, and ends with a comma or a word that does not end a sentence.
    :param below: the line directly below, or empty. A sentence continues on it if it begins with a verb.
    """
    goes_on = len(above.strip()) + len(first) >= _WRAP_WIDTH and _is_open(above)
    return goes_on or bool(_VERB_FIRST.match(below.strip()))


def _is_open(line: str) -> bool:
    last = line.split()[-1:]
    return line.rstrip().endswith(",") or any(word.lower() in _NEVER_LAST for word in last)


def _fence_pattern(mark: str, *, name: str, info: str) -> str:
    """Return the pattern of a fence, the lines below it, and the closing fence, if there is one."""
    closing = rf"(?![ ]{{4}}){_BLANKS}(?P={name}){mark}*+{_BLANKS}$"
    return rf"[ ]{{0,3}}(?P<{name}>{mark}{{3,}}+){info}[^\n]*+(?:\n(?!{closing})[^\n]*+)*+(?:\n[^\n]*+)?"


def _behind(words: Iterable[str], end: str) -> str:
    """Return a lookbehind for any of the words followed by ``end``; a ``_`` in a word is a word boundary."""
    # All alternatives of one lookbehind must have the same length.
    by_length = itertools.groupby(sorted(words, key=len), key=len)
    looks = ("|".join(re.escape(word).replace("_", r"\b") + end for word in same) for _, same in by_length)
    return "|".join(f"(?<={look})" for look in looks)


_BACKTICKS = _fence_pattern("`", name="backticks", info=r"(?=[^`\n]*$)")
_TILDES = _fence_pattern("~", name="tildes", info="")
_COLON = r"[:\uff1a]"
_WROTE = ("_wrote", "_a écrit", "_escribió", "_ha scritto", "_escreveu", "_schreef", "写道", "寫道")
"""A ``_`` is a word boundary, which scripts without spaces between words do not have."""
_TAIL = "".join(f"[{''.join(word[place] for word in _WROTE)}]" for place in (-2, -1))
_WROTE_COLON = "|".join(
    rf"(?<={_TAIL}{end}{_COLON})(?:{_behind(_WROTE, end + _COLON)})" for end in ("", r"\s")
)
# Each alternative begins with a line break instead of ^, since re finds a literal character faster.
# Repetitions match up to the end of the line and then backtrack, which is faster than testing each character.
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
"""Fenced code, or a line that introduces quoted text, including that text."""

_PARAGRAPH_ABOVE = re.compile(rf"(?s:.*)^(?:{_BLANKS}\n|{_QUOTED})", re.MULTILINE)
_PARAGRAPH_BELOW = re.compile(rf"^(?:{_BLANKS}$|{_QUOTED})", re.MULTILINE)
_TICKS = re.compile("`+")
_MOST_TICKS = 50_000
"""Maximum number of backticks in a text; a text with more is code or crafted to be slow, and is ignored."""

_INVISIBLE = re.compile("[\xad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]+")
"""Soft hyphens, joiners, direction marks and byte order marks."""

_HYPHENS = "\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d"
_LONG_DASHES = "\u2013\u2014\u2015"
"""Dashes that word processors substitute for ``--``."""

_LEADING = re.compile(f"^[{_LONG_DASHES}]-?")
_DASHES = str.maketrans(dict.fromkeys(_HYPHENS, "-"))
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class CommentLine:
    """A line of the author's own text, and the adjacent lines of the same paragraph."""

    text: str
    above: str
    below: str


def own_lines(
    comment: str, wanted: re.Pattern[str], is_wanted: Callable[[str], bool]
) -> Iterator[CommentLine]:
    """Yield the wanted lines of the author's own text, in order.

    :param comment: the text without invisible characters.
    :param wanted: matches one candidate line, with the line break before it; must not match lines that are
        indented as code.
    :param is_wanted: whether a candidate is wanted; called after the lines above it have been yielded.
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
                yield CommentLine(written, paragraph.above(start), paragraph.below(line.end()))


class _OwnParts:
    """The parts of a text between fenced code and introduced quoted text, one after another."""

    def __init__(self, text: str) -> None:
        self._length = len(text)
        self._foreign = _FOREIGN.finditer(text)
        self.start = self.end = self._next = 0

    def reach(self, position: int) -> bool:
        """Advance to the part that contains a position, and return whether there is one.

        :param position: not less than the position of any earlier call.
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
    """A paragraph: the lines between blank or quoted lines."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self._text = text
        self._start = start
        self.end = end
        self._spans = _code_spans(text, start, end)
        self._span = next(self._spans, None)

    @classmethod
    def around(cls, text: str, start: int, end: int, line: re.Match[str]) -> _Paragraph:
        """Return the paragraph of a line within a part of the text; the match begins with a line break."""
        above = _PARAGRAPH_ABOVE.match(text, start, line.start() + 1)
        below = _PARAGRAPH_BELOW.search(text, line.end() + 1, end)
        return cls(
            text,
            text.find("\n", above.end() - 1) + 1 if above else start,
            below.start() if below else end,
        )

    def is_code(self, position: int) -> bool:
        """Return whether a position is between backticks; positions must be passed in ascending order."""
        while self._span and self._span[1] <= position:
            self._span = next(self._spans, None)
        return self._span is not None and self._span[0] < position

    def above(self, start: int) -> str:
        """Return the line above the one that starts at a position; empty if there is none."""
        return self._text[max(self._text.rfind("\n", 0, start - 1) + 1, self._start) : start - 1]

    def below(self, end: int) -> str:
        """Return the line below the one that ends at a position; empty if there is none."""
        after = self._text.find("\n", end + 1, self.end)
        return self._text[end + 1 : self.end if after < 0 else after]


def _code_spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each code span, which is between two runs of backticks of equal length."""
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


def visible(text: str) -> str:
    """Return the text without invisible characters."""
    return text if text.isascii() else _INVISIBLE.sub("", text)


def tidy(line: str) -> list[str]:
    """Return the words of a line with plain dashes; a long dash at the start of a word becomes ``--``."""
    words = line.split()
    return words if line.isascii() else [_LEADING.sub("--", word).translate(_DASHES) for word in words]


def printable_line(text: str, *, most: int = 200) -> str:
    """Return the text as one printable line, cut if it is longer than ``most`` characters."""
    printable = _UNPRINTABLE.sub("\ufffd", " ".join(text[: 4 * most].split()))
    return printable if len(printable) <= most else f"{printable[: most - 1]}…"


def quote(word: str) -> str:
    """Return a word in quotes, for the reason of a refusal."""
    return f"'{printable_line(word, most=60)}'"
