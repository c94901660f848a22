"""``/openapi.json`` is right, and lists the permissions and the errors of each endpoint."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from pydantic import BaseModel
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext, make_app
from perftrend.dashboard.pages import body_of
from perftrend.settings import Settings
from perftrend.store import Store

UNSAFE = {"post", "put", "patch", "delete"}
JSON = {"Accept": "application/json"}


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what a dashboard says where nobody can sign in."""
    with Store.open(tmp_path_factory.mktemp("store") / "store.sqlite") as store:
        return make_app(AppContext.of(Settings.load(environment={}), store)).openapi()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


def test_document_is_valid(document: dict[str, Any]) -> None:
    assert [] == [each.message for each in OpenAPIV31SpecValidator(document).iter_errors()]


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    def references(part: object) -> Iterator[str]:
        if isinstance(part, dict):
            yield from ([part["$ref"]] if isinstance(part.get("$ref"), str) else [])
            for each in part.values():
                yield from references(each)
        elif isinstance(part, list):
            for each in part:
                yield from references(each)

    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}

    assert set(references(document)) <= known
    assert "$defs" not in json.dumps(document)


class Leaf(BaseModel):
    """A part."""

    number: int


class Tree(BaseModel):
    """What has parts."""

    leaf: Leaf | None = None
    """The one."""
    leaves: list[Leaf] = []


def test_body_has_its_parts_in_itself() -> None:
    content = body_of(Tree)["requestBody"]["content"]
    schema = content["application/json"]["schema"]

    assert {"application/json", "application/x-www-form-urlencoded"} == set(content)
    assert "integer" == schema["properties"]["leaves"]["items"]["properties"]["number"]["type"]
    assert "integer" == schema["properties"]["leaf"]["anyOf"][0]["properties"]["number"]["type"]
    assert "$" not in json.dumps(schema)


def test_api_token_is_a_bearer_token(document: dict[str, Any]) -> None:
    [scheme] = document["components"]["securitySchemes"].values()

    assert ("http", "bearer") == (scheme["type"], scheme["scheme"])


@pytest.mark.parametrize(
    ("operation", "security"),
    [
        ("get /runs", [{"token": ["viewer"]}, {}]),
        ("post /annotations", [{"token": ["editor"]}]),
        ("get /users", [{"token": ["admin"]}]),
        ("get /healthz", None),
    ],
)
def test_who_may_ask_is_told(
    document: dict[str, Any], operation: str, security: list[dict[str, list[str]]] | None
) -> None:
    assert security == dict(operations(document))[operation].get("security")


def test_reading_needs_a_token_where_people_sign_in(settings: Settings, store: Store) -> None:
    chosen = settings.dashboard.model_copy(
        update={"oidc_issuer": "https://idp.example", "oidc_client_id": "perftrend"}
    )
    app = make_app(AppContext.of(settings.model_copy(update={"dashboard": chosen}), store))

    assert [{"token": ["viewer"]}] == dict(operations(app.openapi()))["get /runs"]["security"]


def test_document_is_the_same_each_time(client: TestClient) -> None:
    assert client.get("/openapi.json").json() == client.get("/openapi.json").json()


@pytest.mark.parametrize(
    ("path", "described", "status"),
    [
        ("/triage?query=a%3D~(", "/triage", 400),
        ("/users", "/users", 401),
        ("/clusters/7", "/clusters/{identity}", 404),
        ("/runs?last=x", "/runs", 422),
    ],
)
def test_error_that_happens_is_told_of(
    client: TestClient, document: dict[str, Any], path: str, described: str, status: int
) -> None:
    answer = client.get(path, headers=JSON)

    assert (status, {"error"}) == (answer.status_code, set(answer.json()))
    told = document["paths"][described]["get"]["responses"][str(status)]
    assert {"$ref": "#/components/schemas/Fault"} == told["content"]["application/json"]["schema"]


def test_what_may_happen_to_every_request_is_told_of_all(document: dict[str, Any]) -> None:
    found = dict(operations(document))

    assert ["get /livez", "get /healthz"] == [name for name in found if "429" not in found[name]["responses"]]
    assert [] == [
        name
        for name in found
        if name.split(maxsplit=1)[0] in UNSAFE and not {"401", "403"} <= set(found[name]["responses"])
    ]


@pytest.mark.parametrize(
    ("path", "kinds"),
    [
        ("/explore", {"application/json", "text/html", "text/csv"}),
        ("/runs", {"application/json", "text/html"}),
        ("/healthz", {"application/json"}),
        ("/compare/table.csv", {"text/csv"}),
        ("/metrics", {"text/plain"}),
    ],
)
def test_what_an_answer_can_be_is_told(document: dict[str, Any], path: str, kinds: set[str]) -> None:
    assert kinds == set(document["paths"][path]["get"]["responses"]["200"]["content"])
