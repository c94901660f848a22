"""Jenkins: its jobs, its builds and their artifacts; starting a build and waiting for it.

The only importer of python-jenkins. See Clients in the documentation for the requests.
"""

from __future__ import annotations

from perftrend.clients.http_service import RefusedError, TooLargeError, UnavailableError
from perftrend.clients.jenkins.builds import Artifact, JenkinsBuild
from perftrend.clients.jenkins.client import Jenkins, connect
from perftrend.clients.jenkins.queue import QueuedBuild, QueueItem

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
