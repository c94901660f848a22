"""Jenkins: its jobs, its builds and their artifacts; starting a build and waiting for it.

The only importer of python-jenkins. See Clients in the documentation for the requests.
"""

from __future__ import annotations

from perftrend.clients.jenkins.builds import Artifact, Build
from perftrend.clients.jenkins.client import Jenkins, connect
from perftrend.clients.jenkins.running import Started
from perftrend.clients.jenkins.waiting import QueueItem
from perftrend.clients.web.refusals import RefusedError, TooLargeError, UnavailableError

__all__ = [
    "Artifact",
    "Build",
    "Jenkins",
    "QueueItem",
    "RefusedError",
    "Started",
    "TooLargeError",
    "UnavailableError",
    "connect",
]
