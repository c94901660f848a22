"""A form with an error comes back with what was typed, and says at its field what is wrong."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Annotated

import pytest
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from httpx import Response
from pydantic import Field, TypeAdapter, ValidationError
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext, make_app
from perftrend.dashboard.error_pages import problems_of
from perftrend.dashboard.html_forms import FormProblem, SubmittedForm, show_problems
from perftrend.settings import Settings
from perftrend.store.alerts import Rules
from tests.unit.dashboard.conftest import RUNS, TESTBEDS, Filled, commit, routes_of, token_of

RULES = {
    "name": "nightly", "query": "metric=mrr", "change_percent": "2.5", "confidence_percent": "0",
    "direction": "regression", "recent_runs": "30", "silent_runs": "0", "silent_hours": "0", "owner": "ann",
    "action": "none", "target": "", "enabled": "false", "method": "mdl", "history": "180",
    "formula": "jumpavg-0.4", "window": "30", "step": "corrected", "radius": "7", "cutoff": "7",
}  # fmt: skip
OVERRIDE = {"version": "1", "trace": "f" * 32, "scope": "test", "change_percent": "7", "reason": "a fan"}
CLUSTERING = {
    "testbed": TESTBEDS[1],
    "window": "64",
    "k": "9",
    "query": "metric=mrr",
    "statistic": "corrected",
}
RUN = {"job": "nightly", "build": str(RUNS), "reason": "a failed fan", "test": "none-such"}
CASES = {
    "no text": ("/annotations", {"commit": commit(7), "testbed": TESTBEDS[1], "text": "  "}, "text"),
    "no commit": ("/annotations", {"commit": "seven", "testbed": "", "text": "a <b>roll</b>"}, "commit"),
    "alert without change": ("/alerts", RULES | {"change_percent": ""}, "change_percent"),
    "alert of a wrong query": ("/alerts", RULES | {"query": "metric"}, "query"),
    "alert without recipient": ("/alerts", RULES | {"action": "mail"}, "target"),
    "edit of an alert": ("/alerts/1", RULES | {"version": "1", "name": ""}, "name"),
    "override of no trace": ("/alerts/1/override", OVERRIDE, "trace"),
    "override until no day": ("/alerts/1/override", OVERRIDE | {"muted_until": "soon"}, "muted_until"),
    "dry run of no night": ("/alerts/1/dry-run", {"testbed": TESTBEDS[1], "nights": "0"}, "nights"),
    "grant to nobody": ("/users/grants", {"person": "a\tb", "testbed": "", "role": "admin"}, "person"),
    "grant on no testbed": ("/users/grants", {"person": "ann", "testbed": "x", "role": "admin"}, "testbed"),
    "token for ever": ("/users/tokens", {"name": "ci", "role": "editor", "days": "99999"}, "days"),
    "clustering of nothing": ("/clusters", CLUSTERING | {"query": "metric=x"}, "query"),
    "clustering of no number": ("/clusters", CLUSTERING | {"k": "many"}, "k"),
    "invalid without reason": ("/runs/invalidate", RUN | {"reason": ""}, "reason"),
    "invalid of no test": ("/runs/invalidate", RUN, "test"),
}


@pytest.fixture
def settings() -> Settings:
    return Settings.load(environment={}, overrides={"dashboard.admins": "ada"})


@pytest.fixture
def alert(filled: Filled) -> None:
    filled.store.alerts.add(Rules(name="nightly", query="metric=mrr"), user="ann")


@pytest.mark.usefixtures("alert")
@pytest.mark.parametrize("case", CASES)
def test_form_comes_back_with_what_was_typed_and_the_error_at_its_field(admin: TestClient, case: str) -> None:
    path, sent, field = CASES[case]

    page = Page(send(admin, path, sent))

    assert page.status in {400, 422}
    form = page.form(path, field)
    assert sent == {name: form.values[name] for name in sent}
    wrong = {name for name, each in form.fields.items() if each.get("aria-invalid") == "true"}
    assert {field} == wrong
    assert "autofocus" in form.fields[field]
    described = (form.fields[field]["aria-describedby"] or "").split()
    assert page.texts[described[-1]]
    assert page.title.startswith("Error: ")
    assert re.search("Nothing was saved: .", page.summary)
    assert "Unprocessable" not in page.html


def test_several_errors_are_all_shown_and_the_first_has_the_focus(admin: TestClient, filled: Filled) -> None:
    page = Page(send(admin, "/alerts", RULES | {"name": "", "recent_runs": "none", "owner": "x" * 300}))

    form = page.form("/alerts", "name")
    wrong = [name for name, each in form.fields.items() if each.get("aria-invalid")]
    assert ["name", "recent_runs", "owner"] == wrong
    assert ["name"] == [name for name, each in form.fields.items() if "autofocus" in each]
    assert "3 values to correct" in page.summary
    for text in ("Name: enter a value", "enter a whole number", "Owner: enter at most 200 characters"):
        assert text in page.summary


@pytest.mark.parametrize(
    ("boxes", "nothing"),
    [
        (TypeAdapter[object](Annotated[dict[str, int], Field(min_length=1)]), {}),
        (TypeAdapter[object](Annotated[tuple[str, ...], Field(min_length=1)]), ()),
    ],
)
def test_form_without_a_selection_says_what_to_select(boxes: TypeAdapter[object], nothing: object) -> None:
    with pytest.raises(ValidationError) as refused:
        boxes.validate_python(nothing)
    error = RequestValidationError([{**each, "loc": ("body", "items")} for each in refused.value.errors()])

    assert [FormProblem("", "select at least one of the items")] == problems_of(error)


def test_limits_are_shown_in_full(admin: TestClient, filled: Filled) -> None:
    rules = RULES | {"change_percent": "-1", "cutoff": "1e12", "silent_runs": "1e12"}
    page = Page(send(admin, "/alerts", rules))

    assert "enter 0 or more" in page.summary
    assert not re.search(r"e\+|\.0 or", page.summary)


def test_what_was_typed_is_no_markup(admin: TestClient, filled: Filled) -> None:
    hostile = "</textarea><script>alert(1)</script>\"'&lt;"

    answer = send(
        admin, "/annotations", {"commit": '"><img src=x onerror=1>', "testbed": "", "text": hostile}
    )

    assert "<script>alert" not in answer.text
    assert "<img" not in answer.text
    form = Page(answer).form("/annotations", "text")
    assert hostile == form.values["text"]
    assert '"><img src=x onerror=1>' == form.values["commit"]


def test_version_of_the_edit_stays_that_of_the_form(admin: TestClient, filled: Filled) -> None:
    added = filled.store.annotations.add(commit(7), "old", user="ann")
    filled.store.annotations.edit(added.identity, "newer", version=1, user="ben")

    page = Page(send(admin, f"/annotations/{added.identity}", {"text": " ", "version": "1"}))

    form = page.form(f"/annotations/{added.identity}", "text")
    assert (" ", "1") == (form.values["text"], form.values["version"])
    assert form.values["csrf"] not in {"", "1"}


@pytest.mark.usefixtures("alert")
def test_form_can_be_corrected_and_sent_again(admin: TestClient) -> None:
    page = Page(send(admin, "/alerts/1/override", OVERRIDE, came_from="/alerts/1"))
    form = page.form("/alerts/1/override", "trace")
    again = Page(send(admin, "/alerts/1/override", form.values, came_from="/alerts/1/override"))

    assert "a fan" == again.form("/alerts/1/override", "trace").values["reason"]


def test_form_comes_back_on_the_page_that_it_was_on(admin: TestClient, filled: Filled) -> None:
    answer = send(admin, "/runs/invalidate", RUN | {"reason": ""}, came_from="/runs?last=1")

    assert f"nightly/{RUNS} as invalid" in answer.text
    assert f"nightly/{RUNS - 1} as invalid" not in answer.text


@pytest.mark.parametrize(
    "came_from", ["http://evil.example.org/runs?last=1", "http://[", "/sign-in", "/static/base.css", "//x"]
)
def test_other_pages_are_not_used(admin: TestClient, filled: Filled, came_from: str) -> None:
    answer = send(admin, "/runs/invalidate", RUN | {"reason": ""}, came_from=came_from)

    assert "a failed fan" not in answer.text
    assert Page(answer).form("/runs/invalidate", "reason")


def test_program_gets_one_line_as_before(admin: TestClient, filled: Filled) -> None:
    for path, sent, start in (
        ("/alerts", RULES | {"recent_runs": "none"}, "recent_runs: Input should be a valid integer"),
        ("/annotations", {"commit": "seven", "text": "x"}, "write a commit as 7 to 40 hex digits"),
    ):
        answer = send(admin, path, sent, accept="application/json")

        assert answer.status_code in {400, 422}
        assert answer.json()["error"].startswith(start)


@pytest.mark.parametrize(
    ("address", "field"),
    [
        ("/triage?query=metric&owner=ann", "query"),
        ("/annotations?commit=seven", "commit"),
        ("/compare?by=commits&left=yesterday&right=2026-01-02&q=metric%3Dmrr", "left"),
        ("/compare?by=commits&left=2026-01-02&right=2026-01-03&q=metric", "q"),
    ],
)
def test_search_form_comes_back_too(client: TestClient, filled: Filled, address: str, field: str) -> None:
    page = Page(client.get(address, headers={"Accept": "text/html"}))

    assert 400 == page.status
    form = page.form(address.partition("?")[0], field)
    assert "true" == form.fields[field]["aria-invalid"]
    sent = dict(pair.split("=") for pair in address.partition("?")[2].split("&"))
    assert form.values[field] == sent[field].replace("%3D", "=")
    if "owner" not in sent:
        assert all(form.values[name] == sent[name].replace("%3D", "=") for name in sent)


def test_address_without_a_form_gets_an_error_page(client: TestClient, filled: Filled) -> None:
    page = Page(client.get("/runs?last=many", headers={"Accept": "text/html"}))

    assert 422 == page.status
    assert "<h1>A value is missing or not valid</h1>" in page.html
    assert "last: enter a whole number" in page.html


def test_each_form_is_found_on_a_page(site: AppContext) -> None:
    """An endpoint that reads a form is below its page, so that the form can come back without a referrer."""
    routes = routes_of(make_app(site))
    pages = {route.path for route in routes if "GET" in (route.methods or ())}

    def has_page(route: APIRoute) -> bool:
        parts = route.path.split("/")
        return any("/".join(parts[:number]) in pages for number in range(2, len(parts) + 1))

    read = [route for route in routes if route.openapi_extra and "requestBody" in route.openapi_extra]
    assert {"/short", "/shortcuts", "/jobs"} == {route.path for route in read if not has_page(route)}


def test_nothing_else_of_the_page_changes() -> None:
    html = (
        "<!DOCTYPE html><title>T</title><main><details><form method=post action='/x'>"
        "<label>A <input name=a></label><input type=checkbox name=b value=1 checked>"
        "<select name=c><option>1<option value=2 selected>two</select></form></details>\r\n"
        "<svg><path d='M0 0'/></svg>&nbsp;&amp\u2028<!-- x --></main>"
    )
    form = SubmittedForm("post", "/x", [("a", "1"), ("c", "1")])

    shown = show_problems(html, form, [FormProblem("a", "no <number>")])

    assert shown is not None
    assert "<title>Error: T</title>" in shown
    assert "<details open>" in shown
    field = 'id="field-a" aria-invalid="true" aria-describedby="field-a-error" autofocus'
    assert f'<input name="a" value="1" {field}>' in shown
    assert '<span class="field-error" id="field-a-error">no &lt;number&gt;</span></label>' in shown
    assert '<input type="checkbox" name="b" value="1">' in shown
    assert '<option selected>1<option value="2">two</select>' in shown
    assert shown.endswith("</form></details>\r\n<svg><path d='M0 0'/></svg>&nbsp;&amp\u2028<!-- x --></main>")
    assert show_problems(html, SubmittedForm("post", "/y", []), []) is None


def send(
    client: TestClient,
    path: str,
    fields: dict[str, str],
    *,
    came_from: str = "",
    accept: str = "text/html",
) -> Response:
    """Send a form as a browser does."""
    origin = "" if came_from.startswith(("http", "//")) else "http://localhost"
    headers = {"Accept": accept} | ({"Referer": origin + came_from} if came_from else {})
    return client.post(path, data={**fields, "csrf": token_of(client)}, headers=headers)


class Form:
    """A form of a page."""

    def __init__(self, attributes: dict[str, str | None]) -> None:
        self.path = (attributes.get("action") or "").partition("?")[0]
        self.fields: dict[str, dict[str, str | None]] = {}
        self.values: dict[str, str] = {}


class Page(HTMLParser):
    """What a page shows of its forms."""

    def __init__(self, answer: Response) -> None:
        super().__init__()
        self.status = answer.status_code
        self.html = answer.text
        self.forms: list[Form] = []
        self.texts: dict[str, str] = {}
        self.title = self.summary = ""
        self._open: list[str] = []
        self._select = self._area = ""
        self._identity = ""
        self._option: dict[str, str | None] = {}
        self.feed(answer.text)
        summary = re.search(r'<div class="notice problems".*?</div>', answer.text, re.DOTALL)
        self.summary = re.sub("<.*?>", "", summary[0]) if summary else ""

    def form(self, path: str, field: str) -> Form:
        """Return the form with an error at a field; otherwise the only one that is sent to a path."""
        alike = [each for each in self.forms if each.path == path and field in each.fields]
        return next((each for each in alike if each.fields[field].get("aria-invalid")), alike[-1])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self._identity = attributes.get("id") or ""
        name = attributes.get("name") or ""
        if tag == "title":
            self._open.append(tag)
        if tag == "form":
            self.forms.append(Form(attributes))
        if tag in {"input", "select", "textarea"} and self.forms and name:
            self.forms[-1].fields[name] = attributes
            self.forms[-1].values[name] = attributes.get("value") or ""
            self._option = {}
            self._select, self._area = (name if tag == each else "" for each in ("select", "textarea"))
        if tag == "option" and self._select:
            self._option = attributes
            if "selected" in attributes and "value" in attributes:
                self.forms[-1].values[self._select] = attributes["value"] or ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._open.clear()
        if tag in {"select", "textarea"}:
            self._select = self._area = ""
        self._identity = ""

    def handle_data(self, data: str) -> None:
        if self._open:
            self.title = data
        if self._identity:
            self.texts[self._identity] = data
        if self._area:
            self.forms[-1].values[self._area] = data.removeprefix("\n")
        if self._select and data.strip() and "selected" in self._option and "value" not in self._option:
            self.forms[-1].values[self._select] = data.strip()
