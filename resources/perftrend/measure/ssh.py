"""Nodes that are connected by cables: other machines, this one, or namespaces of their networks.

The generator's node is locked for a job, since jobs on other machines can use it, too.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from typing_extensions import override

from perftrend import errors
from perftrend.measure.chain import hops
from perftrend.measure.embedded import frames
from perftrend.measure.interfaces import Link, Node, Target, Wiring
from perftrend.measure.program import end_all_command
from perftrend.measure.traffic import mtu
from perftrend.measure.transport import connection
from perftrend.measure.wiring import run

_STOP_S = 5.0
_END_S = 60.0
_MTU = re.compile(r" mtu (\d+) ")

_HEARTBEAT_S = 10.0
_RETRY_S = 1.0
_IN_USE = 75
_IS_HELD = "held?"
# The file is locked by a shell on the node as long as the job is connected, and touched at each heartbeat. If
# the connection was cut and the node does not notice it, the file gets old: then the shell is ended.
# The first line of the file is that of the last job that acquired the lock. Testbeds that this job opens hold
# the lock together with it: they know its token, so the lock is shared once it is acquired. A job whose token
# is not in the file any longer has lost the lock to another one.
_LOCK = """
umask 0
folder=/tmp/perftrend-locks
[ -d "$folder" ] || mkdir -m 777 "$folder"
file=$folder/$1
exec 9>>"$file" || exit 1
refuse() {
    read -r _ _ holder <"$file"
    echo "${holder:-another job}"
    exit 75
}
if [ "$4" = acquire ]; then
    if ! flock -n 9; then
        # Before the age: if another job takes the lock over meanwhile, the file is new.
        holders=$(cut -d " " -f 1 "$file")
        if [ "$(($(date +%s) - $(stat -c %Y "$file")))" -gt 60 ]; then
            for pid in $holders; do
                [ "/proc/$pid/fd/9" -ef "$file" ] && kill "$pid"
            done
            sleep 1
        fi
        flock -n 9 || refuse
    fi
    printf '%s %s %s\n' "$$" "$3" "$2" >"$file"
fi
flock -s -n 9 && read -r _ token _ <"$file" && [ "$token" = "$3" ] || refuse
[ "$4" = acquire ] || printf '%s %s %s\n' "$$" "$3" "$2" >>"$file"
echo
while read -r line; do
    touch "$file"
    [ -z "$line" ] || echo
done
"""


class SshWiring(Wiring):
    """Nodes that are reached by ssh or are this machine, connected by the links of the testbed's file.

    :param nodes: their options are those of :func:`perftrend.measure.transport.connection`.
    :param ssh_config: a file to use instead of ``~/.ssh/config``.
    """

    def __init__(self, nodes: Mapping[str, Node], links: Sequence[Link], *, ssh_config: str = "") -> None:
        ends = [link for link in links if link.generator_node == "tg"]
        hosts = {link: _host_mac(link, number) for number, link in enumerate(ends)}
        chain = [replace(link, next_hop_mac=hosts.get(link, "")) for link in links]
        self.links: Sequence[Link] = [link for link in chain if link.generator_node == "tg"]
        self.hops: Mapping[str, Sequence[Link]] = hops(chain)
        self.generator_ports: Sequence[str] = [f"packet:{link.generator.interface}" for link in self.links]
        self.device_ports: Sequence[str] = [f"packet:{link.device.interface}" for link in self.links]
        self._connections = {
            name: connection(name, node.options or {}, ssh_config) for name, node in nodes.items()
        }
        self.is_remote = any(each.is_remote for each in self._connections.values())
        self._chain: Sequence[Link] = chain
        self._lock: _NodeLock | None = None

    @override
    def unusable(self) -> str:
        if self.is_remote and not shutil.which("ssh"):
            return "the program ssh is missing (Debian: apt-get install openssh-client)"
        return ""

    @override
    def is_node_remote(self, node: str) -> bool:
        return self._connections[node].is_remote

    @override
    def open(self) -> None:
        try:
            for each in self._connections.values():
                each.open()
        except BaseException:
            self.close()
            raise

    @override
    def close(self) -> None:
        if self._lock:
            self._lock.close()
            self._lock = None
        for each in self._connections.values():
            each.close()

    @override
    def lacks(self, frame_bytes: int) -> str:
        needed = mtu(frame_bytes)
        for link in self._chain:
            for node, port in ((link.generator_node, link.generator), (link.device_node, link.device)):
                # The kernel has no interface for a port that DPDK uses.
                if port.interface and not port.pci:
                    state = run(self.at_node(node, ["ip", "link", "show", "dev", port.interface]))
                    found = _MTU.search(state)
                    if found and int(found[1]) < needed:
                        return (
                            f"frames of {frame_bytes} bytes (interface {port.interface} of node {node} has "
                            f"the MTU {found[1]}; ip link set dev {port.interface} mtu {needed})"
                        )
        return ""

    @override
    def at_generator(self, command: Sequence[str]) -> list[str]:
        return self.at_node("tg", command)

    @override
    def at_device(self, command: Sequence[str]) -> list[str]:
        return self.at_node("dut", command)

    @override
    def at_node(self, node: str, command: Sequence[str]) -> list[str]:
        return self._connections[node].command(command)

    @override
    def forward_generator(self, target: Target) -> Target:
        return self.forward_node("tg", target)

    @override
    def forward_device(self, target: Target) -> Target:
        return self.forward_node("dut", target)

    @override
    def forward_node(self, node: str, target: Target) -> Target:
        return self._connections[node].forward(target)

    @override
    def ssh(self, node: str) -> tuple[Sequence[str], str]:
        return self._connections[node].ssh()

    @override
    def lock(self, name: str, owner: str, wait_s: float, token: str = "") -> str:
        generator = self._connections["tg"]
        generator.open()
        acquired = token or secrets.token_hex(16)
        command = _lock_command(name, owner, acquired, is_acquired=bool(token))
        deadline = time.monotonic() + wait_s
        while True:
            try:
                self._lock = _NodeLock(generator.command(command))
            except _InUseError as error:
                if token:
                    raise errors.TestbedError(
                        f"testbed {name}: this job has lost its lock on the generator's node, and {error} "
                        "may have used the testbed; run the same command again"
                    ) from None
                if time.monotonic() >= deadline:
                    raise errors.TestbedError(
                        f"testbed {name} is in use by {error}; wait longer with --wait SECONDS"
                    ) from None
                time.sleep(_RETRY_S)
            else:
                return acquired

    @override
    def end_left_overs(self) -> None:
        for each in self._connections.values():
            if each.is_remote:
                command, script = end_all_command(each.command)
                run(command, script, timeout_s=_END_S)

    @override
    def verify_lock(self) -> None:
        if self._lock:
            self._lock.verify()


def _host_mac(link: Link, number: int) -> str:
    """Return the MAC address that the device sends routed frames to; empty if to the generator's port.

    The embedded generator's hosts have addresses of their own behind an interface of the kernel.
    """
    has_kernel_interface = link.generator.interface and not link.generator.pci
    return frames.host_mac(number).hex(":") if has_kernel_interface else ""


def _lock_command(name: str, owner: str, token: str, *, is_acquired: bool) -> list[str]:
    """Return the command that holds a lock on the node where it runs.

    :param is_acquired: whether the lock is that of the job with this token, and not a new one.
    """
    how = "share" if is_acquired else "acquire"
    return ["sh", "-c", _LOCK, "sh", name, " ".join(owner.split()), token, how]


class _InUseError(Exception):
    """Another job has the lock."""


class _NodeLock:
    """A lock on a node, as long as the connection exists."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        assert self._process.stdout is not None  # noqa: S101 - opened as a pipe above
        if (line := self._process.stdout.readline()) != "\n":
            self._raise(line.strip())
        self._is_closed = threading.Event()
        self._writing = threading.Lock()
        self._heart = threading.Thread(target=self._beat, daemon=True)
        self._heart.start()

    def _raise(self, holder: str) -> None:
        _, error_output = self._process.communicate()
        if self._process.returncode == _IN_USE:
            raise _InUseError(holder)
        reason = error_output.strip() or f"exit code {self._process.returncode}"
        raise errors.TestbedError(f"the generator's node cannot be locked: {reason}")

    def _beat(self) -> None:
        while not self._is_closed.wait(_HEARTBEAT_S):
            try:
                self._write("\n")
            except OSError:
                return  # The connection is lost, and what uses it will fail.

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None  # noqa: S101 - opened as a pipe above
        with self._writing:
            self._process.stdin.write(line)

    def verify(self) -> None:
        """Raise a TestbedError if the lock has been lost since it was acquired."""
        assert self._process.stdout is not None  # noqa: S101 - opened as a pipe above
        with contextlib.suppress(OSError):
            self._write(f"{_IS_HELD}\n")
            # ssh ends if its connection is lost, so that this does not wait for longer than 12 s.
            if self._process.stdout.readline():
                return
        raise errors.TestbedError(
            "the connection that holds the lock on the generator's node is lost, and other jobs may use "
            "the testbed; run the same command again"
        )

    def close(self) -> None:
        self._is_closed.set()
        self._heart.join()
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self._process.communicate(timeout=_STOP_S)
        self._process.kill()
        self._process.wait()
