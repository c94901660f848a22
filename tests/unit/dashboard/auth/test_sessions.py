"""Signed cookies, sessions and attempts to sign in."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.dashboard.auth.oidc import Attempts, path_of_ours
from perftrend.dashboard.auth.roles import Person
from perftrend.dashboard.auth.sessions import Sessions, Signer
from perftrend.store import Store

SECRET = "0123456789abcdef0123456789abcdef"  # noqa: S105
ALICE = Person("alice", ("perf",))
HOUR = 3600


class Clock:
    def __init__(self) -> None:
        self.now = 1_780_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(store: Store, clock: Clock) -> Sessions:
    return Sessions(SECRET, store.spent, life_s=12 * HOUR, idle_s=2 * HOUR, clock=clock)


@pytest.fixture
def attempts(store: Store, clock: Clock) -> Attempts:
    return Attempts(SECRET, store.spent, clock=clock)


def test_session_is_found_by_its_cookie(sessions: Sessions) -> None:
    session = sessions.begin(ALICE)

    assert session == sessions.find(sessions.cookie(session))


def test_each_session_is_another(sessions: Sessions) -> None:
    assert 100 == len({sessions.begin(ALICE).id for _ in range(100)})


def test_cookie_of_another_key_is_worth_nothing(sessions: Sessions, store: Store, clock: Clock) -> None:
    others = Sessions("x" * 32, store.spent, life_s=HOUR, idle_s=HOUR, clock=clock)

    assert sessions.find(others.cookie(others.begin(ALICE))) is None


def test_every_truncated_or_changed_cookie_is_worth_nothing(sessions: Sessions) -> None:
    cookie = sessions.cookie(sessions.begin(ALICE))
    cut = [cookie[:length] for length in range(len(cookie))]
    # The last letter of base64 has two bits that mean nothing, so it is left as it is.
    changed = [
        cookie[:at] + ("A" if cookie[at] != "A" else "B") + cookie[at + 1 :] for at in range(len(cookie) - 1)
    ]

    assert {None} == {sessions.find(each) for each in cut + changed}


def test_cookie_cannot_be_written_by_hand(sessions: Sessions, clock: Clock) -> None:
    session = sessions.begin(ALICE)
    signature = sessions.cookie(session).rpartition(".")[2]
    content = json.dumps([int(clock.now), [session.id, "ada", [], session.begun]], separators=(",", ":"))
    forged = base64.urlsafe_b64encode(content.encode()).decode().rstrip("=")

    assert sessions.find(f"{forged}.{signature}") is None
    assert sessions.find(f"{forged}.") is None
    assert sessions.find(forged) is None


@given(st.text())
def test_whatever_comes_is_no_session(text: str) -> None:
    assert Signer(SECRET, "session").open(text, maximum_age_s=HOUR) is None


def test_long_text_is_not_even_looked_at() -> None:
    seals = Signer(SECRET, "session")

    assert seals.open(seals.seal([str(number) for number in range(4000)]), maximum_age_s=HOUR) is None


def test_seal_of_one_purpose_is_none_of_another() -> None:
    sealed = Signer(SECRET, "form").seal("x")

    assert "x" == Signer(SECRET, "form").open(sealed, maximum_age_s=HOUR)
    assert Signer(SECRET, "session").open(sealed, maximum_age_s=HOUR) is None


def test_seal_from_the_future_is_not_believed(clock: Clock) -> None:
    seals = Signer(SECRET, "form", clock=clock)
    sealed = seals.seal("x")
    clock.now -= HOUR

    assert seals.open(sealed, maximum_age_s=10 * HOUR) is None


def test_session_ends_when_nothing_is_done(sessions: Sessions, clock: Clock) -> None:
    cookie = sessions.cookie(sessions.begin(ALICE))
    clock.now += 2 * HOUR
    assert sessions.find(cookie) is not None
    clock.now += 1

    assert sessions.find(cookie) is None


def test_session_ends_however_active_somebody_is(sessions: Sessions, clock: Clock) -> None:
    session = sessions.begin(ALICE)
    cookie = sessions.cookie(session)
    for _ in range(12):
        clock.now += HOUR
        found = sessions.find(cookie)
        assert found is not None
        cookie = sessions.renew_if_due(cookie, found) or cookie
    clock.now += 1

    assert sessions.find(cookie) is None


def test_cookie_is_renewed_only_when_it_has_aged(sessions: Sessions, clock: Clock) -> None:
    session = sessions.begin(ALICE)
    cookie = sessions.cookie(session)
    assert sessions.renew_if_due(cookie, session) is None
    clock.now += 61

    renewed = sessions.renew_if_due(cookie, session)

    assert renewed is not None
    assert session == sessions.find(renewed)


def test_signed_out_session_and_its_copies_are_worth_nothing(sessions: Sessions, clock: Clock) -> None:
    session = sessions.begin(ALICE)
    copies = [sessions.cookie(session)]
    clock.now += 100
    copies.append(sessions.cookie(session))

    sessions.end(session)

    assert [None, None] == [sessions.find(copy) for copy in copies]
    assert sessions.find(sessions.cookie(sessions.begin(ALICE))) is not None


def test_signing_out_is_remembered_by_other_processes_and_no_longer_than_needed(
    sessions: Sessions, store: Store, clock: Clock
) -> None:
    session = sessions.begin(ALICE)
    sessions.end(session)
    others = Sessions(SECRET, store.spent, life_s=12 * HOUR, idle_s=12 * HOUR, clock=clock)
    cookie = others.cookie(session)
    assert others.find(cookie) is None

    clock.now += 12 * HOUR + 2
    sessions.end(sessions.begin(ALICE))

    assert not store.spent.has(session.bound)
    assert others.find(cookie) is None


def test_attempt_comes_back_once(attempts: Attempts) -> None:
    attempt = attempts.begin("/runs?last=5")
    cookie = attempts.cookie(attempt)

    assert attempt == attempts.come_back(cookie, attempt.state)
    assert attempts.come_back(cookie, attempt.state) is None


def test_attempt_of_somebody_else_does_not_come_back(attempts: Attempts) -> None:
    """Otherwise somebody could let another person sign in as them, and read what they do then."""
    mine, theirs = attempts.begin("/"), attempts.begin("/")

    assert attempts.come_back(attempts.cookie(mine), theirs.state) is None
    assert attempts.come_back("", theirs.state) is None
    assert attempts.come_back(attempts.cookie(mine), "") is None
    assert attempts.come_back(attempts.cookie(mine), "\u00e9") is None


def test_attempt_does_not_come_back_late(attempts: Attempts, clock: Clock) -> None:
    attempt = attempts.begin("/")
    cookie = attempts.cookie(attempt)
    clock.now += 601

    assert attempts.come_back(cookie, attempt.state) is None


def test_no_two_attempts_have_anything_in_common(attempts: Attempts) -> None:
    made = [attempts.begin("/") for _ in range(50)]

    assert 150 == len({text for each in made for text in (each.state, each.nonce, each.verifier)})


def test_session_is_no_attempt_and_the_reverse(sessions: Sessions, attempts: Attempts) -> None:
    attempt = attempts.begin("/")

    assert sessions.find(attempts.cookie(attempt)) is None
    assert attempts.come_back(sessions.cookie(sessions.begin(ALICE)), attempt.state) is None


@pytest.mark.parametrize(
    "place", ["/", "/runs", "/triage?state=new&testbed=2n-clx", "/e/abc#x", "/a//b", "/%2e"]
)
def test_pages_of_ours_are_gone_back_to(place: str) -> None:
    assert place == path_of_ours(place)


@pytest.mark.parametrize(
    "place",
    [
        "",
        "runs",
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "/\t/evil.example",
        "/\n/evil.example",
        " //evil.example",
        "https://evil.example",
        "https:/evil.example",
        "javascript:alert(1)",
        "/a\r\nSet-Cookie: perftrend=x",
        "/a\\b",
        "/é",
        "/" + "a" * 5000,
        "@evil.example",
        ".evil.example",
    ],
)
def test_places_elsewhere_are_not_gone_to(place: str) -> None:
    assert "/" == path_of_ours(place)


@given(st.text(alphabet="/\\:@.?#%\t\r\n abé", max_size=12))
def test_place_to_go_back_to_is_always_a_path_here(place: str) -> None:
    path = path_of_ours(place)

    assert path.startswith("/")
    assert not path.startswith(("//", "/\\"))
    assert path.isascii()
    assert path.isprintable()
    assert "\\" not in path
