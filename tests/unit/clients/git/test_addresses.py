"""Addresses of repositories, and that no password in them is shown."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from perftrend.clients.git import Address, Repository, without_password
from perftrend.errors import ServiceError, UsageError

SECRET = "https://ada:s3cr%2Ft@git.example.org:8443/product.git"  # noqa: S105 - of nobody


@pytest.mark.parametrize(
    "text",
    [
        "https://git.example.org/product",
        "ssh://ada@git.example.org:29418/product",
        "git://git.example.org/product",
        "file:///srv/product.git",
        "ada@git.example.org:product.git",
    ],
)
def test_url_is_taken_as_it_is(text: str) -> None:
    assert text == Address.of(text).url


def test_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert str(tmp_path / "product") == Address.of("product").url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "--upload-pack=reboot",
        "ext::sh -c reboot",
        "ext::reboot://x",
        "http://x\nhttp://y",
        "ftp://git.example.org/x",
        "https://[::1/x",
        "a::b",
    ],
)
def test_what_would_start_a_program_or_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="repository"):
        Address.of(text)


def test_password_goes_into_a_header_for_that_server_only() -> None:
    address = Address.of(SECRET)

    (key, value), redirects = address.configuration
    assert "https://git.example.org:8443/product.git" == address.url
    assert "http.https://git.example.org:8443/.extraHeader" == key
    assert ("http.https://git.example.org:8443/.followRedirects", "false") == redirects
    assert b"ada:s3cr/t" == base64.b64decode(value.removeprefix("Authorization: Basic "))


def test_password_is_not_told() -> None:
    told = without_password(f"fatal: {SECRET} and https://eve:other@x.example.org/")

    assert "fatal: https://ada@git.example.org:8443/product.git and https://eve@x.example.org/" == told
    assert "s3cr" not in repr(Address.of(SECRET))
    assert "YWRh" not in repr(Address.of(SECRET))


def test_password_is_on_no_command_line_and_in_no_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/said\necho "$GIT_CONFIG_VALUE_0" >> {tmp_path}/header\n'
        f'case "$*" in *" fetch "*) echo "fatal: unable to access {SECRET}" >&2; exit 128;; esac\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    with pytest.raises(ServiceError) as caught:
        Repository.mirror(SECRET, tmp_path / "m.git")

    assert "s3cr" not in str(caught.value)
    assert "s3cr" not in (tmp_path / "said").read_text()
    assert "https://git.example.org:8443/product.git" in (tmp_path / "said").read_text()
    assert "Authorization: Basic" in (tmp_path / "header").read_text()
