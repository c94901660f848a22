"""Middleware that every request passes before it is routed, outermost first.

:class:`~perftrend.dashboard.front.records.Recorded` writes the access log and counts requests,
:class:`~perftrend.dashboard.front.heads.Headed` answers HEAD as GET without a body,
:class:`~perftrend.dashboard.front.headers.Guarded` adds security headers,
:class:`~perftrend.dashboard.front.hosts.Hosted` rejects unknown host names,
:class:`~perftrend.dashboard.front.rates.Limited` limits the request rate of each client,
:class:`~perftrend.dashboard.front.bodies.Bounded` limits the length of bodies, and
:class:`~perftrend.dashboard.front.precedence.Preferred` counts the requests in progress. All are plain ASGI
and none accesses the store, so they still work when the store is unavailable.
"""
