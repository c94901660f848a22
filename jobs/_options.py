"""Options that several jobs share, and how they become settings."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from typing_extensions import override

from perftrend import errors
from perftrend.analysis import Method
from perftrend.broken_pipe import discard_unread_output
from perftrend.errors import EXIT_USAGE, UsageError
from perftrend.settings import Settings

SUITES = Path(__file__).resolve().parent.parent / "tests" / "suites"
"""The suites of the checkout."""

_REPEAT_AFTER_S = 0.05
"""The finalizer has ended by then; if another one runs, the interruption is repeated once more."""


class Parser(argparse.ArgumentParser):
    """A command line that refuses as everything else does: in one line that begins with ``perftrend:``."""

    @override
    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"perftrend: {message}; see {self.prog} --help\n")


@contextmanager
def reported() -> Iterator[errors.Outcome]:
    """Report errors as :func:`perftrend.errors.reported` does, and go on if nobody reads the output.

    The first SIGTERM ends the job as Ctrl-C does, so that it can say what it knows. Further ones are ignored:
    a build that is aborted may get one for each of its processes, and the second would end what is said last.

    Used once, around the whole of a job's ``main``.
    """
    is_ending = False

    def end(*_: object) -> None:
        nonlocal is_ending
        if not is_ending:
            is_ending = True
            raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    with repeated_interruptions(), discard_unread_output(), errors.reported() as outcome:
        yield outcome


@contextmanager
def repeated_interruptions() -> Iterator[None]:
    """Interrupt the job again if Python drops an interruption.

    It drops every exception of finalizers and of callbacks of weak references, such as those of SQLAlchemy.
    If the signal came then, the job would go on.
    """
    handler = signal.signal(signal.SIGALRM, _interrupt)
    hook, sys.unraisablehook = sys.unraisablehook, _handle_dropped
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        sys.unraisablehook = hook


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _handle_dropped(dropped: sys.UnraisableHookArgs) -> None:
    if issubclass(dropped.exc_type, KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, _REPEAT_AFTER_S)
    else:
        sys.__unraisablehook__(dropped)


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add what every job on a testbed takes."""
    parser.add_argument("--settings", metavar="FILE", help="YAML file with the settings")
    parser.add_argument("--testbed", metavar="NAME", help="which testbed; by default 1n-veth")
    parser.add_argument(
        "--store", metavar="PATH", help="where results are kept: an SQLite file, or a database URL"
    )


def add_analysis(parser: argparse.ArgumentParser) -> None:
    """Add what chooses how runs are judged."""
    parser.add_argument("--report", metavar="DIR", help="folder that receives the report")
    parser.add_argument("--method", choices=[method.value for method in Method], help="how changes are found")
    parser.add_argument("--window", metavar="N", type=count, help="runs that the moving statistics look back")
    parser.add_argument(
        "--regression", choices=["fail", "unstable"], help="what a regression makes of the job"
    )


def add_suites(parser: argparse.ArgumentParser) -> None:
    """Add what chooses tests, how they measure, and where the files go."""
    add = parser.add_argument
    add("--testbeds", metavar="DIR", help="folder of a team's own testbed files")
    add("--suites", metavar="PATH", help="the Robot suites, a file or a folder")
    add(
        "--tags",
        metavar="EXPRESSION",
        action="append",
        help="tag expression that chooses tests; may be repeated",
    )
    add(
        "--device-option", metavar="KEY=VALUE", action="append", help="option for the device; may be repeated"
    )
    add("--trial-duration", metavar="SECONDS", type=float, help="duration of an MRR trial")
    add("--trial-multiplicity", metavar="N", type=int, help="trials of an MRR test")
    add("--final-trial-duration", metavar="SECONDS", type=float, help="duration of a search's last trials")
    add("--search", choices=["predictive", "mdr", "binary"], help="how NDR and PDR are searched")
    add("--archive", metavar="DIR", help="folder that receives the files of each build")
    add("--wait", metavar="SECONDS", type=float, help="how long to wait for a testbed that is in use")
    add("--timeout", metavar="SECONDS", type=float, help="the suites of one run are ended after this time")


def of_suites(given: argparse.Namespace) -> dict[str, object]:
    """Return the settings of :func:`add_suites`, by full name."""
    return {
        "testbeds": given.testbeds,
        "suites": given.suites,
        "tags": given.tags,
        "device_options": pairs("--device-option", given.device_option),
        "trial.duration_s": given.trial_duration,
        "trial.multiplicity": given.trial_multiplicity,
        "search.final_duration_s": given.final_trial_duration,
        "search.strategy": given.search,
        "archive": given.archive,
        "wait_s": given.wait,
        "timeout_s": given.timeout,
    }


def add_product(parser: argparse.ArgumentParser) -> None:
    """Add what says how the product under test is built, and where the report goes."""
    parser.add_argument("--profile", metavar="NAME", help="how the product is built")
    parser.add_argument("--repository", metavar="URL", help="where the product's commits are fetched from")
    parser.add_argument("--report", metavar="DIR", help="folder that receives the report")


def of_product(given: argparse.Namespace) -> dict[str, object]:
    """Return the settings of :func:`add_product`, by full name."""
    return {
        "project.profile": given.profile,
        "project.repository": given.repository,
        "report": given.report,
    }


def settings(given: argparse.Namespace, overrides: Mapping[str, object]) -> Settings:
    """Return the settings, with the command line above everything else."""
    shared = {
        "testbed": given.testbed,
        "store": given.store,
        "report": given.report,
        "analysis.method": given.method,
        "analysis.window": given.window,
        "analysis.regression": given.regression,
    }
    return Settings.load(given.settings, overrides={**shared, **overrides})


def count(text: str) -> int:
    """Read a whole number from 1 on."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not from 1 on")
    return number


def pairs(option: str, words: Sequence[str] | None) -> dict[str, str] | None:
    """Read ``KEY=VALUE`` words. :raises UsageError: for a word that is none."""
    if words is None:
        return None
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not (key and equals and value):
            raise UsageError(f"{option} {word!r}: write KEY=VALUE, such as acl_rules=60")
        found[key] = value
    return found


def say_verdict(verdict: str) -> None:
    """Print the line that Jenkins takes for the description of the build."""
    say(f"perftrend verdict: {verdict}")


def say(text: str) -> None:
    """Print a text; what the encoding cannot express becomes a question mark."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding), flush=True)


def warn(message: str) -> None:
    """Tell the person who started the job, beside what the job prints."""
    print(f"perftrend: {message}", file=sys.stderr, flush=True)
