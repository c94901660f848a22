"""A real server for the tests: Gerrit 3.10.2, without its web pages.

Its REST interface, git over HTTP and SSH are whole. What it cannot be made to do, such as to fail or to
fall silent, there is the double in ``tests/doubles/gerrit.py`` for.

Everything that a person does beforehand is here: make projects and users, push, comment.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import requests

from tests.integration.servers import java
from tests.integration.servers.java import LackingError

POM = Path(__file__).with_name("gerrit-pom.xml")
PROGRAM = Path(__file__).with_name("GerritProgram.java")
READY_S = 300
SITE = "site"
PROGRAMS = ("java", "git", "ssh", "ssh-keygen")


@dataclass(frozen=True)
class User:
    """Somebody with an account: a person, or a job."""

    name: str
    password: str
    key: Path
    """The private key for SSH."""


@dataclass(frozen=True)
class Pushed:
    """A patch set that was pushed."""

    number: int
    """Of its change."""
    patch_set: int
    revision: str
    change_id: str
    folder: Path
    """The clone that it was pushed from."""


class Server:
    """A server that answers; tests may stop it and start it again."""

    def __init__(self, site: Path, files: Path) -> None:
        self.site = site
        self.url = f"http://127.0.0.1:{java.free_port()}"
        self.ssh_port = java.free_port()
        self.known_hosts = site.with_name("known hosts")
        self._files = files
        self._process: subprocess.Popen[bytes] | None = None
        self._initialise()
        self.admin = User("admin", "secret", site.with_name("admin's key"))

    # ---- the server itself

    def _initialise(self) -> None:
        shutil.copytree(self._files / SITE, self.site)
        address = f"127.0.0.1:{self.ssh_port}"
        for name, value in (
            ("gerrit.canonicalWebUrl", f"{self.url}/"), ("httpd.listenUrl", f"{self.url}/"),
            ("sshd.listenAddress", address), ("sshd.advertisedAddress", address),
            ("sendemail.enable", "false"), ("sshd.threads", "4"), ("httpd.maxThreads", "16"),
            # One that is stopped does not wait for who listens to its events.
            ("sshd.gracefulStopTimeout", "0s"), ("httpd.gracefulStopTimeout", "0s"),
        ):  # fmt: skip
            git("config", "-f", str(self.site / "etc" / "gerrit.config"), name, value)

    def start(self) -> None:
        """Start it and wait until it answers."""
        with (self.site.with_name("server.log")).open("ab") as log:
            self._process = subprocess.Popen(
                program(self._files, "Daemon", "-d", str(self.site), "--console-log", "--headless"),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline and self._process.poll() is None:
            if self._answers():
                return
            time.sleep(0.2)
        tail = self.site.with_name("server.log").read_text(errors="replace").splitlines()[-20:]
        raise RuntimeError("\n".join(["the server does not answer; its log ends:", *tail]))

    def _answers(self) -> bool:
        """Return whether both HTTP and SSH are served: they start one after the other."""
        try:
            ready = requests.get(f"{self.url}/config/server/version", timeout=5).ok
            with socket.create_connection(("127.0.0.1", self.ssh_port), timeout=5) as connection:
                return ready and connection.recv(4) == b"SSH-"
        except (requests.RequestException, OSError):
            return False

    def stop(self) -> None:
        """End it; what it was told by then is on the disk."""
        if self._process:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            self._process = None

    # ---- what people do there

    def ask(self, method: str, path: str, user: User | None = None, body: object = None) -> Any:
        """Send a request as a user, by default as the administrator; return the decoded answer."""
        by = user or self.admin
        answer = requests.request(
            method, f"{self.url}/a/{path.lstrip('/')}", json=body, auth=(by.name, by.password), timeout=60
        )
        if not answer.ok:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
        return json.loads(answer.text.removeprefix(")]}'")) if answer.text.strip() else None

    def create_user(self, name: str, groups: Sequence[str] = ()) -> User:
        """Make an account with a password and an SSH key.

        :param groups: what it is a member of, ``Service Users`` for one that listens to events.
        """
        user = User(name, f"password of {name}", self.site.with_name(f"{name}'s key"))
        self.ask("PUT", f"accounts/{name}", body={
            "name": f"{name.title()} Example", "email": f"{name}@example.org", "http_password": user.password,
            "groups": list(groups),
        })  # fmt: skip
        self._add_key(user)
        return user

    def create_group(self, name: str, members: Sequence[str] = ()) -> None:
        self.ask("PUT", f"groups/{quote(name, safe='')}",
                 body={"members": list(members), "visible_to_all": True})  # fmt: skip

    def _add_key(self, user: User) -> None:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", user.name, "-f", str(user.key)],
                       check=True, stdin=subprocess.DEVNULL)  # fmt: skip
        public = user.key.with_name(f"{user.key.name}.pub").read_text()
        answer = requests.post(
            f"{self.url}/a/accounts/self/sshkeys", data=public, headers={"Content-Type": "text/plain"},
            auth=(user.name, user.password), timeout=60,
        )  # fmt: skip
        answer.raise_for_status()

    def create_project(self, name: str, label: str = "Performance") -> None:
        """Make a project with one commit, and a label that registered users may vote -1, 0 or +1 on."""
        path = f"projects/{quote(name, safe='')}"
        self.ask("PUT", path, body={"create_empty_commit": True})
        self.ask("PUT", f"{path}/labels/{label}", body={
            "function": "NoBlock", "values": {"-1": "Slower", " 0": "No vote", "+1": "As fast"},
        })  # fmt: skip
        vote = {
            "label": label,
            "rules": {"global:Registered-Users": {"action": "ALLOW", "min": -1, "max": 1}},
        }
        self.ask("POST", f"{path}/access",
                 body={"add": {"refs/heads/*": {"permissions": {f"label-{label}": vote}}}})  # fmt: skip

    def clone(self, project: str, folder: Path, user: User | None = None) -> Path:
        by = user or self.admin
        login = f"{quote(by.name, safe='')}:{quote(by.password, safe='')}"
        url = f"{self.url.replace('://', f'://{login}@')}/a/{quote(project)}"
        git("clone", "--quiet", url, str(folder))
        git("-C", str(folder), "config", "user.name", by.name)
        git("-C", str(folder), "config", "user.email", f"{by.name}@example.org")
        return folder

    def push(
        self,
        folder: Path,
        files: Mapping[str, str],
        subject: str = "A change",
        *,
        again: Pushed | None = None,
    ) -> Pushed:
        """Commit files and push them for review.

        :param folder: a clone; what is committed lies on top of its branch's head.
        :param again: a patch set that this one is to follow, of the same change.
        """
        inside = str(folder)
        git("-C", inside, "reset", "--quiet", "--hard", "origin/HEAD")
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        git("-C", inside, "add", "--all")
        change_id = again.change_id if again else f"I{os.urandom(20).hex()}"
        git("-C", inside, "commit", "--quiet", "-m", f"{subject}\n\nChange-Id: {change_id}")
        git("-C", inside, "push", "--quiet", "origin", "HEAD:refs/for/master")
        revision = git("-C", inside, "rev-parse", "HEAD").strip()
        [told] = self.ask("GET", f"changes/?q=commit:{revision}&o=ALL_REVISIONS")
        return Pushed(told["_number"], told["revisions"][revision]["_number"], revision, change_id, folder)

    def comment(
        self,
        on: Pushed,
        user: User,
        text: str = "",
        *,
        message: str = "",
        inline: Mapping[str, Mapping[int, str]] | None = None,
        labels: Mapping[str, int] | None = None,
    ) -> None:
        """Review a patch set as the web page does it.

        :param text: typed into the box of the reply, which makes it a comment on the patch set.
        :param message: the review's own message, as programs send it.
        :param inline: texts by path and line.
        """
        comments = {path: [{"line": line, "message": each} for line, each in lines.items()]
                    for path, lines in (inline or {}).items()}  # fmt: skip
        if text:
            comments["/PATCHSET_LEVEL"] = [{"message": text, "unresolved": False}]
        body: dict[str, Any] = {"comments": comments, "labels": dict(labels or {})}
        if message:
            body["message"] = message
        self.ask("POST", f"changes/{on.number}/revisions/{on.revision}/review", user, body)

    def trust(self) -> None:
        """Trust the server's host keys, read from its files: a request could fail on a busy machine."""
        keys = [file.read_text().split()[:2] for file in (self.site / "etc").glob("ssh_host_*_key.pub")]
        lines = [f"[127.0.0.1]:{self.ssh_port} {kind} {key}\n" for kind, key in keys]
        self.known_hosts.write_text("".join(lines))


@contextmanager
def running(folder: Path) -> Iterator[Server]:
    """Run a server in an empty folder.

    :raises LackingError: if a program is missing, or its files cannot be had.
    """
    folder.mkdir(parents=True, exist_ok=True)
    server = Server(folder / "site", fetched())
    try:
        server.start()
        server._add_key(server.admin)
        server.trust()
        yield server
    finally:
        server.stop()


def fetched() -> Path:
    """Return the folder with the server's files and a new site, made the first time from Maven Central."""
    for name in PROGRAMS:
        java.program(name)
    return java.fetched("gerrit-with-site", POM, "-DincludeScope=runtime", finish=complete)


def complete(folder: Path) -> None:
    """Make a site, of which each server gets a copy.

    :raises LackingError: if Maven did not copy the server's files.
    """
    if not list(folder.glob("gerrit-plugin-api-*.jar")) or not list(folder.glob("bcpkix-*.jar")):
        raise LackingError("needs Gerrit's files, which Maven did not copy")
    done = subprocess.run(
        program(folder, "Init", "-d", str(folder / SITE), "--batch", "--dev", "--no-auto-start"),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=READY_S,
        text=True, errors="replace", check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"the server cannot be initialised: {done.stdout[-2000:]}")


def program(files: Path, *words: str) -> list[str]:
    """Return the command that starts a program of Gerrit's."""
    return [*java.command(), "-Xmx512m", "-cp", f"{files}/*", str(PROGRAM), *words]


def git(*arguments: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *arguments], capture_output=True, text=True, timeout=120, check=False,
        env=kept | {"GIT_TERMINAL_PROMPT": "0"},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"git {arguments[:4]}: {done.stderr[-500:]}")
    return done.stdout
