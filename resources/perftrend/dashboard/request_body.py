"""Parsing of request bodies: one model for the form of a page and the JSON of a program."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fastapi import HTTPException, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

_Model = TypeVar("_Model", bound=BaseModel)
_JSON, _FORM = "application/json", "application/x-www-form-urlencoded"
_FILES = "multipart/form-data"
_PARTS = "#/$defs/"


def parse_body(model: type[_Model]) -> Callable[[Request], Coroutine[Any, Any, _Model]]:
    """Return the dependency that parses a body as a model, whose fields are those of the form.

    An endpoint with it declares ``openapi_extra=body_of(model)``.
    """

    async def read(request: Request) -> _Model:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        try:
            if kind == _JSON:
                return model.model_validate_json(await request.body())
            if kind == _FILES:
                raise HTTPException(415, f"send a form as {_FORM}, or JSON as {_JSON}")
            form = await request.form()
            return model.model_validate({name: text for name, text in form.items() if isinstance(text, str)})
        except ValidationError as error:
            errors = error.errors(include_url=False, include_context=False)
            raise RequestValidationError(
                [{**each, "loc": ("body", *each["loc"])} for each in errors]
            ) from None

    return read


def body_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the OpenAPI description of a body that :func:`parse_body` parses."""
    schema = model.model_json_schema()
    whole = _whole(schema, schema.get("$defs", {}))
    return {
        "requestBody": {"required": True, "content": {kind: {"schema": whole} for kind in (_FORM, _JSON)}}
    }


def _whole(part: Any, parts: dict[str, Any]) -> Any:  # noqa: ANN401 - any JSON value
    """Return a part of a schema with its references resolved, since their targets are not in the document."""
    if isinstance(part, list):
        return [_whole(each, parts) for each in part]
    if not isinstance(part, dict):
        return part
    named = part.get("$ref")
    meant = _whole(parts[named.removeprefix(_PARTS)], parts) if named else {}
    return meant | {
        name: _whole(value, parts) for name, value in part.items() if name not in {"$ref", "$defs"}
    }
