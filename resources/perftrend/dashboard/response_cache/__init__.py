"""In-memory cache of responses, shared by all users.

An endpoint declares that its responses may be cached::

    @router.get("/runs", response_model=NewestRuns)
    @cacheable
    def runs(request: Request, site: Context, _: Viewer) -> Response: ...

The response must depend only on the database, the settings, the URL, the format (page or JSON) and the role
of the user; over minutes it may also change with time. To enforce that, the endpoint does not receive the
original request, but one that is built from these values alone
(:mod:`~perftrend.dashboard.response_cache.cache_key`). Other data from a client therefore cannot get into a
response for others. The name of the user and the token of forms are placeholders, which are replaced when a
response is sent (:class:`~perftrend.dashboard.response_cache.cache_key.PlaceholderUser`).

An endpoint sets ``Cache-Control: no-store`` on a response that must not be cached.
"""

from perftrend.dashboard.response_cache.cache_key import cacheable

__all__ = ["cacheable"]
