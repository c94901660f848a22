"""The id that the response and the log of a request have in common."""

from __future__ import annotations

import io
import json

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext, make_app
from perftrend.dashboard.server import log_to
from perftrend.errors import StoreError
from perftrend.settings import Settings

PROXY, OTHER = "192.0.2.1", "192.0.2.2"
LONGEST = "a" * 64


@pytest.fixture
def settings() -> Settings:
    return Settings.load(environment={}, overrides={"dashboard.proxies": PROXY})


@pytest.fixture
def app(site: AppContext) -> FastAPI:
    made = make_app(site)

    @made.get("/unavailable")
    def unavailable() -> None:
        raise StoreError("store x: it cannot be opened")

    return made


def request_id(app: FastAPI, sent: list[str], *, peer: str = PROXY) -> str:
    """Return the id of a request with some headers."""
    client = TestClient(app, base_url="http://localhost", client=(peer, 50000))
    headers = [(b"X-Request-ID", each.encode("latin-1")) for each in sent]
    (answered,) = client.get("/me", headers=headers).headers.get_list("X-Request-ID")
    return answered


@pytest.mark.parametrize("sent", ["5f0c2d", "1.2_3-Z", LONGEST])
def test_proxy_chooses_the_id(app: FastAPI, sent: str) -> None:
    assert sent == request_id(app, [sent])


@pytest.mark.parametrize(
    "sent", [[], [""], ["a b"], ['"}'], ["a\tb"], ["\xe4"], ["<b>"], [f"{LONGEST}a"], ["one", "two"]]
)
def test_id_that_is_not_valid_is_replaced(app: FastAPI, sent: list[str]) -> None:
    answered = request_id(app, sent)

    assert (32, True) == (len(answered), answered.isalnum())


def test_other_clients_do_not_choose_it(app: FastAPI) -> None:
    assert "5f0c2d" != request_id(app, ["5f0c2d"], peer=OTHER)


def test_ids_are_unique(app: FastAPI) -> None:
    assert 10 == len({request_id(app, []) for _ in range(10)})


@pytest.mark.usefixtures("original_log")
def test_log_of_an_error_has_the_id_of_its_request(app: FastAPI) -> None:
    log = io.StringIO()
    log_to(log)

    with TestClient(app, base_url="http://localhost") as client:
        answer = client.get("/unavailable")

    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    events = {line["event"]: line["request_id"] for line in lines}
    assert {"store x: it cannot be opened", "request"} == set(events)
    assert {answer.headers["X-Request-ID"]} == set(events.values())
