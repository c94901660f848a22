"""The testbed, the tests and the folder in the archive of a job that compares builds."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from perftrend import builds, console, errors
from perftrend.builds import Builds, Profile
from perftrend.execution import estimate, selection
from perftrend.execution.request_validation import COMMAND_PLAN, RequestPlan, plan_of
from perftrend.measure import specification
from perftrend.measure.specification import Specification
from perftrend.measure.testbed import Testbed
from perftrend.model import TraceKey
from perftrend.settings import Settings
from perftrend.settings.sections import ProjectSettings
from perftrend.text import format_count, line
from perftrend.trigger import Trigger


@dataclass(frozen=True, slots=True)
class JobScope:
    """The testbed and the tests of a job."""

    settings: Settings
    """Their ``testbed`` is the one in use, possibly a fallback."""
    spec: Specification
    keys: frozenset[TraceKey]
    """The traces that the suites measure; empty if a command of the product's profile measures."""
    notices: tuple[str, ...] = ()
    """Notices for readers of the report."""
    testbed: str = ""
    """The name of the testbed, for readers; empty if no testbed is involved."""
    command: str = ""
    """The command that measures; empty if the suites do."""

    def plan(self, trigger: Trigger) -> RequestPlan:
        """Return the plan of the request that started the job."""
        if not self.keys:
            return COMMAND_PLAN
        return plan_of(trigger, self.settings, suites=selection.SUITES)

    def extent(self, job: str) -> str:
        """Return the number of tests and the estimated duration, as text."""
        if not self.keys:
            return f"measured by {self.command}"
        duration = estimate.describe(job, self.keys, self.spec, self.settings)
        tests = format_count(len(estimate.tests(self.keys)), "test")
        return f"{tests} on {self.spec.name}, {duration}"


@contextmanager
def open_scope(
    settings: Settings, project: ProjectSettings, *, is_under_review: bool, is_requested: bool = False
) -> Iterator[tuple[JobScope, Builds]]:
    """Choose the testbed and the tests, then open the builds, which mirrors the repository.

    :param is_under_review: whether code of a change under review is built and measured.
    :param is_requested: whether a comment requested the job on the testbed.
    """
    found = choose_scope(settings, builds.profile_of(project), is_requested=is_requested)
    with builds.open_builds(project, is_under_review=is_under_review, log=console.warn) as product:
        if found.keys and product.isolation:
            options = {**found.settings.device_options, **product.isolation}
            Testbed(found.spec, device_options=options).check()
        yield found, product


def choose_scope(settings: Settings, profile: Profile, *, is_requested: bool = False) -> JobScope:
    """Choose the testbed and the tests.

    A command measures on this machine: no testbed is involved, unless a comment names one.

    :param is_requested: whether a comment requested the job on the testbed.
    :raises UsageError: if no test is selected, or too many are.
    :raises TestbedError: if neither the testbed nor its fallback can be used here.
    """
    if profile.measure is not None:
        spec = specification.load(settings.testbed, settings.testbeds)
        named = spec.name if is_requested else ""
        command = line(shlex.join(profile.measure.command))
        return JobScope(settings, spec, frozenset(), testbed=named, command=command)
    settings, spec, notices = usable_testbed(settings.for_builds)
    if profile.installs_by_ssh:
        try:
            Testbed(spec).ssh()
        except errors.SettingsError as error:
            raise errors.SettingsError(
                f"profile {profile.name} installs on the device of testbed {spec.name} by ssh: {error}"
            ) from None
    return JobScope(settings, spec, select_traces(settings, spec), tuple(notices), spec.name)


def job_name(job: str, settings: Settings, *, is_requested: bool = False) -> str:
    """Return Jenkins's name of a job, or one of the testbed, or of the profile if no testbed is involved.

    :param is_requested: whether a comment requested the job on the testbed.
    """
    involved = involved_testbed(settings, is_requested=is_requested) or settings.project.profile
    return os.environ.get("JOB_NAME") or f"perftrend-{job}-{involved}"


def involved_testbed(settings: Settings, *, is_requested: bool) -> str:
    """Return the testbed's name for readers, before it is chosen; empty if a command measures without one.

    :param is_requested: whether a comment requested the job on the testbed.
    """
    try:
        is_command = builds.profile_of(settings.project).measure is not None
    except errors.SettingsError:
        is_command = False  # the job reports that
    return "" if is_command and not is_requested else settings.testbed


def select_traces(settings: Settings, spec: Specification) -> frozenset[TraceKey]:
    """Return the traces that the suites measure on a testbed.

    :raises UsageError: if no test is selected, or too many are.
    """
    keys = selection.select(
        settings.suites or selection.SUITES,
        settings.expressions,
        testbed=spec.name,
        tags=selection.tags_of(spec, settings),
    )
    count, most = len(estimate.tests(keys)), settings.trigger.maximum_tests
    if count > most:
        raise errors.UsageError(
            f"{count} tests are selected, but at most {most} are allowed; select fewer by tags"
        )
    return keys


def how(settings: Settings, product: Builds) -> dict[str, str]:
    """Return the settings that influence values, except builds and tests; only equal ones are comparable."""
    return {
        "profile": f"{product.profile.name} {product.profile.hash}",
        "measuring": product.profile.model_dump_json(include={"install", "device_options", "measure"}),
        "device_options": str(sorted(settings.device_options.items())),
        "trial": settings.trial.model_dump_json(),
        "search": settings.search.model_dump_json(),
        "soak": settings.soak.model_dump_json(),
    }


def archive_of(settings: Settings, job: str) -> Path:
    """Return a job's folder in the archive."""
    return settings.archive / re.sub(r"^\.+|[^\w.-]+", "-", job)


def build_number(folder: Path, *, resume: bool, begun: int | None = None) -> int:
    """Return Jenkins's build number, or the next one that is not in the archive.

    :param folder: the job's folder in the archive.
    :param resume: whether to continue the newest build in the archive.
    :param begun: the number of this build in the archive, if it is known to have begun.
    :raises UsageError: if there is no build to resume.
    """
    given = os.environ.get("BUILD_NUMBER", "")
    if given.isdecimal():
        return int(given)
    if begun is not None:
        return begun
    newest = newest_build(folder)
    if resume and not newest:
        raise errors.UsageError(f"--resume: {folder} has no build to continue")
    return newest if resume else newest + 1


def newest_build(folder: Path) -> int:
    """Return the number of the newest build in a job's folder in the archive; 0 if there is none."""
    return max((int(entry.name) for entry in folder.glob("[0-9]*") if entry.name.isdecimal()), default=0)


def usable_testbed(settings: Settings) -> tuple[Settings, Specification, list[str]]:
    """Return the requested testbed, or, if it cannot be used here, its fallback.

    :returns: the settings with the name of that testbed, its file, and notices for readers.
    :raises TestbedError: if none can be used.
    """
    notices: list[str] = []
    tried: list[str] = []
    while True:
        spec = specification.load(settings.testbed, settings.testbeds)
        testbed = Testbed(spec, device_options=settings.device_options)
        testbed.check()
        reason = testbed.unusable()
        if not reason:
            return settings, spec, notices
        tried.append(spec.name)
        if not spec.fallback or spec.fallback in tried:
            raise errors.TestbedError(f"testbed {spec.name} cannot be used here: {reason}")
        notices.append(
            f"testbed {spec.name} cannot be used here ({reason}); measuring on {spec.fallback} instead"
        )
        console.warn(notices[-1])
        settings = settings.model_copy(update={"testbed": spec.fallback})
