"""Run every check: style, types, imports, documentation, unit and integration tests."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TextIO

from perftrend.cli.options import Parser
from perftrend.errors import nearest

CHECKOUT = Path(__file__).resolve().parent.parent
LOGS = CHECKOUT / "test-logs"
PROGRESS_S = 60
CORES = len(os.sched_getaffinity(0))

FOREIGN = ("PERFTREND_", "GERRIT_", "BUILD_", "JOB_NAME", "PYTHONDONTWRITEBYTECODE")
"""Prefixes of environment variables of users or Jenkins that tests and the jobs of tests must not see.

Tests start hundreds of processes; with PYTHONDONTWRITEBYTECODE, each would compile its imports again.
"""


class Stage:
    """Checks that run one after the other, even if one fails.

    :param commands: as typed in a shell, but run without a shell.
    """

    def __init__(self, name: str, what: str, *commands: str) -> None:
        self.name = name
        self.what = what
        self.commands = [shlex.split(command) for command in commands]

    @property
    def log(self) -> Path:
        """The file that receives what the commands print."""
        return LOGS / f"{self.name}.log"

    @property
    def uses_pytest(self) -> bool:
        """Whether it accepts arguments for pytest."""
        return self.commands[0][0] == "pytest"


STAGES = {
    stage.name: stage
    for stage in (
        Stage(
            "static",
            "style, types, imports, YAML, shell and Robot files",
            "ruff check",
            "ruff format --check",
            "mypy",
            "lint-imports --no-logo --no-cache",
            "robocop check",
            "robocop format --check --diff",
            "yamllint --strict .",
            "shellcheck run .ci/run",
        ),
        Stage(
            "docs",
            "the documentation, in which a warning is an error",
            # Sphinx does not repeat warnings about cached documents.
            "sphinx-build --fresh-env --fail-on-warning --keep-going --nitpicky --quiet --builder html "
            "docs docs/_build/html",
        ),
        Stage(
            "unit",
            "unit tests, without network, privileges or waiting",
            # Some tests wait for a process or a server that is slow on purpose; others use the cores then.
            # Plugins that only integration tests need look at each test, which takes a second for a thousand.
            f"pytest --durations 20 --numprocesses {CORES + CORES // 2} --dist loadscope -p no:schemathesis "
            "-p no:anyio -m 'not measure' tests/unit",
        ),
        Stage(
            "servers",
            "integration tests against real servers, processes and browsers",
            # Many of these tests wait for servers. Long groups come first and are not reordered.
            f"pytest --durations 20 --numprocesses {2 * CORES} --dist loadfile --no-loadscope-reorder "
            "-m 'not (packets or measure)' tests/integration",
        ),
        # These stages need all cores for themselves.
        Stage(
            "packets",
            "integration tests that count real packets",
            "pytest -m 'packets and not measure' tests/integration",
        ),
        Stage(
            "measure",
            "end-to-end tests on real packets and programs, with the measured values",
            "pytest -m measure tests",
        ),
    )
}
ALL = (("static", "docs", "unit"), ("servers",), ("packets",))
"""Stages in the same group run at the same time."""
QUICK = (("static", "unit"),)


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    described = Parser(
        "tests",
        __doc__,
        usage="./run tests [-h] [--quick | --measure] [--thorough] [STAGE ...] [-- ARGUMENT ...]",
        notes="stages, by default all but measure:\n"
        + "\n".join(f"  {stage.name:<12}{stage.what}" for stage in STAGES.values()),
        examples=["./run tests --quick", "./run tests unit -- -k settings"],
    )
    add = described.add_argument
    add("stages", metavar="STAGE", nargs="*", help="what to run; arguments after -- are passed to pytest")
    add("--quick", action="store_true", help="run static and unit")
    add("--measure", action="store_true", help="run measure, on an idle machine")
    add(
        "--thorough",
        action="store_true",
        help="more and random examples, and all tests of the store on PostgreSQL",
    )
    return described


def main(argv: Sequence[str] | None = None) -> int:
    """Run the stages; return 0 if all passed, 1 if one failed, 2 for bad use, 130 if interrupted."""
    words = list(sys.argv[1:] if argv is None else argv)
    end = words.index("--") if "--" in words else len(words)
    given = parser().parse_args(words[:end])
    groups = choose_groups(given)
    arguments = words[end + 1 :]
    if arguments and not all(STAGES[name].uses_pytest for group in groups for name in group):
        parser().error("arguments after -- go to pytest: name stages that run it, such as unit")
    if given.thorough:
        arguments.append("--thorough")
    try:
        if len(groups) == len(groups[0]) == 1:
            passed = run_stage(STAGES[groups[0][0]], arguments)
        else:
            passed = run_groups(groups, arguments)
    except KeyboardInterrupt:
        return 130
    return 0 if passed else 1


def choose_groups(given: argparse.Namespace) -> Sequence[Sequence[str]]:
    """Return groups of names of stages; the stages of a group run at the same time."""
    if len([each for each in (given.stages, given.quick, given.measure) if each]) > 1:
        parser().error("choose one of --quick, --measure and names of stages")
    for name in given.stages:
        if name not in STAGES:
            parser().error(f"no stage is named {name!r}{nearest(name, STAGES)}")
    if given.quick:
        return QUICK
    if given.measure:
        return (("measure",),)
    named = [[name for name in group if name in given.stages] for group in (*ALL, ("measure",))]
    return [group for group in named if group] or ALL


def run_groups(groups: Sequence[Sequence[str]], arguments: Sequence[str]) -> bool:
    """Run groups of stages one after the other, even if one fails; report progress."""
    begun = time.monotonic()
    passed = {name: ok for group in groups for name, ok in run_group(group, arguments).items()}
    failed = [name for name, ok in passed.items() if not ok]
    verdict = f"failed: {', '.join(failed)}" if failed else "all checks passed"
    not_run = sum(count_not_run(STAGES[name]) for name in passed)
    busy = f"; {not_run} tests were not run because the cores were not quiet" if not_run else ""
    report(f"{verdict} after {format_elapsed(begun)}{busy}")
    return not failed


def run_group(names: Sequence[str], arguments: Sequence[str]) -> dict[str, bool]:
    """Run stages at the same time; return whether each of them passed."""
    begun = time.monotonic()
    passed = {}
    with ThreadPoolExecutor(len(names)) as pool:
        for name in names:
            report(f"{name}: started ({STAGES[name].what})")
        pending = {pool.submit(run_logged, STAGES[name], arguments): STAGES[name] for name in names}
        while pending:
            done, _ = wait(pending, timeout=PROGRESS_S, return_when=FIRST_COMPLETED)
            for future in done:
                stage = pending.pop(future)
                passed[stage.name] = future.result()
                report(
                    f"{stage.name}: {'passed' if future.result() else 'FAILED'} after {format_elapsed(begun)}"
                )
                for line in outcome(stage, passed=future.result()):
                    print(line, flush=True)
            for stage in pending.values() if not done else ():
                report(f"{stage.name}: running for {format_elapsed(begun)}{progress(stage)}")
    return passed


def run_logged(stage: Stage, arguments: Sequence[str]) -> bool:
    """Run a stage, with its output in a file."""
    LOGS.mkdir(exist_ok=True)
    with stage.log.open("w") as log:
        return run_stage(stage, arguments, log)


def run_stage(stage: Stage, arguments: Sequence[str], output: TextIO | None = None) -> bool:
    """Run a stage; return whether all of its commands succeeded.

    :param arguments: for pytest.
    :param output: receives what the commands print, instead of this terminal.
    """
    environment = clean_environment(os.environ)
    succeeded = []
    for words in stage.commands:
        program = shutil.which(words[0], path=environment["PATH"])
        if program is None:
            print(f"{words[0]} is not installed: skipped", file=output or sys.stderr, flush=True)
            succeeded.append(not os.environ.get("CI"))
            continue
        command = [program, *words[1:], *(arguments if stage.uses_pytest else ())]
        ended = subprocess.run(
            command,
            cwd=CHECKOUT,
            env=environment,
            stdin=subprocess.DEVNULL if output else None,
            stdout=output,
            stderr=subprocess.STDOUT if output else None,
            check=False,
        )
        succeeded.append(ended.returncode == 0)
    return all(succeeded)


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with this Python's programs first, and without settings of perftrend's jobs."""
    clean = {name: value for name, value in environment.items() if not name.startswith(FOREIGN)}
    path = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", os.defpath)])
    return clean | {"PATH": path}


def progress(stage: Stage) -> str:
    """Return the progress of pytest in per cent, from the stage's log."""
    text = stage.log.read_text(errors="replace") if stage.log.exists() else ""
    percents = re.findall(r"\[ *(\d+)%\]", text)
    return f", {percents[-1]} %" if percents else ""


def outcome(stage: Stage, *, passed: bool) -> list[str]:
    """Return the part of the stage's log to show: all of it if it failed, or else the summary."""
    lines = stage.log.read_text(errors="replace").splitlines()
    if not passed:
        return lines
    if not stage.uses_pytest:
        return [line for line in lines if line.endswith(": skipped")]
    headings = ("not run", "short test summary")
    start = (
        at for at, line in enumerate(lines) if line.startswith("=") and line.strip("= ").startswith(headings)
    )
    return lines[next(start, -1) :]


def count_not_run(stage: Stage) -> int:
    """Return how many tests did not get quiet cores, from the end of the stage's log."""
    found = re.search(r"(\d+) not run", stage.log.read_text(errors="replace").rpartition("\n=")[2])
    return int(found[1]) if found else 0


def format_elapsed(since: float) -> str:
    """Return the time since a value of the monotonic clock in words, such as ``3 min 5 s``."""
    minutes, seconds = divmod(round(time.monotonic() - since), 60)
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def report(text: str) -> None:
    """Print a line and flush it, so that it also appears in a pipe at once."""
    print(f"perftrend: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
