"""What runs the jobs: what all runners have in common, and what a job is told of its request."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Protocol

from perftrend.errors import ServiceError
from perftrend.store.requests import Request, State


class NotTakenError(ServiceError):
    """The runner will not take this request, however often it is tried."""


class Runner(Protocol):
    """Starts jobs, each once."""

    begun: State
    """The state of a request that it has taken."""

    def begin(self, request: Request, *, is_new: bool) -> str:
        """Take a request that is claimed, once, and return the address of its build, if that is known.

        :param is_new: False: it may have been taken already, before a kill or by an answer that was lost.
        :raises NotTakenError: if it cannot be taken.
        :raises ServiceError: if it may be otherwise later.
        """
        ...

    def link(self, request: Request) -> str:
        """Return the address of the build of a request, as soon as there is one; empty: not yet."""
        ...

    def page(self, request: Request) -> str:
        """Return the address where the build will be found, if there is any."""
        ...

    def tend(self) -> bool:
        """Look after what runs; return whether that has to be done again soon."""
        ...

    def close(self) -> None:
        """End what this process runs; the next one begins it again."""
        ...


def parameters(request: Request) -> Mapping[str, str]:
    """Return what a build is told, by the names that Jenkins's Gerrit Trigger gives it.

    The text is the request's own line, so that a comment with several starts each job with its own.
    """
    return {
        "GERRIT_EVENT_COMMENT_TEXT": base64.b64encode(request.line.encode()).decode(),
        "GERRIT_PROJECT": request.project,
        "GERRIT_BRANCH": request.branch,
        "GERRIT_REFSPEC": request.ref,
        "GERRIT_CHANGE_NUMBER": str(request.change),
        "GERRIT_PATCHSET_NUMBER": str(request.patch_set),
        "GERRIT_PATCHSET_REVISION": request.revision,
        KEY: request.key,
    }


KEY = "GERRIT_EVENT_HASH"
"""The parameter that tells a request from all others."""
