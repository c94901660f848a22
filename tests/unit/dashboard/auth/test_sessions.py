"""Sessions, signed texts and attempts to sign in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.dashboard.auth.csrf import Signer
from perftrend.dashboard.auth.oidc import Attempts, path_of_ours
from perftrend.dashboard.auth.users import Person, Sessions, browser_of
from perftrend.store import Store
from perftrend.store.connection import write_transaction

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
    return Sessions(store.sessions, life_s=12 * HOUR, idle_s=2 * HOUR, clock=clock)


@pytest.fixture
def attempts(store: Store, clock: Clock) -> Attempts:
    return Attempts(SECRET, store.spent, clock=clock)


def test_session_is_found_by_its_cookie(sessions: Sessions) -> None:
    session = sessions.begin(ALICE)

    assert session == sessions.find(session.cookie)


def test_each_session_is_another(sessions: Sessions) -> None:
    assert 100 == len({sessions.begin(ALICE).cookie for _ in range(100)})


def test_store_has_only_a_hash_of_the_cookie(sessions: Sessions, store: Store) -> None:
    session = sessions.begin(ALICE)
    [stored] = store.sessions.all()

    assert session.cookie not in repr(stored)
    assert session.cookie not in repr(session)
    assert sessions.find(stored.key) is None


def test_every_truncated_or_changed_cookie_is_worth_nothing(sessions: Sessions) -> None:
    cookie = sessions.begin(ALICE).cookie
    cut = [cookie[:length] for length in range(len(cookie))]
    changed = [
        cookie[:at] + ("A" if cookie[at] != "A" else "B") + cookie[at + 1 :] for at in range(len(cookie))
    ]
    other = [cookie.swapcase(), f"{cookie}\n", f" {cookie}", "\0" * 43, "é" * 43, "' OR 1=1 --", "x" * 10**6]

    assert {None} == {sessions.find(each) for each in cut + changed + other}


@given(st.text())
def test_whatever_comes_is_no_signed_text(text: str) -> None:
    assert Signer(SECRET, "form").open(text, maximum_age_s=HOUR) is None


def test_long_text_is_not_even_looked_at() -> None:
    seals = Signer(SECRET, "form")

    assert seals.open(seals.seal([str(number) for number in range(4000)]), maximum_age_s=HOUR) is None


def test_seal_of_one_purpose_is_none_of_another() -> None:
    sealed = Signer(SECRET, "form").seal("x")

    assert "x" == Signer(SECRET, "form").open(sealed, maximum_age_s=HOUR)
    assert Signer(SECRET, "attempt to sign in").open(sealed, maximum_age_s=HOUR) is None
    assert Signer("x" * 32, "form").open(sealed, maximum_age_s=HOUR) is None


def test_seal_from_the_future_is_not_believed(clock: Clock) -> None:
    seals = Signer(SECRET, "form", clock=clock)
    sealed = seals.seal("x")
    clock.now -= HOUR

    assert seals.open(sealed, maximum_age_s=10 * HOUR) is None


def test_session_ends_when_nothing_is_done(sessions: Sessions, clock: Clock) -> None:
    cookie = sessions.begin(ALICE).cookie
    clock.now += 2 * HOUR
    assert sessions.find(cookie) is not None
    clock.now += 2 * HOUR + 1

    assert sessions.find(cookie) is None
    assert [] == sessions.find_all()


def test_session_ends_however_active_somebody_is(sessions: Sessions, clock: Clock) -> None:
    session = sessions.begin(ALICE)
    for _ in range(12):
        clock.now += HOUR
        assert session == sessions.find(session.cookie)
    clock.now += 1

    assert sessions.find(session.cookie) is None


def test_use_is_stored_once_a_minute(sessions: Sessions, store: Store, clock: Clock) -> None:
    cookie = sessions.begin(ALICE).cookie
    begun = clock.now
    for _ in range(3):
        clock.now += 59
        sessions.find(cookie)

    assert [begun + 118] == [each.used.timestamp() for each in store.sessions.all()]


def test_session_is_found_although_its_use_cannot_be_stored(
    sessions: Sessions, store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    cookie = sessions.begin(ALICE).cookie
    clock.now += 61
    with write_transaction(store._engine):
        found = [sessions.find(cookie) for _ in range(3)]

    assert None not in found
    assert 1 == len(caplog.records)


def test_ended_session_and_its_copies_are_worth_nothing(sessions: Sessions) -> None:
    ended, other = sessions.begin(ALICE), sessions.begin(ALICE)

    assert [1, 0] == [sessions.end([ended.key]) for _ in range(2)]
    assert [None, other] == [sessions.find(each.cookie) for each in (ended, other)]


def test_end_is_known_to_other_processes(sessions: Sessions, store: Store, clock: Clock) -> None:
    others = Sessions(store.sessions, life_s=12 * HOUR, idle_s=2 * HOUR, clock=clock)
    session = sessions.begin(ALICE)
    assert session == others.find(session.cookie)
    others.end([session.key])

    assert sessions.find(session.cookie) is None


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
        (
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
            "Chrome/138.0.0.0 Safari/537.36 Edg/138.0.0.0",
            "Edge on Windows",
        ),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
            "Version/18.5 Mobile/15E148 Safari/604.1",
            "Safari on iPhone",
        ),
        (
            "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 "
            "Mobile Safari/537.36",
            "Chrome on Android",
        ),
        ("curl/8.5.0", "another program"),
        ("<script>x()</script>\u202e", "another program"),
        ("", "another program"),
    ],
)
def test_kind_of_a_browser_is_a_known_one(header: str, name: str) -> None:
    assert name == browser_of(header)


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
    assert attempts.come_back(sessions.begin(ALICE).cookie, attempt.state) is None


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
