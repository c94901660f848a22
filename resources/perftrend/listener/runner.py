"""The protocol of runners, which start jobs, and the parameters of jobs."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Protocol

from perftrend.errors import ServiceError
from perftrend.store.requests import Request, RequestState


class RequestRejectedError(ServiceError):
    """The runner rejects this request permanently."""


class Runner(Protocol):
    """Starts jobs, each of them once."""

    begun: RequestState
    """The state of a request that the runner has accepted."""

    def begin(self, request: Request, *, is_new: bool) -> str:
        """Accept a claimed request, and return the address of its build; empty if that is not known yet.

        :param is_new: False if it may already have been accepted, before the listener was killed or by a
            request whose response was lost; it is then not started twice.
        :raises RequestRejectedError: if it can never be accepted.
        :raises ServiceError: if it cannot be accepted now; try again later.
        """
        ...

    def link(self, request: Request) -> str:
        """Return the address of the build of a request; empty if there is none yet."""
        ...

    def page(self, request: Request) -> str:
        """Return the address of the page on which the build will appear; empty if there is none."""
        ...

    def tend(self) -> bool:
        """Update the state of the jobs; return whether to call this again soon."""
        ...

    def close(self) -> None:
        """Terminate the jobs that this process runs; the next listener starts them again."""
        ...


def parameters(request: Request) -> Mapping[str, str]:
    """Return the parameters of a build, under the names of Jenkins's Gerrit Trigger plugin.

    The comment text is only the line of the request, so that each job of a comment with several requests
    receives its own.
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
"""The parameter that identifies a request."""
