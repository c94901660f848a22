"""Start the jobs that comments in Gerrit and the dashboard request, and reply to the comments."""

from __future__ import annotations

import argparse
import hashlib
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

from perftrend import console, errors
from perftrend.cli import options
from perftrend.clients import gerrit, jenkins
from perftrend.execution import permissions
from perftrend.execution.job_request import Grammar
from perftrend.execution.request_plans import plan_request
from perftrend.listener import health
from perftrend.listener.comment_poller import CommentPoller, EventReceiver, Wakes
from perftrend.listener.health import Metrics
from perftrend.listener.request_processor import RequestProcessor
from perftrend.listener.runner import JenkinsRunner, LocalRunner, Runner
from perftrend.listener.service import ListenerService
from perftrend.measure import lock
from perftrend.settings import FILE_VARIABLE, Settings
from perftrend.store import Store
from perftrend.store.connection import redact_password
from perftrend.store.requests import Requests

LOG = logging.getLogger("perftrend.listener")


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    described = options.Parser(
        "listener", __doc__, examples=["./run listener --settings team.yaml --runner local"]
    )
    add = described.add_argument
    add(
        "--runner",
        choices=["jenkins", "local"],
        help=f"where the jobs run: in Jenkins or on this machine {options.show_default('listener.runner')}",
    )
    add("--once", action="store_true", help="read the comments once, process them, and end")
    options.add_files(described, report=False)
    return described


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    with options.report_errors() as outcome:
        given = parser().parse_args(argv)
        outcome.exit_code = listen(given, lambda: outcome.is_ending)
    return outcome.exit_code


def listen(given: argparse.Namespace, is_ending: Callable[[], bool]) -> int:
    """Process requests: once, or until interrupted, which is a regular end."""
    overrides = {"store": given.store, "archive": given.archive, "listener.runner": given.runner}
    settings = Settings.load(given.settings, overrides=overrides)
    with console.show_log(settings.log_level):
        try:
            with open_service(given, settings) as service:
                service.once() if given.once else service.run(is_ending)
        except KeyboardInterrupt:
            if given.once:
                raise
        if not given.once:
            LOG.info("stopped; unfinished requests continue at the next start")
    return errors.EXIT_PASS


@contextmanager
def open_service(given: argparse.Namespace, settings: Settings) -> Iterator[ListenerService]:
    """Open everything that the service needs, and yield the service.

    :raises PerftrendError: if settings cannot be used, or the address is in use.
    """
    metrics, wakes, grammar = Metrics(), Wakes(), Grammar.of(settings)
    client = gerrit.connect(settings.gerrit) if settings.gerrit.url else None
    if client:
        permissions.require_groups(settings.gerrit.groups)
    runs_jobs = jenkins.connect(settings.jenkins) if settings.listener.runner == "jenkins" else None
    projects = settings.listener.projects
    with ExitStack() as stack:
        if not settings.store.startswith("postgresql"):
            # Before it is opened, which may upgrade a store that the other listener uses.
            stack.enter_context(_alone(settings.store))
        store = stack.enter_context(Store.open(settings.store))
        leadership = store.leadership("listener")
        if leadership:
            stack.callback(leadership.release)
            may_wait = runs_jobs and not given.once
            if not (may_wait or leadership.is_held()):
                raise _in_use(redact_password(settings.store))
        runner = (
            JenkinsRunner(runs_jobs, store.requests) if runs_jobs else _local(given, settings, store.requests)
        )
        stack.callback(runner.close)
        processor = RequestProcessor(
            client,
            store.requests,
            runner,
            grammar,
            settings.gerrit,
            partial(plan_request, settings, store.requests),
            metrics,
        )
        poller = watch = None
        if client:
            look_back = timedelta(seconds=settings.listener.lookback_s)
            poller = CommentPoller(
                client, store.requests, grammar, projects=projects, look_back=look_back, metrics=metrics
            )
            watch = None if given.once else EventReceiver(client.listen, wakes, projects=projects or None)
        service = ListenerService(
            processor, poller=poller, wakes=wakes, watch=watch, metrics=metrics,
            groups=settings.gerrit.groups, poll_s=settings.listener.poll_s, leadership=leadership,
        )  # fmt: skip
        if not given.once:
            address = stack.enter_context(
                health.serve(settings.listener.address, health=service.health, metrics=service.metrics)
            )
            # Print this before any message of the connection, which may fail at once.
            source = client.url if client else "requests of the dashboard only, since gerrit.url is not set"
            LOG.info("listening to %s; health at http://%s/healthz", source, address)
        if watch:
            watch.start()
            stack.callback(watch.stop)
        yield service


def _local(given: argparse.Namespace, settings: Settings, requests: Requests) -> Runner:
    return LocalRunner(requests, archive=settings.archive, settings=_environment(given, settings))


def _environment(given: argparse.Namespace, settings: Settings) -> Mapping[str, str]:
    """Return the environment variables that pass the options of this command line to a job."""
    file = given.settings or os.environ.get(FILE_VARIABLE)
    variables = {"PERFTREND_STORE": settings.store, "PERFTREND_ARCHIVE": str(settings.archive)}
    # This process may have the store from a file; a job would refuse both.
    variables["PERFTREND_STORE_FILE"] = ""
    return {**variables, **({FILE_VARIABLE: str(Path(file).absolute())} if file else {})}


@contextmanager
def _alone(store: str) -> Iterator[None]:
    """Ensure that no other process on this machine serves the requests of a store."""
    place = store if "://" in store else str(Path(store).absolute())
    name = f"listener-{hashlib.sha256(place.encode()).hexdigest()[:16]}"
    with ExitStack() as stack:
        try:
            stack.enter_context(lock.hold(name, owner="a listener"))
        except errors.TestbedError:
            raise _in_use(Path(store).name) from None
        yield


def _in_use(store: str) -> errors.UsageError:
    return errors.UsageError(f"store {store}: another listener uses it; stop that one first")


if __name__ == "__main__":
    sys.exit(main())
