"""The decorator for endpoints whose responses may be cached, and the lookup of their routes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

_Endpoint = TypeVar("_Endpoint", bound=Callable[..., object])
_MARK = "perftrend_is_kept"


def cacheable(endpoint: _Endpoint) -> _Endpoint:
    """Declare that the responses of an endpoint may be cached."""
    setattr(endpoint, _MARK, True)
    return endpoint


class CacheableRoutes:
    """The routes of an application whose responses may be cached.

    :param routes: all routes, in the order in which they are tried.
    """

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._routes = [
            route for route in routes if isinstance(route, APIRoute) and "GET" in (route.methods or ())
        ]
        # Most paths have no parameter and do not need to be matched.
        self._plain = {route.path: self._first(route.path) for route in self._routes}

    def of(self, path: str) -> APIRoute | None:
        """Return the route that serves GET of a path if its responses may be cached, otherwise None."""
        route = self._plain[path] if path in self._plain else self._first(path)
        return route if route is not None and getattr(route.endpoint, _MARK, False) else None

    def _first(self, path: str) -> APIRoute | None:
        return next((route for route in self._routes if route.path_regex.match(path)), None)
