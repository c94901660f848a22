"""Run the performance suites on a testbed, archive the results, and judge them."""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from perftrend import archive, console, errors, watchlist
from perftrend.cli import options
from perftrend.clients import build_events
from perftrend.execution import admission, request_validation, robot, scope, selection
from perftrend.execution.job_request import read_request
from perftrend.measure.embedded.drivers import embedded_version
from perftrend.measure.specification import Specification
from perftrend.model import REFERENCE, Run
from perftrend.report.mails import delivery
from perftrend.report.run_judgement import judge_run
from perftrend.settings import FILE_VARIABLE, Settings
from perftrend.store import Store
from perftrend.text import format_count
from perftrend.trigger import Trigger

_LONGEST_EXPERIMENT = 200
"""Maximum length of a name in characters; a longer one is cut and a hash is appended."""


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    described = options.Parser(
        "trending",
        __doc__,
        examples=[
            "./run trending",
            "./run trending --testbed 2n-clx --tags mrrAND64b --repeat 8",
        ],
    )
    add = options.add_tests(described).add_argument
    add(
        "--cadence",
        metavar="NAME",
        help=f"which tests to run without --tags: nightly or weekly {options.show_default('cadence')}",
    )
    add(
        "--repeat",
        metavar="N",
        type=options.count,
        default=1,
        help="number of runs, one after the other (default: 1)",
    )
    add("--official", action="store_true", default=None, help="count as a nightly run despite other options")
    add(
        "--reference",
        action="store_true",
        default=None,
        help="the testbed's reference build is measured, which never changes",
    )
    options.add_testbed(described)
    options.add_trials(described)
    add = options.add_analysis(described).add_argument
    add("--no-analysis", action="store_true", help="end when the results are in the store")
    options.add_files(described)
    return described


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    with options.report_errors() as outcome:
        given = parser().parse_args(argv)
        outcome.exit_code = trend(given)
    return outcome.exit_code


def trend(given: argparse.Namespace) -> int:
    """Measure, store and judge the requested number of runs."""
    if given.repeat > 1 and os.environ.get("BUILD_NUMBER"):
        raise errors.UsageError(
            "--repeat: BUILD_NUMBER gives one number for one run; start more builds instead"
        )
    given_by_hand = {name: value for name, value in _overrides(given).items() if value is not None}
    settings = options.settings(given, given_by_hand)
    job_request = read_request(os.environ, "trending", settings)
    if job_request is None:
        with delivery.report_failure(settings):
            return _trend(given, settings)
    settings = options.settings(given, {**job_request.overrides, **given_by_hand})
    with delivery.report_failure(settings):
        planned = request_validation.plan_of(job_request.trigger, settings, suites=selection.SUITES)
        with admission.admitted(job_request, settings, lambda _: planned):
            if job_request.is_dry_run:
                return _print_plan(planned, job_request.trigger)
            return _trend(given, settings)


def _print_plan(planned: request_validation.RequestPlan, trigger: Trigger) -> int:
    """Print what would be measured, and how long that would take."""
    for name in planned.names:
        print(name)
    console.print_verdict(f"{trigger} would measure {planned}")
    return errors.EXIT_PASS


def _trend(given: argparse.Namespace, settings: Settings) -> int:
    settings, spec, notices = scope.usable_testbed(settings)
    experiment = "" if settings.official else describe_differences(settings, spec, file=given.settings)
    if settings.reference:
        experiment = f"{REFERENCE} {experiment}".strip()
    if experiment not in {"", REFERENCE}:
        notices.append(f"this is an experiment ({experiment}); nightly trends do not include it")
        console.warn(f"{notices[-1]}; --official includes it")
    selected = selection.select(
        settings.suites or selection.SUITES,
        settings.expressions,
        testbed=spec.name,
        tags=selection.tags_of(spec, settings),
    )
    expected = {key.of_experiment(experiment) for key in selected}
    if settings.analysis.specification and not given.no_analysis:
        watchlist.load(settings.analysis.specification)  # raises errors before anything is measured
    with Store.open(settings.store) as store:
        for _ in range(given.repeat):
            ingested = measure(settings, spec, store, experiment=experiment, expected=len(expected))
            expected -= ingested.unsupported
        if given.no_analysis:
            found = {result.key for result in ingested.results if result.usable}
            console.print_verdict(
                f"{ingested.run.name}: {len(expected & found)} of {len(expected)} results measured"
            )
            return errors.EXIT_PASS if expected <= found else errors.EXIT_TESTBED
        return judge_run(
            settings, store, ingested.run, expected=expected, new_runs=given.repeat, notices=notices
        )


def _overrides(given: argparse.Namespace) -> Mapping[str, object]:
    return {
        "cadence": given.cadence,
        "official": given.official,
        "reference": given.reference,
        **options.of_suites(given),
    }


def measure(
    settings: Settings, spec: Specification, store: Store, *, experiment: str, expected: int
) -> archive.OutputIngestion:
    """Execute one run on a testbed and put it into the store.

    :param experiment: how it differs from the nightly runs; empty if it does not.
    :param expected: the number of expected results, which is printed.
    :returns: the run with its results.
    """
    usual = f"trending-{settings.cadence}"
    if experiment:
        usual = REFERENCE if experiment == REFERENCE else "experiment"
    job = os.environ.get("JOB_NAME") or f"perftrend-{usual}-{spec.name}"
    folder = settings.archive / re.sub(r"^\.+|[^\w.-]+", "-", job)
    with robot.hold_testbed(spec, owner=job, wait_s=settings.wait_s) as held:
        for earlier in archive.store_pending(store, folder, report=console.warn):
            console.warn(f"run {earlier.run.name} was archived, but not stored until now")
        now = datetime.now(UTC)
        run = Run(
            testbed=spec.name,
            job=job,
            build=_build(store, job, folder),
            started=now,
            finished=now,
            archive=os.environ.get("BUILD_URL", ""),
            simulated=spec.simulated,
            experiment=experiment,
        )
        print(f"{job} #{run.build}: {format_count(expected, 'result')} on {spec.name}", flush=True)
        in_time = robot.execute(
            settings,
            run,
            suites=settings.suites or selection.SUITES,
            folder=folder,
            tags=selection.tags_of(spec, settings),
            held=held,
        )
        if not in_time:
            console.warn(
                f"the suites were ended after {settings.timeout_s:g} s; see {folder / str(run.build)}"
            )
        stored = list(archive.store_pending(store, folder, report=console.warn))
    own = (each for each in stored if each.run.build == run.build)
    ingested = next(own, None) or _stored_by_other(store, run)
    if ingested is None:
        raise errors.TestbedError(f"run {run.name} gave no results; see {folder / str(run.build)}")
    announce(settings, ingested.run)
    return ingested


def _stored_by_other(store: Store, run: Run) -> archive.OutputIngestion | None:
    """Return a run that another job of the same name has stored meanwhile; None if there is none."""
    found = store.run(run.job, run.build, started=run.started)
    return archive.OutputIngestion(found, tuple(store.results(found)), added=False) if found else None


def _build(store: Store, job: str, folder: Path) -> int:
    """Return Jenkins's build number, or the next one that is neither in the store nor in the archive.

    A testbed may have capacity for several jobs; two that start at the same time get different numbers.
    """
    given = os.environ.get("BUILD_NUMBER", "")
    if given.isdecimal():
        return int(given)
    archived = [int(entry.name) for entry in folder.glob("[0-9]*") if entry.name.isdecimal()]
    return store.allocate_build_number(job, above=max(archived, default=0))


def describe_differences(settings: Settings, spec: Specification, *, file: str | None) -> str:
    """Return how a run differs from those that the settings file describes, such as ``acl_rules=60``.

    Options and environment variables that change how tests are measured count, and so does a checkout with
    local changes if its own router is the device. An empty text means that the run is like the nightly ones.

    :param settings: those of the run.
    :param file: the settings file that the command line names; None: that of the environment.
    """
    environment = {name: value for name, value in os.environ.items() if name == FILE_VARIABLE}
    usual, chosen = _measurement_settings(Settings.load(file, environment)), _measurement_settings(settings)
    names = sorted(name for name in usual | chosen if usual.get(name) != chosen.get(name))
    differences = [f"{name}={chosen[name]}" if name in chosen else f"without {name}" for name in names]
    if spec.device.driver == "embedded" and embedded_version().endswith("-dirty"):
        differences.append(f"device={embedded_version()}")
    label = " ".join(differences)
    if len(label) <= _LONGEST_EXPERIMENT:
        return label
    return f"{label[:_LONGEST_EXPERIMENT]}… {hashlib.sha256(label.encode()).hexdigest()[:8]}"


def _measurement_settings(settings: Settings) -> dict[str, object]:
    """Return the settings that change how tests are measured, by the names that users know."""
    sections = {name: getattr(settings, name).model_dump() for name in ("trial", "search", "soak")}
    of_sections = {
        f"{section}.{name}": "+".join(map(str, value)) if isinstance(value, tuple) else value
        for section, values in sections.items()
        for name, value in values.items()
        if value is not None
    }
    return of_sections | settings.device_options


def announce(settings: Settings, run: Run) -> None:
    """Notify the dashboard; print a warning if that fails."""
    url, secret = settings.dashboard.url, settings.dashboard.ingest_secret
    if not url or secret is None:
        return
    try:
        build_events.notify(url, secret, run.job, run.build)
    except errors.ServiceError as error:
        console.warn(f"the dashboard was not notified of run {run.name}: {error}")


if __name__ == "__main__":
    sys.exit(main())
