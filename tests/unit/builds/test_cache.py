"""The cache of builds is bounded, and verified before it is used."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from perftrend.builds import Builds, BuiltCommit
from tests.products.histories import History
from tests.unit.builds.conftest import Open, await_end, ended

BUILD = """
import sys
from pathlib import Path
from perftrend.builds import Builds, Profile
from perftrend.clients.git import Repository

source, folder, commit, *build = sys.argv[1:]
told = {"name": "ours", "description": "ours", "artifacts": ["out"], "build": [build]}
profile, repository = Profile.model_validate(told), Repository.at(Path(source))
with Builds(profile, repository, Path(folder), log=lambda line: print(line, flush=True)) as builds:
    built = builds.build(commit)
    print("kept" if built.was_cached else "made", flush=True)
    sys.stdin.read()
"""


def process(history: History, folder: Path, commit: str, *build: str) -> subprocess.Popen[str]:
    """Start a process that builds a commit, and uses it until its standard input ends."""
    command = [sys.executable, "-c", BUILD, str(history.folder), str(folder), commit, *build]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def commits(history: History, count: int) -> list[str]:
    return [history.commit(f"Number {number}", {"in": str(number)}) for number in range(count)]


def change_a_byte(built: BuiltCommit) -> None:
    (built.folder / "out").write_text("X")


def add_a_file(built: BuiltCommit) -> None:
    (built.folder / "more").write_text("")


def remove_a_file(built: BuiltCommit) -> None:
    (built.folder / "out").unlink()


def remove_the_manifest(built: BuiltCommit) -> None:
    (built.folder.parent / "manifest.json").unlink()


def cut_the_manifest(built: BuiltCommit) -> None:
    path = built.folder.parent / "manifest.json"
    path.write_text(path.read_text()[:-20])


def take_the_manifest_of_another(built: BuiltCommit) -> None:
    path = built.folder.parent / "manifest.json"
    path.write_text(path.read_text().replace(built.commit, "1" * 40))


@pytest.mark.parametrize(
    "damage",
    [
        change_a_byte,
        add_a_file,
        remove_a_file,
        remove_the_manifest,
        cut_the_manifest,
        take_the_manifest_of_another,
    ],
)
def test_damaged_build_is_built_anew(
    history: History, opened: Open, damage: Callable[[BuiltCommit], None]
) -> None:
    (commit,) = commits(history, 1)
    with opened() as builds:
        damage(builds.build(commit))

    again = opened().build(commit)

    assert not again.was_cached
    assert ["out"] == [path.name for path in again.folder.iterdir()]
    assert "0" == (again.folder / "out").read_text()


def kept(builds: Builds, all_: list[str]) -> list[int]:
    return [number for number, commit in enumerate(all_) if builds.is_cached(commit)]


def test_builds_not_used_for_the_longest_time_go_first(history: History, opened: Open) -> None:
    all_ = commits(history, 4)
    for moment, number in enumerate([0, 1, 2, 0]):
        with opened(maximum=3) as builds:
            built = builds.build(all_[number])
            os.utime(built.folder.parent.with_suffix(".lock"), (moment, moment))

    with opened(maximum=3) as builds:
        builds.build(all_[3])

        assert [0, 2, 3] == kept(builds, all_)
    assert 3 == len(list((builds.folder / "kept").glob("*.lock")))


def test_build_in_use_is_not_removed(history: History, opened: Open) -> None:
    all_ = commits(history, 4)
    using = opened(maximum=1)
    using.build(all_[0])
    with opened(maximum=1) as builds:
        for commit in all_[1:]:
            builds.build(commit)
        assert [0, 1, 2, 3] == kept(builds, all_)
    using.close()

    last = commits(history, 1)
    with opened(maximum=1) as builds:
        builds.build(last[0])

        assert [] == kept(builds, all_)
        assert builds.is_cached(last[0])


def test_two_processes_build_a_commit_once(history: History, tmp_path: Path) -> None:
    """The second starts while the first builds, which goes on when the second says that it waits."""
    (commit,) = commits(history, 1)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    build = ["sh", "-c", f"cat {gate} > /dev/null; cp in out"]
    first = process(history, tmp_path / "builds", commit, *build)
    assert first.stdout
    assert "building" in first.stdout.readline()
    second = process(history, tmp_path / "builds", commit, *build)
    assert second.stdout
    waiting = second.stdout.readline()
    gate.write_text("go")

    said = [each.communicate("")[0].splitlines() for each in (first, second)]

    assert "another process builds or uses it; waiting" in waiting
    assert "made" == said[0][-1]
    assert ["kept"] == said[1]


def test_two_threads_build_two_commits_at_once(history: History, opened: Open, tmp_path: Path) -> None:
    """Each waits for the other to have begun."""
    one, other = commits(history, 2)
    for name in ("0", "1"):
        os.mkfifo(tmp_path / name)
    meet = f"me=$(cat in); echo > {tmp_path}/$me & cat {tmp_path}/$((1 - me)); wait; cp in out"
    builds = opened(build=[["sh", "-c", meet]])
    built: list[BuiltCommit] = []
    threads = [
        threading.Thread(target=lambda commit=commit: built.append(builds.build(commit)))
        for commit in (one, other)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {"0", "1"} == {(each.folder / "out").read_text() for each in built}


def test_killed_build_leaves_nothing_trusted(history: History, opened: Open, tmp_path: Path) -> None:
    """Nor running, but for what left the session: that ends when the next build takes the checkout away."""
    (commit,) = commits(history, 1)
    build = (
        f"echo half > out; sleep 1000 & echo $! > {tmp_path}/child; "
        f"setsid sh -c 'echo $$ > {tmp_path}/daemon; kill -9 '$PPID'; exec sleep 1000'; wait"
    )
    killed = process(history, tmp_path / "builds", commit, "sh", "-c", build)
    killed.communicate()
    await_end(int((tmp_path / "child").read_text()))
    left = [path for path in (tmp_path / "builds" / "worktrees").iterdir() if path.is_dir()]

    built = opened().build(commit)

    assert -signal.SIGKILL == killed.returncode
    assert 1 == len(left)
    assert "0" == (built.folder / "out").read_text()
    assert [] == list((tmp_path / "builds" / "worktrees").iterdir())
    assert ended(int((tmp_path / "daemon").read_text()))


def test_what_was_killed_while_it_was_copied_is_removed(history: History, opened: Open) -> None:
    first, second = commits(history, 2)
    builds = opened()
    begun = builds.folder / "staging" / f"{first}-{builds.profile.hash}"
    begun.mkdir(parents=True)
    (begun / "half").write_text("half")

    builds.build(second)

    assert not begun.exists()


def test_logs_are_kept_for_more_commits_than_builds_but_not_for_all(history: History, opened: Open) -> None:
    (commit,) = commits(history, 1)
    builds = opened(maximum=1)
    logs = builds.folder / "logs"
    logs.mkdir(parents=True)
    for number in range(30):
        (logs / f"{number}.build.log").write_text("")
        os.utime(logs / f"{number}.build.log", (number, number))

    builds.build(commit)

    assert 10 == len(list(logs.iterdir()))
    assert builds.log_of(commit).exists()
