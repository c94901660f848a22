"""What every request goes through before any page is asked, the outermost first.

:class:`~perftrend.dashboard.front.records.Recorded` writes the log and counts,
:class:`~perftrend.dashboard.front.heads.Headed` answers HEAD as GET without a body,
:class:`~perftrend.dashboard.front.headers.Guarded` tells browsers what pages may do,
:class:`~perftrend.dashboard.front.hosts.Hosted` refuses other hosts' names,
:class:`~perftrend.dashboard.front.rates.Limited` who asks too often, and
:class:`~perftrend.dashboard.front.bodies.Bounded` what is too long. All are plain ASGI, and none asks the
store: they still work when it is away.
"""
