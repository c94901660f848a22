"""Run the performance suites on a testbed, archive the results, and judge them."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from jobs import _announcing, analysis
from jobs import _comment as comment
from jobs import _experiment as experiments
from jobs import _mails as mails
from jobs import _options as options
from perftrend import archive, errors, watchlist
from perftrend.keywords import execution, selection
from perftrend.listener import checks
from perftrend.measure import lock, specification
from perftrend.measure.specification import Specification
from perftrend.measure.testbed import Testbed
from perftrend.model import Run
from perftrend.settings import Settings
from perftrend.store import Store
from perftrend.trigger import Trigger


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
    options.add_testbed(described)
    options.add_trials(described)
    add = options.add_analysis(described).add_argument
    add("--no-analysis", action="store_true", help="end when the results are in the store")
    options.add_files(described)
    return described


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    with options.reported() as outcome:
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
    asked = comment.asked(os.environ, "trending", settings)
    if asked is None:
        with mails.failure_told(settings):
            return _trend(given, settings)
    settings = options.settings(given, {**asked.overrides, **given_by_hand})
    with mails.failure_told(settings):
        planned = checks.plan_of(asked.trigger, settings, suites=options.SUITES)
        if asked.is_dry_run:
            return _tell(planned, asked.trigger)
        return _trend(given, settings)


def _tell(planned: checks.Plan, trigger: Trigger) -> int:
    """Print what would be measured, and how long that would take."""
    for name in planned.names:
        print(name)
    options.say_verdict(f"{trigger} would measure {planned}")
    return errors.EXIT_PASS


def _trend(given: argparse.Namespace, settings: Settings) -> int:
    settings, spec, notices = usable_testbed(settings)
    experiment = "" if settings.official else experiments.named(settings, spec, file=given.settings)
    if experiment:
        notices.append(f"this is an experiment ({experiment}); nightly trends do not include it")
        options.warn(f"{notices[-1]}; --official includes it")
    selected = selection.select(
        settings.suites or options.SUITES,
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
        if given.no_analysis:
            found = {result.key for result in ingested.results if result.usable}
            options.say_verdict(
                f"{ingested.run.name}: {len(expected & found)} of {len(expected)} results measured"
            )
            return errors.EXIT_PASS if expected <= found else errors.EXIT_TESTBED
        return analysis.judge(
            settings, store, ingested.run, expected=expected, new_runs=given.repeat, notices=notices
        )


def _overrides(given: argparse.Namespace) -> Mapping[str, object]:
    return {"cadence": given.cadence, "official": given.official, **options.of_suites(given)}


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
        options.warn(notices[-1])
        settings = settings.model_copy(update={"testbed": spec.fallback})


def measure(
    settings: Settings, spec: Specification, store: Store, *, experiment: str, expected: int
) -> archive.Ingested:
    """Execute one run on a testbed and put it into the store.

    :param experiment: how it differs from the nightly runs; empty if it does not.
    :param expected: the number of expected results, which is printed.
    :returns: the run with its results.
    """
    usual = "experiment" if experiment else f"trending-{settings.cadence}"
    job = os.environ.get("JOB_NAME") or f"perftrend-{usual}-{spec.name}"
    folder = settings.archive / re.sub(r"^\.+|[^\w.-]+", "-", job)
    with lock.held(
        spec.lock, capacity=spec.places, wait_s=settings.wait_s, owner=job, say=options.warn
    ) as place:
        for earlier in archive.store_pending(store, folder, say=options.warn):
            options.warn(f"run {earlier.run.name} was archived, but not stored until now")
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
        print(f"{job} #{run.build}: {expected} results on {spec.name}", flush=True)
        in_time = execution.execute(
            settings,
            run,
            suites=settings.suites or options.SUITES,
            folder=folder,
            tags=selection.tags_of(spec, settings),
            held=execution.Held(spec.lock, place),
        )
        if not in_time:
            options.warn(
                f"the suites were ended after {settings.timeout_s:g} s; see {folder / str(run.build)}"
            )
        stored = list(archive.store_pending(store, folder, say=options.warn))
    if not stored:
        raise errors.TestbedError(f"run {run.name} gave no results; see {folder / str(run.build)}")
    _announcing.announce(settings, stored[-1].run)
    return stored[-1]


def _build(store: Store, job: str, folder: Path) -> int:
    """Return Jenkins's build number, or the next one that is neither in the store nor in the archive.

    A testbed may have capacity for several jobs; two that start at the same time get different numbers.
    """
    given = os.environ.get("BUILD_NUMBER", "")
    if given.isdecimal():
        return int(given)
    archived = [int(entry.name) for entry in folder.glob("[0-9]*") if entry.name.isdecimal()]
    return store.take_build_number(job, above=max(archived, default=0))


if __name__ == "__main__":
    sys.exit(main())
