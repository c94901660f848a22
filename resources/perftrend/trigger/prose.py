"""Distinction between requests and sentences that begin with a trigger word.

"perftest-2n-clx was green yesterday" has the form of a request with three tags. It is recognized as a
sentence by its words: articles, pronouns, prepositions and verbs are not tags of tests. The words are
English, the language of reviews.
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
