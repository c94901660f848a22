"""The code of a change under review attacks the job that builds it."""

from __future__ import annotations

import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from perftrend import sandbox
from perftrend.builds import Builds, Profile, load
from perftrend.clients.git import Repository
from perftrend.errors import BuildError, TestbedError
from perftrend.measure import lock, specification
from perftrend.measure.embedded.drivers import EmbeddedDevice
from perftrend.measure.interfaces import Node
from perftrend.measure.testbed import Testbed
from perftrend.measure.wiring import VethPairs
from perftrend.sandbox import Limits, Sandbox
from tests.integration.quiet import interference
from tests.integration.servers.environment import inherited
from tests.products.histories import History
from tests.products.router import RouterProduct

Require = Callable[[object, str], None]
Build = Callable[..., Path]

ROOT = Path(__file__).parents[2]
SECRET = "s3cret"  # noqa: S105 - what the attacker looks for
DAEMON = "perftrend-attacker-left-this"
LIMITS = Limits(memory_gib=1, processes=200, disk_gib=0.1)

JOB = """
import json, sys
from pathlib import Path
from perftrend import sandbox
from perftrend.builds import open_builds
from perftrend.settings import ProjectSettings

project, commit, is_under_review, launcher = json.loads(sys.argv[1])
sandbox.LAUNCHERS = {launcher: sandbox.LAUNCHERS[launcher]}
with open_builds(ProjectSettings(**project), is_under_review=is_under_review) as builds:
    built = builds.build(commit)
    measured = builds.measure(built)
    values, failed = str(measured.values), dict(measured.failed)
    print(json.dumps({"folder": str(built.folder), "failed": failed, "values": values}))
"""
"""A job as the command line's: it has a token in its environment, and a HOME."""

ATTACK = f"""
import json, os, socket, sys
from pathlib import Path

place, port, builds = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
found = []

def look(what, data):
    if b"{SECRET}" in data:
        found.append(what)

look("its environment", str(os.environ).encode())
for process in Path("/proc").glob("[0-9]*"):
    for name in ("environ", "cmdline"):
        try:
            look(f"/proc/{{process.name}}/{{name}}", (process / name).read_bytes())
        except OSError:
            pass
for folder in Path.home(), place, builds:
    for path in folder.rglob("*"):
        try:
            if path.is_file() and path.stat().st_size < 1_000_000 and not path.is_relative_to(Path.cwd()):
                look(f"file {{path.name}}", path.read_bytes())
        except OSError:
            pass
for family, address in ((socket.AF_INET, ("127.0.0.1", port)), (socket.AF_UNIX, f"\\0perftrend-{{port}}")):
    try:
        with socket.socket(family) as client:
            client.connect(address)
            found.append(f"network {{family.name}}")
    except OSError:
        pass
for folder in place, place / "home", place / "source/.git", builds:
    try:
        (folder / "written").write_text("by the attacker")
    except OSError:
        pass
if os.access("/proc/sys/kernel/core_pattern", os.W_OK):
    found.append("core_pattern")
"""
BUILDING = ATTACK + 'Path("found.json").write_text(json.dumps(found))\n'
MEASURING = ATTACK + "print(json.dumps({each: 1 for each in found} or {'nothing': 0}))\n"
LEAVING = f"""
import os, subprocess, sys
for options in ({{}}, {{"start_new_session": True}}, {{"start_new_session": True, "cwd": "/"}}):
    subprocess.Popen(["sh", "-c", "sleep 600; : {DAEMON}"], **options)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir("/")
        os.execvp("sh", ["sh", "-c", "sleep 600; : {DAEMON}"])
    os._exit(0)
open("out", "w").write("built")
"""


@pytest.fixture(autouse=True, params=sandbox.LAUNCHERS)
def launcher(
    request: pytest.FixtureRequest, require: Require, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Use only one of the programs that make a sandbox, and give its name."""
    name: str = request.param
    monkeypatch.setattr(sandbox, "LAUNCHERS", {name: sandbox.LAUNCHERS[name]})
    sandbox.find_launcher.cache_clear()
    require(not sandbox.unusable(), sandbox.unusable())
    yield name
    sandbox.find_launcher.cache_clear()


@pytest.fixture
def listening() -> Iterator[int]:
    """Give the port of a server of this machine, which also listens on an abstract socket."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        port = server.getsockname()[1]
        local.bind(f"\0perftrend-{port}")
        local.listen()
        yield port


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "source")


@pytest.fixture
def build(history: History, tmp_path: Path) -> Build:
    """Give what builds a commit of the given files by a command, and returns the folder of the artifacts."""

    def run(*command: str, files: dict[str, str], artifact: str = "out") -> Path:
        commit = history.commit("Attack", files)
        profile = {"name": "ours", "description": "ours", "artifacts": [artifact], "build": [command]}
        confined = Sandbox(LIMITS, (history.folder,))
        with Builds(
            Profile.model_validate(profile),
            Repository.at(history.folder),
            tmp_path / "builds",
            sandbox=confined,
        ) as builds:
            return builds.build(commit).folder

    return run


def run_job(
    history: History, place: Path, port: int, launcher: str, *, is_under_review: bool
) -> dict[str, Any]:
    """Build and measure a commit that looks for secrets; return what it found in both."""
    home = place / "home"
    for name in (".netrc", ".pgpass", ".ssh/id_ed25519", ".config/perftrend.yaml"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(f"password {SECRET}")
    (place / "perftrend.sqlite").write_text(SECRET)
    commit = history.commit("Attack", {"build.py": BUILDING, "measure.py": MEASURING})
    arguments = f"{place} {port} {place / 'builds'}"
    project = {
        "profile": "command",
        "repository": str(history.folder),
        "builds": str(place / "builds"),
        "parameters": {
            "build": f"{{python}} build.py {arguments}",
            "measure": f"{{python}} measure.py {arguments}",
            "prints": "json",
        },
    }
    done = subprocess.run(
        [sys.executable, "-c", JOB, json.dumps([project, commit, is_under_review, launcher])],
        env=inherited()
        | {"PYTHONPATH": str(ROOT), "HOME": str(home), "PERFTREND_GERRIT_TOKEN": SECRET, "TOKEN": SECRET},
        cwd=place, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    result["found"] = json.loads(Path(result["folder"], "found.json").read_text())
    return result


def test_code_under_review_finds_no_secret_and_no_server(
    history: History, tmp_path: Path, listening: int, launcher: str
) -> None:
    result = run_job(history, tmp_path, listening, launcher, is_under_review=True)

    assert [] == result["found"]
    assert {} == result["failed"]
    assert "'nothing'" in result["values"]
    assert [] == list(tmp_path.rglob("written"))


def test_attacker_finds_all_of_them_without_a_sandbox(
    history: History, tmp_path: Path, listening: int, launcher: str
) -> None:
    """The attack of the test above works: what protects from it is the sandbox."""
    result = run_job(history, tmp_path, listening, launcher, is_under_review=False)

    for each in ("file .netrc", "file id_ed25519", "file perftrend.sqlite", "network AF_INET"):
        assert each in result["found"]
        assert each in result["values"]
    assert any(each.endswith("/environ") for each in result["found"])
    assert 4 == len(list(tmp_path.rglob("written")))


def test_no_process_is_left(build: Build) -> None:
    built = build("{python}", "leave.py", files={"leave.py": LEAVING})

    assert "built" == (built / "out").read_text()
    assert [] == [
        process
        for process in Path("/proc").glob("[0-9]*/cmdline")
        if DAEMON in process.read_text(errors="replace")
    ]


@pytest.mark.parametrize(
    ("script", "limit"),
    [
        ("i=0; while dd if=/dev/zero of=f$i bs=1M count=20 status=none; do i=$((i+1)); done", "disk space"),
        (
            "cd /tmp; i=0; while dd if=/dev/zero of=f$i bs=1M count=20 status=none; do i=$((i+1)); done",
            "disk",
        ),
        ("i=0; while [ $i -lt 800 ]; do sleep 600 & i=$((i+1)); done; wait", "processes and threads"),
    ],
)
def test_limits_end_a_build(build: Build, tmp_path: Path, script: str, limit: str) -> None:
    with pytest.raises(BuildError, match=limit):
        build("sh", "attack.sh", files={"attack.sh": script})

    assert [] == [*(tmp_path / "builds/worktrees").iterdir(), *(tmp_path / "builds/scratch").iterdir()]


ESCAPE = """
secret=$1
touch /written /usr/written /etc/written
for path in / /usr /proc /dev; do umount -l $path; mount -o remount,rw $path; done
unshare --user --map-root-user --mount --pid --fork sh -c '
    umount -l /usr; umount -l /proc; mount -o remount,rw,bind /usr; mount -o remount,rw,bind /
    mount -t proc proc /proc; mount --bind /home /usr
    touch /written /usr/written
    nsenter --target 1 --mount --pid sh -c "cat $1; touch /written"
    chroot /proc/1/root cat $1' sh "$secret"
for root in / /.. ../../../../.. /proc/1/root /proc/1/cwd/../../../../..; do cat $root/$secret; done
grep -E "^(CapPrm|CapBnd|NoNewPrivs)" /proc/self/status
"""


def test_escape_with_namespaces_of_its_own_fails(build: Build, tmp_path: Path) -> None:
    """A user namespace gives all capabilities in it, but none over the files outside of it."""
    (tmp_path / "secret").write_text(SECRET)
    command = f"sh escape.sh {tmp_path / 'secret'} > out 2>&1"
    built = build("sh", "-c", command, files={"escape.sh": ESCAPE})

    output = (built / "out").read_text()
    assert SECRET not in output
    assert "Read-only file system" in output
    assert [] == [*Path("/").glob("written"), *Path("/usr").glob("written"), *Path("/etc").glob("written")]
    assert {"CapPrm": 0, "CapBnd": 0, "NoNewPrivs": 1} == {
        name: int(value, 16) for name, value in re.findall(r"^(\w+):\t(\w+)$", output, re.MULTILINE)
    }


def test_memory_is_limited(build: Build) -> None:
    script = "all = []\nwhile True:\n    all.append(bytearray(20_000_000))\n"

    with pytest.raises(BuildError, match="GiB of memory"):
        build("{python}", "attack.py", files={"attack.py": script})


def test_set_user_id_program_is_of_no_use_to_other_users(build: Build, tmp_path: Path) -> None:
    artifacts = build("sh", "-c", "cp /bin/sh out && chmod 6755 out", files={})

    assert 0o755 == stat.S_IMODE((artifacts / "out").stat().st_mode)
    for name in ("worktrees", "scratch"):
        assert 0o700 == stat.S_IMODE((tmp_path / "builds" / name).stat().st_mode)


def test_link_out_of_the_checkout_is_no_artifact(build: Build, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(SECRET)

    with pytest.raises(BuildError, match="the artifact out is a link to a file that is not in the checkout"):
        build("ln", "-s", str(tmp_path / "token"), "out", files={})
    with pytest.raises(BuildError, match="the artifact out/token is a link to a file"):
        build("ln", "-s", str(tmp_path), "out", files={"again": ""}, artifact="out/token")


def test_folders_that_nobody_can_enter_are_removed(build: Build, tmp_path: Path) -> None:
    script = "import os\nfor i in range(1500):\n    os.mkdir('d')\n    os.chdir('d')\nos.chmod('.', 0)\n"

    build("sh", "-c", "{python} deep.py; mkdir a; mkdir a/b; chmod 0 a; touch out", files={"deep.py": script})

    assert [] == list((tmp_path / "builds/worktrees").iterdir())


HOSTILE_DEVICE = """
import os, socket, sys
from pathlib import Path

place, port = Path(sys.argv[0]).parent, int(Path(sys.argv[0]).stem)
found = [path.name for path in place.rglob("*") if path.name != Path(sys.argv[0]).name]
for process in Path("/proc").glob("[0-9]*/environ"):
    try:
        found += [str(process)] if b"s3cret" in process.read_bytes() else []
    except OSError:
        pass
for folder in "/tmp", "/home", "/dev/shm", str(place), "/":
    found += [folder] if os.access(folder, os.W_OK) and not os.statvfs(folder).f_flag & os.ST_RDONLY else []
try:
    socket.create_connection(("127.0.0.1", port), 5)
    found.append("network")
except OSError:
    pass
socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).bind(("d0", 3))
sys.exit(f"found {found}")
"""


@pytest.mark.packets
@pytest.mark.parametrize("user_namespace", ["no", "yes"])
def test_device_under_review_has_its_interfaces_and_nothing_else(
    user_namespace: str, tmp_path: Path, listening: int, require: Require, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFTREND_GERRIT_TOKEN", SECRET)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    program = tmp_path / f"{listening}.py"
    program.write_text(HOSTILE_DEVICE)
    (tmp_path / "netrc").write_text(SECRET)
    wiring = VethPairs(user_namespace=user_namespace)
    require(not wiring.unusable(), wiring.unusable())
    device = EmbeddedDevice(wiring, Node(cpu=None))
    wiring.open()
    try:
        with pytest.raises(TestbedError, match=r"device has ended: found \[\]"):
            device.start({"program": str(program), "isolated": "yes"})
    finally:
        device.stop()
        wiring.close()


@pytest.mark.packets
def test_confined_device_forwards_every_frame(
    tmp_path: Path, require: Require, require_quiet: Callable[[str], None]
) -> None:
    product = RouterProduct(tmp_path / "product")
    commit = product.commit(0)
    spec = specification.load("1n-veth")
    require(not Testbed(spec).unusable(), Testbed(spec).unusable())
    confined = Sandbox(Limits(4, 1000, 1), (product.folder,))
    with (
        lock.hold(spec.lock, wait_s=600),
        Builds(
            load("embedded-router"), Repository.at(product.folder), tmp_path / "builds", sandbox=confined
        ) as builds,
        Testbed(spec, device_options=builds.build(commit).device_options) as testbed,
    ):
        testbed.start_device({"acl_rules": "0"})
        testbed.restart_device()
        testbed.use("64B")
        trial = testbed.trials.measure(5_000, 0.3)
        require_quiet(interference(trial.invalid))

        assert (1500, 1500, "") == (trial.sent, trial.received, trial.invalid)
        assert commit == testbed.versions()["device"]


def test_time_of_a_command_counts_as_that_of_a_child(build: Build) -> None:
    """Otherwise, a measurement in a sandbox takes itself for another program that uses its cores."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    script = "import time\nwhile time.process_time() < 0.5:\n    pass\nopen('out', 'w')\n"

    build("sh", "-c", "{python} spend.py", files={"spend.py": script})

    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime > 0.4


def test_instructions_are_counted_in_the_sandbox(history: History, tmp_path: Path, require: Require) -> None:
    require(shutil.which("valgrind"), "needs valgrind")
    commits = [
        history.commit(
            f"{turns} turns", {"out": f"i=0; while [ $i -lt {turns} ]; do i=$((i + 1)); done; echo 1\n"}
        )
        for turns in (2000, 4000)
    ]
    profile = {
        "name": "ours",
        "description": "ours",
        "artifacts": ["out"],
        "measure": {"command": ["sh", "out"]},
    }
    said: list[str] = []
    with Builds(
        Profile.model_validate(profile),
        Repository.at(history.folder),
        tmp_path / "builds",
        log=said.append,
        sandbox=Sandbox(LIMITS, (history.folder,)),
    ) as builds:
        found = builds.compare_instructions(*commits)

    assert found is not None, said
    assert found.relative > 0.2


def test_exit_code_is_that_of_the_command(build: Build) -> None:
    with pytest.raises(BuildError, match="ended with 7; "):
        build("sh", "-c", "exit 7", files={})
    with pytest.raises(BuildError, match=f"ended with {128 + signal.SIGABRT}; "):
        build("{python}", "-c", "import os\nos.abort()", files={"again": ""})


def test_program_that_is_configured_in_etc_works(build: Build, require: Require) -> None:
    require(shutil.which("java"), "needs java")

    built = build("sh", "-c", "java -XshowSettings:security -version > out 2>&1", files={"in": ""})

    assert "Security properties" in (built / "out").read_text()


def test_version_of_a_checkout_can_be_described(history: History, build: Build) -> None:
    built = build("sh", "-c", "git describe --always --dirty > out", files={"in": ""})

    assert (built / "out").read_text().strip() == history.git("describe", "--always", "HEAD").strip()


def test_stopped_job_leaves_nothing(history: History, tmp_path: Path, launcher: str) -> None:
    """A job that is killed cannot tidy up: the kernel ends the sandbox with it."""
    commit = history.commit("Wait", {"wait.sh": f"touch started; sleep 600; : {DAEMON}"})
    project = {
        "profile": "command",
        "repository": str(history.folder),
        "builds": str(tmp_path / "builds"),
        "parameters": {"build": "sh wait.sh", "measure": "true"},
    }
    job = subprocess.Popen(
        [sys.executable, "-c", JOB, json.dumps([project, commit, True, launcher])],
        env=inherited() | {"PYTHONPATH": str(ROOT)}, cwd=tmp_path,
    )  # fmt: skip
    waiting = Thread(target=job.wait)
    waiting.start()
    while waiting.is_alive() and not list((tmp_path / "builds/worktrees").glob("*/started")):
        waiting.join(0.05)
    processes = [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if "wait.sh" in path.read_text(errors="replace")
    ]
    descriptors = [os.pidfd_open(process) for process in processes]

    job.kill()
    waiting.join()

    assert processes
    for process, descriptor in zip(processes, descriptors, strict=True):
        # Readable once the process has ended, which the kernel sees to.
        has_ended = select.select([descriptor], [], [], 60)[0]
        os.close(descriptor)
        assert has_ended, f"process {process} lives on"
