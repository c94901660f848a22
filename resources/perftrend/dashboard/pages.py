"""Pages: the same URL returns HTML for users and JSON for programs.

A program requests JSON by ``Accept: application/json`` or ``?format=json``. It receives the pydantic model of
the page. The HTML is rendered from the same model, so both contain the same information.

Request bodies are parsed alike: one model describes the form of a page and the JSON of a program.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar
from urllib.parse import urlencode

import jinja2
from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from markupsafe import Markup
from pydantic import BaseModel, ValidationError
from starlette.responses import HTMLResponse, RedirectResponse

from perftrend import COMMAND, __version__
from perftrend.dashboard import formats, links, static
from perftrend.dashboard.auth import current_user
from perftrend.dashboard.html_forms import FormProblem, SubmittedForm, show_problems
from perftrend.dashboard.response_cache.cache_key import form_token

NAVIGATION: Mapping[str, str] = {
    "/": "Overview",
    "/triage": "Triage",
    "/explore": "Explore",
    "/clusters": "Clusters",
    "/compare": "Compare",
    "/annotations": "Annotations",
    "/runs": "Runs",
    "/queue": "Queue",
}
"""The navigation of every page, limited to the pages that the dashboard has."""

HELP_TOPICS = (
    "overview", "triage", "alerts", "explore", "clusters", "compare", "annotations", "runs", "queue", "jobs",
    "calibration", "search", "views", "users", "activity",
)  # fmt: skip
"""Topics of the help, which are the first parts of the paths of pages."""
SENT_FORM = "perftrend.form"
"""Key in the scope of a request that sends a form: the names and values of its fields."""
_JSON, _HTML = "application/json", "text/html"
_FORM = "application/x-www-form-urlencoded"
_FILES = "multipart/form-data"
_PARTS = "#/$defs/"
_Model = TypeVar("_Model", bound=BaseModel)


def page(
    request: Request,
    template: str,
    model: BaseModel,
    *,
    title: str,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    problems: Sequence[FormProblem] = (),
    description: str = "",
    **extra: object,
) -> Response:
    """Return the response of a page: HTML, or the model as JSON if that is requested.

    :param template: file in ``templates/``; it extends ``base.html`` and receives ``model`` and ``extra``.
    :param title: short title of the page; the project's name is appended.
    :param description: what the page shows, for previews of its link in chats and search results.
    :param problems: what is wrong with the form of the page, which contains what was entered.
    :param extra: values that only the HTML needs, such as links.
    """
    if wants_json(request):
        answer = json_of(model, status=status)
    else:
        html = render(request, template, model=model, title=title, description=description, **extra)
        if problems:
            html = show_problems(html, SubmittedForm("get", request.url.path, None), problems) or html
        answer = HTMLResponse(html, status)
    answer.headers.update({"Vary": "Accept, Cookie", "Cache-Control": "private, no-cache", **(headers or {})})
    return answer


def done(
    request: Request, path: str, model: BaseModel | None = None, *, status: int = 200, **query: str
) -> Response:
    """Return the response to a change: a redirect to a page for forms, the model for programs.

    :param path: path of the page, such as ``/triage``.
    :param query: parameters of the redirect.
    """
    if wants_json(request):
        return json_of(model, status=status) if model else Response(status_code=204)
    return RedirectResponse(f"{path}?{urlencode(query)}" if query else path, 303)


def json_of(model: BaseModel, *, status: int = 200) -> Response:
    """Return a model as JSON; what is not a number is null."""
    return Response(model.model_dump_json(), status, media_type=_JSON)


def wants_json(request: Request) -> bool:
    """Return whether a request prefers JSON; the default is HTML."""
    requested = request.query_params.get("format")
    if requested in ("json", "html"):
        return requested == "json"
    accepted = qualities(request.headers.get("accept", ""))
    return accepted.get(_JSON, 0.0) > max(accepted.get(_HTML, 0.0), accepted.get("*/*", 0.0) - 0.001)


def render(request: Request, template: str, **values: object) -> str:
    """Render a template with the values that every page needs."""
    app = request.app
    known = {
        "request": request,
        "site": app.state.site,
        "navigation": app.state.navigation,
        "here": request.url.path,
        "is_error": False,
        "csrf_token": lambda: form_token(request),
    }
    if "user" not in values:
        known["user"] = current_user(request)
    return environment().get_template(template).render(known | values)


def help_address(path: str) -> str:
    """Return the address of the help of a page."""
    topic = path.strip("/").partition("/")[0] or "overview"
    return f"/help#{topic}" if topic in HELP_TOPICS else "/help"


@jinja2.pass_context
def linked_commit(context: jinja2.runtime.Context, revision: str) -> str | Markup:
    """Format a commit, as a link to its review if its address is known.

    Macros that use it are imported ``with context``.
    """
    address = links.of_commit(revision, context["site"].settings)
    shown = formats.commit(revision)
    return Markup('<a href="{}">{}</a>').format(address, shown) if address else shown


@cache
def environment() -> jinja2.Environment:
    """Return the environment of the templates: it escapes all values, and rejects undefined ones."""
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("perftrend.dashboard"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= formats.FILTERS
    found.filters["linked_commit"] = linked_commit
    found.globals |= {"COMMAND": COMMAND, "VERSION": __version__, "help_address": help_address}
    found.globals["static"] = static.url
    found.globals["plotly"] = static.plotly_url
    found.globals["plotly_style_id"] = static.plotly_style_id
    return found


def qualities(header: str) -> dict[str, float]:
    """Return the quality of each item of a header such as Accept, from 0 to 1."""
    found = {}
    for part in header.lower().split(","):
        kind, *parameters = (word.strip() for word in part.split(";"))
        found[kind] = next((_quality(word) for word in parameters if word.startswith("q=")), 1.0)
    return found


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
            fields = [(name, text) for name, text in form.multi_items() if isinstance(text, str)]
            request.scope[SENT_FORM] = fields
            return model.model_validate(dict(fields))
        except ValidationError as error:
            errors = error.errors(include_url=False)
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


def _quality(word: str) -> float:
    try:
        return min(max(float(word.removeprefix("q=")), 0.0), 1.0)
    except ValueError:
        return 0.0


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
