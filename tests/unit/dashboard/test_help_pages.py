"""Each page leads to its help and to the API, whose page shows what the OpenAPI document has."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from starlette.testclient import TestClient

import perftrend
from perftrend.dashboard import api_reference
from perftrend.dashboard.api_reference import describe_type
from perftrend.dashboard.pages import HELP_TOPICS, NAVIGATION
from perftrend.settings import Settings
from tests.unit.dashboard.conftest import Filled

JSON = {"Accept": "application/json"}


@pytest.mark.parametrize("path", [*NAVIGATION, "/alerts", "/activity", "/help", "/api", "/nowhere"])
def test_page_leads_to_its_help(client: TestClient, filled: Filled, path: str) -> None:
    footer = client.get(path).text.partition("<footer")[2]
    [topic] = re.findall(r'href="/help(#[a-z]+)?"', footer)

    if path in NAVIGATION or path in {"/alerts", "/activity"}:
        assert f"#{path.strip('/') or 'overview'}" == topic
        assert f'<section id="{topic[1:]}">' in client.get("/help").text
    assert 'href="/api"' in footer
    assert f"perftrend {perftrend.__version__}" in footer


def test_help_leads_to_pages_that_are_there(client: TestClient, filled: Filled) -> None:
    page = client.get("/help").text
    main = page.partition("<main")[2].partition("</main")[0]

    assert list(HELP_TOPICS) == client.get("/help", headers=JSON).json()["topics"]
    for address in set(re.findall(r'href="(/[^"]*)"', main)):
        assert 200 == client.get(address).status_code, address
    for anchor in set(re.findall(r'href="#([^"]*)"', main)):
        assert f'id="{anchor}"' in main


def test_page_has_each_endpoint_with_its_role_parameters_and_errors(client: TestClient) -> None:
    page = unescape(client.get("/api").text)
    document: dict[str, Any] = client.get("/openapi.json").json()

    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert f'<strong class="method">{method.upper()}</strong> {path}<' in page
            shown = page.partition(f'id="{identifier(method, path)}"')[2].partition("</details>")[0]
            for parameter in operation.get("parameters", ()):
                assert f"<code>{parameter['name']}</code>" in shown
            for status in operation["responses"]:
                assert f"<strong>{status}</strong>" in shown
            for scopes in operation.get("security", [{}])[0].values():
                assert f"Role: {scopes[0]}" in shown
    anchors = re.findall(r'id="([^"]*)"', page)
    assert len(anchors) == len(set(anchors))
    assert set(re.findall(r'href="#([^"]*)"', page)) <= set(anchors)


def identifier(method: str, path: str) -> str:
    return f"{method}{path}".translate(str.maketrans("/.", "--", "{}"))


def test_body_of_a_form_is_described(client: TestClient) -> None:
    page = unescape(client.get("/api").text)

    shown = page.partition('id="post-annotations"')[2].partition("</details>")[0]
    assert '<code>commit</code></th><td>body</td><td class="type">string, at most 40 characters</td>' in shown
    assert "required" in shown


def test_program_gets_the_same(client: TestClient) -> None:
    found = client.get("/api", headers=JSON).json()

    operations = {
        (each["method"], each["path"]): each for group in found["groups"] for each in group["operations"]
    }
    assert "editor" == operations["POST", "/triage"]["role"]
    assert {"200", "409"} <= {each["status"] for each in operations["POST", "/triage"]["responses"]}
    assert perftrend.__version__ == found["version"]


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 9}, "integer, at least 1, at most 9"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string or null"),
        ({"type": "array", "items": {"$ref": "#/components/schemas/Item"}}, "list of Item"),
        ({"enum": ["a", 1]}, '"a" or 1'),
        ({"const": "a"}, '"a"'),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "object of number"),
        ({"type": "object", "additionalProperties": True}, "object"),
        ({"type": "string", "format": "date-time"}, "string (date-time)"),
        ({}, "any value"),
    ],
)
def test_type_is_in_words(schema: dict[str, Any], text: str) -> None:
    assert text == describe_type(schema)


def test_description_is_no_markup() -> None:
    operation = {"description": "<b>", "responses": {"200": {"description": "ok"}}}
    document = {"info": {"version": "1"}, "paths": {"/x": {"get": operation}}}

    assert "<b>" == api_reference.read(document).groups[0].operations[0].description


class TestClosed:
    """A dashboard that only users may read."""

    @pytest.fixture
    def settings(self) -> Settings:
        return Settings.load(
            environment={},
            overrides={
                "dashboard.public": "false", "dashboard.proxies": "127.0.0.1",
                "dashboard.user_header": "X-User", "dashboard.editors": "eva",
            },
        )  # fmt: skip

    @pytest.mark.parametrize("path", ["/help", "/api"])
    def test_reader_has_to_sign_in(self, client: TestClient, path: str) -> None:
        assert 401 == client.get(path).status_code
