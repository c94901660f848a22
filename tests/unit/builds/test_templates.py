"""Words with placeholders."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.builds import commands

VALUES = {"commit": "abc", "python": "/usr/bin/python3"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{commit}", "abc"),
        ("--at={commit}/{commit}", "--at=abc/abc"),
        ("{{commit}}", "{commit}"),
        ("{{{commit}}}", "{abc}"),
        ("{{}}", "{}"),
        ("$(reboot) `x` *", "$(reboot) `x` *"),
    ],
)
def test_placeholders_become_their_values(text: str, expected: str) -> None:
    commands.check_placeholders(text, VALUES)

    assert expected == commands.expand(text, VALUES)


@pytest.mark.parametrize(
    "text", ["{", "}", "{comit}", "{Commit}", "{commit!r}", "{commit...}", "{0}", "{ commit }"]
)
def test_what_is_no_placeholder_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a placeholder|outside a placeholder"):
        commands.check_placeholders(text, VALUES)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
def test_what_is_escaped_comes_out_as_it_was(text: str) -> None:
    escaped = text.replace("{", "{{").replace("}", "}}")
    commands.check_placeholders(escaped, VALUES)

    assert text == commands.expand(escaped, VALUES)


@given(st.text())
def test_value_is_never_looked_into(value: str) -> None:
    assert f"<{value}>" == commands.expand("<{commit}>", {"commit": value})


@given(st.lists(st.text(min_size=1)))
def test_words_are_spliced_as_a_shell_would_part_them(words: list[str]) -> None:
    assert words == commands.splice("{given...}", {"given": shlex.join(words)})


def test_only_a_whole_word_is_spliced() -> None:
    assert commands.splice("x{given...}", {"given": "a b"}) is None
    assert commands.splice("{other...}", {"given": "a b"}) is None
