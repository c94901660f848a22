"""What a request measures and how long that takes, before its job is started."""

from __future__ import annotations

from urllib.parse import quote

from perftrend import builds
from perftrend.errors import UsageError
from perftrend.execution import estimate, request_validation
from perftrend.execution.request_validation import InvalidRequestError, RequestPlan
from perftrend.execution.selection import SUITES
from perftrend.settings import Settings
from perftrend.store.requests import Request, Requests
from perftrend.trigger import Refusal, Trigger

_EARLIER_JOBS = 10
"""Number of earlier jobs from whose durations that of a command is estimated."""


def plan_request(settings: Settings, requests: Requests, request: Request, trigger: Trigger) -> RequestPlan:
    """Return the plan of a request whose commits have been checked.

    :raises InvalidRequestError: if the requested measurement is impossible.
    :raises ServiceError: if the repository cannot be fetched from.
    """
    plan = plan_measurement(settings, requests, trigger)
    if trigger.old is not None and settings.project.profile is not None:
        _check_commits(settings, request, trigger)
    return plan


def plan_measurement(settings: Settings, requests: Requests, trigger: Trigger) -> RequestPlan:
    """Return what is measured, and how long that takes, without a look at the commits.

    :param requests: earlier ones, whose jobs show how long a command takes.
    :raises InvalidRequestError: if the requested measurement is impossible.
    """
    settings = settings.model_copy(update={"testbed": trigger.testbed})
    is_building = trigger.job in estimate.BUILDING
    project = settings.project
    if is_building and project.profile is not None:
        profile = builds.load(project.profile, project.profiles, project.parameters)
        if profile.measure is not None:
            earlier_s = requests.durations_s(trigger.job, trigger.testbed, newest=_EARLIER_JOBS)
            return request_validation.plan_command(earlier_s)
    return request_validation.plan(trigger, settings.for_builds if is_building else settings, suites=SUITES)


def _check_commits(settings: Settings, request: Request, trigger: Trigger) -> None:
    """Check that a bisection can begin at the older commit.

    :raises InvalidRequestError: if it cannot.
    :raises ServiceError: if the repository cannot be fetched from.
    """
    url = settings.project.repository
    if not url and request.is_of_page:
        reason = "project.repository is not set, so the commits cannot be built"
        raise InvalidRequestError(Refusal(str(trigger), reason, ""))
    url = url or f"{settings.gerrit.url}/{quote(request.project)}"
    with builds.open_builds(settings.project.model_copy(update={"repository": url})) as product:
        if request.ref:
            product.repository.fetch(request.ref)
        else:
            _require_commit(product, request, trigger)
        request_validation.check_hash(trigger, request.revision, product.repository)


def _require_commit(product: builds.Builds, request: Request, trigger: Trigger) -> None:
    try:
        product.repository.resolve(request.revision)
    except UsageError as error:
        raise InvalidRequestError(Refusal(str(trigger), str(error), "")) from None
