"""The OpenAPI document, prepared for a page: endpoints by page, with parameters, bodies, roles and errors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from perftrend.dashboard import openapi

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
    role = openapi.role_of(operation)
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
