"""A sandbox for the code of a change under review, by bubblewrap (``bwrap``) or :mod:`perftrend.unshare`.

A program in the sandbox is in its own namespaces of processes, users, files and, usually, network. It sees
the programs and libraries of this machine, its own folder, and what else it is given; it can write to its
folder and to empty ``/tmp``, ``/home`` and ``/dev/shm`` alone. It has no capability and gets none by a
set-user-ID program. When it ends, so does every process that it has started, and what it wrote outside its
folder is removed.

Neither of them limits memory, processes and disk space, and only some machines let an ordinary user create
control groups. So :class:`Consumption` reads what the machine has left, which takes microseconds. Only if
much more is used than before, the processes and folders of the sandbox are examined themselves.
"""

from __future__ import annotations

import functools
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from perftrend.errors import TestbedError

VARIABLES: Mapping[str, str] = {"HOME": "/home", "TMPDIR": "/tmp"}  # noqa: S108 - that of the sandbox
"""Environment variables whose values outside are of no use inside."""
_PRIVATE = {"home": "/home", "tmp": "/tmp", "shm": "/dev/shm"}  # noqa: S108 - those of the sandbox
"""Folders that are empty at first, by their names in the scratch folder."""
_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
    *("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/localtime", "/etc/timezone"),
    *("/etc/os-release", "/etc/debian_version", "/etc/magic", "/etc/mime.types", "/etc/fonts"),
    *("/etc/hosts", "/etc/host.conf", "/etc/gai.conf", "/etc/protocols", "/etc/services"),
    *("/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/pki/ca-trust"),
    *("/etc/crypto-policies", "/etc/maven", "/etc/perl", "/etc/python3"),
    *("/var/lib/dpkg", "/var/lib/rpm", "/sys/devices/system"),
)
"""What every program may read. Private keys and passwords that only root may read are in other parts of
``/etc``, and root in the sandbox is their owner."""
_NAME_SERVERS = "/etc/resolv.conf"
_KERNEL = ("/proc/sys", "/proc/sysrq-trigger", "/proc/fs", "/proc/acpi", "/proc/scsi")
"""Parts of ``/proc`` that root may write to even without a capability."""
_ISOLATED = (
    *("--die-with-parent", "--cap-drop", "ALL"),
    *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
)
_PACKAGE = Path(__file__).parent
LAUNCHERS: Mapping[str, tuple[str, ...]] = {
    "bubblewrap": ("bwrap",),
    "unshare": (sys.executable, "-I", "-S", str(_PACKAGE / "unshare.py")),
}
"""Programs that make a sandbox, by name; the first one that works is used.

Bubblewrap comes first: some distributions permit namespaces to selected programs only, and it is one of them.
"""
_FIRST = '"$@"; exit'
"""Runs a command in the first process of a sandbox, and waits for it.

That of bubblewrap is not waited for itself, so the CPU time of the command would not be that of a child.
"""
_PROGRAMS = ("choom", "prlimit")
"""Programs of the package util-linux."""
_END_S = 60.0
_GIB = 1 << 30
_LARGEST_SHARE_OF_FREE = 0.75
"""A sandbox may use this fraction of the free space of its disk, so that others do not run out of it."""
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program in the sandbox and its children may use together."""

    memory_gib: float
    processes: int
    """Processes and threads."""
    disk_gib: float


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What a program in the sandbox is given.

    :param readable: files and folders that it may read, in addition to those of the system and of Python.
    :param network: whether it may use the network of this machine.
    """

    limits: Limits
    readable: tuple[Path, ...] = ()
    network: bool = False

    def command(self, command: Sequence[str], folder: Path, scratch: Path, *, information: int) -> list[str]:
        """Return the command that runs ``command`` in the sandbox.

        :param folder: the current folder of the command, which it may write to.
        :param scratch: a folder for what it writes elsewhere, from :func:`create_scratch`.
        :param information: a descriptor that receives the number of the first process, as JSON.
        """
        return [
            *("prlimit", "--core=0", f"--fsize={int(self.limits.disk_gib * _GIB)}", "--", *_start()),
            *("--unshare-user-try", "--as-pid-1", "--info-fd", str(information)),
            *(() if self.network else ("--unshare-net",)),
            *_proc_and_dev(),
            *(word for name, path in _PRIVATE.items() for word in ("--bind", str(scratch / name), path)),
            *("--symlink", "../tmp", "/var/tmp"),  # noqa: S108 - that of the sandbox
            *_show(self._readable()),
            *("--bind", str(folder), str(folder), "--remount-ro", "/dev", "--remount-ro", "/"),
            *("--chdir", str(folder), "--", "/bin/sh", "-c", _FIRST, "sh", *command),
        ]

    def hides(self, path: Path) -> bool:
        """Return whether a program in the sandbox cannot see a file of this machine."""
        real = path.resolve()
        return not any(real.is_relative_to(each.resolve()) for each in self._readable())

    def _readable(self) -> list[Path]:
        names = [Path(_NAME_SERVERS)] if self.network else []
        return [each for each in (*_read_by_all(), *names, *self.readable) if each.exists()]


def confine_device(command: Sequence[str], program: Path, capabilities: Iterable[str]) -> list[str]:
    """Return the command that runs a device in a sandbox, on the network that it is started in.

    The device can write nothing, and has no variables of this process. It is the only child of the process
    that is started.

    :param program: the file of the device.
    :param capabilities: those that it has, such as ``CAP_NET_RAW``. They are valid for the network that
        the device is started in, and so it also remains in the user namespace of that network.
    """
    return [
        *_start(),
        *("--clearenv", "--setenv", "PATH", os.defpath, "--setenv", "LANG", "C.UTF-8"),
        # The program may import this package. In a checkout, Python does not find it by itself.
        *(() if _PACKAGE.is_relative_to(sys.prefix) else ("--setenv", "PYTHONPATH", str(_PACKAGE.parent))),
        *("--as-pid-1", *(word for name in capabilities for word in ("--cap-add", name))),
        *_proc_and_dev(),
        *_show([*_read_by_all(), program]),
        *("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/", "--", *command),
    ]


def _start() -> Iterator[str]:
    # If the machine runs out of memory, the kernel ends the sandbox and not the job.
    yield from ("choom", "--adjust", "1000", "--", *LAUNCHERS[find_launcher()], *_ISOLATED)


def _read_by_all() -> list[Path]:
    python = [Path(sys.base_prefix), Path(sys.prefix), _PACKAGE]
    java = sorted(Path("/etc").glob("java*"))
    return [each for each in (*map(Path, _SYSTEM), *java, *python) if each.exists()]


def child_of(process: int) -> int:
    """Return the number of the only child of a process. :raises TestbedError: if it has none."""
    children = [each.pid for each in _read_processes() if each.parent == process]
    if not children:
        raise TestbedError("the sandbox has ended")
    return children[0]


def wait_for_end(first: int) -> None:
    """Wait until all processes of a sandbox have ended.

    :param first: the number of its first process, which the kernel lets end as the last one.
    :raises TestbedError: if they do not end.
    """
    try:
        descriptor = os.pidfd_open(first)
    except ProcessLookupError:
        return
    try:
        if not select.select([descriptor], [], [], _END_S)[0]:
            raise TestbedError(f"processes of the sandbox have not ended within {_END_S:g} s")
    finally:
        os.close(descriptor)


def create_scratch(scratch: Path) -> None:
    """Create the scratch folder of a sandbox."""
    for name in _PRIVATE:
        (scratch / name).mkdir(parents=True)


def memory_gib() -> float:
    """Return the size of the memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * _PAGE / _GIB


@functools.cache
def find_launcher() -> str:
    """Return the name of the program that makes sandboxes on this machine.

    :raises TestbedError: if there is none; with the remedy.
    """
    for program in _PROGRAMS:
        if not shutil.which(program):
            raise TestbedError(f"the program {program} is missing (Debian: apt-get install util-linux)")
    reasons = []
    for name, launcher in LAUNCHERS.items():
        if not shutil.which(launcher[0]):
            reasons.append(f"{name} is not installed (Debian: apt-get install {name})")
        elif reason := _failure_of(launcher):
            reasons.append(reason)  # it begins with the name of the program
        else:
            return name
    raise TestbedError(f"this machine does not permit namespaces ({'; '.join(reasons)})")


def unusable() -> str:
    """Return why this machine has no sandbox, with the remedy; empty if it has one."""
    try:
        find_launcher()
    except TestbedError as error:
        return str(error)
    return ""


def _failure_of(launcher: Sequence[str]) -> str:
    """Return why a program cannot make a sandbox; empty if it can."""
    # All that a sandbox needs and a machine may forbid.
    needed = ["--unshare-user-try", "--unshare-net", *_proc_and_dev(), *_show(_read_by_all()), "--", "true"]
    done = subprocess.run(
        [*launcher, *_ISOLATED, *needed], capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode == 0:
        return ""
    lines = done.stderr.strip().splitlines() or [f"{launcher[0]} ended with {done.returncode}"]
    return lines[-1][:200]


def _show(paths: Iterable[Path]) -> Iterator[str]:
    """Yield the options that show files and folders; a link in the root folder remains one."""
    for path in paths:
        if path.is_symlink() and path.parent == Path("/"):
            yield from ("--symlink", str(path.readlink()), str(path))
        else:
            yield from ("--ro-bind", str(path), str(path))


def _proc_and_dev() -> Iterator[str]:
    yield from ("--proc", "/proc", "--dev", "/dev")
    for path in _KERNEL:
        if Path(path).exists():
            yield from ("--ro-bind", path, path)


class Confinement:
    """A command in a sandbox, from its start until all that it has started has ended.

    :param folder: the current folder of the command, which it may write to.
    :param scratch: a folder for what it writes elsewhere, from :func:`create_scratch`.
    """

    def __init__(self, sandbox: Sandbox, folder: Path, scratch: Path) -> None:
        self._sandbox = sandbox
        self._folder = folder
        self._scratch = scratch
        self._answer, self.descriptor = os.pipe()
        self._consumption: Consumption | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._wait()
        finally:
            os.close(self._answer)
            os.close(self.descriptor)

    def wrap(self, command: Sequence[str]) -> list[str]:
        """Return the command to start, which inherits ``descriptor``."""
        return self._sandbox.command(command, self._folder, self._scratch, information=self.descriptor)

    def begin(self, process: int) -> None:
        """Watch the limits from now on. :param process: the one that was started."""
        self._consumption = Consumption(self._sandbox.limits, process, (self._folder, self._scratch))

    def exceeded(self) -> str:
        """Return which limit is exceeded, as a phrase; empty if none is."""
        return self._consumption.exceeded() if self._consumption else ""

    def _wait(self) -> None:
        """Wait for the end of all processes, when the one that was started has ended.

        It ends before the others if they are left in the background; the kernel then ends them.

        :raises TestbedError: if they do not end.
        """
        os.set_blocking(self._answer, False)
        with suppress(BlockingIOError):  # the sandbox did not start
            wait_for_end(json.loads(os.read(self._answer, 1000))["child-pid"])


@dataclass(frozen=True, slots=True)
class _Gauges:
    """What all processes of this machine use."""

    memory: int
    """In bytes; caches that the kernel can drop are not counted."""
    threads: int
    disk: int
    """In bytes, of one file system."""

    @classmethod
    def read(cls, folder: Path) -> _Gauges:
        lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
        available = next(int(line[1]) for line in lines if line[0] == "MemAvailable:")
        threads = Path("/proc/loadavg").read_text().split()[3].partition("/")[2]
        disk = os.statvfs(folder)
        return cls(-1024 * available, int(threads), (disk.f_blocks - disk.f_bfree) * disk.f_frsize)


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int
    threads: int
    memory: int
    """In bytes."""


class Consumption:
    """What the processes of a sandbox use.

    :param process: the process that was started; create this object right after it.
    :param folders: the folders that the sandbox may write to, on one file system.
    """

    def __init__(self, limits: Limits, process: int, folders: Sequence[Path]) -> None:
        self._process = process
        self._folders = folders
        self._before = _Gauges.read(folders[0])
        self._memory = limits.memory_gib * _GIB
        self._threads = limits.processes
        self._disk = min(limits.disk_gib * _GIB, _LARGEST_SHARE_OF_FREE * shutil.disk_usage(folders[0]).free)

    def exceeded(self) -> str:
        """Return which limit is exceeded, as a phrase; empty if none is."""
        now, before = _Gauges.read(self._folders[0]), self._before
        if now.memory - before.memory > self._memory < sum(each.memory for each in self._processes()):
            return f"used more than {self._memory / _GIB:.3g} GiB of memory"
        if now.threads - before.threads > self._threads < sum(each.threads for each in self._processes()):
            return f"had more than {self._threads} processes and threads"
        if now.disk - before.disk > self._disk < self._bytes_on_disk():
            return f"used more than {self._disk / _GIB:.3g} GiB of disk space"
        return ""

    def _processes(self) -> list[_Process]:
        """Return the process and all its descendants."""
        running = list(_read_processes())
        found, family = [], {self._process}
        while more := [each for each in running if each.parent in family and each.pid not in family]:
            found += more
            family |= {each.pid for each in more}
        return found

    def _bytes_on_disk(self) -> int:
        """Return the size of all files in the folders, and of those without a name that a process uses."""
        # Folders may be nested more deeply than a path can be long; du does not need paths.
        command = ["du", "--summarize", "--block-size=1", "--", *map(str, self._folders)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        named = sum(int(line.split()[0]) for line in done.stdout.splitlines())
        unnamed: dict[tuple[int, int], int] = {}
        for each in self._processes():
            for status in _open_files(each.pid):
                if status.st_nlink == 0:
                    unnamed[status.st_dev, status.st_ino] = 512 * status.st_blocks
        return named + sum(unnamed.values())


def _open_files(pid: int) -> Iterator[os.stat_result]:
    with suppress(OSError):
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                yield path.stat()


def _read_processes() -> Iterator[_Process]:
    for path in Path("/proc").glob("[0-9]*"):
        # It may end meanwhile.
        with suppress(OSError):
            # The name of the program, in parentheses, may contain spaces: see proc_pid_stat(5).
            fields = (path / "stat").read_text(errors="replace").rpartition(")")[2].split()
            yield _Process(int(path.name), int(fields[1]), int(fields[17]), _PAGE * int(fields[21]))
