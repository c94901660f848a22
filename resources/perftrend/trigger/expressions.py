"""Tag expressions: those tag patterns of Robot Framework that can select a test.

A pattern consists of tags in any case, with ``*``, ``?`` and ``[…]``, combined by ``AND`` (or ``&``), ``OR``
and ``NOT`` in upper case. Robot Framework also finds operators inside words, and treats a missing operand as
a tag that no test has. ``VENDOR`` would therefore mean ``VEND`` or nothing, so such expressions are rejected.
``none`` is rejected as well, since Robot Framework drops it and would run every test.

Source: "Robot Framework User Guide", section Tag patterns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate, product

from perftrend.trigger.lines import COURTESY, ENDINGS, quote

OPERATORS = ("AND", "OR", "NOT")
CHARACTERS = r"A-Za-z0-9_.:+=*?\-"
"""Characters of a pattern outside of bracketed sets, as the content of a character class."""
FIRST = "A-Za-z0-9*?"

HASH = re.compile(r"[0-9a-f]{7,40}")

_OPERATOR = re.compile("(AND|OR|NOT)")
_TOKEN = re.compile("(AND|OR|NOT|[()])")
_MOST_TERMS = 16
"""Maximum number of expressions that one with parentheses is expanded to."""
_DEEPEST = 16
"""Maximum number of parentheses within each other."""
_HANGING_END = re.compile(r"(?=.*[a-z0-9*?]).+(?:AND|OR|NOT)")
_HANGING_BEGIN = re.compile(r"(?:AND|OR|NOT)(?=.*[a-z0-9*?]).+")
_SET = rf"\[!?[{CHARACTERS}]+\]"
_PATTERN = re.compile(rf"(?:[{FIRST}]|{_SET})(?:[{CHARACTERS}]|{_SET})*", re.ASCII)
_NO_CHARACTER = re.compile(rf"[^{CHARACTERS}!&\[\]]")
_LEADING_OR_TRAILING = re.compile("^(?:AND|OR)+|(?:AND|OR|NOT)+$")
_DOUBLED = re.compile("(?:AND|OR)+(?=NOT)|(?:AND)+(?=AND)|(?:OR)+(?=OR)")


def is_expression(word: str) -> bool:
    """Return whether every operator has an operand on both sides; ``NOT`` may also be first."""
    return word[-1:] not in (".", ":") and all(map(_PATTERN.fullmatch, _patterns(word)))


def operands(word: str) -> list[str]:
    """Return the parts of a word between its operators."""
    return _OPERATOR.split(word.replace("&", "AND"))[::2]


def _patterns(word: str) -> list[str]:
    patterns = _OPERATOR.split(word)[::2]
    return patterns[1:] if word.startswith("NOT") else patterns


def small(expression: str) -> str:
    """Return the expression with its tags in lower case, which every version of Robot Framework accepts."""
    parts = _OPERATOR.split(expression)
    return "".join(part if part in OPERATORS else part.lower() for part in parts)


def normal(expression: str) -> str:
    """Return the normal form, which is equal for expressions that Robot Framework treats as equal."""
    return small(expression).replace("_", "")


def join_operands(words: Sequence[str]) -> list[str]:
    """Join operands around an operator that is a separate word, as Robot Framework does."""
    found: list[str] = []
    expects = False
    for word in words:
        operator = "AND" if word == "&" else word
        if operator in OPERATORS:
            before = found.pop() if found else ""
            # Lists cannot be combined: with the spaces, the result is not a valid name of a list.
            found.append(f"{before} {operator} " if before.startswith("#") else f"{before}{operator}")
            expects = True
        elif expects:
            found[-1] += word
            expects = False
        else:
            found.append(word)
    return found


def join_split_words(words: Sequence[str]) -> list[str]:
    """Join words that a space next to an operator separates, as in ``mrrAND 64b`` and ``mrr AND64b``."""
    found: list[str] = []
    for word in words:
        before = found[-1] if found else ""
        if (
            before
            and not before.startswith("#")
            and (_HANGING_END.fullmatch(before) or _HANGING_BEGIN.fullmatch(word))
        ):
            found[-1] = before + word
        else:
            found.append(word)
    return found


def expand_parentheses(word: str) -> list[str]:
    """Return expressions without parentheses that together select the same tests as one with parentheses.

    :returns: the expressions; empty if there is a ``NOT``, if a pattern or a parenthesis is missing, or if
        there would be too many expressions or are too many parentheses within each other.
    """
    tokens = [token for token in _TOKEN.split(word.replace("&", "AND")) if token]
    depths = accumulate({"(": 1, ")": -1}.get(token, 0) for token in tokens)
    if max(depths, default=0) > _DEEPEST:
        return []
    try:
        terms = _any_of(tokens)
    except (IndexError, ValueError):
        return []
    return ["AND".join(dict.fromkeys(term)) for term in terms] if not tokens else []


def _any_of(tokens: list[str]) -> list[list[str]]:
    terms = _all_of(tokens)
    while tokens[:1] == ["OR"]:
        tokens.pop(0)
        terms += _all_of(tokens)
        if len(terms) > _MOST_TERMS:
            raise ValueError
    return terms


def _all_of(tokens: list[str]) -> list[list[str]]:
    terms = _one(tokens)
    while tokens[:1] == ["AND"]:
        tokens.pop(0)
        further = _one(tokens)
        if len(terms) * len(further) > _MOST_TERMS:
            raise ValueError
        terms = [[*left, *right] for left, right in product(terms, further)]
    return terms


def _one(tokens: list[str]) -> list[list[str]]:
    first = tokens.pop(0)
    if first == "(":
        terms = _any_of(tokens)
        if tokens.pop(0) != ")":
            raise ValueError
        return terms
    if not _PATTERN.fullmatch(first) or first in OPERATORS:
        raise ValueError
    return [[first]]


def wrong_expression(word: str) -> str:
    """Return what is wrong with a tag expression; empty if it is valid.

    :param word: the expression, with ``AND`` for ``&``.
    """
    plain = word.rstrip(ENDINGS).lower()
    if plain in ("and", "or", "not") and not word.isupper():
        return f"{quote(word)} should be in capitals to combine tags"
    if plain in COURTESY:
        return f"{quote(word)} is not a tag; a trigger must be alone on its line"
    patterns = _patterns(word)
    if any(normal(pattern) == "none" for pattern in patterns):
        return f"{quote(word)} selects the tag none, which Robot Framework treats as no tag at all"
    if HASH.fullmatch(word.lower()):
        return f"{quote(word)} is a hash, not a tag; bisecttest accepts one hash, in front of the tags"
    if not is_expression(word):
        return f"{quote(word)} {_wrong_part(word)}"
    hashed = next((pattern for pattern in patterns if HASH.fullmatch(pattern.lower())), "")
    return f"{quote(word)} contains {quote(hashed)}, which looks like a hash, not a tag" if hashed else ""


def _wrong_part(word: str) -> str:
    strange = _NO_CHARACTER.search(word)
    if strange and strange[0] == ",":
        return "has a comma; separate tag expressions by spaces"
    if strange and strange[0] in "()":
        return "has parentheses, which tag expressions do not support"
    if strange:
        return f"has {quote(strange[0])}, which is not allowed in a tag expression"
    if not all(_patterns(word)):
        hint = f"; if it is part of a tag, write it in lower case: {word.lower()}" if word.isupper() else ""
        return f"has an operator without a tag next to it{hint}"
    if word.count("[") != word.count("]"):
        return "has an unmatched bracket"
    return "is not a tag expression"


def correct_expression(word: str) -> str:
    """Return the probably intended expression, which may still not be valid."""
    if is_expression(word):
        return word
    if word.isupper() and is_expression(word.lower()):
        return word.lower()
    return _LEADING_OR_TRAILING.sub("", _DOUBLED.sub("", word))
