"""What endpoints declare, and how it is found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

_Endpoint = TypeVar("_Endpoint", bound=Callable[..., object])
_MARK = "perftrend_is_kept"


def kept(endpoint: _Endpoint) -> _Endpoint:
    """Declare that the answers of an endpoint may be kept."""
    setattr(endpoint, _MARK, True)
    return endpoint


class KeptRoutes:
    """The routes of an application that answers may be kept of.

    :param routes: all routes, in the order in which they are tried.
    """

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._routes = [
            route for route in routes if isinstance(route, APIRoute) and "GET" in (route.methods or ())
        ]
        # Most paths have no parameter, and are found at once.
        self._plain = {route.path: self._first(route.path) for route in self._routes}

    def of(self, path: str) -> APIRoute | None:
        """Return the route that answers GET of a path, if its answers may be kept."""
        route = self._plain[path] if path in self._plain else self._first(path)
        return route if route is not None and getattr(route.endpoint, _MARK, False) else None

    def _first(self, path: str) -> APIRoute | None:
        return next((route for route in self._routes if route.path_regex.match(path)), None)
