"""Events are accepted once, if they are signed, and from permitted jobs only."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from httpx import Response
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr
from starlette.testclient import TestClient

from perftrend.clients.build_events import MOMENT_HEADER, SIGNATURE_HEADER, signature
from perftrend.dashboard.ingestion import routes
from perftrend.dashboard.ingestion.routes import LONGEST_BODY, WINDOW
from perftrend.settings import Settings
from perftrend.store import Store

SECRET = SecretStr("a secret that only Jenkins knows")
EVENT: dict[str, Any] = {"job": "perftrend-trending-nightly-2n-clx", "build": 17}


@pytest.fixture(name="settings")
def settings_() -> Settings:
    return Settings.load(environment={"PERFTREND_DASHBOARD_INGEST_SECRET": SECRET.get_secret_value()})


def send(
    client: TestClient,
    body: bytes | dict[str, Any],
    *,
    moment: int | str | None = None,
    age_s: float = 0.0,
    secret: SecretStr = SECRET,
    signed: bytes | None = None,
) -> Response:
    content = json.dumps(body).encode() if isinstance(body, dict) else body
    told = str(int(time.time() - age_s) if moment is None else moment)
    headers = {
        MOMENT_HEADER: told,
        SIGNATURE_HEADER: signature(secret, told, content if signed is None else signed),
        "Accept": "application/json",
    }
    return client.post("/ingest", content=content, headers=headers)


def waiting(store: Store) -> list[tuple[str, int]]:
    return [(each.job, each.build) for each in store.ingestions.newest(10)]


def test_signed_event_asks_for_its_build(client: TestClient, store: Store) -> None:
    answer = send(client, EVENT)

    assert (202, False) == (answer.status_code, answer.json()["joined"])
    assert "waiting" == answer.json()["build"]["state"]
    assert [(EVENT["job"], 17)] == waiting(store)


def test_second_event_of_a_build_joins_the_first(client: TestClient, store: Store) -> None:
    send(client, EVENT)

    assert send(client, {**EVENT, "more": 1}).json()["joined"]
    assert 1 == len(waiting(store))


def test_event_of_jenkins_is_understood(client: TestClient, store: Store) -> None:
    build = {"phase": "FINALIZED", "number": 5}
    began = send(client, {"name": EVENT["job"], "build": {**build, "phase": "STARTED"}})
    send(client, {"name": EVENT["job"], "build": build})

    assert (202, None) == (began.status_code, began.json()["build"])
    assert [(EVENT["job"], 5)] == waiting(store)


@pytest.mark.parametrize(
    ("changed", "status", "reason"),
    [
        ({"secret": SecretStr("another one")}, 401, "not signed"),
        ({"signed": b'{"job": "another"}'}, 401, "not signed"),
        ({"moment": "1700000000.5"}, 401, "has no time"),
        ({"age_s": WINDOW.total_seconds() + 5}, 401, "too old"),
        ({"age_s": -WINDOW.total_seconds() - 60}, 401, "too old or from the future"),
        ({"moment": "tomorrow"}, 401, "has no time"),
        ({"moment": "9" * 40}, 401, "has no time"),
        ({"moment": "-1"}, 401, "has no time"),
    ],
)
def test_event_that_is_not_of_now_and_of_ours_is_refused(
    client: TestClient, store: Store, changed: dict[str, Any], status: int, reason: str
) -> None:
    answer = send(client, EVENT, **changed)

    assert status == answer.status_code
    assert reason in answer.json()["error"]
    assert SECRET.get_secret_value() not in answer.text
    assert [] == waiting(store)


@pytest.mark.parametrize("given_signature", ["", "sha256=", "sha256=\xe9", "md5=0", "0" * 5000])
def test_signature_that_is_none_is_refused(client: TestClient, given_signature: str) -> None:
    headers = {MOMENT_HEADER: str(int(time.time())), SIGNATURE_HEADER: given_signature.encode("latin-1")}

    assert 401 == client.post("/ingest", content=b"{}", headers=headers).status_code  # type: ignore[arg-type]


def test_event_that_was_recorded_is_worth_nothing(client: TestClient, store: Store) -> None:
    moment = int(time.time())
    send(client, EVENT, moment=moment)

    assert 409 == send(client, EVENT, moment=moment).status_code
    assert 1 == len(waiting(store))


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b"{" * LONGEST_BODY, 400),
        (b'{"job": "perftrend-trending-x", "build": -1}', 400),
        (b'{"job": "perftrend-trending-x", "build": true}', 400),
        (b'{"job": "perftrend-trending-../x", "build": 1e400}', 400),
        (b'{"job": "secret-job", "build": 1}', 403),
        (b'{"job": "--store=/etc/passwd", "build": 1}', 403),
        (b" " * (LONGEST_BODY + 1), 413),
    ],
)
def test_what_is_no_event_of_a_known_job_is_refused(
    client: TestClient, store: Store, body: bytes, status: int
) -> None:
    assert status == send(client, body).status_code
    assert [] == waiting(store)


@given(body=st.binary(max_size=300))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_body_makes_it_fail(client: TestClient, body: bytes) -> None:
    assert send(client, body).status_code in (202, 400, 403, 409)


def test_too_many_are_asked_to_come_later(
    client: TestClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "MOST_WAITING", 1)
    send(client, EVENT)
    answer = send(client, {**EVENT, "build": 18})

    assert (503, "60") == (answer.status_code, answer.headers["Retry-After"])
    assert 1 == len(waiting(store))


class TestWithoutSecret:
    @pytest.fixture(name="settings")
    def settings_(self) -> Settings:
        return Settings.load(environment={})

    def test_no_event_is_taken(self, client: TestClient) -> None:
        answer = send(client, EVENT, secret=SecretStr(""))

        assert 403 == answer.status_code
        assert "dashboard.ingest_secret is not set" in answer.json()["error"]


def test_page_tells_what_became_of_builds(client: TestClient, store: Store) -> None:
    send(client, EVENT)

    assert f"{EVENT['job']}/17" in client.get("/ingest").text
    assert [17] == [each["build"] for each in client.get("/ingest?format=json").json()["builds"]]
