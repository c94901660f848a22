"""``/help``: a short help for each page, ``/api``: the OpenAPI document as a page, and that document.

FastAPI's ``/openapi.json`` is completed: error responses and anonymous access of each operation follow from
its role, parameters, body and path. Endpoints declare other responses themselves, such as 409 for an edit
that conflicts with another user's edit. The page lists endpoints with parameters, bodies, roles and errors.

The documentation is not part of the package, so the dashboard has the part of it that its users need most.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from perftrend.dashboard.auth import Role, Viewer
from perftrend.dashboard.pages import HELP_TOPICS, page

ABOUT = """\
Every page is also available as JSON under the same URL: send the header `Accept: application/json`, or add
`format=json` to the address. Otherwise the response is HTML. Values that are not numbers are null. Times are
in UTC.

An error is `{"error": "…"}` in one line. A request for a host name that the dashboard does not serve is
answered with status 421. Errors of requests that reach no page are lines of text: always for a request that
is not valid HTTP; for a body that is too long, too many requests and an unknown host name, unless the Accept
header has `application/json`.

A job authenticates by an API token. Without one it is a viewer if `dashboard.public` is on, or if users
cannot sign in.
"""

_FREE = ("/healthz", "/livez")
_ERRORS = {
    "400": "The request cannot be fulfilled, for example because a query has an error.",
    "401": "Authentication is required, or the API token is invalid; the message describes what to do.",
    "403": "The user may not do this, or the form is from another site.",
    "404": "It does not exist, or no longer exists.",
    "413": "The body is too long.",
    "415": "The body is neither a form nor JSON.",
    "422": "A parameter or a field is missing, or cannot be read; the answer names it.",
    "429": "Too many requests; Retry-After contains the number of seconds to wait.",
    "503": "The database cannot be reached or is too slow; try again later.",
}
_JSON = "application/json"
_TEXT_TOO = ("4XX", "400", "413", "429")
"""Statuses of responses that middleware may send as text before a request is routed."""

_FAULT = {"$ref": "#/components/schemas/Fault"}

_FORM = "application/x-www-form-urlencoded"
_SCHEMAS = "#/components/schemas/"
_MONITORING = "monitoring"
_GROUPS = {
    **dict.fromkeys(("livez", "healthz", "metrics"), _MONITORING),
    **dict.fromkeys(("short", "s"), "shortcuts"),
    **dict.fromkeys(("sign-in", "sign-out", "me"), "sessions"),
}
"""The groups of endpoints that are not below the address of their page."""
_LIMITS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "pattern": "in the form {}",
}

router = APIRouter()


def complete(document: dict[str, Any], *, is_public: bool) -> None:
    """Complete an OpenAPI document, in place.

    :param is_public: whether users may read without authentication.
    """
    document["info"]["description"] = ABOUT
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            responses, role = operation["responses"], role_of(operation)
            for status in _statuses(method, path, operation):
                response = {"description": _ERRORS[status], "content": {_JSON: {"schema": _FAULT}}}
                responses.setdefault(status, response)
            if role is not None:
                for each in responses.values():
                    if _JSON in each.get("content", {}):
                        each["content"].setdefault("text/html", {})
            for status in _TEXT_TOO:
                if status in responses:
                    responses[status]["content"].setdefault("text/plain", {})
            if is_public and role is Role.VIEWER:
                # The empty requirement means that authentication is optional.
                operation["security"].append({})


def role_of(operation: Mapping[str, Any]) -> Role | None:
    """Return the role that an operation requires; None: it requires none."""
    titles = (title for each in operation.get("security", ()) for scopes in each.values() for title in scopes)
    return max(map(Role.of, titles), default=None)


def _statuses(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    """Yield the error statuses that an operation can return."""
    role, has_body = role_of(operation), "requestBody" in operation
    if path not in _FREE:
        yield "429"
    if role is not None:
        yield from ("401", "503")
    if role is not None and (method != "get" or role > Role.VIEWER):
        yield "403"
    if has_body or operation.get("parameters"):
        yield from ("400", "422")
    if has_body:
        yield from ("413", "415")
    if "{" in path:
        yield "404"


class ApiValue(BaseModel):
    """A parameter, or a field of a body or a response."""

    name: str
    place: str
    """``path``, ``query`` or ``body``; empty: a response."""
    type: str
    is_required: bool
    default: str
    """As JSON; empty: none."""
    description: str


class ApiResponse(BaseModel):
    """A response of an endpoint."""

    status: str
    description: str
    schemas: list[str]
    """Names of the schemas of its JSON."""


class ApiOperation(BaseModel):
    """An endpoint."""

    method: str
    path: str
    identifier: str
    description: str
    role: str
    """The role that it requires; empty: none."""
    values: list[ApiValue]
    responses: list[ApiResponse]


class ApiGroup(BaseModel):
    """The endpoints of a page."""

    name: str
    operations: list[ApiOperation]


class ApiSchema(BaseModel):
    """An object in responses."""

    name: str
    description: str
    values: list[ApiValue]


class ApiReference(BaseModel):
    """All endpoints of the dashboard."""

    version: str
    about: str
    groups: list[ApiGroup]
    schemas: list[ApiSchema]


def read(document: Mapping[str, Any]) -> ApiReference:
    """Return the content of an OpenAPI document."""
    groups: dict[str, list[ApiOperation]] = {}
    for path, operations in document["paths"].items():
        first = path.strip("/").partition("/")[0] or "overview"
        name = _GROUPS.get(first, first)
        groups.setdefault(name, []).extend(
            _operation(path, method, operation) for method, operation in operations.items()
        )
    schemas = document.get("components", {}).get("schemas", {})
    return ApiReference(
        version=document["info"]["version"],
        about=document["info"].get("description", ""),
        groups=[
            ApiGroup(name=name, operations=found)
            for name, found in sorted(groups.items(), key=lambda group: group[0] == _MONITORING)
        ],
        schemas=[
            ApiSchema(
                name=name, description=schema.get("description", ""), values=list(_fields(schema, place=""))
            )
            for name, schema in sorted(schemas.items())
        ],
    )


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> ApiOperation:
    role = role_of(operation)
    body = operation.get("requestBody", {}).get("content", {}).get(_FORM, {}).get("schema", {})
    parameters = [_parameter(each) for each in operation.get("parameters", ())]
    return ApiOperation(
        method=method.upper(),
        path=path,
        identifier=f"{method}{path}".translate(str.maketrans("/.", "--", "{}")),
        description=operation.get("description", ""),
        role=role.title if role is not None else "",
        values=[*parameters, *_fields(body, place="body")],
        responses=[_response(*each) for each in sorted(operation["responses"].items())],
    )


def _response(status: str, response: Mapping[str, Any]) -> ApiResponse:
    return ApiResponse(status=status, description=_text(response), schemas=sorted(set(_named(response))))


def _parameter(parameter: Mapping[str, Any]) -> ApiValue:
    schema = {**parameter.get("schema", {}), "description": _text(parameter)}
    return _value(
        parameter["name"], schema, place=parameter["in"], is_required=parameter.get("required", False)
    )


def _fields(schema: Mapping[str, Any], *, place: str) -> Iterator[ApiValue]:
    required = set(schema.get("required", ()))
    for name, each in schema.get("properties", {}).items():
        yield _value(name, each, place=place, is_required=name in required)


def _value(name: str, schema: Mapping[str, Any], *, place: str, is_required: bool) -> ApiValue:
    default = schema.get("default")
    return ApiValue(
        name=name,
        place=place,
        type=describe_type(schema),
        is_required=is_required,
        default="" if default is None else json.dumps(default),
        description=_text(schema),
    )


def _text(part: Mapping[str, Any]) -> str:
    return str(part.get("description", ""))


def describe_type(schema: Mapping[str, Any]) -> str:
    """Return a type with its limits in words: ``integer, at least 1, at most 1000``."""
    limits = [text.format(schema[name]) for name, text in _LIMITS.items() if name in schema]
    return ", ".join([_kind(schema), *limits])


def _kind(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(_SCHEMAS)
    if "const" in schema or "enum" in schema:
        return " or ".join(map(json.dumps, schema.get("enum", [schema.get("const")])))
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return " or ".join(map(describe_type, schema[word]))
    kind = str(schema.get("type", "any value"))
    content = schema.get("items" if kind == "array" else "additionalProperties")
    if isinstance(content, dict):
        return f"{'list' if kind == 'array' else kind} of {describe_type(content)}"
    return f"{kind} ({schema['format']})" if "format" in schema else kind


def _named(part: object) -> Iterator[str]:
    """Yield the names of the schemas that a part of the document refers to."""
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"].removeprefix(_SCHEMAS)
        for each in part.values():
            yield from _named(each)
    elif isinstance(part, list):
        for each in part:
            yield from _named(each)


class HelpTopics(BaseModel):
    """The topics of the help."""

    topics: list[str]


@router.get("/help", response_model=HelpTopics)
def show_help(request: Request, _: Viewer) -> Response:
    """Return the help of all pages."""
    return page(request, "help.html", HelpTopics(topics=list(HELP_TOPICS)), title="Help")


@router.get("/api", response_model=ApiReference)
def show_api(request: Request, _: Viewer) -> Response:
    """Return all endpoints with their parameters, bodies, roles and errors; see also ``/openapi.json``."""
    document: dict[str, Any] = request.app.openapi()
    return page(request, "api.html", read(document), title="API")
