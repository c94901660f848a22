"""Jobs that are requested on a page: what is offered, who may start it, and what is shown of it."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import perftrend
from perftrend.analysis.formula import format_key
from perftrend.dashboard import AppContext, make_app
from perftrend.dashboard.triage.evaluation import evaluate
from perftrend.model import Better, Result, Status, TraceKey
from perftrend.settings import Settings
from perftrend.store.alerts import ItemSelection, Rules
from perftrend.store.requests import SERVED, RequestState
from tests.unit.dashboard.conftest import STEP, TESTBEDS, Filled, commit

JSON = {"Accept": "application/json"}
HTML = {"Accept": "text/html"}
BED = TESTBEDS[0]
RANGE = {"testbed": BED, "old": commit(STEP - 1), "new": commit(STEP)}
FILE = (Path(perftrend.__file__).parent / "testbeds" / "simulated.yaml").read_text()


@pytest.fixture
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("testbeds")
    for name in TESTBEDS:
        (folder / f"{name}.yaml").write_text(FILE)
    given = {
        "dashboard.editors": "eva",
        "testbeds": str(folder),
        "project.profile": "command",
        "project.parameters": {"measure": "./bench", "unit": "ms"},
        "project.repository": "https://git.example.org/product",
        "gerrit.url": "https://review.example.org",
    }
    return Settings.load(environment={}, overrides=given)


@pytest.fixture
def item(site: AppContext, filled: Filled) -> int:
    """Return the item of the step."""
    filled.store.alerts.add(Rules("step", "", change=0.03), user="ann")
    evaluate(filled.store, site.catalog, BED)
    (found,), _ = filled.store.alerts.items.select(ItemSelection(), limit=5)
    return found.identity


def start(client: TestClient, token: str, **wanted: Any) -> Any:
    return client.post("/jobs", json=wanted, headers={**JSON, "X-CSRF-Token": token})


def test_offer_says_what_is_measured_and_starts_nothing(
    client: TestClient, item: int, filled: Filled
) -> None:
    offered = client.get("/jobs/new", params={"item": item}, headers=JSON).json()
    assert (BED, "", commit(STEP - 1), commit(STEP)) == (
        offered["testbed"], offered["problem"], offered["bisection"]["old"], offered["bisection"]["new"],
    )  # fmt: skip
    assert offered["line"].startswith(f"bisecttest-{BED} {commit(STEP - 1)}")
    assert "product's own command" in offered["extent"]
    assert [] == filled.store.requests.list_open()


def test_offer_estimates_a_command_by_earlier_jobs(
    editor: TestClient, token: str, item: int, filled: Filled
) -> None:
    start(editor, token, item=item)
    (request,) = filled.store.requests.list_open()
    filled.store.requests.change(
        request, state=RequestState.ENDED, exit_code=0, began=request.asked, duration_s=840.0
    )

    offered = editor.get("/jobs/new", params={"item": item}, headers=JSON).json()

    assert "the product's own command, about 14 minutes (as the last job took)" == offered["extent"]


def test_simulated_testbed_without_a_file_has_nothing_to_build(
    client: TestClient, item: int, filled: Filled, site: AppContext
) -> None:
    run = filled.store.runs(BED, last=1)[0]
    later = replace(run, build=99, started=run.started + timedelta(days=1), simulated=True)
    filled.store.add(later, filled.store.results(run))
    is_configured = client.get("/jobs/new", params={"item": item}, headers=JSON).json()["problem"]
    (Path(site.settings.testbeds or "") / f"{BED}.yaml").unlink()

    problem = client.get("/jobs/new", params={"item": item}, headers=JSON).json()["problem"]

    assert ("", "its results are simulated, and no such testbed is configured") == (is_configured, problem)


def test_viewer_is_offered_no_button(client: TestClient, editor: TestClient, item: int) -> None:
    pages = [each.get("/jobs/new", params={"item": item}, headers=HTML).text for each in (client, editor)]
    assert ["<button" in each and ">Start<" in each for each in pages] == [False, True]
    assert f"bisecttest-{BED}" in pages[0]


def test_editor_starts_a_bisection_of_an_item(
    editor: TestClient, token: str, item: int, filled: Filled
) -> None:
    made = start(editor, token, item=item)
    assert 201 == made.status_code, made.text
    (stored,) = filled.store.requests.of_item(item)
    assert (made.json()["key"], "eva", "page:eva", BED, commit(STEP)) == (
        stored.key, stored.author, stored.account, stored.testbed, stored.revision,
    )  # fmt: skip
    assert (0, True, "bisect", True) == (stored.change, stored.answered, stored.job, stored.is_of_page)
    page = editor.get(f"/triage/{item}", headers=HTML).text
    assert f"/jobs/{stored.key}" in page
    assert "waits for the listener" in page
    # It is in the queue of the testbed as soon as the listener has decided on it.
    filled.store.requests.change(stored, state=RequestState.WAITING, decided=datetime.now(UTC))
    (queue,) = editor.get("/queue", headers=JSON).json()["testbeds"]
    assert (BED, "eva") == (queue["testbed"], queue["waiting"][0]["person"])


def test_second_click_starts_no_second_job(editor: TestClient, token: str, item: int, filled: Filled) -> None:
    first, second = (start(editor, token, item=item).json()["key"] for _ in range(2))
    assert first == second
    filled.store.requests.change(filled.store.requests.of_item(item)[0], state=RequestState.ENDED)
    assert first != start(editor, token, item=item).json()["key"]


def test_range_of_a_trace_is_bisected(editor: TestClient, token: str, filled: Filled) -> None:
    made = start(editor, token, **RANGE, trace=format_key(filled.slower)).json()
    assert made["line"].startswith(f"bisecttest-{BED} {RANGE['old']}")
    assert made["item"] is None


@pytest.mark.parametrize(
    ("job", "head"), [("perftest", f"perftest-{BED}"), ("trending", f"trendingtest-{BED}")]
)
def test_other_jobs_measure_the_test_of_the_item(
    editor: TestClient, token: str, item: int, job: str, head: str
) -> None:
    offered = editor.get("/jobs/new", params={"item": item, "job": job}, headers=JSON).json()
    assert offered["line"].startswith(head)
    assert "" == offered["problem"]
    assert 201 == start(editor, token, item=item, job=job).status_code


@pytest.mark.parametrize(("job", "is_possible"), [("trending", False), ("perftest", True)])
def test_test_without_a_suite_is_not_measured_again(
    editor: TestClient, filled: Filled, job: str, is_possible: bool
) -> None:
    key = TraceKey.of(testbed=BED, test="parser", metric="duration")
    (last,) = filled.store.runs(BED, last=1)
    run = replace(last, build=last.build + 1, started=last.started + timedelta(days=1))
    filled.store.add(run, [Result(key, "ms", Better.LOWER, Status.PASS, (1.0,), 1.0)])

    wanted = {**RANGE, "trace": format_key(key), "job": job}
    offered = editor.get("/jobs/new", params=wanted, headers=JSON).json()
    assert is_possible == (offered["problem"] == "")


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"testbed": "no-such"}, 404),
        ({"testbed": "../../etc"}, 404),
        ({"old": "0" * 40}, 422),
        ({"old": "--upload-pack=x"}, 422),
        ({"old": commit(STEP)[:10]}, 422),
        ({"old": commit(STEP), "new": commit(STEP - 1)}, 422),
        ({"old": commit(STEP)}, 422),
        ({"trace": "nonsense"}, 422),
        ({"trace": ",test=x,"}, 422),
        ({"trace": '@ave(filter("metric=mrr"))'}, 422),
        ({"job": "rm"}, 422),
        ({"job": "analysis"}, 422),
        ({"item": 999}, 404),
        ({"item": -1}, 422),
    ],
)
def test_what_cannot_be_meant_is_refused(
    editor: TestClient, token: str, filled: Filled, changed: dict[str, Any], status: int
) -> None:
    answer = start(editor, token, **{**RANGE, **changed})
    assert status == answer.status_code, answer.text
    assert [] == filled.store.requests.list_open()


def test_viewer_and_other_site_start_nothing(
    client: TestClient, editor: TestClient, item: int, filled: Filled
) -> None:
    assert client.post("/jobs", json={"item": item}, headers=JSON).status_code in {401, 403}
    assert 403 == editor.post("/jobs", json={"item": item}, headers=JSON).status_code
    assert [] == filled.store.requests.list_open()


def test_reason_is_shown_if_nothing_can_be_built(store: Any, item: int, site: AppContext) -> None:
    project = site.settings.project.model_copy(update={"profile": None})
    bare = replace(site, settings=site.settings.model_copy(update={"project": project}))
    with TestClient(make_app(bare), base_url="http://localhost") as client:
        offered = client.get("/jobs/new", params={"item": item}, headers=JSON).json()
    assert "project.profile is not set" in offered["problem"]


def test_page_says_if_no_listener_serves(client: TestClient, item: int, filled: Filled) -> None:
    notice = "No listener has served requests"
    assert notice in client.get("/jobs/new", params={"item": item}, headers=HTML).text
    filled.store.requests.set_mark(SERVED, datetime.now(UTC))
    assert notice not in client.get("/jobs/new", params={"item": item}, headers=HTML).text
    filled.store.requests.set_mark(SERVED, datetime.now(UTC) - timedelta(minutes=6))
    assert notice in client.get("/jobs/new", params={"item": item}, headers=HTML).text


def test_progress_and_result_are_shown(editor: TestClient, token: str, item: int, filled: Filled) -> None:
    key = start(editor, token, item=item).json()["key"]
    requests = filled.store.requests
    requests.record_progress(key, "step 5, about 3 to go: <b>measuring</b>")
    page = editor.get(f"/jobs/{key}", headers=HTML).text
    assert "step 5, about 3 to go: &lt;b&gt;measuring" in page
    # The script reloads the page as soon as the JSON is another one than the page has.
    shown = re.search('data-active="([^"]*)"', page)
    assert shown
    assert unescape(shown[1]) == editor.get(f"/jobs/{key}", headers=JSON).text
    assert " data-active" in page
    culprit = {"commit": "a" * 40, "subject": "Copy <twice>", "author": "Ann", "deed": "made 1 test slower"}
    requests.record_result(key, {"sentence": "It was <that>.", "culprits": [culprit], "link": "javascript:x"})
    requests.change(requests.with_keys([key])[key], state=RequestState.ENDED, exit_code=1)
    shown = editor.get(f"/jobs/{key}", headers=JSON).json()
    assert (False, "It was <that>.", "", 1) == (
        shown["is_active"], shown["sentence"], shown["link"], shown["exit_code"],
    )  # fmt: skip
    assert shown["culprits"][0]["link"] == f"https://review.example.org/q/{'a' * 40}"
    page = editor.get(f"/jobs/{key}", headers=HTML).text
    assert "It was &lt;that&gt;." in page
    assert " data-active" not in page
    assert "It was &lt;that&gt;." in editor.get(f"/triage/{item}", headers=HTML).text


def test_job_is_cancelled(
    editor: TestClient, client: TestClient, token: str, item: int, filled: Filled
) -> None:
    key = start(editor, token, item=item).json()["key"]
    assert client.post(f"/jobs/{key}/cancel", headers=JSON).status_code in {401, 403}
    answer = editor.post(f"/jobs/{key}/cancel", headers={**JSON, "X-CSRF-Token": token})
    assert "is ending" == answer.json()["state"]
    assert RequestState.CANCELLING is filled.store.requests.with_keys([key])[key].state


@pytest.mark.parametrize("key", ["0" * 64, "x", "..%2f..%2fetc"])
def test_unknown_job_is_not_found(client: TestClient, filled: Filled, key: str) -> None:
    assert client.get(f"/jobs/{key}", headers=JSON).status_code in {404, 422}
