"""The dashboard: measured results in a browser.

Each page is a package or module with its routes, the models of its responses, and its logic. The same URL
returns HTML for users and JSON for programs; see :mod:`perftrend.dashboard.pages`.
"""

from perftrend.dashboard.app import WORKS, make_app, warm_up
from perftrend.dashboard.context import AppContext

__all__ = ["WORKS", "AppContext", "make_app", "warm_up"]
