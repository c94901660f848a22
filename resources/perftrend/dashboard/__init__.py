"""The dashboard: what was measured, in a browser.

Each page has a package of its own: its routes, the model of what it answers, and its logic. The same URL
answers as a page for people and as JSON for programs; see :mod:`perftrend.dashboard.pages`.
"""

from perftrend.dashboard.app import WORKS, make_app
from perftrend.dashboard.site import Site
from perftrend.dashboard.warming import warm_up

__all__ = ["WORKS", "Site", "make_app", "warm_up"]
