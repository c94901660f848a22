"""A real server for the tests: Hudson 3.3.2, the code base that Jenkins was forked from.

Jenkins itself is in no package registry; Hudson is in Maven Central. It has the same XML for jobs and the
same JSON for builds, parameters, artifacts and consoles. It has no queue items, no ranges of lists, no
folders and no API tokens: for these there is the double in ``tests/doubles/jenkins.py``.

Each server gets a home and a port of its own.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import requests
from lxml import etree

from tests.integration.servers import java
from tests.integration.servers.environment import inherited
from tests.integration.servers.java import LackingError

POM = Path(__file__).with_name("pom.xml")
READY_S = 300

# What the server reaches into, and Java has closed since.
OPENED = [
    *(f"java.base/java.{name}" for name in ("lang", "util", "io", "net", "text")),
    *(f"java.base/{name}" for name in ("java.util.concurrent", "java.lang.reflect")),
    *(f"java.base/sun.{name}" for name in ("net.www.protocol.jar", "security.x509")),
    *(f"java.desktop/java.{name}" for name in ("awt", "awt.font", "beans")),
]

# Where it is found, as an administrator tells it: without that, a build knows no address of its own.
ADDRESS_FILE = "hudson.tasks.Mailer.xml"
OF_ADDRESS = "hudson.tasks.Mailer_-DescriptorImpl"

# What it cannot load, and in which element. Those of plugins that it lacks it drops by itself.
UNKNOWN = [("hudson.tasks.ArtifactArchiver", "allowEmptyArchive")]


@dataclass(frozen=True)
class Server:
    """A server that answers."""

    url: str
    home: Path

    def create_job(self, name: str, xml: str | bytes) -> str:
        """Create a job or replace it; return its page."""
        job = f"{self.url}/job/{quote(name, safe='')}"
        exists = requests.get(f"{job}/api/json", timeout=READY_S).ok
        answer = requests.post(
            f"{job}/config.xml" if exists else f"{self.url}/createItem",
            params={} if exists else {"name": name},
            data=loadable(xml),
            headers={"Content-Type": "text/xml; charset=utf-8"},
            timeout=READY_S,
        )
        answer.raise_for_status()
        return f"{job}/"


def loadable(xml: str | bytes) -> bytes:
    """Return a job's XML without what this server cannot load."""
    root = etree.fromstring(xml.encode() if isinstance(xml, str) else xml)
    for parent, name in UNKNOWN:
        for element in list(root.iter(parent)):
            etree.strip_elements(element, name, with_tail=False)
    return etree.tostring(root, xml_declaration=True, encoding="utf-8")


@contextmanager
def running(home: Path, **told: str) -> Iterator[Server]:
    """Run a server in an empty home.

    :param told: more variables, which its builds have as well.
    :raises LackingError: if a program is missing, or its files cannot be had.
    """
    files = fetched()
    home.mkdir(parents=True, exist_ok=True)
    with (home / "server.log").open("wb") as log:
        port = java.free_port()
        server = Server(f"http://127.0.0.1:{port}", home)
        (home / ADDRESS_FILE).write_text(f"<{OF_ADDRESS}><hudsonUrl>{server.url}/</hudsonUrl></{OF_ADDRESS}>")
        # It is killed, and would leave its unpacked files where nobody removes them.
        scratch = home / "scratch"
        scratch.mkdir(exist_ok=True)
        process = subprocess.Popen(command(files, port, scratch), env=environment(home) | told, stdout=log,
                                   stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
        try:
            wait_until_ready(server, process)
            yield server
        finally:
            # Its builds are in its process group, too.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def command(files: Path, port: int, scratch: Path) -> list[str]:
    opened = [word for each in OPENED for word in ("--add-opens", f"{each}=ALL-UNNAMED")]
    return [
        *java.command(), *opened, "-Xmx512m", "-Djava.awt.headless=true", "-DskipInitSetup=true",
        f"-Djava.io.tmpdir={scratch}",
        "-jar", str(files / "jetty-runner.jar"), "--host", "127.0.0.1", "--port", str(port),
        str(files / "war"),
    ]  # fmt: skip


def environment(home: Path) -> dict[str, str]:
    """Return this environment, but for settings and for what would tell builds where they run."""
    return inherited() | {"HUDSON_HOME": str(home)}


def wait_until_ready(server: Server, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if requests.get(f"{server.url}/api/json", timeout=5).ok:
                return
        except requests.RequestException:
            pass
        time.sleep(0.2)
    tail = (server.home / "server.log").read_text(errors="replace").splitlines()[-20:]
    ended = f"ended with {process.returncode}" if process.returncode is not None else "does not answer"
    raise RuntimeError("\n".join([f"the server {ended}; its log ends:", *tail]))


def fetched() -> Path:
    """Return the folder with the server's files, fetched from Maven Central the first time."""
    return java.fetched("hudson", POM, "-DexcludeTransitive=true", finish=complete)


def complete(folder: Path) -> None:
    wars, runners = list(folder.glob("hudson-war-*.war")), list(folder.glob("jetty-runner-*.jar"))
    if not wars or not runners:
        raise LackingError("needs Hudson's files, which Maven did not copy")
    runners[0].rename(folder / "jetty-runner.jar")
    with zipfile.ZipFile(wars[0]) as war:
        war.extractall(folder / "war")
    wars[0].unlink()
    # Its pages for logging in are for another container.
    descriptor = folder / "war" / "WEB-INF" / "web.xml"
    text = descriptor.read_text(encoding="utf-8")
    for element in ("security-constraint", "login-config", "security-role"):
        text = re.sub(rf"<{element}>.*?</{element}>", "", text, flags=re.DOTALL)
    descriptor.write_text(text, encoding="utf-8")
