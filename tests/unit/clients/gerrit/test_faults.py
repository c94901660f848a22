"""The client with a Gerrit that fails, refuses, or sends wrong data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tenacity

from perftrend.clients.gerrit import Gerrit, RefusedError, UnavailableError, api, connect
from perftrend.errors import PerftrendError, ServiceError, SettingsError, UsageError
from perftrend.settings import GerritSettings
from tests.doubles import faulty
from tests.doubles import gerrit as doubles
from tests.doubles.faulty import Fault
from tests.doubles.gerrit import GerritDouble

Client = Callable[..., Gerrit]
SECRET = "t0ken-of-somebody"  # noqa: S105 - it opens nothing


def refusal(gerrit: Gerrit, kind: type[PerftrendError] = ServiceError) -> str:
    with pytest.raises(kind) as caught:
        gerrit.change(1)
    message = str(caught.value)
    assert message.isprintable()
    assert SECRET not in message
    return message


@pytest.mark.parametrize(
    "fault",
    [
        faulty.status(500),
        faulty.status(503, "Lock failure"),
        faulty.status(409, "LOCK_FAILURE: somebody was faster"),
        faulty.reset,
        faulty.cut_off,
        faulty.silent(0.4),
    ],
    ids=["500", "503", "409 for a lock", "reset", "cut off", "silent"],
)
def test_what_passes_is_asked_again(client: Client, double: GerritDouble, fault: Fault) -> None:
    double.faults.extend([fault, fault])

    assert 1 == client(timeout_s=0.2).change(1).number
    assert 3 == len(double.requests)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (faulty.status(500), "500 Internal Server Error; look into its log, or try again later"),
        (faulty.status(409, "lock failure"), "another user writes to the same change; try again later"),
        (faulty.reset, "broke the connection off"),
        (faulty.silent(0.4), "sent nothing for 0.2 s"),
        (faulty.dripping(2), "sends next to nothing"),
    ],
)
def test_what_does_not_pass_is_told_after_the_last_attempt(
    client: Client, double: GerritDouble, fault: Fault, expected: str
) -> None:
    double.always = fault

    message = refusal(client(timeout_s=0.2, attempts=2), UnavailableError)

    assert message.startswith(f"GET {double.url}/changes/1: ")
    assert expected in message
    assert 2 == len(double.requests)


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (faulty.status(400, "bad\nworse"), "400 Bad Request; the request is not valid; Gerrit reports 'bad'"),
        (faulty.status(401), "401 Unauthorized; check gerrit.user and gerrit.token"),
        (
            faulty.status(403, "prohibited"),
            "give the user 'me' the permission for that; Gerrit reports 'proh",
        ),
        (
            faulty.status(404),
            "404 Not Found; check gerrit.url and the number, and that the user 'me' may",
        ),
        (
            faulty.status(409, "change is closed"),
            "409 Conflict; the change is in another state; check it;",
        ),
        (faulty.status(409, "x" * 10_000), "409 Conflict; the change is in another state; check it"),
        (faulty.status(400, f"you sent {SECRET}"), "400 Bad Request; the request is not valid"),
        (faulty.status(400, f"you sent {faulty.basic('me', SECRET)}"), "the request is not valid"),
        (faulty.status(400, "a\x1b[31mb\u2028c\ud7ff"), "Gerrit reports 'a [31mb c"),
        (faulty.status(429), "429 Too Many Requests; send fewer requests"),
        (faulty.page, "the response is not JSON; is a proxy or a login page in between?"),
        (faulty.raw(b")]}'\n" + b"[" * 100_000), "the response is not JSON"),
        (faulty.raw(b")]}'\n" + b"9" * 5000), "the response is not JSON"),
        (faulty.raw(b"\xff\xfe"), "the response is not JSON"),
        (faulty.raw(b")]}'\n[]"), "the response is not valid; is gerrit.url right?"),
        (faulty.redirected_to("ftp://example.org/"), "the request failed"),
    ],
)
def test_what_lasts_is_told_at_once(
    client: Client, double: GerritDouble, fault: Fault, expected: str
) -> None:
    double.always = fault

    message = refusal(client(user="me", token=SECRET))

    assert expected in message
    assert 1 == len(double.requests)


@pytest.mark.parametrize(
    "wrong",
    [
        {"_number": "1"},
        {"_number": True},
        {"_number": 2**60},
        {"subject": 3},
        {"owner": None},
        {"updated": "yesterday"},
        {"updated": "2026-13-01 00:00:00"},
        {"updated": "\uff12026-01-01 00:00:00"},
        {"revisions": {}},
        {"revisions": {"../../x": {}}},
        {"revisions": {"a" * 40: {"_number": 1, "ref": "--upload-pack=x", "created": doubles.MOMENT}}},
        {"revisions": []},
        {"labels": {"Performance": {"all": [{"value": "1"}]}}},
    ],
)
def test_change_as_gerrit_would_not_tell_it_is_refused(
    client: Client, double: GerritDouble, wrong: dict[str, Any]
) -> None:
    double.files["/changes/1"] = doubles.change(1, **wrong)

    assert "the response is not valid; is gerrit.url right?" in refusal(client())


def test_half_of_a_character_pair_can_be_written_down(client: Client, double: GerritDouble) -> None:
    double.files["/changes/1"] = doubles.change(1, subject="\ud800!")

    assert b"?!" == client().change(1).subject.encode()


def test_answer_without_end_is_not_kept(
    client: Client, double: GerritDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    double.always = faulty.raw(b" " * 200_000)
    monkeypatch.setattr(api, "MAXIMUM_JSON", 100_000)

    assert "answers with more than 100000 bytes; request less" in refusal(client())


def test_user_and_token_log_in(client: Client, double: GerritDouble) -> None:
    double.login = ("mé", SECRET)

    assert 7 == client(user="mé", token=SECRET).account.number
    assert "401" in refusal(client())
    assert "401" in refusal(client(user="mé", token=SECRET.upper()))
    assert ["/a/accounts/self", "/changes/1", "/a/changes/1"] == [each.path for each in double.requests]


def test_login_does_not_follow_a_redirect_to_another_server(client: Client, double: GerritDouble) -> None:
    with doubles.running() as other:
        double.always = faulty.redirected_to(f"{other.url.replace('127.0.0.1', 'localhost')}/changes/1")

        client(user="me", token=SECRET).change(1)

    assert "Authorization" in double.requests[0].headers
    assert "Authorization" not in other.requests[0].headers


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("http://me:pass@h/", {}),
        ("h:8080", {}),
        ("file:///etc", {}),
        ("http://", {}),
        ("http://h", {"user": "me"}),
        ("http://h", {"token": SECRET}),
    ],
)
def test_unusable_address_or_login_is_refused(url: str, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        Gerrit(url, **options)

    assert "pass@" not in str(caught.value)
    assert SECRET not in str(caught.value)


def test_settings_name_the_server(double: GerritDouble) -> None:
    double.login = ("me", SECRET)

    assert 7 == connect(GerritSettings(url=double.url, user="me", token=SECRET)).account.number


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "gerrit.url is not set"), ({"url": "http://h", "user": "me"}, "belong together")],
)
def test_settings_that_name_none_are_refused(given: dict[str, Any], expected: str) -> None:
    with pytest.raises(SettingsError, match=expected):
        connect(GerritSettings(**given))


def test_token_is_in_no_representation(client: Client) -> None:
    gerrit = client(user="me", token=SECRET)

    assert SECRET not in f"{gerrit!r} {gerrit}"


def test_server_that_is_not_there_is_told() -> None:
    closed = Gerrit("http://127.0.0.1:1", attempts=2, wait=tenacity.wait_none())

    assert "cannot be reached (Connection refused); check gerrit.url" in refusal(closed, UnavailableError)


@pytest.mark.parametrize("number", [0, -1])
def test_number_that_no_change_has_is_refused(client: Client, double: GerritDouble, number: int) -> None:
    with pytest.raises(UsageError, match="no change has the number"):
        client().change(number)

    assert [] == double.requests


def test_missing_change_is_told(client: Client) -> None:
    with pytest.raises(RefusedError, match="404 Not Found; check gerrit"):
        client().change(2)
