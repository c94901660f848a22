"""Texts of users are shown unchanged, and only web addresses become links."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.dashboard.annotations.routes import linkify


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("see https://bugs.example.org/12.", "https://bugs.example.org/12"),
        ("(http://a.example/b?c=1&d=2#e)", "http://a.example/b?c=1&d=2#e"),
        ("https://a.example/x, then", "https://a.example/x"),
    ],
)
def test_web_address_is_a_link(text: str, address: str) -> None:
    escaped = address.replace("&", "&amp;")

    assert f'<a href="{escaped}" rel="noopener noreferrer nofollow">{escaped}</a>' in linkify(text)


@pytest.mark.parametrize(
    "text",
    ["javascript:alert(1)", "data:text/html,x", "ftp://a.example", "//a.example", "https://", "xhttps:/a.b"],
)
def test_nothing_else_is_a_link(text: str) -> None:
    assert text == linkify(text)


def test_markup_is_shown_as_it_was_written() -> None:
    assert "&lt;b&gt; &amp; &#34;" == linkify('<b> & "')
    assert '"' not in re.sub(r'<a href="[^"]*" rel="[^"]*">', "", linkify('https://a.example/"onclick="x'))


@given(st.text() | st.from_regex(r"https?://[ -~]{0,30}"))
def test_text_cannot_make_elements_of_its_own(text: str) -> None:
    without_links = re.sub(r'<a href="https?://[^"<>]*" rel="[a-z ]*">|</a>', "", linkify(text))

    assert not re.search(r"[<>\"]", without_links)
