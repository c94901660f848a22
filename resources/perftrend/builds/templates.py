"""Words with placeholders: ``{artifacts}/router.pyz``.

``{name}`` is replaced by a value within a word; ``{name...}`` is a whole word and is replaced by several,
which are separated as in a shell, by spaces and quotes. ``{{`` and ``}}`` are the braces themselves. The
words are never passed to a shell.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from perftrend.errors import SettingsError, nearest

_TOKEN = re.compile(r"(?P<brace>\{\{|\}\})|\{(?P<name>[a-z_][a-z0-9_]*)\}|(?P<lone>[{}])")
_SPLICE = re.compile(r"\{(?P<name>[a-z_][a-z0-9_]*)\.\.\.\}")
_NAME = re.compile(r"[a-z_][a-z0-9_]*")


def is_name(text: str) -> bool:
    """Return whether a text is a valid name of a placeholder."""
    return bool(_NAME.fullmatch(text))


def substitute(text: str, parameters: Mapping[str, str]) -> str:
    """Replace the parameters in a text and leave everything else unchanged, including other placeholders."""

    def value(token: re.Match[str]) -> str:
        return parameters.get(token["name"] or "", token[0])

    return _TOKEN.sub(value, text)


def splice(word: str, parameters: Mapping[str, str]) -> list[str] | None:
    """Return the words for ``{name...}``; None for a word that is not a known ``{name...}``.

    :raises SettingsError: if a quote in the value has no end.
    """
    found = _SPLICE.fullmatch(word)
    if not found or found["name"] not in parameters:
        return None
    try:
        return shlex.split(parameters[found["name"]])
    except ValueError as error:
        raise SettingsError(
            f"parameter {found['name']}: {error}; close the quote, or write \\ before it"
        ) from None


def check(text: str, known: Iterable[str]) -> None:
    """Reject a text with an unknown placeholder, or with a brace that does not begin one.

    :raises ValueError: with the placeholder, and the nearest valid one.
    """
    known = list(known)
    if "\0" in text or text != text.encode(errors="ignore").decode():
        raise ValueError(f"{text!r} cannot be a word of a command")
    for token in _TOKEN.finditer(text):
        if token["lone"]:
            raise ValueError(f"{text!r} has a brace outside a placeholder; write {{{{ or }}}}")
        if token["name"] and token["name"] not in known:
            unknown = f"{token[0]} in {text!r} is not a placeholder here"
            raise ValueError(f"{unknown}{nearest(token['name'], known)}")


def expand(text: str, values: Mapping[str, str]) -> str:
    """Return a checked text with its placeholders replaced by their values."""

    def value(token: re.Match[str]) -> str:
        return token["brace"][0] if token["brace"] else values[token["name"]]

    return _TOKEN.sub(value, text)


def command(words: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Return the argument list of checked words."""
    return [expand(word, values) for word in words]
