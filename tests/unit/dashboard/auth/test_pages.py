"""``/activity`` and ``/me``, and the settings of the authenticator."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext
from perftrend.dashboard.auth import Authenticator, Person
from perftrend.dashboard.metrics import Metrics
from perftrend.errors import SettingsError
from perftrend.settings import DashboardSettings, Settings
from perftrend.store import Store

JSON = {"Accept": "application/json"}
SECRET = "0123456789abcdef0123456789abcdef"  # noqa: S105


@pytest.fixture
def settings() -> Settings:
    return Settings.model_validate({"dashboard": {"editors": "eva", "secret": SECRET}})


@pytest.fixture
def acted(site: AppContext) -> AppContext:
    for number in range(7):
        site.store.activity.record(
            ("eva", "ada")[number % 2], "annotated", f"commit {number % 3}", str(number)
        )
    return site


def details(client: TestClient, **query: Any) -> tuple[list[str], int | None]:
    told = client.get("/activity", params=query, headers=JSON).json()
    return [act["detail"] for act in told["acts"]], told["before"]


def test_activity_is_told_newest_first_and_page_by_page(client: TestClient, acted: AppContext) -> None:
    first, before = details(client, limit=4)
    second, end = details(client, limit=4, before=before)

    assert (["6", "5", "4", "3"], ["2", "1", "0"], None) == (first, second, end)


def test_activity_is_filtered_by_subject_and_user(client: TestClient, acted: AppContext) -> None:
    assert (["5", "3", "1"], None) == details(client, user="ada")
    assert (["4", "1"], None) == details(client, subject="commit 1")
    assert (["4"], None) == details(client, subject="commit 1", user="eva")
    assert (["6", "5", "4", "3", "2", "1", "0"], None) == details(client, subject="", user="")
    assert ([], None) == details(client, user="' OR 1=1 --")


def test_link_to_what_is_older_keeps_the_filter(client: TestClient, acted: AppContext) -> None:
    page = client.get("/activity", params={"user": "eva", "limit": 2}).text
    link = page.partition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")

    assert ["2", "0"] == [act["detail"] for act in client.get(link, headers=JSON).json()["acts"]]


def test_what_people_wrote_is_text(client: TestClient, site: AppContext) -> None:
    hostile = "<script>x()</script>\u202e"
    site.store.activity.record(hostile, hostile, hostile, hostile)

    page = client.get("/activity").text

    assert "<script>x" not in page
    assert "\u202e" not in page
    assert 4 <= page.count("&lt;script&gt;")


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=1001", "before=0", "before=x", f"before={2**31}", f"user={'x' * 256}", "user=%00"],
)
def test_impossible_page_is_refused(client: TestClient, query: str) -> None:
    assert 422 == client.get(f"/activity?{query}").status_code


def test_empty_log_says_so(client: TestClient) -> None:
    assert "No activity yet" in client.get("/activity").text


def test_page_tells_who_reads_it(editor: TestClient, client: TestClient) -> None:
    assert "You are signed in as eva. Your role is editor" in editor.get("/me").text
    assert "eva" in editor.get("/runs").text
    assert "Sign out" in editor.get("/runs").text
    assert "You can read" in client.get("/me").text


def test_refusal_knows_whom_it_refuses(editor: TestClient) -> None:
    answer = editor.get("/users", headers={"Accept": "text/html"})

    assert (403, True, False) == (answer.status_code, "Sign out" in answer.text, "Sign in" in answer.text)


def test_secret_that_can_be_guessed_is_refused(store: Store) -> None:
    with pytest.raises(SettingsError) as caught:
        Authenticator(DashboardSettings(secret=SecretStr("hunter2")), store, Metrics(store))

    assert "hunter2" not in str(caught.value)


def test_session_survives_a_start_without_a_secret_and_its_forms_do_not(store: Store) -> None:
    first, second = (Authenticator(DashboardSettings(), store, Metrics(store)) for _ in range(2))
    session = first.sessions.begin(Person("eva"))
    token = first.csrf.token(session.bound)

    assert session == second.sessions.find(session.cookie)
    assert [True, False] == [each.csrf.is_ours(token, session.bound) for each in (first, second)]
