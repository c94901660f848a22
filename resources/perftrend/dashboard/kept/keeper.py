"""Middleware that serves responses from the cache, and caches responses."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import HTTPException
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perftrend.dashboard.kept.answers import Answer
from perftrend.dashboard.kept.asked import Asked, Reader
from perftrend.dashboard.kept.blanks import Person
from perftrend.dashboard.kept.declaring import KeptRoutes
from perftrend.dashboard.kept.flights import Flights
from perftrend.dashboard.kept.freshness import Freshness, Mark
from perftrend.dashboard.kept.memory import Entry, Memory
from perftrend.dashboard.pages import wants_json
from perftrend.dashboard.site import Site
from perftrend.dashboard.users import Gate
from perftrend.dashboard.users.access import identity_of
from perftrend.dashboard.users.gate import Identity
from perftrend.errors import StoreError


class Keeper:
    """The innermost middleware: all middleware that depends on the client runs before it.

    :param routes: all routes of the application, in the order in which they are tried.
    """

    def __init__(self, app: ASGIApp, *, routes: Sequence[BaseRoute], site: Site, gate: Gate) -> None:
        chosen = site.settings.dashboard
        self._app = app
        self._routes = KeptRoutes(routes)
        self._gate = gate
        self._memory = Memory(chosen.kept_bytes or 0)
        self._freshness = Freshness(site.store.changes, behind_s=chosen.behind_s)
        self._flights: Flights[Answer] = Flights()
        self._metrics = site.metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        route = self._routes.of(scope["path"]) if _could_be_kept(scope) else None
        if route is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        try:
            identity = await self._identity(request)
            answer = await self._answer(request, identity)
        except (HTTPException, StoreError):
            # The application fails in the same way, and responds with its error page.
            answer = None
        if answer is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = route
        await answer.send(request, Person(identity, self._gate), send)

    async def _identity(self, request: Request) -> Identity:
        """Return the identity of the user; only sessions need the store, and therefore a thread."""
        if "cookie" in request.headers:
            return await run_in_threadpool(identity_of, request)
        return identity_of(request)

    async def _answer(self, request: Request, identity: Identity) -> Answer | None:
        """Return the response to a request; None if the application should handle it itself."""
        if not (identity.user.signed_in or self._gate.is_public):
            return None
        scope = request.scope
        reader = Reader.of(request, identity)
        asked = Asked(scope["path"], scope["query_string"], wants_json(request), reader)
        found = self._memory.find(asked)
        if found is not None and await self._freshness.holds(found.mark):
            self._metrics.kept_answers.labels("memory").inc()
            return found.answer
        mark = await self._freshness.mark()

        answer = await self._flights.join((asked, mark.own), lambda: self._made(asked, mark, scope))
        return answer if answer.may_be_shared else None

    async def _made(self, asked: Asked, mark: Mark, came: Scope) -> Answer:
        messages: list[Message] = []

        async def collect(message: Message) -> None:
            messages.append(message)

        await self._app(asked.scope(came), _nothing, collect)
        answer = await run_in_threadpool(Answer.of, messages)
        self._metrics.kept_answers.labels("made").inc()
        if answer.may_be_kept and answer.may_be_shared:
            self._memory.keep(asked, Entry(answer, mark))
            self._metrics.kept_bytes.set(self._memory.bytes)
        return answer


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


def _could_be_kept(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] != "GET":
        return False
    # Programs with an API token send few requests, and their token has to be verified each time.
    return all(name != b"authorization" for name, _ in scope["headers"])
