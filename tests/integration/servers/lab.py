"""A lab in a box: the machines of a generator and of devices as network namespaces, each with a real sshd.

The job reaches them by management links only. Veth pairs between them are the links of the testbed.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from perftrend.measure.interfaces import Link, Node
from perftrend.measure.wiring import Namespace, VethPairs, connect, run

ROOT = Path(__file__).parents[3]
READY_S = 60.0
PORT = 22
NODES = ("tg", "dut")
_PROGRAMS = ("perftrend.measure", "tests.doubles")
"""What the command lines of a testbed's programs contain."""

_FULL_DISK = """
folder=/tmp/perftrend-$(id -u)
mkdir -p -m 700 "$folder" && mount -t tmpfs -o size=16k,mode=700 tmpfs "$folder" || exit 1
dd if=/dev/zero of="$folder/full" bs=1k 2>/dev/null
exec "$@"
"""


@dataclass
class Lab:
    """The machines of the lab, as long as the context exists."""

    folder: Path
    namespaces: dict[str, Namespace]
    servers: dict[str, subprocess.Popen[bytes]]
    hosts: dict[str, str]
    links: Sequence[Link]

    @property
    def config(self) -> Path:
        """The configuration of the ssh client."""
        return self.folder / "ssh_config"

    def file(self, **values: Any) -> dict[str, Any]:
        """Return the contents of a testbed file, with the embedded drivers unless others are given."""
        return {
            "name": "lab",
            "description": "a lab in a box",
            "nodes": {name: {"options": {"host": name}} for name in self.namespaces},
            "wiring": {"driver": "ssh", "options": {"ssh_config": str(self.config)}},
            "links": [
                {
                    node: {"interface": port.interface, "mac": port.mac}
                    for node, port in (
                        (link.generator_node, link.generator),
                        (link.device_node, link.device),
                    )
                }
                for link in self.links
            ],
            "generator": {"driver": "embedded"},
            "device": {"driver": "embedded"},
            "driver_tag": "LAB",
            "link": {"pps": 100_000},
            "remote": True,
            "lock": f"lab-{os.getpid()}",
            **values,
        }

    def cut(self, node: str) -> None:
        """Unplug the management link of a node: nothing is sent back any more."""
        run(["ip", "link", "set", _management(node), "down"])

    def plug(self, node: str) -> None:
        """Plug it in again."""
        run(["ip", "link", "set", _management(node), "up"])

    @contextlib.contextmanager
    def other_key(self, node: str) -> Iterator[None]:
        """Let the client know another key of a node than its server has, while the block runs."""
        file = self.folder / "known_hosts"
        known = file.read_text()
        own, other = ((self.folder / f"key_{name}.pub").read_text().split()[1] for name in (node, "client"))
        file.write_text(known.replace(own, other))
        try:
            yield
        finally:
            file.write_text(known)

    def processes(self, node: str) -> set[str]:
        """Return the command lines of what runs on a node, without its server."""
        return set(self._find(node, "").values())

    def kill(self, node: str) -> None:
        """Kill the programs of a testbed on a node, as a failing machine does."""
        for process, words in self._find(node, "").items():
            if any(package in words for package in _PROGRAMS) and "sh -c" not in words:
                os.kill(process, signal.SIGKILL)

    @contextlib.contextmanager
    def running(self, node: str, command: Sequence[str], ready: str) -> Iterator[None]:
        """Run a program on a node while the block runs, which a person starts there by ssh and leaves alone.

        :param ready: what the program prints when it is ready.
        """
        output = self.folder / f"output_{node}"
        in_background = f"setsid {shlex.join(command)} </dev/null >{output} 2>&1 &"
        run(["ssh", "-F", str(self.config), "--", node, in_background])
        try:
            deadline = time.monotonic() + READY_S
            while ready not in output.read_text():
                assert time.monotonic() < deadline, output.read_text()
                time.sleep(0.05)
            yield
        finally:
            self.kill(node)

    def _find(self, node: str, program: str) -> dict[int, str]:
        """Return the processes on a node by their numbers: those of a program, or all but the server's."""
        found = {}
        network = Path(f"/proc/{self.namespaces[node].pid}/ns/net").stat().st_ino
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
                is_here = (process / "ns/net").stat().st_ino == network and words[0] not in {"", "cat"}
                if is_here and ("sshd" in words[0]) == (program == "sshd"):
                    found[int(process.name)] = " ".join(words).strip()
        return found

    def stop_server(self, node: str) -> None:
        """End the sshd of a node, with all its connections."""
        server = self.servers.pop(node)
        server.terminate()
        server.wait()
        # Its connections have processes of their own, which go on.
        for process in self._find(node, "sshd"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def start_server(self, node: str, *, disk_is_full: bool = False) -> None:
        """Start the sshd of a node.

        :param disk_is_full: whether its programs find no space for their files.
        """
        command = ["/usr/sbin/sshd", "-D", "-e", "-f", str(self.folder / f"sshd_{node}")]
        if disk_is_full:
            command = ["unshare", "--mount", "sh", "-c", _FULL_DISK, "sh", *command]
        log = (self.folder / f"log_{node}").open("ab")
        with log:
            self.servers[node] = subprocess.Popen(
                self.namespaces[node].command(command), stdout=log, stderr=log
            )
        deadline = time.monotonic() + READY_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection((self.hosts[node], PORT), 1):
                return
            assert time.monotonic() < deadline, (self.folder / f"log_{node}").read_text()
            time.sleep(0.05)


def lacking() -> str:
    """Return why no lab can be made here; empty if one can."""
    if os.geteuid() != 0:
        return "a lab in a box needs root"
    for program, package in {
        "/usr/sbin/sshd": "openssh-server",
        "ssh": "openssh-client",
        "ip": "iproute2",
    }.items():
        if not shutil.which(program):
            return f"needs {program} ({package})"
    return ""


@contextlib.contextmanager
def built(folder: Path, nodes: Sequence[str] = NODES, link_count: int = 2) -> Iterator[Lab]:
    """Build a lab, whose files are in a folder.

    :param nodes: the generator's, and those of the devices in the order of their chain.
    :param link_count: the number of links of the generator.
    """
    Path("/run/sshd").mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        namespaces = {}
        for node in nodes:
            namespaces[node] = Namespace(user=False)
            stack.callback(namespaces[node].close)
        # Several processes may build a lab at once.
        network = f"198.19.{os.getpid() % 256}"
        hosts = {node: f"{network}.{4 * number + 2}" for number, node in enumerate(nodes, 1)}
        for node in nodes:
            _link_management(node, hosts[node], namespaces[node])
            stack.callback(run, ["sh", "-c", f"ip link delete {_management(node)} || true"])
        links = _links(nodes, link_count)
        _link_testbed(namespaces, links)
        lab = Lab(folder, namespaces, {}, hosts, links)
        _write_configuration(lab)
        for node in nodes:
            lab.start_server(node)
        try:
            yield lab
        finally:
            for node in list(lab.servers):
                lab.stop_server(node)


def _management(node: str) -> str:
    return f"m{node}{os.getpid() % 10**6}"


def _link_management(node: str, address: str, namespace: Namespace) -> None:
    here = _management(node)
    peer = ["type", "veth", "peer", "name", "mgmt", "netns", str(namespace.pid)]
    run(["ip", "link", "add", here, *peer])
    run(["ip", "addr", "add", f"{IPv4Address(address) - 1}/30", "dev", here])
    run(["ip", "link", "set", here, "up"])
    namespace.run("ip", "addr", "add", f"{address}/30", "dev", "mgmt")
    for interface in "mgmt", "lo":
        namespace.run("ip", "link", "set", interface, "up")


def _links(nodes: Sequence[str], count: int) -> Sequence[Link]:
    """Return the links of a testbed in the order of its chain."""
    wiring = VethPairs({name: Node() for name in nodes}, link_count=str(count))
    hops = list(wiring.hops.values())
    return [hops[0][0], *(hop[1] for hop in hops)] if hops else wiring.links


def _link_testbed(namespaces: dict[str, Namespace], links: Sequence[Link]) -> None:
    for namespace in namespaces.values():
        namespace.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
    for link in links:
        connect(link, namespaces)


def _write_configuration(lab: Lab) -> None:
    folder, user = lab.folder, getpass.getuser()
    for name in ("client", *lab.namespaces):
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / f"key_{name}")])
    known = [f"{lab.hosts[node]} {(folder / f'key_{node}.pub').read_text()}" for node in lab.namespaces]
    (folder / "known_hosts").write_text("".join(known))
    blocks = []
    for node in lab.namespaces:
        (folder / f"sshd_{node}").write_text(
            f"Port {PORT}\nListenAddress {lab.hosts[node]}\nHostKey {folder}/key_{node}\n"
            f"AuthorizedKeysFile {folder}/key_client.pub\nUsePAM no\nStrictModes no\nPidFile none\n"
            "PermitRootLogin prohibit-password\nPasswordAuthentication no\nMaxSessions 100\n"
            "Subsystem sftp internal-sftp\n"
            # The nodes run the code that is tested.
            f"SetEnv PYTHONPATH={ROOT}/resources\n"
        )
        blocks.append(
            f"Host {node}\n    HostName {lab.hosts[node]}\n    Port {PORT}\n    User {user}\n"
            f"    IdentityFile {folder}/key_client\n    IdentitiesOnly yes\n"
            f"    UserKnownHostsFile {folder}/known_hosts\n    GlobalKnownHostsFile /dev/null\n"
        )
    lab.config.write_text("\n".join(blocks))
