"""Options that several jobs share, and how they become settings."""

from __future__ import annotations

import argparse
import ctypes
import re
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NoReturn, TypeAlias

from typing_extensions import override

from perftrend import COMMAND, errors
from perftrend.analysis import Method
from perftrend.console import discard_unread_output
from perftrend.errors import EXIT_USAGE, UsageError
from perftrend.model import Better
from perftrend.settings import Settings

Group: TypeAlias = argparse._ArgumentGroup
"""A group of options in a parser; argparse has no public name for its class."""

_PROGRAM = "command"
"""The profile of a program that prints numbers."""
_FOR_SHELL = re.compile(r"[|&;<>()$`*?\[~#\n]")
_ASSIGNMENT = re.compile(r"\s*[A-Za-z_][A-Za-z0-9_]*=")
_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4
_REPEAT_AFTER_S = 0.05
"""The finalizer has usually ended by then; if another one runs, the interruption is repeated again."""


class Parser(argparse.ArgumentParser):
    """A command-line parser that prints errors as all jobs do: in one line that begins with ``perftrend:``.

    :param job: its name on the command line.
    :param notes: text after the options.
    :param examples: commands that begin with ``./run``, at the very end.
    """

    def __init__(
        self,
        job: str,
        description: str | None,
        *,
        examples: Sequence[str],
        notes: str = "",
        usage: str | None = None,
    ) -> None:
        shown = "\n".join(
            ["examples:" if len(examples) > 1 else "example:", *(f"  {each}" for each in examples)]
        ).replace("./run", COMMAND)
        super().__init__(
            prog=f"{COMMAND} {job}",
            usage=usage,
            description=description,
            epilog=f"{notes}\n\n{shown}" if notes else shown,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    @override
    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"perftrend: {message}; see {self.prog} --help\n")


@contextmanager
def report_errors() -> Iterator[errors.ExitStatus]:
    """Report errors by :func:`perftrend.errors.report_to_stderr`, and continue if the output is not read.

    The first SIGTERM ends the job like Ctrl-C, so that it can report its state. Further ones are ignored: an
    aborted build may receive one for each of its processes, and a second one would interrupt the last report.

    Used once, around the whole of a job's ``main``.
    """

    def end(*_: object) -> None:
        if not outcome.is_ending:
            outcome.is_ending = True
            raise KeyboardInterrupt

    with (
        hide_memory(),
        repeat_interruptions(),
        discard_unread_output(),
        errors.report_to_stderr() as outcome,
    ):
        signal.signal(signal.SIGTERM, end)
        yield outcome


@contextmanager
def hide_memory() -> Iterator[None]:
    """Hide the memory and the environment of this process, which contain secrets, from its own user.

    Otherwise, any program of this user reads them in ``/proc`` (prctl(2), PR_SET_DUMPABLE). Root still can.
    """
    control = ctypes.CDLL(None).prctl
    before = control(_PR_GET_DUMPABLE)
    control(_PR_SET_DUMPABLE, 0)
    try:
        yield
    finally:
        control(_PR_SET_DUMPABLE, before)


@contextmanager
def repeat_interruptions() -> Iterator[None]:
    """Interrupt the job again if Python drops an interruption.

    Python drops every exception in finalizers and in callbacks of weak references, such as those of
    SQLAlchemy. If the signal came then, the job would continue.
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


def show_default(setting: str) -> str:
    """Return the default of a setting for a help text, so that the two cannot differ."""
    value: object = Settings()
    for part in setting.split("."):
        value = getattr(value, part)
    return f"(default: {value:g})" if isinstance(value, float) else f"(default: {value})"


def add_files(parser: argparse.ArgumentParser, *, report: bool = True, archive: bool = True) -> Group:
    """Add options for the settings, the store, and the folders that a job writes to."""
    group = parser.add_argument_group("files")
    add = group.add_argument
    add("--settings", metavar="FILE", help="YAML file with the settings")
    add("--store", metavar="PATH", help=f"SQLite file or database URL of the results {show_default('store')}")
    if archive:
        add("--archive", metavar="DIR", help=f"folder for the files of each build {show_default('archive')}")
    if report:
        add("--report", metavar="DIR", help=f"folder for the report {show_default('report')}")
    return group


def add_tests(parser: argparse.ArgumentParser) -> Group:
    """Add options that select tests."""
    group = parser.add_argument_group("tests")
    add = group.add_argument
    add("--tags", metavar="EXPRESSION", action="append", help="tag expression that selects tests; repeatable")
    add("--suites", metavar="PATH", help="the Robot suites, a file or a folder (default: those of perftrend)")
    return group


def add_testbed(parser: argparse.ArgumentParser) -> None:
    """Add options that select the testbed and configure its device."""
    add = parser.add_argument_group("testbed").add_argument
    add("--testbed", metavar="NAME", help=f"the testbed {show_default('testbed')}")
    add("--testbeds", metavar="DIR", help="folder with testbed files of your own")
    add("--device-option", metavar="KEY=VALUE", action="append", help="option for the device; repeatable")
    add(
        "--wait",
        metavar="SECONDS",
        type=float,
        help=f"how long to wait for a testbed that is in use {show_default('wait_s')}",
    )
    add(
        "--timeout",
        metavar="SECONDS",
        type=float,
        help=f"end the suites of one run after this time {show_default('timeout_s')}",
    )


def add_trials(parser: argparse.ArgumentParser) -> None:
    """Add options for the number and duration of trials."""
    add = parser.add_argument_group("trials and searches", "The testbed has the defaults.").add_argument
    add("--trial-duration", metavar="SECONDS", type=float, help="duration of an MRR trial")
    add("--trial-multiplicity", metavar="N", type=int, help="number of trials of an MRR test")
    add(
        "--final-trial-duration",
        metavar="SECONDS",
        type=float,
        help="duration of the last trials of a search",
    )
    add("--search", choices=["predictive", "mdr", "binary"], help="how to search NDR and PDR")


def add_suites(parser: argparse.ArgumentParser, *, report: bool = True) -> None:
    """Add the options of every job that runs suites: tests, testbed, trials and searches, and files."""
    add_tests(parser)
    add_testbed(parser)
    add_trials(parser)
    add_files(parser, report=report)


def add_analysis(parser: argparse.ArgumentParser) -> Group:
    """Add options for the analysis of runs."""
    group = parser.add_argument_group("analysis")
    add = group.add_argument
    add(
        "--method",
        choices=[method.value for method in Method],
        help=f"how to find changes {show_default('analysis.method')}",
    )
    add(
        "--window",
        metavar="N",
        type=count,
        help=f"number of runs in the window of the moving statistics {show_default('analysis.window')}",
    )
    add(
        "--regression",
        choices=["fail", "unstable"],
        help=f"the result of the job if a test regressed {show_default('analysis.regression')}",
    )
    return group


def of_suites(given: argparse.Namespace) -> dict[str, object]:
    """Return the settings of :func:`add_suites`, by full name, without those that all jobs have."""
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


def add_commits(parser: argparse.ArgumentParser) -> Group:
    """Add a group for options that name commits."""
    return parser.add_argument_group(
        "commits",
        "A commit is a hash or, in a repository on this machine, a tag, a branch or a name such as HEAD~20.",
    )


def add_product(group: Group) -> None:
    """Add options for fetching the product under test."""
    group.add_argument(
        "--repository",
        metavar="URL",
        help="where to fetch the commits from (default for a program: the checkout here)",
    )


def of_product(given: argparse.Namespace) -> dict[str, object]:
    """Return the settings of :func:`add_product` and the report folder, by full name."""
    return {"project.repository": given.repository, "report": given.report}


def add_program(parser: argparse.ArgumentParser) -> None:
    """Add options that describe the product; a program that measures itself needs no settings file."""
    add = parser.add_argument_group(
        "product", "A program that prints numbers needs --measure. Other products need a profile."
    ).add_argument
    add("--measure", metavar="COMMAND", help="the command that prints numbers")
    add("--build", metavar="COMMAND", help="the command that builds it (default: none)")
    add("--unit", metavar="UNIT", help="the unit of numbers that are printed without one, such as ms")
    add(
        "--better",
        choices=[each.value for each in Better],
        help="which direction is better (default: lower for a unit of time, otherwise higher)",
    )
    add("--parameter", metavar="NAME=VALUE", action="append", help="parameter of the profile; repeatable")
    add("--profile", metavar="NAME", help="the profile that describes the product")


def of_program(given: argparse.Namespace) -> dict[str, object]:
    """Return the settings of :func:`add_program`, by full name."""
    return {
        "project.profile": given.profile or (_PROGRAM if given.measure else None),
        "project.parameters": _parameters(given) or None,
    }


def _parameters(given: argparse.Namespace) -> dict[str, str]:
    commands = {name: getattr(given, name) for name in ("measure", "build")}
    return {
        **(pairs("--parameter", given.parameter) or {}),
        **{name: _as_words(command) for name, command in commands.items() if command is not None},
        **{name: getattr(given, name) for name in ("unit", "better") if getattr(given, name) is not None},
    }


def words_of_program(given: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield the options of :func:`add_program` that are given, with their values."""
    for name in ("measure", "build", "unit", "better"):
        if getattr(given, name) is not None:
            yield f"--{name}", getattr(given, name)
    for pair in given.parameter or ():
        yield "--parameter", pair


def load_settings(given: argparse.Namespace, overrides: Mapping[str, object]) -> Settings:
    """Read the settings, for a job with the options of :func:`add_program`.

    ``--measure`` replaces another profile of the settings together with its parameters.
    """
    if given.measure and not given.profile:
        project = Settings.load(given.settings).project
        if project.profile not in (None, _PROGRAM):
            parameters = {**dict.fromkeys(project.parameters), **_parameters(given)}
            overrides = {**overrides, "project.parameters": parameters}
    return Settings.load(given.settings, overrides=overrides)


def _as_words(command: str) -> str:
    """Return a command for a profile, which splits it into words; a shell runs it if it needs one."""
    needs_shell = _FOR_SHELL.search(command) or _ASSIGNMENT.match(command)
    return shlex.join(["sh", "-c", command]) if needs_shell else command


def settings(given: argparse.Namespace, overrides: Mapping[str, object]) -> Settings:
    """Return the settings; the command line overrides all other sources."""
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
    """Parse an integer of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def pairs(option: str, words: Sequence[str] | None) -> dict[str, str] | None:
    """Parse ``KEY=VALUE`` words. :raises UsageError: if a word has another form."""
    if words is None:
        return None
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not (key and equals and value):
            raise UsageError(f"{option} {word!r}: write KEY=VALUE, such as acl_rules=60")
        found[key] = value
    return found
