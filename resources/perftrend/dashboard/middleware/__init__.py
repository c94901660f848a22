"""Middleware that every request passes before it is routed, outermost first.

:class:`~perftrend.dashboard.middleware.access_log.AccessLog` logs and counts requests and gives them ids,
:class:`~perftrend.dashboard.middleware.access_log.HeadRequests` answers HEAD as GET without a body,
:class:`~perftrend.dashboard.middleware.security.SecurityHeaders` adds security headers,
:class:`~perftrend.dashboard.middleware.security.TrustedHosts` rejects unknown host names,
:class:`~perftrend.dashboard.middleware.rate_limit.RateLimit` limits the request rate of each client,
:class:`~perftrend.dashboard.middleware.rate_limit.BodyLimit` limits the length of bodies, and
:class:`~perftrend.dashboard.workers.RequestPriority` counts the requests in progress. All
are plain ASGI and none accesses the store, so they still work when the store is unavailable.
"""
