"""A program that runs a command in namespaces of its own, if bubblewrap is not installed.

It understands those options of ``bwrap`` that :mod:`perftrend.sandbox` uses, with the same meaning; see
bwrap(1). It needs Linux 5.12, and a machine that permits namespaces to any program. It imports the standard
library alone, because it is started for each command.

The system calls are those of mount_setattr(2), open_tree(2), pivot_root(2), user_namespaces(7) and
capabilities(7).
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import stat
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

_NAMESPACES = {
    "--unshare-pid": 0x2000_0000,
    "--unshare-ipc": 0x0800_0000,
    "--unshare-uts": 0x0400_0000,
    "--unshare-net": 0x4000_0000,
}
_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWCGROUP = 0x0002_0000, 0x1000_0000, 0x0200_0000
_OPTIONS = {
    **dict.fromkeys([*_NAMESPACES, "--unshare-user-try", "--unshare-cgroup-try"], 0),
    **dict.fromkeys(["--die-with-parent", "--as-pid-1", "--clearenv"], 0),
    **dict.fromkeys(["--cap-drop", "--cap-add", "--info-fd", "--chdir"], 1),
    **dict.fromkeys(["--proc", "--dev", "--remount-ro"], 1),
    **dict.fromkeys(["--bind", "--ro-bind", "--symlink", "--setenv"], 2),
}
"""The number of values of each option."""
_BINDS = {"--bind", "--ro-bind"}
_CAPABILITIES = {"CAP_NET_RAW": 13}
"""The capabilities that a command may have, by name."""

_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 1, 24, 38, 47
_PR_CAP_AMBIENT_RAISE = 2
_CAPABILITY_VERSION = 0x2008_0522

_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 0x4000, 0x4_0000
_MNT_DETACH = 2
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
"""Numbers of system calls that have the same one on all architectures."""
_AT_FDCWD, _AT_RECURSIVE, _AT_EMPTY_PATH = -100, 0x8000, 0x1000
_OPEN_TREE_CLONE, _OPEN_TREE_CLOEXEC, _MOVE_MOUNT_F_EMPTY_PATH = 1, os.O_CLOEXEC, 4
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "core": "/proc/kcore",
    "ptmx": "pts/ptmx",
}
_ROOT = "/tmp"  # noqa: S108 - the new root is mounted on it for a moment
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(slots=True)
class Options:
    """The command line."""

    command: list[str] = field(default_factory=list)
    namespaces: int = _CLONE_NEWNS
    has_user: bool = False
    has_cgroup: bool = False
    has_network: bool = False
    capabilities: list[int] = field(default_factory=list)
    information: int | None = None
    folder: str = "/"
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    steps: list[tuple[str, ...]] = field(default_factory=list)
    """What is done to the files: an option and its values each."""

    @classmethod
    def parse(cls, words: Sequence[str]) -> Options:
        """Parse the command line. :raises ValueError: if an option is not known."""
        options = cls()
        left = iter(words)
        for word in left:
            if word == "--":
                break
            if word not in _OPTIONS:
                raise ValueError(f"unknown option {word}")
            options._set(word, [next(left) for _ in range(_OPTIONS[word])])
        options.command = list(left)
        return options

    def _set(self, name: str, values: list[str]) -> None:
        match name:
            case "--unshare-user-try":
                self.has_user = True
            case "--unshare-cgroup-try":
                self.has_cgroup = True
            case "--cap-add":
                self.capabilities.append(_CAPABILITIES[values[0]])
            case "--info-fd":
                self.information = int(values[0])
            case "--chdir":
                self.folder = values[0]
            case "--clearenv":
                self.environment.clear()
            case "--setenv":
                self.environment[values[0]] = values[1]
            case "--die-with-parent" | "--as-pid-1" | "--cap-drop":
                pass  # always done
            case _ if name in _NAMESPACES:
                self.namespaces |= _NAMESPACES[name]
                self.has_network |= name == "--unshare-net"
            case _:
                self.steps.append((name, *values))


def main(words: Sequence[str]) -> int:
    """Run a command in namespaces of its own, and return its exit code; 128 + number if a signal ended it."""
    try:
        options = Options.parse(words)
        _call("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL)
        _create_namespaces(options)
        ready, started = os.pipe()
        first = os.fork()
        if first == 0:
            os.close(started)
            _run_first(options, ready)
    except (OSError, ValueError) as error:
        return _report(error)
    os.close(ready)
    if options.information is not None:
        os.write(options.information, b'{"child-pid": %d}' % first)
    os.write(started, b"1")
    code = os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])
    return code if code >= 0 else 128 - code


def _report(error: Exception) -> int:
    sys.stderr.write(f"unshare: {error}\n")
    sys.stderr.flush()
    return 1


def _create_namespaces(options: Options) -> None:
    if options.has_user:
        user, group = os.geteuid(), os.getegid()
        with suppress(OSError):  # root needs none, and there may be a limit of them
            _call("unshare", _CLONE_NEWUSER)
            # Without this, the kernel lets no ordinary user map a group.
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
            Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    if options.has_cgroup:
        with suppress(OSError):
            _call("unshare", _CLONE_NEWCGROUP)
    _call("unshare", options.namespaces)


def _run_first(options: Options, ready: int) -> NoReturn:
    """Become the first process of the namespaces, and then the command."""
    code = 1
    try:
        _call("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.read(ready, 1):  # the parent lives, so its end will be noticed
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            if options.has_network:
                _enable_loopback()
            _change_root(options.steps)
            os.chdir(options.folder)
            _drop_capabilities(options.capabilities)
            os.execvpe(options.command[0], options.command, options.environment)  # noqa: S606 - its purpose
    except (OSError, ValueError) as error:
        code = _report(error)
    finally:
        os._exit(code)


def _enable_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))


def _change_root(steps: Sequence[tuple[str, ...]]) -> None:
    """Replace the root folder by a new one with the files that the steps show."""
    _call("mount", b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)
    # Opened while their paths are still valid.
    shown = {path: _open_tree(path) for path in _shown(steps)}
    _mount("tmpfs", _ROOT, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0755")
    os.chdir(_ROOT)
    if ("--proc", "/proc") in steps:
        # The kernel permits it only while another one is visible.
        Path("proc").mkdir()
        _mount("proc", "proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    _call("pivot_root", b".", b".")
    _call("umount2", b".", _MNT_DETACH)
    os.chdir("/")
    for step in steps:
        _apply_step(step, shown)


def _shown(steps: Sequence[tuple[str, ...]]) -> Iterator[str]:
    for name, *values in steps:
        if name in _BINDS:
            yield values[0]
        elif name == "--dev":
            yield from (f"/dev/{device}" for device in _DEVICES)


def _apply_step(step: tuple[str, ...], shown: dict[str, int]) -> None:
    match step:
        case ("--bind" | "--ro-bind") as name, source, target:
            attributes = _ATTR_NOSUID | _ATTR_NODEV | (_ATTR_RDONLY if name == "--ro-bind" else 0)
            _show(shown[source], target, attributes)
        case "--symlink", source, target:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            Path(target).symlink_to(source)
        case "--dev", target:
            _create_devices(Path(target), shown)
        case "--remount-ro", target:
            _set_attributes(_AT_FDCWD, target, _ATTR_RDONLY, 0)


def _create_devices(folder: Path, shown: dict[str, int]) -> None:
    folder.mkdir()
    _mount("tmpfs", str(folder), "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0755")
    for device in _DEVICES:
        _show(shown[f"/dev/{device}"], str(folder / device), _ATTR_NOSUID)
    for name in "shm", "pts":
        (folder / name).mkdir()
    for name, target in _DEVICE_LINKS.items():
        (folder / name).symlink_to(target)
    options = "newinstance,ptmxmode=0666,mode=620"
    _mount("devpts", str(folder / "pts"), "devpts", _MS_NOSUID | _MS_NOEXEC, options)


def _open_tree(path: str) -> int:
    """Return a descriptor of what is mounted at a path, with all below it."""
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_RECURSIVE
    return _call("syscall", _OPEN_TREE, _AT_FDCWD, os.fsencode(path), flags, what=path)


def _show(tree: int, target: str, attributes: int) -> None:
    """Mount what :func:`_open_tree` returned; the folders that lead to it are created."""
    _set_attributes(tree, "", attributes, _AT_EMPTY_PATH | _AT_RECURSIVE)
    place = Path(target)
    if stat.S_ISDIR(os.fstat(tree).st_mode):
        place.mkdir(parents=True, exist_ok=True)
    elif not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    flags = _MOVE_MOUNT_F_EMPTY_PATH
    _call("syscall", _MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(target), flags, what=target)
    os.close(tree)


def _set_attributes(folder: int, path: str, attributes: int, flags: int) -> None:
    request = struct.pack("QQQQ", attributes, 0, 0, 0)
    _call("syscall", _MOUNT_SETATTR, folder, os.fsencode(path), flags, request, len(request), what=path)


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    texts = (os.fsencode(each) for each in (source, target, kind))
    _call("mount", *texts, flags, os.fsencode(options), what=target)


def _drop_capabilities(exceptions: Sequence[int]) -> None:
    """Give up all capabilities but some, for this program and all that it will start."""
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    for number in range(last + 1):
        if number not in exceptions:
            _call("prctl", _PR_CAPBSET_DROP, number)
    sets = sum(1 << number for number in exceptions)
    header = struct.pack("Ii", _CAPABILITY_VERSION, 0)
    _call("capset", header, struct.pack("IIIIII", sets, sets, sets, 0, 0, 0))
    for number in exceptions:
        _call("prctl", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, number, 0, 0)
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _call(function: str, *arguments: bytes | int | None, what: str = "") -> int:
    """Call a function of the C library. :raises OSError: if it reports an error."""
    converted = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result: int = getattr(_libc, function)(*converted)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}", *([what] if what else []))
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
