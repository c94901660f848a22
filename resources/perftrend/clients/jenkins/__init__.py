"""Jenkins: its jobs, its builds and their artifacts; starting a build and waiting for it.

The only importer of python-jenkins. See Clients in the documentation for the requests.
"""

from __future__ import annotations

from perftrend.clients.jenkins.builds import Artifact, JenkinsBuild
from perftrend.clients.jenkins.client import Jenkins, connect
from perftrend.clients.jenkins.queue import QueuedBuild, QueueItem
from perftrend.clients.web.errors import RefusedError, TooLargeError, UnavailableError

__all__ = [
    "Artifact",
    "Jenkins",
    "JenkinsBuild",
    "QueueItem",
    "QueuedBuild",
    "RefusedError",
    "TooLargeError",
    "UnavailableError",
    "connect",
]
