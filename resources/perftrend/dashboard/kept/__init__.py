"""In-memory cache of responses, shared by all users.

An endpoint declares that its responses may be cached::

    @router.get("/runs", response_model=Runs)
    @kept
    def runs(request: Request, site: TheSite, _: Viewer) -> Response: ...

The response must depend only on the database, the settings, the URL, the format (page or JSON) and the role
of the user; over minutes it may also change with time. To enforce that, the endpoint does not receive the
original request, but one that is built from these values alone (:mod:`~perftrend.dashboard.kept.asked`).
Other data from a client therefore cannot get into a response for others. The name of the user and the token
of forms are placeholders, which are replaced when a response is sent
(:mod:`~perftrend.dashboard.kept.blanks`).

An endpoint sets ``Cache-Control: no-store`` on a response that must not be cached.
"""

from perftrend.dashboard.kept.declaring import kept

__all__ = ["kept"]
