"""Keywords that open a testbed, start its device, choose the traffic and measure, and their progress.

Each keyword that measures sets the test's message to its result. If a search times out, its test fails with
the message of the error. The measurements up to then are added when the test ends: Robot Framework would
shorten an exception with such a long text.

Progress and results are shown as text, not as JSON. On a terminal a search has one line, which changes with
each trial; in a log it has one more line a minute. The trials are a table in Robot Framework's log.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, TextIO, cast

from robot import result, running
from robot.api import SkipExecution, logger
from robot.api.deco import keyword, library
from robot.libraries.BuiltIn import BuiltIn
from typing_extensions import override

import perftrend
from perftrend import message
from perftrend.archive.result_records import ENVIRONMENT
from perftrend.console import ProgressLine
from perftrend.errors import ArchiveError, SearchTimeoutError, TestbedError
from perftrend.execution.robot import TERMINAL
from perftrend.measure import lock, search, specification
from perftrend.measure.procedure import Procedure
from perftrend.measure.specification import RECONF_S, HoldPlan, MrrPlan, ReconfPlan, SearchPlan, SoakPlan
from perftrend.measure.testbed import Testbed
from perftrend.measurement import GeneratorHealth, Interval, Measurement, Trial
from perftrend.model import NOT_SUPPORTED
from perftrend.settings import Settings
from perftrend.text import NOTHING, align, format_count

_MEGA = 1e6


@library(scope="GLOBAL", version=perftrend.__version__)
class TestbedKeywords:
    """Opens the testbed that the settings name, and starts devices and traffic on it."""

    # pytest would otherwise collect a class of this name as tests.
    __test__ = False

    def __init__(self) -> None:
        self.settings = Settings()
        self._open = contextlib.ExitStack()
        self._testbed: Testbed | None = None

    @property
    def testbed(self) -> Testbed:
        """The testbed that is open. :raises TestbedError: if no testbed is open."""
        if self._testbed is None:
            raise TestbedError("no testbed is open; add Open Testbed to the suite's set-up")
        return self._testbed

    @keyword
    def open_testbed(self) -> None:
        """Open the testbed of the settings exclusively: a second job waits until this one has closed it."""
        settings = self.settings = Settings.load()
        spec = specification.load(settings.testbed, settings.testbeds)
        owner = f"a Robot Framework run on {platform.node()}"
        with contextlib.ExitStack() as opening:
            place = opening.enter_context(
                lock.hold(
                    spec.lock,
                    capacity=spec.places,
                    wait_s=settings.wait_s,
                    owner=owner,
                    report=logger.console,
                )
            )
            self._testbed = opening.enter_context(
                Testbed(
                    spec,
                    attempts=settings.trial.attempts,
                    device_options=settings.device_options,
                    instance=place.instance,
                    owner=owner,
                    wait_s=settings.wait_s,
                    token=place.token,
                )
            )
            self._note_environment(self._testbed)
            self._open = opening.pop_all()

    def _note_environment(self, testbed: Testbed) -> None:
        """Set the metadata of the run: what the machines have besides the versions."""
        try:
            found = testbed.read_environment()
        except TestbedError as error:
            logger.warn(f"the environment of the run is not known: {error}")
            return
        if found:
            BuiltIn().set_suite_metadata(ENVIRONMENT, json.dumps(found), top=True)

    @keyword
    def close_testbed(self) -> None:
        """Remove the whole set-up; without an open testbed nothing happens."""
        self._testbed = None
        self._open.close()

    @keyword
    def start_device(self, frame: str = "64B", **options: str) -> None:
        """Start the device afresh with the options given, such as ``acl_rules=20``.

        It is set up for frames of up to 1518 bytes, or longer ones if you name them, such as ``9000B``.
        A test that the device cannot run is skipped.
        """
        skip(self.testbed.lacks(options, frame))
        self.testbed.start_device(options, frame)

    @keyword
    def stop_device(self) -> None:
        """Stop the device."""
        self.testbed.device.stop()

    @keyword
    def start_traffic(self, frame: str) -> None:
        """Choose the frame size and determine the highest rate for it.

        A length such as ``64B``, ``IMIX``, or a pattern such as ``64x7+570x4+1518x1``. A test with
        frames that the generator cannot send is skipped.
        """
        skip(self.testbed.lacks_traffic(frame))
        self.testbed.use(frame)
        logger.info(f"highest rate {self.testbed.maximum_pps:.0f} pps, link {self.testbed.link_pps:.0f} pps")


def skip(reason: str) -> None:
    """Skip the test if there is a reason why the testbed cannot run it."""
    if reason:
        raise SkipExecution(f"{NOT_SUPPORTED}{reason}")


@library(scope="GLOBAL", version=perftrend.__version__, listener="SELF")
class MeasuringKeywords:
    """Measures rates and losses on the open testbed, with the parameters of the settings and its file."""

    def __init__(self) -> None:
        self._unfinished: Measurement | None = None

    @keyword(name="Measure MRR")
    def measure_mrr(self) -> None:
        """Send at the highest rate, regardless of loss, in several trials over several device starts."""
        self._set_test_message(self._procedure().mrr(self._mrr_plan()))

    @keyword(name="Find NDR And PDR")
    def find_ndr_and_pdr(self) -> None:
        """Search for the highest rates without loss (NDR) and with little loss (PDR).

        The setting ``search.strategy`` selects the algorithm, and ``search.loss_ratios`` adds further PDRs.
        An MDR search shows its progress on a terminal, and in a log once a minute.
        """
        with self._searching() as progress:
            found = self._procedure().ndr_and_pdr(self._search_plan(), on_step=progress.show_step)
        self._set_test_message(found)

    @keyword
    def find_rate_by_binary_search(self, metric: Literal["ndr", "pdr"] = "ndr") -> None:
        """Search for one rate, ``ndr`` or ``pdr``, by plain bisection within bounds from the MRR."""
        self._set_test_message(self._procedure().binary(metric, self._search_plan()))

    @keyword
    def soak(self) -> None:
        """Estimate the critical load, the rate at which next to nothing is lost on average.

        Takes half an hour, or the time of the setting ``soak.total_duration_s``. Shows its progress like
        the search.
        """
        with SearchProgress() as progress:
            found = self._procedure().soak(self._soak_plan(), on_step=progress.show_step)
        self._set_test_message(found)

    @keyword
    def hold_rate(self, rate_pps: float, duration_s: float, slices: int = 10) -> None:
        """Offer one rate for a long time, in slices, and report the average loss.

        ``rate_pps`` counts all directions together; ``duration_s`` is that of all slices together.
        Shows its progress like the search.
        """
        plan = HoldPlan(rate_pps=rate_pps, duration_s=duration_s, slices=slices)
        with SearchProgress() as progress:
            found = self._procedure().hold(plan, on_step=progress.show_step)
        self._set_test_message(found)

    @keyword
    def measure_reconfiguration(
        self, rate_pps: float = 0.0, duration_s: float = RECONF_S, **changes: str
    ) -> None:
        """Change options of the device while traffic runs, and report the lost frames.

        ``routes=10000`` adds routes until the device has 10,000. ``rate_pps`` counts both directions
        together; by default, NDR is searched first, and the rate is 90 % of it. A trial of the same duration
        without reconfiguration comes first. The test is skipped if the device cannot change an option while
        it runs.
        """
        skip(self._testbed().testbed.lacks_change(changes))
        plan = ReconfPlan(changes, self._search_plan(), rate_pps, duration_s)
        with self._searching() as progress:
            found = self._procedure().reconf(plan, on_step=progress.show_step)
        self._set_test_message(found)

    @contextlib.contextmanager
    def _searching(self) -> Iterator[SearchProgress]:
        """Show the progress of a search; if it times out, retain its measurements for the end of the test."""
        try:
            with SearchProgress() as progress:
                yield progress
        except SearchTimeoutError as error:
            if isinstance(error.result, Measurement):
                self._unfinished = error.result
                logger.info(format_trials(error.result.trials))
            raise

    def _end_test(self, data: running.TestCase, result: result.TestCase) -> None:
        """Add the measurements of an unfinished search; called by Robot Framework."""
        del data
        if self._unfinished is not None:
            result.message = f"{result.message}\n{message.line(self._unfinished)}"
            self._unfinished = None

    def _testbed(self) -> TestbedKeywords:
        found = BuiltIn().get_library_instance("perftrend.keywords.measurement.TestbedKeywords")
        return cast(TestbedKeywords, found)

    def _procedure(self) -> Procedure:
        output = Path(BuiltIn().get_variable_value("${OUTPUT DIR}"))
        variable = BuiltIn().get_variable_value
        name = re.sub(r"[^\w.-]+", "_", f"{variable('${SUITE NAME}')}.{variable('${TEST NAME}')}")
        return Procedure(self._testbed().testbed, output / "counters" / f"{name}.json", output)

    def _mrr_plan(self) -> MrrPlan:
        opened = self._testbed()
        return MrrPlan.complete(opened.settings.trial, opened.testbed.spec.mrr)

    def _search_plan(self) -> SearchPlan:
        opened = self._testbed()
        return SearchPlan.complete(opened.settings.search, opened.testbed.spec.search)

    def _soak_plan(self) -> SoakPlan:
        soak = self._testbed().settings.soak
        return SoakPlan(**soak.model_dump(), minimum_pps=self._search_plan().minimum_pps)

    def _set_test_message(self, measurement: Measurement) -> None:
        logger.info(format_trials(measurement.trials))
        BuiltIn().set_test_message(message.render(measurement))


class SuiteProgress:
    """Writes to standard output as tests end; see the option ``--listener`` of Robot Framework."""

    ROBOT_LISTENER_API_VERSION = 3

    def __init__(self) -> None:
        self._not_supported: Counter[str] = Counter()

    def end_test(self, data: running.TestCase, result: result.TestCase) -> None:
        """Print the result of a test; tests that the testbed cannot run are counted."""
        del data
        if result.skipped and result.message.startswith(NOT_SUPPORTED):
            self._not_supported[result.message] += 1
            return
        seconds = result.elapsed_time.total_seconds()
        _output().write(f"  {result.name:<40} {_format_result(result)}  ({seconds:.0f} s)\n")
        _output().flush()

    def end_suite(self, data: running.TestSuite, result: result.TestSuite) -> None:
        """Print why a suite's set-up or tear-down failed: its tests do not show it."""
        del data
        if (result.setup and result.setup.failed) or (result.teardown and result.teardown.failed):
            _output().write(f"  {result.name}: {result.message}\n")

    def close(self) -> None:
        """Print the reasons of the tests that the testbed cannot run, each once, at the end of the run."""
        for reason, count in self._not_supported.items():
            _output().write(f"  {format_count(count, 'test')} {reason}\n")
        _output().flush()


class SearchProgress(ProgressLine):
    """Shows the progress of a search, from entering to leaving; use it as ``on_step`` of the search."""

    def __init__(self) -> None:
        self._of_job = _terminal_of_job()
        super().__init__(_output(), terminal=self._of_job)

    @override
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, traceback)
        if self._of_job is not None:
            self._of_job.close()

    def show_step(self, step: search.TrialProgress) -> None:
        """Show the progress after a trial."""
        self.show(_format_progress(step))


def format_trials(trials: Sequence[Trial]) -> str:
    """Return a table of trials, with a dash for what a generator does not know."""
    heading = (
        "Mpps", "s", "reached", "sent", "lost", "unsent", "load", "core", "queue full", "not valid",
    )  # fmt: skip
    return "\n".join(align([heading, *map(_row_of_trial, trials)], left=0))


def _row_of_trial(trial: Trial) -> tuple[str, ...]:
    health = trial.generator_health or GeneratorHealth()
    # Of a trial that was ended early, the rate may be unknown.
    reached = trial.sent / trial.sending_s / trial.rate_pps if trial.sending_s and trial.rate_pps else None
    return (
        f"{trial.rate_pps / _MEGA:.4f}",
        f"{trial.duration_s:.4g}",
        _known(reached, ".2%"),
        f"{trial.sent:,}",
        f"{trial.sent - trial.received:,}",
        _known(trial.unsent, ",d"),
        _known(health.load, ".0%"),
        _known(health.core_share, ".0%"),
        _known(health.queue_full, ",d"),
        trial.invalid,
    )


def _known(number: float | None, form: str) -> str:
    return NOTHING if number is None else f"{number:{form}}"


def _terminal_of_job() -> TextIO | None:
    """Return the terminal of the job that started this process; None if standard output suffices."""
    name = os.environ.get(TERMINAL)
    if not name or _output().isatty():
        return None
    try:
        # It belongs to the job, and must not become the terminal that controls this process.
        descriptor = os.open(name, os.O_WRONLY | os.O_NOCTTY)
    except OSError:
        return None
    return os.fdopen(descriptor, "w", encoding="utf-8")


def _output() -> TextIO:
    """Return the real standard output: Robot Framework captures ``sys.stdout`` while tests run."""
    return sys.__stdout__ or sys.stdout


def _format_progress(step: search.TrialProgress) -> str:
    """Return one line: ``  ~62 s left, final: NDR 11.9800 to 12.0400, PDR … Mpps``."""
    known = zip(step.loss_ratios, step.intervals, strict=False)
    is_one_pdr = sum(map(bool, step.loss_ratios)) <= 1
    bounds = ", ".join(
        f"{_rate(ratio, is_one_pdr=is_one_pdr)} {_bounds(interval)}" for ratio, interval in known
    )
    return f"  ~{step.seconds_left:.0f} s left, {step.phase}" + (f": {bounds} Mpps" if bounds else "")


def _rate(loss_ratio: float, *, is_one_pdr: bool) -> str:
    if not loss_ratio:
        return "NDR"
    return "PDR" if is_one_pdr else f"PDR {100 * loss_ratio:g} %"


def _bounds(interval: Interval) -> str:
    return f"{interval.lower / _MEGA:.4f} to {interval.upper / _MEGA:.4f}"


def _format_result(test: result.TestCase) -> str:
    if not test.passed:
        ended = "SKIPPED" if test.skipped else "FAILED"
        return f"{ended}: {test.message.splitlines()[0] if test.message else 'no reason given'}"
    try:
        measured = message.parse(test.message)
    except ArchiveError as error:
        return str(error)
    if measured is None:
        return "passed"
    averages = {name: sum(samples) / len(samples) for name, samples in measured.rates.items()}
    text = ", ".join(f"{name.upper()} {rate / _MEGA:.4f} Mpps" for name, rate in averages.items())
    if found := measured.reconfiguration:
        text = f"lost {found.lost} packets, {found.lost_s:.6g} s, at {found.rate_pps / _MEGA:.4f} Mpps"
    doubt = f"NOT VALID: {measured.invalid}" if measured.invalid else ""
    return ", ".join(filter(None, [text, doubt]))
