"""Executes suites in Robot Framework and archives their output.

The files are collected in a folder whose name begins with a dot; it is renamed when it is
complete. An incomplete folder of a killed run is thus never read as a run, and the next start removes it.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

from perftrend import console
from perftrend.archive import ingestion
from perftrend.archive.ingestion import OUTPUT
from perftrend.errors import TestbedError, UsageError
from perftrend.files import stage_folder
from perftrend.measure import lock
from perftrend.measure.lock import LockedPlace
from perftrend.measure.program import dies_with_parent
from perftrend.measure.specification import Specification
from perftrend.measure.testbed import Testbed
from perftrend.model import Run
from perftrend.settings import FILE_VARIABLE, Settings

TERMINAL = "TERMINAL_OF_PERFTREND"
"""The variable with the path of the job's terminal, if standard output is a pipe to the job."""

_END_S = 20.0
"""The time that a run has, after the signal to end, to write its results."""
_ROBOT_BROKEN = 251
"""Exit codes of Robot Framework from here on mean that it could not run, not that tests failed."""


@dataclass(frozen=True, slots=True)
class LockReference:
    """The testbed's lock, by its name, and the acquired place."""

    name: str
    place: LockedPlace
    verify: Callable[[], None] = lambda: None
    """Raises a TestbedError if another job may have used the testbed's machines since."""
    ssh: Callable[[], Sequence[tuple[Sequence[str], str]]] = tuple
    """Returns the options of ``ssh`` and the address of each machine with a device."""


@contextlib.contextmanager
def hold_testbed(
    spec: Specification, *, owner: str, wait_s: float, is_measured: bool = True
) -> Iterator[LockReference]:
    """Acquire the locks of a testbed: on this machine, and on the generator's if that is another one.

    :param owner: the job, shown to others that wait for the testbed.
    :param wait_s: maximum time to wait for each of them.
    :param is_measured: whether the testbed is involved, and not this machine only.
    :raises TestbedError: if the testbed cannot be acquired.
    """
    what = "" if is_measured else "this machine"
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(
            lock.hold(
                spec.lock, capacity=spec.places, wait_s=wait_s, owner=owner, what=what, report=console.warn
            )
        )
        if not is_measured:
            yield LockReference(spec.lock, place)
            return
        elsewhere = f"{owner} on {platform.node()}"
        testbed = Testbed(spec, instance=place.instance, owner=elsewhere, wait_s=wait_s, token=place.token)
        token = stack.enter_context(testbed.locked())
        yield LockReference(spec.lock, replace(place, token=token), testbed.verify_lock, testbed.ssh)


def execute(
    settings: Settings, run: Run, *, suites: Path, folder: Path, tags: Sequence[str], held: LockReference
) -> bool:
    """Run the chosen tests and archive the output, the log, the counters, the environment and the console.

    The archive is marked as not stored: see :mod:`perftrend.archive.ingestion`.

    :param run: the identity of the run; its times, and its archive unless given, are set here.
    :param folder: the job's folder in the archive; receives a folder named after the build.
    :param tags: set on every test.
    :param held: the testbed's lock; the suites inherit it.
    :returns: whether the suites ended by themselves; False if they were ended after the time-out.
    :raises UsageError: if that build is archived already.
    :raises TestbedError: if Robot Framework could not run, or had to be killed.
    """
    target = folder / str(run.build)
    if target.exists():
        raise UsageError(
            f"{target} exists: build {run.build} of {run.job} is already archived; "
            "remove it or use another number"
        )
    with stage_folder(target) as staging:
        started = datetime.now(UTC)
        metadata = {"Testbed": run.testbed, "Job": run.job, "Build": str(run.build)}
        if run.experiment:
            metadata["Experiment"] = run.experiment
        in_time = run_suites(settings, staging, suites=suites, metadata=metadata, tags=tags, held=held)
        ingestion.mark_unstored(
            staging,
            replace(
                run,
                started=started,
                finished=datetime.now(UTC),
                archive=run.archive or str(target.absolute()),
            ),
        )
    return in_time


def run_suites(
    settings: Settings,
    folder: Path,
    *,
    suites: Path,
    metadata: Mapping[str, str],
    tags: Sequence[str],
    held: LockReference,
) -> bool:
    """Run the chosen tests; write output, log, counters, environment, settings and console to a folder.

    :param folder: receives the files; it exists.
    :param metadata: of the outermost suite, by name.
    :param tags: set on every test.
    :param held: the testbed's lock; the suites inherit it.
    :returns: whether the suites ended by themselves; False if they were ended after the time-out.
    :raises TestbedError: if Robot Framework could not run, or had to be killed.
    """
    resolved = folder / "settings.yaml"
    resolved.write_text(settings.as_yaml(), encoding="utf-8")
    (folder / "environment.json").write_text(json.dumps(_environment(), indent=1), encoding="utf-8")
    command = _robot(settings, suites, folder, metadata, tags)
    return _run(command, folder / "console.log", resolved, held, settings.timeout_s)


def _robot(
    settings: Settings, suites: Path, folder: Path, metadata: Mapping[str, str], tags: Sequence[str]
) -> list[str]:
    command = [sys.executable, "-P", "-m", "robot", "--outputdir", str(folder), "--console", "none"]
    command += ["--listener", "perftrend.keywords.measurement.SuiteProgress"]
    for name, value in metadata.items():
        command += ["--metadata", f"{name}:{value}"]
    for tag in tags:
        command += ["--settag", tag]
    for expression in settings.expressions:
        command += ["--include", expression]
    return [*command, str(suites)]


def _run(
    command: Sequence[str], console_file: Path, settings_file: Path, held: LockReference, timeout_s: float
) -> bool:
    """Run Robot Framework; copy its output to the terminal and to the console file; False: timed out."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PERFTREND_")}
    environment |= {FILE_VARIABLE: str(settings_file), "PYTHONUNBUFFERED": "1"}
    environment |= {lock.HELD: held.name, lock.HELD_INSTANCE: str(held.place.instance)}
    environment |= {lock.HELD_LOCK: held.place.token}
    if sys.stdout.isatty():
        environment[TERMINAL] = os.ttyname(sys.stdout.fileno())
    timed_out = threading.Event()
    process = subprocess.Popen(
        dies_with_parent(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
        pass_fds=(held.place.descriptor,) if held.place.descriptor >= 0 else (),
        # This process passes on Ctrl-C, once: a second one makes Robot Framework stop at once.
        start_new_session=True,
    )

    def end() -> None:
        timed_out.set()
        _end(process)

    timer = threading.Timer(timeout_s, end)
    timer.daemon = True
    timer.start()
    try:
        assert process.stdout is not None  # noqa: S101 - opened as a pipe above
        with process.stdout, console_file.open("w", encoding="utf-8") as log:
            for line in process.stdout:
                log.write(line)
                sys.stdout.write(line)
                sys.stdout.flush()
        code = process.wait()
    except BaseException:
        _end(process)
        raise
    finally:
        timer.cancel()
    if code < 0 and timed_out.is_set():
        raise TestbedError(f"the suites did not end within {timeout_s:g} s, and were killed")
    if code < 0:
        raise TestbedError(f"the suites were killed by signal {-code}")
    if not (console_file.parent / OUTPUT).exists() or (code >= _ROBOT_BROKEN and not timed_out.is_set()):
        lines = [line for line in console_file.read_text(encoding="utf-8").splitlines() if line.strip()]
        raise TestbedError(
            f"Robot Framework could not run the suites: {lines[-1] if lines else f'exit code {code}'}"
        )
    return not timed_out.is_set()


def _end(process: subprocess.Popen[str]) -> None:
    """Let the run write its results; kill it, with all processes that it started, if it does not end."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _environment() -> dict[str, object]:
    """Describe this machine: what may explain a change that no commit explains."""
    return {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "packages": _packages(),
    }


@cache
def _packages() -> dict[str, str]:
    """Return the versions of the installed packages, by name; cached for jobs that measure often."""
    # Each access of metadata parses it again.
    described = (one.metadata for one in distributions())
    return {one["Name"]: one["Version"] for one in described}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
