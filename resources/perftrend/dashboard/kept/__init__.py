"""Answers that are kept in memory, so that many readers cost as little as one.

An endpoint declares that its answers may be kept::

    @router.get("/runs", response_model=Runs)
    @kept
    def runs(request: Request, site: TheSite, _: Viewer) -> Response: ...

It promises that the answer depends on the database and the settings alone, beside the address, the form
(page or JSON) and the role of the reader; with the time it may change within minutes. To make sure of that,
the endpoint does not see the request that came. It sees one that is made of these alone
(:mod:`~perftrend.dashboard.kept.asked`), so whatever else a client writes cannot get into an answer for
others. The name of the reader and the token of forms are left blank, and are filled in as an answer is sent
(:mod:`~perftrend.dashboard.kept.blanks`).

An endpoint that finds out that an answer is not to be kept says ``Cache-Control: no-store``.
"""

from perftrend.dashboard.kept.declaring import kept

__all__ = ["kept"]
