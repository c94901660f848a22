"""The arguments of a trigger word: a hash, tag expressions, test lists and options.

Common mistakes in the place of the hash have messages of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from perftrend.trigger.expressions import (
    HASH,
    OPERATORS,
    correct_expression,
    expand_parentheses,
    join_operands,
    join_split_words,
    normal,
    operands,
    wrong_expression,
)
from perftrend.trigger.lines import COURTESY, ENDINGS, is_sentence, quote
from perftrend.trigger.request import OptionLimits, RequestOptions, correct_options, read_options

TAG_PLACEHOLDER = "TAG"
"""Placeholder for an unknown tag in a correct form; no test has this tag."""

HASH_PLACEHOLDER = "HASH"
"""Placeholder for the hash in a correct form."""

MOST_WORDS = 64
LONGEST_WORD = 200

_LIST = re.compile(r"[A-Za-z0-9](?:[._-]?[A-Za-z0-9_]){0,99}", re.ASCII)
_COMBINED = re.compile(r"[a-z0-9*?](?:AND|OR|NOT)[A-Za-z0-9*?]")
_LONE_MARK = re.compile(r"(?<!\S)([!#])\s+")
_PACKING = str.maketrans(dict.fromkeys("\"'`()<>{},;\u2018\u2019\u201c\u201d\u00ab\u00bb", " "))
_SHORTEST_HASH, _LONGEST_HASH = 7, 40
_HEX = frozenset("0123456789abcdef")
_CHANGE_NUMBER = re.compile(r"[0-9]{1,6}", re.ASCII)
_CHANGE_ID = re.compile(r"i[0-9a-f]{7,40}")
_ABBREVIATION = re.compile(r"[0-9a-f]{4,6}")
_FRAME_OR_CORES = re.compile(r"[0-9]+[bc]")
_REVISION = re.compile(r"head|main|master|v[0-9][0-9.]*(?:-.*)?|.*[~^/].*|.*\.\..*")


@dataclass(frozen=True, slots=True)
class Arguments:
    """The parsed arguments and their problems."""

    old: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    options: RequestOptions = field(default_factory=RequestOptions)
    problems: tuple[str, ...] = ()
    """Reasons why the arguments are not valid, in order; empty if they are valid."""


def read(words: Sequence[str], *, hashed: bool, limits: OptionLimits) -> Arguments:
    """Parse the words after a trigger word.

    :param words: words with plain dashes, without the full stop of the line.
    :param hashed: whether the first word should be a hash.
    """
    if len(words) > MOST_WORDS:
        return Arguments(problems=(f"{len(words)} words are more than {MOST_WORDS}",))
    # Not of whole words: with spaces around its operators, the same expression would be several of them.
    longest = max((part for word in words for part in operands(word)), key=len, default="")
    if len(longest) > LONGEST_WORD:
        return Arguments(problems=(f"{quote(longest)} is longer than {LONGEST_WORD} characters",))
    start = next((place for place, word in enumerate(words) if word.startswith("-")), len(words))
    tags = list(words[:start])
    old, wrong = read_hash(tags) if hashed else (None, "")
    options, problems = read_options(words[start:], limits)
    found = Arguments(old=old, options=options, problems=(wrong,) if wrong else ())
    for word in join_operands(tags):
        found = _with_word(found, word)
    return replace(found, problems=(*found.problems, *problems))


def _with_word(found: Arguments, word: str) -> Arguments:
    if word.startswith("#"):
        if _LIST.fullmatch(word[1:]):
            return replace(found, lists=_once(found.lists, word[1:], str))
        return _add_problem(found, f"{quote(word)} is not the name of a test list")
    expression = word.removeprefix("!").replace("&", "AND")
    if not expression:
        return _add_problem(found, "'!' should be directly before what it excludes")
    wrong = wrong_expression(expression)
    if wrong:
        return _add_problem(found, wrong)
    if word.startswith("!"):
        return replace(found, exclude=_once(found.exclude, expression, normal))
    return replace(found, include=_once(found.include, expression, normal))


def _add_problem(found: Arguments, reason: str) -> Arguments:
    return replace(found, problems=(*found.problems, reason))


def _once(known: tuple[str, ...], word: str, form: Callable[[str], str]) -> tuple[str, ...]:
    return known if form(word) in map(form, known) else (*known, word)


def are_tags(words: Sequence[str]) -> bool:
    """Return whether words are tag expressions that cannot be mistaken for words of a sentence."""
    expressions = [word.removeprefix("!").replace("&", "AND") for word in words]
    return any(map(_COMBINED.search, expressions)) and not any(
        not expression or wrong_expression(expression) for expression in expressions
    )


def names_tags(words: Sequence[str], *, hashed: bool) -> bool:
    """Return whether words select tests, by valid tags or not.

    :param hashed: whether the first word should be a hash.
    """
    words = _LONE_MARK.sub(r"\1", " ".join(words)).split()
    options = next((place for place, word in enumerate(words) if word.startswith("-")), len(words))
    lowered = [word.rstrip(ENDINGS).lower() for word in words[1 if hashed else 0 : options]]
    return any(word and not word.startswith("!") and word not in COURTESY for word in lowered)


def correct_words(words: Sequence[str]) -> list[str]:
    """Return the probably intended words: without quotes, commas and courtesy words, in the correct order.

    Words that cannot be corrected are replaced by a placeholder, so that no unintended tests are selected.
    """
    words = [each for word in join_split_words(join_operands(words)) for each in _expand_word(word)]
    unpacked = _LONE_MARK.sub(r"\1", " ".join(words).translate(_PACKING)).split()[:MOST_WORDS]
    tags, options = correct_options(
        [word for word in unpacked if word.rstrip(ENDINGS).lower() not in COURTESY]
    )
    capitals = [word.upper() if word.upper() in OPERATORS else word for word in tags]
    meant = [_correct_word(word) for word in join_split_words(join_operands(capitals))]
    return [*(word for word in meant if word and not is_sentence([word], hashed=False)), *options]


def _expand_word(word: str) -> list[str]:
    """Return the equivalent expressions without parentheses of a word."""
    if not re.search(r"[A-Za-z0-9]\(|\)[A-Za-z0-9]", word):
        return [word]
    mark = word[:1] if word[:1] == "!" else ""
    return [f"{mark}{each}" for each in expand_parentheses(word.removeprefix("!")) or [TAG_PLACEHOLDER]]


def _correct_word(word: str) -> str:
    mark = word[:1] if word[:1] in ("!", "#") else ""
    plain = word.lstrip("!#").rstrip("!#.,;:")
    meant = plain if mark == "#" else correct_expression(plain.replace("&", "AND"))
    return f"{mark}{meant}" if meant else ""


def read_hash(words: list[str]) -> tuple[str | None, str]:
    """Remove the hash, or the mistake in its place, from the front of the words.

    :returns: the hash in lower case or None, and the problem or an empty string.
    """
    word = words[0] if words else ""
    lower = word.lower()
    if HASH.fullmatch(lower):
        words.pop(0)
        return lower, ""
    wrong = _wrong_hash(lower)
    if wrong:
        words.pop(0)
        return None, f"{quote(word)} {wrong}"
    return None, "the hash of the older commit is missing after the trigger word"


def _wrong_hash(word: str) -> str:
    """Return why a word is not a hash; empty if it was probably not intended as one."""
    digits = len(word)
    strange = [each for each in word if each not in _HEX]
    wrong = {
        "looks like the number of a change; write the hash of the older commit": _CHANGE_NUMBER.fullmatch(
            word
        ),
        "is a Change-Id; write the hash of the older commit": _CHANGE_ID.fullmatch(word),
        "is a link; write the hash of the older commit": "://" in word,
        f"has {digits} hex digits; a hash has at least {_SHORTEST_HASH}, so {_SHORTEST_HASH - digits} more": (
            _ABBREVIATION.fullmatch(word) and not _FRAME_OR_CORES.fullmatch(word)
        ),
        f"has {digits} hex digits; a hash has at most {_LONGEST_HASH}, so {digits - _LONGEST_HASH} fewer": (
            digits > _LONGEST_HASH and not strange
        ),
        "is a placeholder; write the hash of the older commit": word.strip("<>{}[]")
        == HASH_PLACEHOLDER.lower(),
        "is not a hash; git rev-parse prints the hash": _REVISION.fullmatch(word),
        f"has {quote(''.join(strange[:1]))}, which is not a hex digit": (
            len(strange) == 1 and digits >= _SHORTEST_HASH
        ),
    }
    return next((reason for reason, applies in wrong.items() if applies), "")
