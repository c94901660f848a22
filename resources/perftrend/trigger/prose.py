"""Whether a line that begins with a trigger word is a request, or a sentence about a job.

"perftest-2n-clx was green yesterday" has the form of a request with three tags. What tells it apart is its
words: articles, pronouns, prepositions and the verbs of a sentence are no tags of tests. The words are those
of English, the language of reviews.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
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
"""Finite verbs, their subjects, and what only a sentence says of time."""

PARTICLES = frozenset(_PARTICLES.split())
"""Articles, prepositions and conjunctions: a sentence, too, where nobody says please."""

COURTESY = frozenset({"please", "pls", "plz", "thanks", "thank", "thx", "again", "now", "asap", "kindly"})
"""What people say to a person. A request with such a word is one, and is refused."""

RESULTS = frozenset(_RESULTS.split())
"""What a job reports of itself, in capitals."""

MARKS = frozenset(("-", "=", "->", "=>", "|"))
"""Marks that stand alone in a report or a sentence, and never in a request."""

_OPERATORS = ("AND", "OR", "NOT")

ENDINGS = ".,;:!?)\"'"
"""Punctuation that may hang on a word of a sentence."""

_LINK = re.compile(r"[a-z][a-z+.-]*://", re.IGNORECASE)
_LINK_TO_A_COMMIT = re.compile(r"[a-z]+://\S*/(?:\+/|commit/|c/)\S*", re.IGNORECASE)
_NEVER_LAST = PARTICLES | {"and", "or", "not", "is", "was", "were", "are"}
_VERB_FIRST = re.compile(r"(?:was|were|is|are|has|had|did)\s(?!.*\?\s*$)")
_WRAP_WIDTH = 60
"""Where a line is this long with the first word of the next, a program may have broken it."""


def is_sentence(words: Sequence[str], *, hashed: bool) -> bool:
    """Whether the words after a trigger word make its line a sentence or a report.

    :param words: as they were typed, with plain dashes.
    :param hashed: whether a hash belongs there; then a link to a commit is one gone wrong.
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
    """Whether a lone dash, which was no ``--`` before options, separates two halves of a sentence."""
    known = ("-", "duration", "multiplicity", "dry")
    return any(
        word == "--" and not following.lower().startswith(known) for word, following in pairwise(words)
    )


def is_within_sentence(first: str, above: str, below: str) -> bool:
    """Whether the lines around make a line a part of their sentence.

    :param first: the line's first word.
    :param above: the line directly above, empty for none; a sentence goes on from it where it is as long
        as a program lets lines grow and ends with a word that nothing ends with.
    :param below: the line directly below, empty for none; it goes on where it begins with a verb.
    """
    goes_on = len(above.strip()) + len(first) >= _WRAP_WIDTH and _is_open(above)
    return goes_on or bool(_VERB_FIRST.match(below.strip()))


def _is_open(line: str) -> bool:
    last = line.split()[-1:]
    return line.rstrip().endswith(",") or any(word.lower() in _NEVER_LAST for word in last)
